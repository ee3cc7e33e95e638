package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/sets"
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
		(m.podDeleted == "" || !slices.ContainsFunc(seen.Owned, func(pod *corev1.Pod) bool {
			return pod.UID == m.podDeleted && !podset.IsDeleted(pod)
		}))
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

// mustSee makes the view of the pods count as behind until it holds the resource version.
func (m *memory) mustSee(resourceVersion string) {
	if !reached(m.podWritten, resourceVersion) {
		m.podWritten = resourceVersion
	}
}

// certainFor is for how long after a live look the cached view is relied on. It is shorter than a lease lasts, so that a
// leader that was paused while another took over looks before it acts, and much longer than the steps of a scale are
// apart.
const certainFor = 5 * time.Second

// mayRely reports whether a step may be decided on the cached view. The view may lack writes that are not remembered:
// those of another manager, before this one or beside it, and those whose outcome is unknown. And an adoption, unlike the
// creation of a pod by name, does not meet itself when it is done twice.
func (m *memory) mayRely(step podset.Step, now time.Time) bool {
	return step.Action == podset.Nothing || step.Action == podset.Release || // which is about a pod just read live
		step.Action != podset.Adopt && now.Before(m.certainUntil)
}

// livePods returns the observation with its pods read from the API server. Those of the PodSet's own that the view has
// under another PodSet's label, which is not asked for, are kept from the view. From then on the view must hold what
// was read.
func (r *Reconciler) livePods(ctx context.Context, o podset.Observation, m *memory) (podset.Observation, error) {
	list := &corev1.PodList{}
	label := client.MatchingLabels{v1alpha1.PodSetLabel: o.PodSet.Name}
	if err := r.Live.List(ctx, list, client.InNamespace(o.PodSet.Namespace), label); err != nil {
		return o, err
	}
	view := o.Owned
	o.Owned, o.Orphans = nil, nil
	for i := range list.Items {
		pod := &list.Items[i]
		m.mustSee(pod.ResourceVersion)
		switch {
		case podset.IsOwnedBy(pod, o.PodSet):
			o.Owned = append(o.Owned, pod)
		case podset.IsOrphanOf(pod, o.PodSet):
			o.Orphans = append(o.Orphans, pod)
		}
	}
	for _, pod := range view {
		if pod.Labels[v1alpha1.PodSetLabel] != o.PodSet.Name {
			o.Owned = append(o.Owned, pod)
		}
	}
	return o.Counted(), nil
}

// searchVanished reads live one of the pods that have left the view without having been deleted, as far as could be seen,
// and returns it if somebody took our label from it. The view shows only pods with the label.
func (r *Reconciler) searchVanished(ctx context.Context, podSet *v1alpha1.PodSet, view SeenPods, m *memory) (*corev1.Pod, error) {
	m.noteVanished(view.Owned)
	for name := range m.vanished {
		pod := &corev1.Pod{}
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: podSet.Namespace, Name: name}, pod)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("reading pod %s, which is out of sight: %w", name, err)
		}
		_, labelled := pod.Labels[v1alpha1.PodSetLabel]
		if err == nil && podset.IsOwnedBy(pod, podSet) && !podset.IsDeleted(pod) && !labelled {
			return pod, nil
		}
		m.vanished.Delete(name)
		return nil, nil
	}
	return nil, nil
}

// noteVanished notes which pods have left the view although they were not being deleted when they were last seen.
func (m *memory) noteVanished(seen []*corev1.Pod) {
	alive := 0
	for _, pod := range seen {
		if !podset.IsDeleted(pod) && pod.UID != m.podDeleted {
			m.alive.Insert(pod.Name)
			alive++
		}
	}
	if len(m.alive) == alive {
		return // as many as are seen: none has gone
	}
	seenAlive, seenDeleted := sets.New[string](), sets.New[string]()
	for _, pod := range seen {
		if podset.IsDeleted(pod) || pod.UID == m.podDeleted {
			seenDeleted.Insert(pod.Name)
		} else {
			seenAlive.Insert(pod.Name)
		}
	}
	m.vanished = m.vanished.Union(m.alive.Difference(seenAlive).Difference(seenDeleted))
	m.alive = seenAlive
}

// untilNextSearch is when to look for the next pod that has left the view, zero if there is none.
func (m *memory) untilNextSearch() time.Duration {
	if m.vanished.Len() == 0 {
		return 0
	}
	return conflictRetry
}
