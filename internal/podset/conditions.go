package podset

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/podset-operator/api/v1alpha1"
)

// conditions returns the conditions that go with the counts of status. Ready is always there, Reconciling and Stalled
// only while True, so that kstatus, and with it Flux and Helm, reads them rightly.
func conditions(o Observation, status v1alpha1.PodSetStatus) []metav1.Condition {
	conditions := slices.Clone(o.PodSet.Status.Conditions)
	set := func(conditionType string, value metav1.ConditionStatus, verdict Problem) {
		meta.SetStatusCondition(&conditions, metav1.Condition{
			Type:               conditionType,
			Status:             value,
			ObservedGeneration: o.PodSet.Generation,
			LastTransitionTime: metav1.NewTime(o.Now),
			Reason:             verdict.Reason,
			Message:            verdict.Message,
		})
	}
	ready, verdict := judge(o, status)
	if ready {
		set(v1alpha1.ConditionReady, metav1.ConditionTrue, verdict)
		meta.RemoveStatusCondition(&conditions, v1alpha1.ConditionReconciling)
		meta.RemoveStatusCondition(&conditions, v1alpha1.ConditionStalled)
		return conditions
	}
	shown, hidden := v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled
	if verdict.Stalled {
		shown, hidden = hidden, shown
	}
	set(v1alpha1.ConditionReady, metav1.ConditionFalse, verdict)
	set(shown, metav1.ConditionTrue, verdict)
	meta.RemoveStatusCondition(&conditions, hidden)
	return conditions
}

// judge tells whether the PodSet is ready, and why or why not: the first reason that applies. The messages hold no
// running time, so that waiting does not change the status.
func judge(o Observation, status v1alpha1.PodSetStatus) (ready bool, verdict Problem) {
	desired, current, missing := o.desired(), int(status.Replicas), o.missing()
	needed := Nothing
	switch {
	case missing > 0:
		needed = Create
	case current > desired:
		needed = Delete
	}
	if hold := o.Holds[needed]; o.isHeld(needed) {
		return false, hold.Problem
	}
	switch {
	case missing > 0 && !o.Backoff.holdsUntil(o.active(), o.Now).IsZero():
		return false, Problem{
			Reason: v1alpha1.ReasonPodsFailing,
			Message: fmt.Sprintf("%d of %d pods exist; pods end soon after their creation, so the next is created after a delay of %s",
				current, desired, o.Backoff.delay),
		}
	case missing > 0:
		return false, Problem{
			Reason:  v1alpha1.ReasonScalingUp,
			Message: fmt.Sprintf("%d of %d pods exist", current, desired),
		}
	case current < desired:
		return false, Problem{
			Reason: v1alpha1.ReasonPodsTerminating,
			Message: fmt.Sprintf("%d of %d pods exist; the missing ones are created when %d terminating pods are gone",
				current, desired, status.TerminatingReplicas),
		}
	case current > desired:
		return false, Problem{
			Reason:  v1alpha1.ReasonScalingDown,
			Message: fmt.Sprintf("%d pods exist, %d are wanted", current, desired),
		}
	case int(status.AvailableReplicas) < desired:
		return false, Problem{
			Reason:  v1alpha1.ReasonPodsNotAvailable,
			Message: fmt.Sprintf("%d of %d pods are available", status.AvailableReplicas, desired),
		}
	}
	return true, Problem{
		Reason:  v1alpha1.ReasonPodsAvailable,
		Message: fmt.Sprintf("%d of %d pods are available", desired, desired),
	}
}
