package e2e

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/podset-operator/api/v1alpha1"
)

var _ = Describe("A new template", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	It("is rolled out, and back, with never a running pod less", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 3, running("sleep 3600"))
		settle(ctx, podSet, 3)
		before := podSet.Status.CurrentRevision
		seen := observe(ctx, podSet)

		change(ctx, podSet, "command", `["sleep","7200"]`)
		kubectl(ctx, "wait", "podset/web", "-n", namespace, "--for=condition=Ready", "--timeout=90s")
		settle(ctx, podSet, 3)
		Expect(podSet.Status.UpdatedReplicas).To(BeEquivalentTo(3))
		Expect(podSet.Status.CurrentRevision).To(And(Equal(podSet.Status.UpdateRevision), Not(Equal(before))))
		for _, pod := range podsIn(ctx, namespace) {
			if isActive(&pod) {
				Expect(pod.Spec.Containers[0].Command).To(Equal([]string{"sleep", "7200"}))
			}
		}

		change(ctx, podSet, "command", `["sh","-c","sleep 3600"]`)
		kubectl(ctx, "wait", "podset/web", "-n", namespace, "--for=condition=Ready", "--timeout=90s")
		settle(ctx, podSet, 3)
		Expect(podSet.Status.CurrentRevision).To(Equal(before), "the same template should have the same revision")
		seen.catchesUp(3)
		Expect(seen.mostEver()).To(BeNumerically("<=", 4))
		Expect(seen.leastReady()).To(BeNumerically(">=", 3))
	}, NodeTimeout(6*patience))

	It("whose image cannot be pulled costs no running pod, is told, and can be taken back", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 2, running("sleep 3600"), func(spec *v1alpha1.PodSetSpec) {
			spec.ProgressDeadlineSeconds = new(int32(5))
		})
		settle(ctx, podSet, 2)
		old := incarnations(ctx, podSet)
		image := podSet.Spec.Template.Spec.Containers[0].Image

		change(ctx, podSet, "image", `"registry.invalid/no/such/image:1"`)
		Eventually(func(g Gomega) {
			g.Expect(c.Get(ctx, client.ObjectKeyFromObject(podSet), podSet)).To(Succeed())
			stalled := meta.FindStatusCondition(podSet.Status.Conditions, v1alpha1.ConditionStalled)
			g.Expect(stalled).NotTo(BeNil())
			g.Expect(stalled.Reason).To(BeElementOf("ErrImagePull", "ImagePullBackOff"))
		}).Should(Succeed(), "the reason of the container should be told")
		Expect(ready(podSet).Status).To(Equal(metav1.ConditionTrue), "the old pods serve")
		Expect(podSet.Status.AvailableReplicas).To(BeEquivalentTo(2))

		change(ctx, podSet, "image", fmt.Sprintf("%q", image))
		settle(ctx, podSet, 2)
		Expect(incarnations(ctx, podSet)).To(Equal(old), "the old pods should have gone on running")
	}, NodeTimeout(6*patience))
})

// change replaces a field of the container of the PodSet's template.
func change(ctx SpecContext, podSet *v1alpha1.PodSet, field, value string) {
	GinkgoHelper()
	kubectl(ctx, "patch", "podset", podSet.Name, "-n", podSet.Namespace, "--type=json", "-p",
		fmt.Sprintf(`[{"op":"add","path":"/spec/template/spec/containers/0/%s","value":%s}]`, field, value))
}
