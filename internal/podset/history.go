package podset

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// beyondHistory returns the oldest finished pod if there are more than limit of them, else nil. One whose deletion was
// refused comes after those for which it was not tried.
func beyondHistory(pods []*corev1.Pod, limit int, refused sets.Set[types.UID]) *corev1.Pod {
	finished := filter(pods, isFinished)
	if len(finished) <= limit {
		return nil
	}
	return slices.MinFunc(finished, func(a, b *corev1.Pod) int {
		return cmp.Or(
			cmp.Compare(trueFirst(!refused.Has(a.UID)), trueFirst(!refused.Has(b.UID))),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Name, b.Name),
		)
	})
}
