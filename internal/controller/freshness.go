package controller

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"example.com/podset-operator/api/v1alpha1"
	"example.com/podset-operator/internal/podset"
)

// isIn reports whether the PodSet and the pods as seen hold every write remembered. Deciding on a view that lacks a
// write would repeat it. What counts is how far the view has come, not whether the written pod is in it: after a relist
// a pod that came and went is in no view.
func (m *memory) isIn(podSet *v1alpha1.PodSet, seen SeenPods) bool {
	return reached(podSet.ResourceVersion, m.statusWritten) &&
		reached(seen.ResourceVersion, m.podWritten) &&
		!slices.ContainsFunc(seen.Owned, func(pod *corev1.Pod) bool {
			return pod.UID == m.podDeleted && !podset.IsDeleted(pod)
		})
}

// reached reports whether a view at one resource version holds a write with another. No write is held by any view; a
// view that has no resource version yet holds no write.
func reached(view, write string) bool {
	if write == "" {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(view, write)
	return err == nil && order >= 0
}
