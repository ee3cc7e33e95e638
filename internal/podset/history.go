package podset

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// beyondHistory returns the oldest finished pod if there are more than limit of them, else nil.
func beyondHistory(pods []*corev1.Pod, limit int) *corev1.Pod {
	finished := filter(pods, isFinished)
	if len(finished) <= limit {
		return nil
	}
	return slices.MinFunc(finished, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}
