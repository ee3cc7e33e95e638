package controller

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// errStale says that the view lacks a write of this manager.
var errStale = errors.New("the view lacks a write of this manager")

// mayRely reports whether a step may be decided on the cached view. The view may lack writes that are not remembered:
// those of a manager that was there before this one, and those whose outcome is unknown. And an adoption, unlike the
// creation of a pod by name, does not meet itself when it is done twice.
func (m *memory) mayRely(step podset.Step) bool {
	return step.Action == podset.Nothing || step.Action != podset.Adopt && m.certain
}

// livePods reads the pods that matter to the PodSet from the API server. Those of its own that the view has under another
// PodSet's label, which is not asked for, are taken from the view.
func (r *Reconciler) livePods(ctx context.Context, podSet *v1alpha1.PodSet, view SeenPods) (SeenPods, error) {
	list := &corev1.PodList{}
	label := client.MatchingLabels{v1alpha1.PodSetLabel: podSet.Name}
	if err := r.Live.List(ctx, list, client.InNamespace(podSet.Namespace), label); err != nil {
		return SeenPods{}, err
	}
	live := SeenPods{ResourceVersion: list.ResourceVersion}
	for i := range list.Items {
		switch pod := &list.Items[i]; {
		case podset.IsOwnedBy(pod, podSet):
			live.Owned = append(live.Owned, pod)
		case podset.IsOrphanOf(pod, podSet):
			live.Orphans = append(live.Orphans, pod)
		}
	}
	for _, pod := range view.Owned {
		if pod.Labels[v1alpha1.PodSetLabel] != podSet.Name {
			live.Owned = append(live.Owned, pod)
		}
	}
	return live, nil
}
