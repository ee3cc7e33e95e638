package podset

import (
	"cmp"
	"slices"
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
	isRefused := func(pod *corev1.Pod) bool { return c.RefusedPods.Has(pod.UID) }
	isOld := func(pod *corev1.Pod) bool { return c.revisionOf(pod) != c.Revision }
	// In the middle of a roll-out the new pods may be the ones that serve nobody.
	allNeeded := len(c.old) > 0 && c.available <= c.desired-c.tolerated
	isNeeded := func(pod *corev1.Pod) bool { return allNeeded && c.isAvailable(pod) }
	rules := []func(a, b *corev1.Pod) int{
		// 1. Marked for deletion by the user before unmarked, as long as it can be deleted.
		func(a, b *corev1.Pod) int {
			return trueFirst(isMarked(a) && !isRefused(a), isMarked(b) && !isRefused(b))
		},
		// 2. Not needed to keep enough pods available before needed.
		func(a, b *corev1.Pod) int { return trueFirst(!isNeeded(a), !isNeeded(b)) },
		// 3. Of an older template before of the present one: it has to go anyway.
		func(a, b *corev1.Pod) int { return trueFirst(isOld(a), isOld(b)) },
		// 4. Not yet refused before refused: one that cannot be deleted does not block the others.
		func(a, b *corev1.Pod) int { return trueFirst(!isRefused(a), !isRefused(b)) },
		// 5. Not bound to a node before bound: nothing runs yet.
		func(a, b *corev1.Pod) int { return trueFirst(a.Spec.NodeName == "", b.Spec.NodeName == "") },
		// 6. Pending before Unknown before Running: less is lost.
		func(a, b *corev1.Pod) int { return cmp.Compare(progress(a), progress(b)) },
		// 7. Not ready before ready: it serves nobody.
		func(a, b *corev1.Pod) int { return trueFirst(!podutils.IsPodReady(a), !podutils.IsPodReady(b)) },
		// 8. Lower deletion cost first: whoever set it knows better than the rules below.
		func(a, b *corev1.Pod) int { return cmp.Compare(deletionCost(a), deletionCost(b)) },
		// 9. On a node with more siblings first: this evens out the spread.
		func(a, b *corev1.Pod) int { return cmp.Compare(onNode[b.Spec.NodeName], onNode[a.Spec.NodeName]) },
		// 10. Ready for less time first: caches and connections are worth keeping.
		func(a, b *corev1.Pod) int { return readySince(b).Compare(readySince(a)) },
		// 11. More restarts first: it is less healthy.
		func(a, b *corev1.Pod) int { return cmp.Compare(maxRestarts(b), maxRestarts(a)) },
		// 12. Younger first.
		func(a, b *corev1.Pod) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) },
		// 13. By name, so that ties are always broken the same way.
		func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) },
	}
	return slices.MinFunc(candidates, func(a, b *corev1.Pod) int {
		for _, rule := range rules {
			if order := rule(a, b); order != 0 {
				return order
			}
		}
		return 0
	})
}

func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

func isMarked(pod *corev1.Pod) bool {
	value, marked := pod.Annotations[v1alpha1.DeleteMeAnnotation]
	return marked && value != "false"
}

// isMarkedNow reports whether the user wants the pod replaced without waiting for a scale-down.
func isMarkedNow(pod *corev1.Pod) bool {
	return pod.Annotations[v1alpha1.DeleteMeAnnotation] == v1alpha1.DeleteMeNow
}

func progress(pod *corev1.Pod) int {
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
