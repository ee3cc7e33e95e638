package podset

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/podset-operator/api/v1alpha1"
)

// Status returns what to report about the observation. It starts from the reported status so that a condition that
// did not change keeps its time of transition; equal observations give equal statuses.
func Status(o Observation) v1alpha1.PodSetStatus {
	c := o.census()
	status := c.numbers()
	status.ObservedGeneration = o.PodSet.Generation
	status.PodNames = names(c.active)
	status.Selector = Selector(o.PodSet.Name)
	status.CurrentRevision = c.currentRevision()
	status.UpdateRevision = o.Revision
	status.Conditions = c.conditions()
	return status
}

// numbers returns a status with the numbers of pods only.
func (c census) numbers() v1alpha1.PodSetStatus {
	return v1alpha1.PodSetStatus{
		Replicas:            count(len(c.active)),
		ReadyReplicas:       count(c.ready),
		AvailableReplicas:   count(c.available),
		UpdatedReplicas:     count(c.updated),
		TerminatingReplicas: count(c.terminating),
	}
}

// NumbersStand reports whether there are as many pods of each kind as the PodSet's status says.
func NumbersStand(o Observation) bool {
	reported, now := o.PodSet.Status, o.census().numbers()
	return now.Replicas == reported.Replicas && now.ReadyReplicas == reported.ReadyReplicas &&
		now.AvailableReplicas == reported.AvailableReplicas && now.UpdatedReplicas == reported.UpdatedReplicas &&
		now.TerminatingReplicas == reported.TerminatingReplicas
}

// VerdictStands reports whether what the PodSet's status says of the observation is still so, apart from numbers and names:
// the generation, the revisions, and which conditions there are, with which values and reasons.
func VerdictStands(o Observation) bool {
	c, reported := o.census(), o.PodSet.Status
	if reported.ObservedGeneration != o.PodSet.Generation || reported.UpdateRevision != o.Revision ||
		reported.CurrentRevision != c.currentRevision() {
		return false
	}
	return slices.EqualFunc(reported.Conditions, c.conditions(), func(a, b metav1.Condition) bool {
		return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason && a.ObservedGeneration == b.ObservedGeneration
	})
}

func count(pods int) int32 {
	return int32(pods) //nolint:gosec // an apiserver holds far fewer pods than an int32 can count
}

// names returns the sorted names of the pods, nil if there are none, as a status without names reads back.
func names(pods []*corev1.Pod) []string {
	var names []string
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	slices.Sort(names)
	return names
}
