package podset

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	psaapi "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"example.com/podset-operator/api/v1alpha1"
)

func TestNewPodFromATemplate(t *testing.T) {
	spec := corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "wait", Image: "busybox:1.37", Command: []string{"true"}}},
		Containers:     []corev1.Container{{Name: "web", Image: "nginx", VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}}},
		Volumes:        []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	}
	got := NewPod(podSet(1, template(&corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Name:            "ignored",
			GenerateName:    "ignored-",
			Namespace:       "ignored",
			UID:             "ignored",
			ResourceVersion: "1",
			OwnerReferences: []metav1.OwnerReference{{Name: "ignored"}},
			Labels:          map[string]string{"tier": "front", v1alpha1.AppLabel: "own", v1alpha1.PodSetLabel: "tampered", v1alpha1.TemplateHashLabel: "tampered"},
			Annotations:     map[string]string{"example.com/team": "blue"},
			Finalizers:      []string{"example.com/finalizer"},
		},
		Spec: spec,
	})), "web-podb2c4d")

	mustEqual(t, got, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default",
			Name:      "web-podb2c4d",
			Labels: map[string]string{
				"tier": "front", v1alpha1.AppLabel: "own", v1alpha1.PodSetLabel: "web",
				v1alpha1.TemplateHashLabel: "4bxd28tg8f",
			},
			Annotations: map[string]string{"example.com/team": "blue"},
			Finalizers:  []string{"example.com/finalizer"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion:         "app.example.com/v1alpha1",
				Kind:               "PodSet",
				Name:               "web",
				UID:                "uid-of-web",
				Controller:         new(true),
				BlockOwnerDeletion: new(true),
			}},
		},
		Spec: spec,
	})
}

func TestNewPodSharesNothingWithTheTemplate(t *testing.T) {
	original := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      map[string]string{"tier": "front"},
			Annotations: map[string]string{"example.com/team": "blue"},
			Finalizers:  []string{"example.com/finalizer"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Env: []corev1.EnvVar{{Name: "A"}}}}},
	}
	untouched := original.DeepCopy()

	pod := NewPod(podSet(1, template(original)), "web-podb2c4d")
	mustEqual(t, original, untouched)

	pod.Labels["tier"] = "changed"
	pod.Annotations["example.com/team"] = "changed"
	pod.Finalizers[0] = "changed"
	pod.Spec.Containers[0].Env[0].Name = "changed"
	mustEqual(t, original, untouched)
}

func TestDefaultPod(t *testing.T) {
	pod := NewPod(podSet(1), "web-podb2c4d")

	mustEqual(t, pod.Labels, map[string]string{
		"app": "web", "app.example.com/podset": "web", "app.example.com/template-hash": "s6vf8jvv2p",
	})
	mustEqual(t, pod.Spec.ShareProcessNamespace, new(true))
	mustEqual(t, pod.Spec.TerminationGracePeriodSeconds, new(int64(1)))
	mustEqual(t, pod.Spec.AutomountServiceAccountToken, new(false))
	mustEqual(t, len(pod.Spec.Containers), 1)
	container := pod.Spec.Containers[0]
	mustEqual(t, container.Name, "busybox")
	mustEqual(t, container.Image, "busybox:1.37")
	mustEqual(t, container.Command, []string{"sleep", "3600"})
}

func TestDefaultPodMeetsTheRestrictedPodSecurityStandard(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	restricted := psaapi.LevelVersion{Level: psaapi.LevelRestricted, Version: psaapi.LatestVersion()}
	pod := NewPod(podSet(1), "web-podb2c4d")

	results := evaluator.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec)
	if len(results) == 0 {
		t.Fatal("nothing was checked")
	}
	if result := policy.AggregateCheckResults(results); !result.Allowed {
		t.Errorf("refused: %s", result.ForbiddenDetail())
	}
}

func TestSelectorMatchesThePodsOfThePodSetOnly(t *testing.T) {
	own := NewPod(podSet(1), "web-podb2c4d")
	others := NewPod(podSet(1, func(p *v1alpha1.PodSet) { p.Name = "web.v1" }), "web.v1-podb2c4d")

	selector, err := labels.Parse(Selector("web"))
	if err != nil {
		t.Fatal(err)
	}
	mustEqual(t, selector.Matches(labels.Set(own.Labels)), true)
	mustEqual(t, selector.Matches(labels.Set(others.Labels)), false)
	mustEqual(t, selector.Matches(labels.Set{v1alpha1.AppLabel: "web"}), false)
}

// A pod that came with the mark would have to go again, and so would the one after it.
func TestNewPodsAreNotMarked(t *testing.T) {
	marked := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		v1alpha1.DeleteMeAnnotation: "now", "example.com/team": "blue",
	}}}
	got := NewPod(podSet(1, template(marked)), "web-podb2c4d")
	mustEqual(t, got.Annotations, map[string]string{"example.com/team": "blue"})
	mustEqual(t, len(marked.Annotations), 2)
}
