package podset

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"example.com/podset-operator/api/v1alpha1"
)

// Status returns what to report about the observation. It starts from the reported status so that a condition that
// did not change keeps its time of transition; equal observations give equal statuses.
func Status(o Observation) v1alpha1.PodSetStatus {
	c := o.census()
	return v1alpha1.PodSetStatus{
		ObservedGeneration:  o.PodSet.Generation,
		Replicas:            count(len(c.active)),
		ReadyReplicas:       count(c.ready),
		AvailableReplicas:   count(c.available),
		UpdatedReplicas:     count(c.updated),
		TerminatingReplicas: count(c.terminating),
		PodNames:            names(c.active),
		Selector:            Selector(o.PodSet.Name),
		CurrentRevision:     c.currentRevision(),
		UpdateRevision:      o.Revision,
		Conditions:          c.conditions(),
	}
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
