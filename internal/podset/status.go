package podset

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubectl/pkg/util/podutils"

	"example.com/podset-operator/api/v1alpha1"
)

// Status returns what to report about the observation. It starts from the reported status so that a condition that
// did not change keeps its time of transition; equal observations give equal statuses.
func Status(o Observation) v1alpha1.PodSetStatus {
	active := o.active()
	status := v1alpha1.PodSetStatus{
		ObservedGeneration:  o.PodSet.Generation,
		Replicas:            count(active),
		ReadyReplicas:       count(filter(active, podutils.IsPodReady)),
		AvailableReplicas:   count(filter(active, o.isAvailable)),
		TerminatingReplicas: count(filter(o.Owned, isTerminating)),
		PodNames:            names(active),
		Selector:            Selector(o.PodSet.Name),
	}
	status.Conditions = conditions(o, status)
	return status
}

func (o Observation) isAvailable(pod *corev1.Pod) bool {
	return podutils.IsPodAvailable(pod, o.PodSet.Spec.MinReadySeconds, metav1.NewTime(o.Now))
}

func count(pods []*corev1.Pod) int32 {
	return int32(len(pods)) //nolint:gosec // an apiserver holds far fewer pods than an int32 can count
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
