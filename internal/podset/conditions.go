package podset

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"example.com/podset-operator/api/v1alpha1"
)

// conditions returns the conditions that go with the counts. Ready is always there, Reconciling and Stalled only while
// True, so that kstatus, and with it Flux and Helm, reads them rightly.
func (c census) conditions() []metav1.Condition {
	conditions := slices.Clone(c.PodSet.Status.Conditions)
	set := func(conditionType string, value metav1.ConditionStatus, generation int64, verdict Problem) {
		meta.SetStatusCondition(&conditions, metav1.Condition{
			Type:               conditionType,
			Status:             value,
			ObservedGeneration: generation,
			LastTransitionTime: metav1.NewTime(c.Now),
			Reason:             verdict.Reason,
			Message:            verdict.Message,
		})
	}
	work := c.work()
	if c.isServing(work) {
		set(v1alpha1.ConditionReady, metav1.ConditionTrue, c.readyGeneration(), Problem{
			Reason:  v1alpha1.ReasonPodsAvailable,
			Message: fmt.Sprintf("%d of %d pods are available", min(c.available, c.desired), c.desired),
		})
	} else {
		set(v1alpha1.ConditionReady, metav1.ConditionFalse, c.readyGeneration(), *work)
	}
	for conditionType, holds := range map[string]bool{
		v1alpha1.ConditionReconciling: work != nil && !work.Stalled,
		v1alpha1.ConditionStalled:     work != nil && work.Stalled,
	} {
		if holds {
			set(conditionType, metav1.ConditionTrue, c.PodSet.Generation, *work)
		} else {
			meta.RemoveStatusCondition(&conditions, conditionType)
		}
	}
	return conditions
}

// isServing reports whether enough pods are available: all of them if nothing is left to do, and in a roll-out those that
// it must leave.
func (c census) isServing(work *Problem) bool {
	return work == nil || c.isRollingOut() && c.available >= c.desired-c.tolerated
}

// readyGeneration is the generation that Ready is about. During a roll-out it is an earlier one: what Ready says is about
// the template before, and whoever waits for Ready of the present generation waits for the end of the roll-out. A roll-out
// may begin without a change of the spec, by the adoption of a pod.
func (c census) readyGeneration() int64 {
	if !c.isRollingOut() {
		return c.PodSet.Generation
	}
	if ready := meta.FindStatusCondition(c.PodSet.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		return min(ready.ObservedGeneration, c.PodSet.Generation-1)
	}
	return c.PodSet.Generation - 1
}

// work returns what is still to do, or what keeps it from being done: the first reason that applies; nil if all is as
// wanted. When there was no progress for too long it is Stalled, with what the pods themselves tell.
func (c census) work() *Problem {
	if work := c.obstacle(); work != nil {
		work.Stalled = work.Stalled || c.Progress.isExceeded(c.PodSet, c.Now)
		return work
	}
	work := c.remaining()
	if work == nil || work.Reason == v1alpha1.ReasonRollOutPaused || !c.Progress.isExceeded(c.PodSet, c.Now) {
		return work
	}
	if stalled := meta.FindStatusCondition(c.PodSet.Status.Conditions, v1alpha1.ConditionStalled); stalled != nil &&
		stalled.ObservedGeneration == c.PodSet.Generation && !isObstacle(stalled.Reason) {
		// The reasons of a pod that fails alternate; the first one told will do.
		return &Problem{Reason: stalled.Reason, Message: stalled.Message, Stalled: true}
	}
	reason, trouble := c.trouble()
	return &Problem{
		Reason:  reason,
		Message: fmt.Sprintf("no progress for %d s: %s%s", ptr.Deref(c.PodSet.Spec.ProgressDeadlineSeconds, 600), work.Message, trouble),
		Stalled: true,
	}
}

// isObstacle reports whether a reason is one of those that obstacle returns, and not one that a pod tells.
func isObstacle(reason string) bool {
	switch reason {
	case v1alpha1.ReasonQuotaExceeded, v1alpha1.ReasonForbidden, v1alpha1.ReasonNamespaceTerminating,
		v1alpha1.ReasonInvalidTemplate, v1alpha1.ReasonPodsFailing:
		return true
	default:
		return false
	}
}

// obstacle returns what keeps the next step from being taken, nil if nothing does. Where only the removal of a finished or
// of a marked pod is refused, nothing that was asked for in the spec is in the way.
func (c census) obstacle() *Problem {
	creates := c.missing() > 0 || c.replaces() && c.updated < c.desired
	deletes := c.excess() > 0 || c.replaces()
	switch {
	case creates && c.isHeld(Create):
		return new(c.Holds[Create].Problem)
	case deletes && c.isHeld(Delete) && c.Holds[Delete].Why != History && c.Holds[Delete].Why != DeleteMeNow:
		return new(c.Holds[Delete].Problem)
	case creates && !c.mayCreate():
		return &Problem{
			Reason: v1alpha1.ReasonPodsFailing,
			Message: fmt.Sprintf("%d of %d pods exist; pods end soon after their creation, so the next is created after a delay of %s",
				len(c.active), c.desired, c.Backoff.delay),
		}
	default:
		return nil
	}
}

// remaining returns what is still to do, nil if all is as wanted. The messages hold no running time, so that waiting does
// not change the status.
func (c census) remaining() *Problem {
	current := len(c.active)
	switch {
	case c.replaces():
		return &Problem{
			Reason:  v1alpha1.ReasonRollingOut,
			Message: fmt.Sprintf("%d of %d updated, %d available", c.updated, c.desired, c.available),
		}
	case c.missing() > 0:
		return &Problem{Reason: v1alpha1.ReasonScalingUp, Message: fmt.Sprintf("%d of %d pods exist", current, c.desired)}
	case current < c.desired:
		return &Problem{
			Reason: v1alpha1.ReasonPodsTerminating,
			Message: fmt.Sprintf("%d of %d pods exist; the missing ones are created when %d terminating pods are gone",
				current, c.desired, c.terminating),
		}
	case c.excess() > 0:
		return &Problem{Reason: v1alpha1.ReasonScalingDown, Message: fmt.Sprintf("%d pods exist, %d are wanted", current, c.desired)}
	case len(c.old) > 0 && c.isRollingOut():
		return &Problem{
			Reason:  v1alpha1.ReasonRollOutPaused,
			Message: fmt.Sprintf("%d of %d updated, %d available; spec.paused is true", c.updated, c.desired, c.available),
		}
	case c.available < c.desired:
		return &Problem{
			Reason:  v1alpha1.ReasonPodsNotAvailable,
			Message: fmt.Sprintf("%d of %d pods are available", c.available, c.desired),
		}
	default:
		return nil
	}
}
