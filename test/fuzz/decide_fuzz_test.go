package fuzz

import (
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/podset-operator/api/v1alpha1"
	"example.com/podset-operator/internal/podset"
)

// comparing looks into what observations remember, too.
var comparing = cmp.AllowUnexported(podset.Observation{}, podset.Backoff{}, podset.Progress{})

// FuzzDecide judges the step for an observation, then lets the pods behave and follows the steps to the end.
func FuzzDecide(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		o := observationFrom(data)
		step := podset.Decide(o)
		if diff := cmp.Diff(observationFrom(data), o, comparing); diff != "" {
			t.Fatalf("deciding changes the observation:\n%s", diff)
		}
		if diff := cmp.Diff(step, podset.Decide(reversed(o))); diff != "" {
			t.Fatalf("the step depends on the order of the pods:\n%s", diff)
		}
		settle(t, o)
	})
}

// judgeStep fails the test if the step is not justified by the observation, or if nothing is done although there is
// something to do and nothing against it.
func judgeStep(t *testing.T, o podset.Observation, step podset.Step) {
	t.Helper()
	n := factsOf(o)
	isReplacing := o.PodSet.Spec.UpdateStrategy.Type != v1alpha1.OnDelete && !o.PodSet.Spec.Paused && n.old > 0
	expect := func(holds bool, what string) {
		t.Helper()
		if !holds {
			t.Fatalf("%s: step %s %s %q with %+v", what, step.Action, step.Why, step.PodName(), n)
		}
	}
	expect(step.Action == podset.Nothing || o.PodSet.DeletionTimestamp == nil, "the PodSet is being deleted")
	expect(!o.Now.Before(o.Holds[step.Action].Until), "the action is held back")
	switch step.Action {
	case podset.Nothing:
		expect(cmp.Equal(step, podset.Step{}), "nothing is nothing")
		if len(o.Holds) > 0 || len(o.AskedNames) > 0 || !cmp.Equal(o.Backoff, podset.Backoff{}, comparing) || o.PodSet.DeletionTimestamp != nil {
			return
		}
		expect(n.taken >= n.desired, "a pod is missing")
		expect(n.active <= n.desired+n.surge, "there is a pod too many")
		expect(n.old > 0 || n.active <= n.desired, "there is a pod too many")
		expect(n.finished <= int(*o.PodSet.Spec.FailedPodsHistoryLimit), "there is a finished pod too many")
		expect(o.Unlabelled == nil, "a pod is to be let go")
		expect(!slices.ContainsFunc(o.Owned, func(pod *corev1.Pod) bool { return isActive(pod) && isMarkedNow(pod) }), "a pod is marked")
		expect(!isReplacing || n.available < n.active || n.terminating > 0, "a roll-out stands still although all pods are available")
	case podset.Create:
		expect(regexp.MustCompile(`^web-pod[a-z0-9]{5}$`).MatchString(step.Name), "the name has its form")
		for _, pod := range slices.Concat(o.Owned, o.Orphans) {
			expect(pod.Name != step.Name, "the name is taken")
		}
		expect(!o.TakenNames.Has(step.Name), "the name is taken by a stranger")
		expect(n.taken < n.desired || isReplacing && n.updated < n.desired && n.taken < n.desired+n.surge, "no pod is missing")
	case podset.Adopt:
		expect(slices.Contains(o.Orphans, step.Pod) && isActive(step.Pod), "it is an orphan that is alive")
		expect(n.taken < n.desired, "no pod is missing")
	case podset.Release:
		expect(step.Pod == o.Unlabelled, "it lost its label")
	case podset.Delete:
		judgeDelete(o, step, n, isReplacing, expect)
	}
}

func judgeDelete(o podset.Observation, step podset.Step, n facts, isReplacing bool, expect func(bool, string)) {
	expect(slices.Contains(o.Owned, step.Pod) && step.Pod.DeletionTimestamp == nil, "it is the PodSet's, and not deleted yet")
	expect(isActive(step.Pod) == (step.Why != podset.History), "the purpose fits the pod")
	spared := !isAvailable(o, step.Pod) || n.available > n.desired-n.tolerated
	switch step.Why {
	case podset.ScaleDown:
		expect(n.active > n.desired, "there is no pod too many")
	case podset.DeleteMeNow:
		expect(isMarkedNow(step.Pod), "the pod is not marked")
	case podset.OldRevision:
		expect(isReplacing && isOld(o, step.Pod), "the pod is to stay")
		expect(spared, "an available pod goes that the budget does not spare")
	case podset.History:
		expect(n.finished > int(*o.PodSet.Spec.FailedPodsHistoryLimit), "the history is not full")
	default:
		expect(false, "this is no purpose of a deletion")
	}
}

func isMarkedNow(pod *corev1.Pod) bool {
	return pod.Annotations[v1alpha1.DeleteMeAnnotation] == v1alpha1.DeleteMeNow
}

// settle takes the steps, and lets pods come up, go, and time pass whenever there is no step, until nothing is left to
// happen; then everything is as the spec wants it.
func settle(t *testing.T, o podset.Observation) {
	t.Helper()
	for range 300 {
		o.Backoff = o.Backoff.Observe(o.Owned, o.Revision, o.Now)
		o.Progress = o.Progress.Observe(o)
		step := podset.Decide(o)
		judgeStep(t, o, step)
		if step.Action != podset.Nothing {
			take(&o, step)
			continue
		}
		if !rest(&o) {
			n := factsOf(o)
			isRolledOut := n.old == 0 && n.active == n.desired || o.PodSet.Spec.UpdateStrategy.Type == v1alpha1.OnDelete || o.PodSet.Spec.Paused
			if o.PodSet.DeletionTimestamp == nil && (!isRolledOut || n.available < n.desired || n.active > n.desired+n.surge) {
				t.Fatalf("ended with %+v", n)
			}
			return
		}
	}
	t.Fatalf("there is no end to the steps: %+v", factsOf(o))
}

func take(o *podset.Observation, step podset.Step) {
	switch step.Action {
	case podset.Create:
		pod := &corev1.Pod{ObjectMeta: podset.NewPod(o.PodSet, step.Name).ObjectMeta}
		pod.UID, pod.CreationTimestamp = pod.UID+"-new", metav1.NewTime(o.Now)
		pod.Labels[v1alpha1.TemplateHashLabel] = o.Revision
		o.Owned = append(slices.Clone(o.Owned), pod)
		o.AskedNames = o.AskedNames.Clone().Delete(step.Name)
	case podset.Adopt:
		o.Orphans = without(o.Orphans, step.Pod)
		o.Owned = append(slices.Clone(o.Owned), step.Pod)
	case podset.Release:
		o.Unlabelled = nil
	case podset.Delete:
		o.Owned = without(o.Owned, step.Pod)
		if step.Why != podset.History {
			pod := step.Pod.DeepCopy()
			pod.DeletionTimestamp = new(metav1.NewTime(o.Now))
			o.Owned = append(o.Owned, pod)
		}
	case podset.Nothing:
	}
}

// rest reports false if nothing is left to happen.
func rest(o *podset.Observation) bool {
	changed := false
	var owned []*corev1.Pod
	for _, pod := range o.Owned {
		if pod.DeletionTimestamp != nil {
			changed = true
			continue
		}
		if isActive(pod) && !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}) {
			changed = true
			pod = pod.DeepCopy()
			pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(o.Now)},
			}}
		}
		owned = append(owned, pod)
	}
	next := podset.NextLook(*o)
	o.Owned = owned
	if next.After(o.Now) {
		o.Now = next
		changed = true
	} else {
		o.Now = o.Now.Add(time.Millisecond)
	}
	if !o.Now.Before(o.InDoubtUntil) {
		o.AskedNames = nil
	}
	return changed
}

func without(pods []*corev1.Pod, pod *corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(other *corev1.Pod) bool { return other == pod })
}
