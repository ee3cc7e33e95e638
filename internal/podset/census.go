package podset

import (
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubectl/pkg/util/podutils"
	"k8s.io/utils/ptr"

	"example.com/podset-operator/api/v1alpha1"
)

// census is an observation with its pods counted.
type census struct {
	Observation
	counts
}

// counts are the pods of an observation, sorted and counted.
type counts struct {
	// desired is how many pods are wanted, surge and tolerated by how many a roll-out may exceed and undercut that.
	desired, surge, tolerated int

	// active are the pods that count, old those of them that are not of the present template, markedNow those that the
	// user wants replaced at once.
	active, old, markedNow []*corev1.Pod
	// updated is how many active pods are of the present template, onTrial how many of those are not available.
	updated, onTrial int
	ready, available int
	terminating      int
	finished         int
	// inDoubt is how many pods may come up under names that pods which do not count have now, by requests of this
	// manager whose outcome is unknown.
	inDoubt int
}

// Counted returns the observation with its pods counted once for all questions about it. It must be asked for again when the
// PodSet, the pods, the revision, the asked names or the time are changed.
func (o Observation) Counted() Observation {
	o.counted = new(o.count())
	return o
}

func (o Observation) census() census {
	if o.counted == nil {
		return census{o, o.count()}
	}
	return census{o, *o.counted}
}

func (o Observation) count() counts {
	c := counts{desired: int(ptr.Deref(o.PodSet.Spec.Replicas, 1)), active: make([]*corev1.Pod, 0, len(o.Owned))}
	c.surge, c.tolerated = budgets(o.PodSet.Spec.UpdateStrategy, c.desired)
	for _, pod := range o.Owned {
		if !isActive(pod) {
			switch {
			case isTerminating(pod):
				c.terminating++
			case isFinished(pod):
				c.finished++
			}
			if o.AskedNames.Has(pod.Name) {
				c.inDoubt++
			}
			continue
		}
		c.active = append(c.active, pod)
		if isMarkedNow(pod) {
			c.markedNow = append(c.markedNow, pod)
		}
		isReady := podutils.IsPodReady(pod)
		isAvailable := isReady && o.isAvailable(pod)
		if isReady {
			c.ready++
		}
		if isAvailable {
			c.available++
		}
		switch {
		case o.revisionOf(pod) != o.Revision:
			c.old = append(c.old, pod)
		case isAvailable:
			c.updated++
		default:
			c.updated++
			c.onTrial++
		}
	}
	return c
}

func (o Observation) isAvailable(pod *corev1.Pod) bool {
	return podutils.IsPodAvailable(pod, o.PodSet.Spec.MinReadySeconds, metav1.NewTime(o.Now))
}

// taken is how many pods take the place of a new one.
func (c census) taken() int {
	taken := len(c.active)
	if c.PodSet.Spec.PodReplacementPolicy == v1alpha1.TerminationComplete {
		taken += c.terminating
	}
	return taken
}

// missing is how many pods to add, none if it is not positive.
func (c census) missing() int { return c.desired - c.taken() }

// excess is how many pods to remove, none if it is not positive. The pods that a roll-out has made beside the old ones
// are not in excess, also while it is paused.
func (c census) excess() int {
	beside := 0
	if len(c.old) > 0 {
		beside = min(c.surge, c.updated)
	}
	return len(c.active) - c.desired - beside
}

// replaces reports whether old pods are to be replaced.
func (c census) replaces() bool {
	return len(c.old) > 0 && !isOnDelete(c.PodSet) && !c.PodSet.Spec.Paused
}

// isRollingOut reports whether a template is on its way, paused or not. It is until its pods are all there and available.
func (c census) isRollingOut() bool {
	return !isOnDelete(c.PodSet) && (len(c.old) > 0 || c.currentRevision() != c.Revision)
}

// currentRevision is the revision that was last rolled out completely.
func (c census) currentRevision() string {
	current := c.PodSet.Status.CurrentRevision
	switch {
	case len(c.old) == 0 && len(c.active) == c.desired && c.available == c.desired:
		return c.Revision
	case current != "":
		return current
	case len(c.old) > 0 && !slices.ContainsFunc(c.active, hasNoRevision):
		return c.revisionOf(leastName(c.old))
	default:
		// Pods without a revision are taken for pods of this one from now on.
		return c.Revision
	}
}

func isOnDelete(podSet *v1alpha1.PodSet) bool {
	return podSet.Spec.UpdateStrategy.Type == v1alpha1.OnDelete
}

// takenNames are the names no new pod can have, those of terminating and finished pods included.
func (o Observation) takenNames() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, pods := range [][]*corev1.Pod{o.Owned, o.Orphans} {
			for _, pod := range pods {
				if !yield(pod.Name) {
					return
				}
			}
		}
		for name := range o.TakenNames {
			if !yield(name) {
				return
			}
		}
	}
}
