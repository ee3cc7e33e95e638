package podset

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubectl/pkg/util/podutils"

	"example.com/podset-operator/api/v1alpha1"
)

// leastUseful returns the one of some active pods to delete first, or nil if there is none. The order is total, so the same
// pods always give the same answer. It follows ReplicaSet's, with the delete-me mark, the revision and refusals in front.
func (c census) leastUseful(candidates []*corev1.Pod) *corev1.Pod {
	if len(candidates) == 0 {
		return nil
	}
	onNode := map[string]int{}
	for _, pod := range c.active {
		if pod.Spec.NodeName != "" {
			onNode[pod.Spec.NodeName]++
		}
	}
	// In the middle of a roll-out the new pods may be the ones that serve nobody.
	allNeeded := len(c.old) > 0 && c.available <= c.desired-c.tolerated
	isRefused := func(pod *corev1.Pod) bool { return c.RefusedPods.Has(pod.UID) }
	// Of two pods that one goes for which the first rule that tells them apart has the lower value.
	rules := []func(pod *corev1.Pod) int64{
		// 1. Marked for deletion by the user before unmarked, as long as it can be deleted.
		func(pod *corev1.Pod) int64 { return trueFirst(isMarked(pod) && !isRefused(pod)) },
		// 2. Not needed to keep enough pods available before needed.
		func(pod *corev1.Pod) int64 { return trueFirst(!allNeeded || !c.isAvailable(pod)) },
		// 3. Of an older template before of the present one: it has to go anyway.
		func(pod *corev1.Pod) int64 { return trueFirst(c.revisionOf(pod) != c.Revision) },
		// 4. Not yet refused before refused: one that cannot be deleted does not block the others.
		func(pod *corev1.Pod) int64 { return trueFirst(!isRefused(pod)) },
		// 5. Not bound to a node before bound: nothing runs yet.
		func(pod *corev1.Pod) int64 { return trueFirst(pod.Spec.NodeName == "") },
		// 6. Pending before Unknown before Running: less is lost.
		progress,
		// 7. Not ready before ready: it serves nobody.
		func(pod *corev1.Pod) int64 { return trueFirst(!podutils.IsPodReady(pod)) },
		// 8. Lower deletion cost first: whoever set it knows better than the rules below.
		deletionCost,
		// 9. On a node with more siblings first: this evens out the spread.
		func(pod *corev1.Pod) int64 { return -int64(onNode[pod.Spec.NodeName]) },
		// 10. Ready for less time first: caches and connections are worth keeping.
		func(pod *corev1.Pod) int64 { return -readySince(pod).Unix() },
		// 11. More restarts first: it is less healthy.
		func(pod *corev1.Pod) int64 { return -int64(maxRestarts(pod)) },
		// 12. Younger first.
		func(pod *corev1.Pod) int64 { return -pod.CreationTimestamp.Unix() },
	}
	least := candidates[0]
	for _, pod := range candidates[1:] {
		if comesBefore(rules, pod, least) {
			least = pod
		}
	}
	return least
}

// comesBefore reports whether of two pods a goes first. By name if no rule tells, so that ties are always broken the same way.
func comesBefore(rules []func(*corev1.Pod) int64, a, b *corev1.Pod) bool {
	for _, rule := range rules {
		if ofA, ofB := rule(a), rule(b); ofA != ofB {
			return ofA < ofB
		}
	}
	return a.Name < b.Name
}

func trueFirst(is bool) int64 {
	if is {
		return 0
	}
	return 1
}

func isMarked(pod *corev1.Pod) bool {
	value, marked := pod.Annotations[v1alpha1.DeleteMeAnnotation]
	return marked && value != "false"
}

// isMarkedNow reports whether the user wants the pod replaced without waiting for a scale-down.
func isMarkedNow(pod *corev1.Pod) bool {
	return pod.Annotations[v1alpha1.DeleteMeAnnotation] == v1alpha1.DeleteMeNow
}

func progress(pod *corev1.Pod) int64 {
	switch pod.Status.Phase {
	case corev1.PodRunning:
		return 2
	case corev1.PodUnknown:
		return 1
	default: // Pending, or not reported yet
		return 0
	}
}

// deletionCost is the pod's cost by the annotation controller.kubernetes.io/pod-deletion-cost. As for ReplicaSet a pod
// without a valid one costs 0, and a plus sign or a leading zero is not valid.
func deletionCost(pod *corev1.Pod) int64 {
	text := pod.Annotations[corev1.PodDeletionCost]
	if text == "" {
		return 0
	}
	cost, err := strconv.ParseInt(text, 10, 32)
	if err != nil || text[0] == '+' || text[0] == '0' {
		return 0
	}
	return cost
}

// readySince is when the pod last became ready, or the zero time if it is not ready.
func readySince(pod *corev1.Pod) time.Time {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			return condition.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

func maxRestarts(pod *corev1.Pod) int32 {
	var restarts int32
	for _, container := range pod.Status.ContainerStatuses {
		restarts = max(restarts, container.RestartCount)
	}
	return restarts
}
