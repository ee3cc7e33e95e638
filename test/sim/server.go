package sim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/podset-operator/api/v1alpha1"
)

// kind is the kind of an object in the store.
type kind uint8

const (
	ofPod kind = iota
	ofPodSet
)

// revision is the store after one write, and what the write changed. Objects in the store are never changed, only
// replaced, so that revisions share them.
type revision struct {
	version uint64
	kind    kind
	// The object before and after, nil if there is none.
	oldPod, newPod       *corev1.Pod
	oldPodSet, newPodSet *v1alpha1.PodSet
	// All objects, by namespace and name.
	pods    []*corev1.Pod
	podSets []*v1alpha1.PodSet
}

// server is a linearizable API server with pods and PodSets.
type server struct {
	now time.Time
	// history are the revisions that some view may still be at; dropped is how many older ones are forgotten.
	history []*revision
	dropped int

	podsMade, podSetsMade int

	// quota is how many pods may run, if it is not negative.
	quota int
	// closing and closed tell of a namespace that is being deleted and of one that is gone.
	closing, closed bool
	// committed is called after each write.
	committed func(*revision)
}

func newServer(now time.Time) *server {
	return &server{now: now, quota: -1, history: []*revision{{version: 1}}}
}

// clone returns a copy that can be changed without changing this one.
func (s *server) clone() *server {
	c := *s
	c.history = slices.Clip(s.history)
	return &c
}

func (s *server) last() *revision { return s.history[len(s.history)-1] }

// lastIndex is the index of the last revision, counted from the first one ever.
func (s *server) lastIndex() int { return s.dropped + len(s.history) - 1 }

func (s *server) at(index int) *revision { return s.history[index-s.dropped] }

// forgetBefore drops the revisions that no view needs any more.
func (s *server) forgetBefore(index int) {
	if n := index - s.dropped; n > 0 {
		s.history, s.dropped = s.history[n:], index
	}
}

func versionText(version uint64) string { return strconv.FormatUint(version, 10) }

func byKey(namespace, name string, object metav1.Object) int {
	return cmp.Or(cmp.Compare(object.GetNamespace(), namespace), cmp.Compare(object.GetName(), name))
}

func (s *server) pod(namespace, name string) *corev1.Pod {
	return findPod(s.last().pods, namespace, name)
}

func findPod(pods []*corev1.Pod, namespace, name string) *corev1.Pod {
	i, found := slices.BinarySearchFunc(pods, name, func(p *corev1.Pod, name string) int { return byKey(namespace, name, p) })
	if !found {
		return nil
	}
	return pods[i]
}

func (s *server) podSet(namespace, name string) *v1alpha1.PodSet {
	return findPodSet(s.last().podSets, namespace, name)
}

func findPodSet(podSets []*v1alpha1.PodSet, namespace, name string) *v1alpha1.PodSet {
	i, found := slices.BinarySearchFunc(podSets, name, func(p *v1alpha1.PodSet, name string) int { return byKey(namespace, name, p) })
	if !found {
		return nil
	}
	return podSets[i]
}

// replaced returns the sorted objects with the one of the key replaced, inserted, or removed if it is nil.
func replaced[T metav1.Object](objects []T, namespace, name string, object T, remove bool) []T {
	i, found := slices.BinarySearchFunc(objects, name, func(o T, name string) int { return byKey(namespace, name, o) })
	result := make([]T, 0, len(objects)+1)
	result = append(result, objects[:i]...)
	if !remove {
		result = append(result, object)
	}
	if found {
		i++
	}
	return append(result, objects[i:]...)
}

// commitPod replaces old by pod, of which either may be nil, in a new revision. The pod must be new, not one of the store.
func (s *server) commitPod(old, pod *corev1.Pod) {
	r := &revision{version: s.last().version + 1, kind: ofPod, oldPod: old, newPod: pod, podSets: s.last().podSets}
	key := pod
	if pod == nil {
		key = old
	} else {
		pod.ResourceVersion = versionText(r.version)
	}
	r.pods = replaced(s.last().pods, key.Namespace, key.Name, pod, pod == nil)
	s.append(r)
}

func (s *server) commitPodSet(old, podSet *v1alpha1.PodSet) {
	r := &revision{version: s.last().version + 1, kind: ofPodSet, oldPodSet: old, newPodSet: podSet, pods: s.last().pods}
	key := podSet
	if podSet == nil {
		key = old
	} else {
		podSet.ResourceVersion = versionText(r.version)
	}
	r.podSets = replaced(s.last().podSets, key.Namespace, key.Name, podSet, podSet == nil)
	s.append(r)
}

func (s *server) append(r *revision) {
	s.history = append(s.history, r)
	if s.committed != nil {
		s.committed(r)
	}
}

// tryPod returns why the pod cannot be created, which is all that a dry run does.
func (s *server) tryPod(pod *corev1.Pod) error {
	switch {
	case s.closed:
		return apierrors.NewNotFound(namespaces, pod.Namespace)
	case s.closing:
		return errClosing(pod.Namespace, pod.Name)
	case pod.ResourceVersion != "":
		return errVersionOnCreate()
	case len(pod.Spec.Containers) == 0 || pod.Spec.Containers[0].Image == "":
		return errInvalid(pod.Name)
	case s.quota >= 0 && s.podsInQuota() >= s.quota:
		return errQuota(pod.Name)
	case s.pod(pod.Namespace, pod.Name) != nil:
		return apierrors.NewAlreadyExists(podResource, pod.Name)
	}
	return nil
}

// createPod stores a copy of the pod and returns what was stored.
func (s *server) createPod(pod *corev1.Pod) (*corev1.Pod, error) {
	if err := s.tryPod(pod); err != nil {
		return nil, err
	}
	stored := pod.DeepCopy()
	s.podsMade++
	stored.UID = types.UID(fmt.Sprint("uid-pod-", s.podsMade))
	stored.CreationTimestamp = metav1.NewTime(s.now)
	stored.DeletionTimestamp, stored.DeletionGracePeriodSeconds = nil, nil
	stored.Generation = 1
	stored.Status = corev1.PodStatus{Phase: corev1.PodPending}
	s.commitPod(nil, stored)
	return stored, nil
}

// podsInQuota counts as the quota for pods does: those that have not ended.
func (s *server) podsInQuota() int {
	n := 0
	for _, pod := range s.last().pods {
		if !hasEnded(pod) {
			n++
		}
	}
	return n
}

// changePod applies a change that no rule of the API server applies to, such as a kubelet's.
func (s *server) changePod(pod *corev1.Pod, change func(*corev1.Pod)) {
	current := s.pod(pod.Namespace, pod.Name)
	changed := *current
	change(&changed)
	s.storePod(current, &changed)
}

// storePod stores the changed pod, or removes it if it is deleted and nothing waits for any more.
func (s *server) storePod(current, changed *corev1.Pod) {
	if changed.DeletionTimestamp != nil && *changed.DeletionGracePeriodSeconds == 0 && len(changed.Finalizers) == 0 {
		changed = nil
	}
	s.commitPod(current, changed)
}

// patchPod applies a JSON merge patch and returns what is stored then.
func (s *server) patchPod(namespace, name string, patch []byte) (*corev1.Pod, error) {
	current := s.pod(namespace, name)
	if current == nil {
		return nil, apierrors.NewNotFound(podResource, name)
	}
	patched := &corev1.Pod{}
	if err := mergePatch(current, patched, patch); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	switch {
	case patched.UID != current.UID:
		return nil, errUIDChanged(name)
	case patched.ResourceVersion != current.ResourceVersion:
		return nil, errModified(podResource, name)
	}
	if equality.Semantic.DeepEqual(patched, current) {
		return current, nil
	}
	s.storePod(current, patched)
	return patched, nil
}

// mergePatch writes into result the object changed as by RFC 7386.
func mergePatch(object, result any, patch []byte) error {
	encoded, err := json.Marshal(object)
	if err != nil {
		return err
	}
	var target, change any
	if err := json.Unmarshal(encoded, &target); err != nil {
		return err
	}
	if err := json.Unmarshal(patch, &change); err != nil {
		return err
	}
	if encoded, err = json.Marshal(merged(target, change)); err != nil {
		return err
	}
	return json.Unmarshal(encoded, result)
}

func merged(target, patch any) any {
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	fields, ok := target.(map[string]any)
	if !ok {
		fields = map[string]any{}
	}
	for key, value := range changes {
		if value == nil {
			delete(fields, key)
		} else {
			fields[key] = merged(fields[key], value)
		}
	}
	return fields
}

// defaultGrace is the grace period of a pod that asks for none, in seconds.
const defaultGrace = 30

// deletePod deletes a pod: at once, or with grace if it is bound to a node and has not ended.
func (s *server) deletePod(namespace, name string, options client.DeleteOptions) error {
	pod := s.pod(namespace, name)
	if pod == nil {
		return apierrors.NewNotFound(podResource, name)
	}
	if err := checkPreconditions(pod, options.Preconditions); err != nil {
		return err
	}
	grace := int64(defaultGrace)
	if own := pod.Spec.TerminationGracePeriodSeconds; own != nil {
		grace = *own
	}
	if options.GracePeriodSeconds != nil {
		grace = *options.GracePeriodSeconds
	}
	if pod.Spec.NodeName == "" || hasEnded(pod) {
		grace = 0
	}
	if pod.DeletionTimestamp != nil && grace >= *pod.DeletionGracePeriodSeconds {
		return nil
	}
	if grace == 0 && len(pod.Finalizers) == 0 {
		s.commitPod(pod, nil)
		return nil
	}
	deleted := *pod
	deleted.DeletionTimestamp = new(metav1.NewTime(s.now.Add(time.Duration(grace) * time.Second)))
	deleted.DeletionGracePeriodSeconds = &grace
	if pod.DeletionTimestamp == nil {
		deleted.Generation++
	}
	s.commitPod(pod, &deleted)
	return nil
}

func checkPreconditions(pod *corev1.Pod, preconditions *metav1.Preconditions) error {
	switch {
	case preconditions == nil:
		return nil
	case preconditions.UID != nil && *preconditions.UID != pod.UID:
		return errUID(podResource, pod.Name, *preconditions.UID, pod.UID)
	case preconditions.ResourceVersion != nil && *preconditions.ResourceVersion != pod.ResourceVersion:
		return errVersion(podResource, pod.Name, *preconditions.ResourceVersion, pod.ResourceVersion)
	}
	return nil
}

// createPodSet stores a copy of the PodSet, with defaults, and returns what was stored.
func (s *server) createPodSet(podSet *v1alpha1.PodSet) (*v1alpha1.PodSet, error) {
	switch {
	case s.closed:
		return nil, apierrors.NewNotFound(namespaces, podSet.Namespace)
	case s.closing:
		return nil, errClosing(podSet.Namespace, podSet.Name)
	case s.podSet(podSet.Namespace, podSet.Name) != nil:
		return nil, apierrors.NewAlreadyExists(podSetResource, podSet.Name)
	}
	stored := podSet.DeepCopy()
	s.podSetsMade++
	stored.UID = types.UID(fmt.Sprint("uid-podset-", s.podSetsMade))
	stored.CreationTimestamp = metav1.NewTime(s.now)
	stored.Generation = 1
	stored.Status = v1alpha1.PodSetStatus{ObservedGeneration: -1}
	setDefaults(&stored.Spec)
	s.commitPodSet(nil, stored)
	return stored, nil
}

func setDefaults(spec *v1alpha1.PodSetSpec) {
	if spec.Replicas == nil {
		spec.Replicas = new(int32(1))
	}
	if spec.UpdateStrategy.Type == "" {
		spec.UpdateStrategy.Type = v1alpha1.RollingUpdate
	}
	if spec.ProgressDeadlineSeconds == nil {
		spec.ProgressDeadlineSeconds = new(int32(600))
	}
	if spec.PodReplacementPolicy == "" {
		spec.PodReplacementPolicy = v1alpha1.TerminationStarted
	}
	if spec.FailedPodsHistoryLimit == nil {
		spec.FailedPodsHistoryLimit = new(int32(1))
	}
}

// changePodSet changes metadata and spec; the generation is that of the spec.
func (s *server) changePodSet(podSet *v1alpha1.PodSet, change func(*v1alpha1.PodSet)) {
	changed := podSet.DeepCopy()
	change(changed)
	if !equality.Semantic.DeepEqual(changed.Spec, podSet.Spec) {
		changed.Generation++
	}
	if changed.DeletionTimestamp != nil && len(changed.Finalizers) == 0 {
		changed = nil
	}
	s.commitPodSet(podSet, changed)
}

// updatePodSet is an update of metadata and spec with the optimistic lock, as a user's.
func (s *server) updatePodSet(podSet *v1alpha1.PodSet) (*v1alpha1.PodSet, error) {
	current, err := s.lockedPodSet(podSet)
	if err != nil {
		return nil, err
	}
	changed := podSet.DeepCopy()
	changed.Status, changed.Generation = current.Status, current.Generation
	changed.DeletionTimestamp, changed.CreationTimestamp, changed.UID = current.DeletionTimestamp, current.CreationTimestamp, current.UID
	changed.ResourceVersion = current.ResourceVersion
	setDefaults(&changed.Spec)
	if equality.Semantic.DeepEqual(changed, current) {
		return current, nil
	}
	s.changePodSet(current, func(p *v1alpha1.PodSet) { *p = *changed })
	return s.podSet(podSet.Namespace, podSet.Name), nil
}

// updateStatus replaces the status and nothing else, with the optimistic lock.
func (s *server) updateStatus(podSet *v1alpha1.PodSet) (*v1alpha1.PodSet, error) {
	current, err := s.lockedPodSet(podSet)
	if err != nil {
		return nil, err
	}
	if equality.Semantic.DeepEqual(podSet.Status, current.Status) {
		return current, nil
	}
	changed := *current
	changed.Status = *podSet.Status.DeepCopy()
	s.commitPodSet(current, &changed)
	return &changed, nil
}

func (s *server) lockedPodSet(podSet *v1alpha1.PodSet) (*v1alpha1.PodSet, error) {
	current := s.podSet(podSet.Namespace, podSet.Name)
	switch {
	case current == nil:
		return nil, apierrors.NewNotFound(podSetResource, podSet.Name)
	case podSet.UID != "" && podSet.UID != current.UID:
		return nil, errUID(podSetResource, podSet.Name, podSet.UID, current.UID)
	case podSet.ResourceVersion != "" && podSet.ResourceVersion != current.ResourceVersion:
		return nil, errModified(podSetResource, podSet.Name)
	}
	return current, nil
}

// deletePodSet deletes in the background, or leaves the end of it to the garbage collector by a finalizer.
func (s *server) deletePodSet(podSet *v1alpha1.PodSet, propagation metav1.DeletionPropagation) {
	finalizer := ""
	switch propagation {
	case metav1.DeletePropagationForeground:
		finalizer = metav1.FinalizerDeleteDependents
	case metav1.DeletePropagationOrphan:
		finalizer = metav1.FinalizerOrphanDependents
	case metav1.DeletePropagationBackground:
	}
	deleted := podSet.DeepCopy()
	if finalizer != "" && !slices.Contains(deleted.Finalizers, finalizer) {
		deleted.Finalizers = append(deleted.Finalizers, finalizer)
	}
	switch {
	case len(deleted.Finalizers) == 0:
		s.commitPodSet(podSet, nil)
		return
	case deleted.DeletionTimestamp != nil && len(deleted.Finalizers) == len(podSet.Finalizers):
		return
	}
	if deleted.DeletionTimestamp == nil {
		deleted.DeletionTimestamp = new(metav1.NewTime(s.now))
		deleted.DeletionGracePeriodSeconds = new(int64(0))
		deleted.Generation++
	}
	s.commitPodSet(podSet, deleted)
}

func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

func isActive(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && !hasEnded(pod) }
