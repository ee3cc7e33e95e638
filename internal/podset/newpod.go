package podset

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/podset-operator/api/v1alpha1"
)

// NewPod returns the pod to create for the PodSet under the given name. Labels, annotations, finalizers and the spec come
// from the template, the rest of the template's metadata is ignored. The labels of membership and revision and the owner
// reference are always ours. The delete-me mark is for single pods: on all of them, each new pod would have to go again.
func NewPod(podSet *v1alpha1.PodSet, name string) *corev1.Pod {
	template := podSet.Spec.Template.DeepCopy()
	if template == nil {
		template = defaultTemplate()
	}
	annotations := maps.Clone(template.Annotations)
	delete(annotations, v1alpha1.DeleteMeAnnotation)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       podSet.Namespace,
			Name:            name,
			Labels:          podLabels(podSet, template.Labels),
			Annotations:     annotations,
			Finalizers:      slices.Clone(template.Finalizers),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(podSet, v1alpha1.PodSetKind)},
		},
		Spec: template.Spec,
	}
}

func podLabels(podSet *v1alpha1.PodSet, fromTemplate map[string]string) map[string]string {
	labels := map[string]string{v1alpha1.AppLabel: podSet.Name}
	maps.Copy(labels, fromTemplate)
	labels[v1alpha1.PodSetLabel] = podSet.Name
	labels[v1alpha1.TemplateHashLabel] = Revision(podSet.Spec.Template)
	return labels
}

// Selector returns the text form of the label selector that matches the pods of the PodSet with this name.
func Selector(podSetName string) string {
	return metav1.FormatLabelSelector(&metav1.LabelSelector{
		MatchLabels: map[string]string{v1alpha1.PodSetLabel: podSetName},
	})
}

// nobody is the user of the default pod: the restricted Pod Security Standard wants one, and any but root will do.
const nobody int64 = 65534

// defaultTemplate is what a PodSet without a template runs.
func defaultTemplate() *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: new(false),
			// As process 1 of its container sleep would ignore SIGTERM, and the kubelet gives every container two seconds
			// at least. In a pod whose containers share their processes it is not process 1, and ends at once.
			ShareProcessNamespace:         new(true),
			TerminationGracePeriodSeconds: new(int64(1)),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot:   new(true),
				RunAsUser:      new(nobody),
				RunAsGroup:     new(nobody),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name:    "busybox",
				Image:   "busybox:1.37",
				Command: []string{"sleep", "3600"},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false),
					ReadOnlyRootFilesystem:   new(true),
					Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
}
