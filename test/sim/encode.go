package sim

import (
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"example.com/podset-operator/api/v1alpha1"
)

// encoder writes a world as bytes such that two worlds have the same bytes if and only if they have the same future. Of
// resource versions only the order counts, of UIDs only which are the same, of times only how long ago they are.
type encoder struct {
	now      time.Time
	bytes    []byte
	versions []uint64
	sorted   []uint64
	uids     []types.UID
	pods     []*corev1.Pod
	podSets  []*v1alpha1.PodSet
}

var seed = maphash.MakeSeed()

// hash returns a number that tells the state of the world from others. The work queues are left out: where all is
// explored, a reconcile may happen at any time.
func (e *encoder) hash(w *world) uint64 {
	e.now = w.now
	e.bytes, e.versions, e.sorted, e.uids = e.bytes[:0], e.versions[:0], e.sorted[:0], e.uids[:0]
	e.pods, e.podSets = e.pods[:0], e.podSets[:0]
	e.world(w)
	e.sorted = append(e.sorted, e.versions...)
	slices.Sort(e.sorted)
	e.sorted = slices.Compact(e.sorted)
	for _, version := range e.versions {
		rank, _ := slices.BinarySearch(e.sorted, version)
		e.number(int64(rank))
	}
	return maphash.Bytes(seed, e.bytes)
}

func (e *encoder) world(w *world) {
	s, last := w.server, w.server.last()
	for _, pod := range last.pods {
		e.pod(pod)
	}
	for _, podSet := range last.podSets {
		e.podSet(podSet)
	}
	e.number(int64(s.podSetsMade))
	e.number(int64(s.quota))
	e.flag(s.closing)
	oldestPod, oldestPodSet := s.lastIndex(), s.lastIndex()
	for _, m := range w.managers {
		e.manager(s, m)
		oldestPod, oldestPodSet = min(oldestPod, m.pods.index), min(oldestPodSet, m.podSets.index)
	}
	for i := min(oldestPod, oldestPodSet) + 1; i <= s.lastIndex(); i++ {
		switch r := s.at(i); {
		case i > oldestPod && r.concerns(ofPod):
			e.pod(r.newPod)
			e.version(r.version)
		case i > oldestPodSet && r.concerns(ofPodSet):
			e.podSet(r.newPodSet)
			e.version(r.version)
		}
	}
	if w.setup.Leases {
		e.number(int64(w.leader))
		e.time(w.lastAct)
		for _, m := range w.managers {
			e.flag(m.deposed)
		}
	}
	for i := range w.late {
		e.request(&w.late[i])
	}
	e.value(reflect.ValueOf(&w.left).Elem())
	e.number(int64(min(w.faults, 2)))
	for _, promised := range w.oracle.podSets {
		e.uid(promised.uid)
		e.number(int64(promised.most))
		e.value(reflect.ValueOf(promised.marks))
		if len(w.late) > 0 {
			for _, name := range promised.freed {
				e.text(name)
			}
		}
	}
}

func (e *encoder) manager(s *server, m *manager) {
	for _, pod := range s.at(m.pods.index).pods {
		e.pod(pod)
	}
	for _, podSet := range s.at(m.podSets.index).podSets {
		e.podSet(podSet)
	}
	e.number(int64(s.pending(m.pods, ofPod)))
	e.number(int64(s.pending(m.podSets, ofPodSet)))
	e.version(m.pods.version)
	for _, known := range m.known {
		e.uid(known.uid)
		e.ahead(s, known.pod, m.pods)
		e.ahead(s, known.status, m.podSets)
	}
	reconciler := reflect.ValueOf(m.reconciler).Elem()
	for i := range reconciler.NumField() {
		if !reconciler.Type().Field(i).IsExported() {
			e.value(open(reconciler.Field(i)))
		}
	}
}

// ahead writes the version of a revision that the view has not reached.
func (e *encoder) ahead(s *server, index int, v view) {
	e.flag(index > v.index)
	if index > v.index {
		e.version(s.at(index).version)
	}
}

func (e *encoder) request(q *request) {
	e.text(q.verb)
	e.uid(q.owner)
	if q.pod != nil {
		e.pod(q.pod)
		e.text(string(q.patch))
		e.flag(q.options.Preconditions != nil)
	}
	if q.podSet != nil {
		e.podSet(q.podSet)
	}
}

func (e *encoder) number(n int64) { e.bytes = binary.AppendVarint(e.bytes, n) }

func (e *encoder) flag(is bool) {
	if is {
		e.bytes = append(e.bytes, 1)
	} else {
		e.bytes = append(e.bytes, 0)
	}
}

func (e *encoder) version(version uint64) { e.versions = append(e.versions, version) }

func (e *encoder) text(text string) {
	if version, ok := versionIn(text); ok {
		e.flag(true)
		e.version(version)
		return
	}
	e.flag(false)
	e.number(int64(len(text)))
	e.bytes = append(e.bytes, text...)
}

// versionIn reads a resource version, which is all digits as nothing else here is.
func versionIn(text string) (uint64, bool) {
	var version uint64
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
		version = 10*version + uint64(text[i]-'0')
	}
	return version, text != ""
}

func (e *encoder) uid(uid types.UID) {
	i := slices.Index(e.uids, uid)
	if i < 0 {
		i = len(e.uids)
		e.uids = append(e.uids, uid)
	}
	e.number(int64(i))
}

// time writes how many minutes ago it is; what is less than a minute ahead is a minute ahead, whatever its random part.
func (e *encoder) time(t time.Time) {
	if t.IsZero() {
		e.flag(false)
		return
	}
	e.flag(true)
	ahead := t.Sub(e.now)
	minutes := int64(ahead / time.Minute)
	if ahead > 0 && ahead%time.Minute != 0 {
		minutes++
	}
	e.number(minutes)
}

// pod writes a pod in full the first time it meets it.
func (e *encoder) pod(p *corev1.Pod) {
	if p == nil {
		e.number(-1)
		return
	}
	i := slices.Index(e.pods, p)
	e.number(int64(i + 1))
	if i >= 0 {
		return
	}
	e.pods = append(e.pods, p)
	e.text(p.Name)
	e.meta(&p.ObjectMeta)
	e.flag(isMember(p))
	e.text(p.Annotations[v1alpha1.DeleteMeAnnotation])
	e.text(p.Labels[v1alpha1.TemplateHashLabel])
	e.flag(p.Spec.NodeName != "")
	e.text(string(p.Status.Phase))
	for i := range p.Status.Conditions {
		e.text(string(p.Status.Conditions[i].Status))
		e.time(p.Status.Conditions[i].LastTransitionTime.Time)
	}
}

func (e *encoder) meta(m *metav1.ObjectMeta) {
	e.uid(m.UID)
	e.text(m.ResourceVersion)
	e.time(m.CreationTimestamp.Time)
	e.flag(m.DeletionTimestamp != nil)
	if m.DeletionGracePeriodSeconds != nil {
		e.number(*m.DeletionGracePeriodSeconds)
	}
	for i := range m.OwnerReferences {
		e.uid(m.OwnerReferences[i].UID)
	}
	for _, finalizer := range m.Finalizers {
		e.text(finalizer)
	}
}

func (e *encoder) podSet(p *v1alpha1.PodSet) {
	if p == nil {
		e.number(-1)
		return
	}
	i := slices.Index(e.podSets, p)
	e.number(int64(i + 1))
	if i >= 0 {
		return
	}
	e.podSets = append(e.podSets, p)
	e.text(p.Name)
	e.meta(&p.ObjectMeta)
	e.number(p.Generation)
	e.number(int64(*p.Spec.Replicas))
	e.template(p.Spec.Template)
	e.number(p.Status.ObservedGeneration)
	e.number(int64(p.Status.ReadyReplicas))
	e.number(int64(p.Status.AvailableReplicas))
	e.number(int64(p.Status.TerminatingReplicas))
	e.number(int64(p.Status.UpdatedReplicas))
	e.text(p.Status.CurrentRevision)
	for _, name := range p.Status.PodNames {
		e.text(name)
	}
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		e.text(string(c.Status))
		e.text(c.Reason)
		e.text(c.Message)
		e.time(c.LastTransitionTime.Time)
	}
}

func (e *encoder) template(t *corev1.PodTemplateSpec) {
	e.flag(t != nil)
	if t != nil {
		e.text(t.Spec.Containers[0].Image)
	}
}

// value writes what a reconciler remembers. The value must be addressable, and its unexported fields are opened.
func (e *encoder) value(v reflect.Value) {
	switch t := v.Type(); {
	case t == mutexType, t == limiterType:
	case t == timeType:
		e.time(v.Interface().(time.Time))
	case isShared(t):
		template, _ := reflect.TypeAssert[*corev1.PodTemplateSpec](v)
		e.template(template)
	default:
		e.kind(v)
	}
}

func (e *encoder) kind(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		e.flag(v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		e.number(v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		e.number(int64(v.Uint()))
	case reflect.String:
		if text := v.String(); strings.HasPrefix(text, "uid-") {
			e.uid(types.UID(text))
		} else {
			e.text(text)
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			if field.CanAddr() {
				field = open(field)
			}
			e.value(field)
		}
	case reflect.Pointer:
		e.flag(!v.IsNil())
		if !v.IsNil() {
			e.value(v.Elem())
		}
	case reflect.Array:
		for i := range v.Len() {
			e.value(v.Index(i))
		}
	case reflect.Slice:
		e.number(int64(v.Len()))
		for i := range v.Len() {
			e.value(v.Index(i))
		}
	case reflect.Map:
		e.entries(v)
	default:
		panic("a reconciler remembers a " + v.Type().String() + ", which cannot be compared")
	}
}

func (e *encoder) entries(v reflect.Value) {
	e.number(int64(v.Len()))
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return cmp.Compare(a.String()+keyText(a), b.String()+keyText(b)) })
	for _, key := range keys {
		held := reflect.New(key.Type()).Elem()
		held.Set(key)
		e.value(held)
		held = reflect.New(v.Type().Elem()).Elem()
		held.Set(v.MapIndex(key))
		e.value(held)
	}
}

// keyText tells keys apart that are structs of texts.
func keyText(key reflect.Value) string {
	if key.Kind() != reflect.Struct {
		return ""
	}
	var text strings.Builder
	for _, field := range key.Fields() {
		text.WriteString(field.String() + "/")
	}
	return text.String()
}
