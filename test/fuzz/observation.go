package fuzz

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubectl/pkg/util/podutils"
	"sigs.k8s.io/randfill"

	"example.com/podset-operator/api/v1alpha1"
	"example.com/podset-operator/internal/podset"
)

// now is the time of every first observation.
var now = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	present = "present" // the revision of the template
	former  = "former"
)

// observationFrom makes an observation that may be, from any bytes; the same bytes always make the same one.
func observationFrom(data []byte) podset.Observation {
	var o podset.Observation
	randfill.NewFromGoFuzz(data).Funcs(fillObservation).Fill(&o)
	return o
}

// addSeeds adds inputs that every run of the tests tries.
func addSeeds(f *testing.F) {
	f.Helper()
	f.Add([]byte{})
	for seed := range uint64(500) {
		data := make([]byte, 2000)
		random := rand.NewPCG(seed, 0)
		for i := range data {
			data[i] = byte(random.Uint64())
		}
		f.Add(data)
	}
}

func fillObservation(o *podset.Observation, c randfill.Continue) {
	*o = podset.Observation{PodSet: somePodSet(c), Revision: present, Now: now, Holds: map[podset.Action]podset.Hold{}}
	names := slotNames(o.PodSet)
	o.TakenNames, o.AskedNames, o.RefusedPods = sets.New[string](), sets.New[string](), sets.New[types.UID]()
	for _, name := range names {
		switch c.Int() % 12 {
		case 0, 1, 2, 3, 4:
			pod := somePod(c, name)
			pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(o.PodSet, v1alpha1.PodSetKind)}
			o.Owned = append(o.Owned, pod)
			if c.Int()%8 == 0 {
				o.RefusedPods.Insert(pod.UID)
			}
			if c.Int()%8 == 0 {
				o.AskedNames.Insert(name)
			}
		case 5:
			o.Orphans = append(o.Orphans, somePod(c, name))
		case 6:
			o.TakenNames.Insert(name)
		case 7:
			o.AskedNames.Insert(name)
		}
	}
	if len(o.AskedNames) > 0 {
		o.InDoubtUntil = now.Add(someTime(c).Abs() + time.Second)
	}
	if c.Int()%8 == 0 {
		o.Unlabelled = somePod(c, "unlabelled")
		o.Unlabelled.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(o.PodSet, v1alpha1.PodSetKind)}
		delete(o.Unlabelled.Labels, v1alpha1.PodSetLabel)
	}
	for _, action := range []podset.Action{podset.Create, podset.Adopt, podset.Release, podset.Delete} {
		if c.Int()%8 == 0 {
			reason := oneOf(c, v1alpha1.ReasonQuotaExceeded, v1alpha1.ReasonForbidden, v1alpha1.ReasonInvalidTemplate)
			o.Holds[action] = podset.Hold{Until: now.Add(someTime(c)), Problem: podset.Problem{
				Reason: reason, Message: c.String(1000), Stalled: reason == v1alpha1.ReasonInvalidTemplate,
			}}
		}
	}
	before := *o
	before.Now = now.Add(-someTime(c).Abs())
	if c.Bool() {
		o.Progress = podset.Progress{}.Observe(before)
	}
	if c.Bool() {
		o.Backoff = podset.Backoff{}.Observe(o.Owned, present, before.Now).Observe(o.Owned, present, now)
	}
}

func somePodSet(c randfill.Continue) *v1alpha1.PodSet {
	podSet := &v1alpha1.PodSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "test", Name: "web", UID: "web-uid", Generation: int64(c.Int()%3) + 1,
	}}
	if c.Int()%16 == 0 {
		podSet.DeletionTimestamp = new(metav1.NewTime(now))
	}
	podSet.Spec = v1alpha1.PodSetSpec{
		Replicas:                new(int32(c.Int() % 6)),
		Paused:                  c.Int()%8 == 0,
		ProgressDeadlineSeconds: new(int32(oneOf(c, 11, 60, 600))),
		MinReadySeconds:         int32(oneOf(c, 0, 0, 10)),
		PodReplacementPolicy:    oneOf(c, v1alpha1.TerminationStarted, v1alpha1.TerminationComplete),
		FailedPodsHistoryLimit:  new(int32(c.Int() % 3)),
	}
	podSet.Spec.UpdateStrategy.Type = oneOf(c, v1alpha1.RollingUpdate, v1alpha1.RollingUpdate, v1alpha1.OnDelete)
	if podSet.Spec.UpdateStrategy.Type == v1alpha1.RollingUpdate && c.Bool() {
		budget := func() *intstr.IntOrString {
			return oneOf(c, nil, new(intstr.FromInt32(0)), new(intstr.FromInt32(2)),
				new(intstr.FromString("25%")), new(intstr.FromString("100%")))
		}
		budgets := &v1alpha1.RollingUpdateBudgets{MaxSurge: budget(), MaxUnavailable: budget()}
		if budgets.MaxSurge != nil && budgets.MaxSurge.String() == "0" &&
			(budgets.MaxUnavailable == nil || budgets.MaxUnavailable.String() == "0") {
			budgets.MaxUnavailable = new(intstr.FromInt32(1)) // the API server does not take both as 0
		}
		podSet.Spec.UpdateStrategy.RollingUpdate = budgets
	}
	podSet.Spec.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}}}
	podSet.Status.CurrentRevision = oneOf(c, "", present, former)
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled} {
		if c.Bool() {
			podSet.Status.Conditions = append(podSet.Status.Conditions, metav1.Condition{
				Type: kind, Status: oneOf(c, metav1.ConditionTrue, metav1.ConditionFalse),
				ObservedGeneration: min(podSet.Generation, int64(c.Int()%3)+1),
				LastTransitionTime: metav1.NewTime(now.Add(-time.Hour)), Reason: v1alpha1.ReasonScalingUp,
			})
		}
	}
	return podSet
}

func somePod(c randfill.Continue, name string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "test", Name: name, UID: types.UID(name + "-uid"),
		CreationTimestamp: metav1.NewTime(now.Add(-someTime(c).Abs())),
		Labels:            map[string]string{v1alpha1.PodSetLabel: "web"}, Annotations: map[string]string{},
	}}
	if revision := oneOf(c, present, present, former, ""); revision != "" {
		pod.Labels[v1alpha1.TemplateHashLabel] = revision
	}
	if c.Int()%6 == 0 {
		pod.DeletionTimestamp = new(metav1.NewTime(now))
	}
	if c.Int()%6 == 0 {
		pod.Annotations[v1alpha1.DeleteMeAnnotation] = oneOf(c, v1alpha1.DeleteMeNow, "true", "false", text(c))
	}
	if c.Int()%6 == 0 {
		pod.Annotations[corev1.PodDeletionCost] = oneOf(c, "1", "-1", text(c))
	}
	pod.Spec.NodeName = oneOf(c, "", "node-0", "node-1")
	pod.Status.Phase = oneOf(c, corev1.PodRunning, corev1.PodRunning, corev1.PodRunning, corev1.PodPending, corev1.PodFailed,
		corev1.PodSucceeded, corev1.PodUnknown, "")
	if c.Bool() {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-someTime(c).Abs())),
		}}
	}
	if c.Int()%4 == 0 {
		state := oneOf(c,
			corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
				Reason: oneOf(c, "ContainerCreating", "ImagePullBackOff", text(c)),
			}},
			corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: oneOf(c, "Error", "", text(c))}})
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", RestartCount: int32(c.Int() % 3), State: state}}
	}
	if c.Int()%4 == 0 {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: oneOf(c, corev1.PodReasonUnschedulable, text(c)),
		})
	}
	return pod
}

// text is any text, long now and then: nobody bounds what a kubelet, a runtime or a webhook writes.
func text(c randfill.Continue) string {
	if c.Int()%16 == 0 {
		return strings.Repeat("long ", 10_000)
	}
	return c.String(30)
}

// someTime is not far from 0, before or after it.
func someTime(c randfill.Continue) time.Duration {
	return time.Duration(c.Int()%1201-600) * time.Second
}

func oneOf[T any](c randfill.Continue, values ...T) T { return values[c.Int()%len(values)] }

// slotNames are the first names that the PodSet's pods get.
func slotNames(podSet *v1alpha1.PodSet) []string {
	var names []string
	o := podset.Observation{PodSet: podSet.DeepCopy(), TakenNames: sets.New[string](), Now: now}
	o.PodSet.DeletionTimestamp, o.PodSet.Spec.Replicas = nil, new(int32(1))
	for range 12 {
		names = append(names, podset.Decide(o).Name)
		o.TakenNames.Insert(names[len(names)-1])
	}
	return names
}

// facts are the counts of an observation.
type facts struct {
	desired, surge, tolerated                                            int
	active, old, updated, ready, available, terminating, finished, taken int
}

func factsOf(o podset.Observation) facts {
	spec := o.PodSet.Spec
	f := facts{desired: int(*spec.Replicas), surge: 1}
	if spec.UpdateStrategy.Type == v1alpha1.OnDelete {
		f.surge = 0
	}
	if budgets := spec.UpdateStrategy.RollingUpdate; budgets != nil {
		if budgets.MaxSurge != nil {
			f.surge = int(math.Ceil(portion(budgets.MaxSurge, f.desired)))
		}
		if budgets.MaxUnavailable != nil {
			f.tolerated = int(math.Floor(portion(budgets.MaxUnavailable, f.desired)))
		}
		if f.surge == 0 && f.tolerated == 0 {
			f.tolerated = 1
		}
	}
	for _, pod := range o.Owned {
		ended := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
		switch {
		case pod.DeletionTimestamp != nil && !ended:
			f.terminating++
		case pod.DeletionTimestamp == nil && ended:
			f.finished++
		case pod.DeletionTimestamp == nil:
			f.active++
			if isOld(o, pod) {
				f.old++
			} else {
				f.updated++
			}
			if podutils.IsPodReady(pod) {
				f.ready++
			}
			if isAvailable(o, pod) {
				f.available++
			}
		}
	}
	f.taken = f.active
	if spec.PodReplacementPolicy == v1alpha1.TerminationComplete {
		f.taken += f.terminating
	}
	return f
}

func portion(value *intstr.IntOrString, of int) float64 {
	if value.Type == intstr.Int {
		return float64(value.IntVal)
	}
	var percent float64
	_, _ = fmt.Sscanf(value.StrVal, "%f%%", &percent)
	return percent * float64(of) / 100
}

func isActive(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded
}

func isOld(o podset.Observation, pod *corev1.Pod) bool {
	revision, labelled := pod.Labels[v1alpha1.TemplateHashLabel]
	if !labelled {
		revision = o.PodSet.Status.CurrentRevision
	}
	return revision != "" && revision != o.Revision
}

func isAvailable(o podset.Observation, pod *corev1.Pod) bool {
	return podutils.IsPodAvailable(pod, o.PodSet.Spec.MinReadySeconds, metav1.NewTime(o.Now))
}

// activeNames are the names that the status should have.
func activeNames(o podset.Observation) []string {
	var names []string
	for _, pod := range o.Owned {
		if isActive(pod) {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	return names
}

// reversed is the same observation, with the pods in another order.
func reversed(o podset.Observation) podset.Observation {
	o.Owned, o.Orphans = slices.Clone(o.Owned), slices.Clone(o.Orphans)
	slices.Reverse(o.Owned)
	slices.Reverse(o.Orphans)
	return o
}
