package podset

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/podset-operator/api/v1alpha1"
)

// IsOwnedBy reports whether the PodSet is the pod's controller, by UID: a predecessor of the same name is not.
func IsOwnedBy(pod *corev1.Pod, podSet *v1alpha1.PodSet) bool {
	return metav1.IsControlledBy(pod, podSet)
}

// IsOrphanOf reports whether the pod carries the PodSet's label and has no controller.
func IsOrphanOf(pod *corev1.Pod, podSet *v1alpha1.PodSet) bool {
	return metav1.GetControllerOf(pod) == nil && pod.Labels[v1alpha1.PodSetLabel] == podSet.Name
}

// IsDeleted reports whether the deletion of the pod has begun.
func IsDeleted(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil }

func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

func isActive(pod *corev1.Pod) bool { return !IsDeleted(pod) && !hasEnded(pod) }

func isTerminating(pod *corev1.Pod) bool { return IsDeleted(pod) && !hasEnded(pod) }

func isFinished(pod *corev1.Pod) bool { return !IsDeleted(pod) && hasEnded(pod) }

func isBeingDeleted(podSet *v1alpha1.PodSet) bool { return podSet.DeletionTimestamp != nil }

// filter returns the pods for which keep holds, in the same order.
func filter(pods []*corev1.Pod, keep func(*corev1.Pod) bool) []*corev1.Pod {
	kept := make([]*corev1.Pod, 0, len(pods))
	for _, pod := range pods {
		if keep(pod) {
			kept = append(kept, pod)
		}
	}
	return kept
}
