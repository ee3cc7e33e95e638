package integration

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/podset-operator/api/v1alpha1"
)

var _ = Describe("The status", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	// kstatusOf is how Flux, Helm and kubectl-style tools read the PodSet.
	kstatusOf := func(ctx SpecContext, podSet *v1alpha1.PodSet) status.Status {
		GinkgoHelper()
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(v1alpha1.PodSetKind)
		Expect(c.Get(ctx, client.ObjectKeyFromObject(podSet), object)).To(Succeed())
		result, err := status.Compute(object)
		Expect(err).NotTo(HaveOccurred())
		return result.Status
	}

	It("is read by kstatus as in progress, current, in progress, current, terminating", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 2)
		Expect(kstatusOf(ctx, podSet)).To(Equal(status.InProgressStatus))
		settle(ctx, podSet, 2)
		Expect(kstatusOf(ctx, podSet)).To(Equal(status.InProgressStatus), "the pods are not ready yet")
		names := settleReady(ctx, podSet, 2)
		Expect(kstatusOf(ctx, podSet)).To(Equal(status.CurrentStatus))

		scale(ctx, podSet, 3)
		Expect(kstatusOf(ctx, podSet)).To(Equal(status.InProgressStatus))
		settleReady(ctx, podSet, 3)
		Expect(kstatusOf(ctx, podSet)).To(Equal(status.CurrentStatus))

		deletePod(ctx, namespace, names[0])
		Eventually(func() status.Status { return kstatusOf(ctx, podSet) }).Should(Equal(status.InProgressStatus), "a pod is missing")
		settleReady(ctx, podSet, 3)

		Expect(c.Delete(ctx, podSet, client.PropagationPolicy(metav1.DeletePropagationForeground))).To(Succeed())
		Expect(kstatusOf(ctx, podSet)).To(Equal(status.TerminatingStatus))
	})

	It("is read by kstatus as failed when nothing moves until the PodSet is changed", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 1, withTemplate(func(t *corev1.PodTemplateSpec) {
			t.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "nowhere", MountPath: "/data"}}
		}))
		Eventually(func() status.Status { return kstatusOf(ctx, podSet) }).Should(Equal(status.FailedStatus), "kstatus should see the stall")
	})

	It("lets kubectl wait return only for the generation asked for", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 1)
		settleReady(ctx, podSet, 1)
		kubectl("", "wait", "podset/web", "-n", namespace, "--for=condition=Ready", "--timeout=10s")

		kubectl("", "scale", "podset/web", "-n", namespace, "--replicas=2")
		kubectlFails("", "wait", "podset/web", "-n", namespace, "--for=condition=Ready", "--timeout=2s")
		settleReady(ctx, podSet, 2)
		kubectl("", "wait", "podset/web", "-n", namespace, "--for=condition=Ready", "--timeout=10s")
	})

	It("moves from scaling up over waiting to ready, with one condition of each type", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 2)
		settle(ctx, podSet, 2)
		Eventually(func() *metav1.Condition { return condition(ctx, podSet, v1alpha1.ConditionReady) }).Should(And(
			HaveField("Status", metav1.ConditionFalse),
			HaveField("Reason", v1alpha1.ReasonPodsNotAvailable),
			HaveField("Message", "0 of 2 pods are available"),
			HaveField("ObservedGeneration", podSet.Generation),
		), "the pods should be waited for")
		Expect(condition(ctx, podSet, v1alpha1.ConditionReconciling)).To(HaveField("Status", metav1.ConditionTrue))
		settleReady(ctx, podSet, 2)
		Expect(get(ctx, podSet).Status.Conditions).To(HaveLen(1))
	})

	It("keeps the time of the last transition when only a count changes", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 2)
		names := settle(ctx, podSet, 2)
		Eventually(func() *metav1.Condition { return condition(ctx, podSet, v1alpha1.ConditionReady) }).ShouldNot(BeNil(), "a condition should be there")
		before := condition(ctx, podSet, v1alpha1.ConditionReady).LastTransitionTime
		time.Sleep(1100 * time.Millisecond) //nolint:forbidigo // times have a resolution of a second
		run(ctx, namespace, names[0])
		Eventually(func() int32 { return get(ctx, podSet).Status.ReadyReplicas }).Should(BeEquivalentTo(1), "the ready pod should be counted")
		Expect(condition(ctx, podSet, v1alpha1.ConditionReady).LastTransitionTime).To(Equal(before))
	})
})

var _ = Describe("kubectl", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	const three = "{apiVersion: app.example.com/v1alpha1, kind: PodSet, metadata: {name: web}, spec: {replicas: 3}}"

	It("applies, scales and applies again, with one change of size each", func(ctx SpecContext) {
		podSet := &v1alpha1.PodSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
		kubectl(three, "apply", "-n", namespace, "-f", "-")
		settle(ctx, get(ctx, podSet), 3)
		kubectl("", "scale", "podset/web", "-n", namespace, "--replicas=5")
		settle(ctx, get(ctx, podSet), 5)
		kubectl(three, "apply", "-n", namespace, "-f", "-")
		settle(ctx, get(ctx, podSet), 3)
		Expect(podSet.Generation).To(BeEquivalentTo(3))
		creates, deletes := 0, 0
		for _, w := range audit.byManager(namespace) {
			if w.ObjectRef.Resource == "pods" {
				switch w.Verb {
				case "create":
					creates++
				case "delete":
					deletes++
				}
			}
		}
		Expect([]int{creates, deletes}).To(Equal([]int{5, 2}), "there should be no flapping")
	})

	It("tells of a conflict when two managers apply the number of replicas server-side", func(ctx SpecContext) {
		kubectl(three, "apply", "-n", namespace, "-f", "-", "--server-side", "--field-manager=one")
		five := "{apiVersion: app.example.com/v1alpha1, kind: PodSet, metadata: {name: web}, spec: {replicas: 5}}"
		Expect(kubectlFails(five, "apply", "-n", namespace, "-f", "-", "--server-side", "--field-manager=two")).
			To(And(ContainSubstring("conflict"), ContainSubstring(".spec.replicas")))
		podSet := &v1alpha1.PodSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
		settle(ctx, get(ctx, podSet), 3)
	})

	It("describes a PodSet with the names of its pods and what happened, oldest first", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 3)
		names := settle(ctx, podSet, 3)
		scale(ctx, podSet, 2)
		left := settle(ctx, podSet, 2)
		Eventually(func() int { return len(eventsOf(ctx, podSet)) }).Should(Equal(4), "each change should have its event")
		text := kubectl("", "describe", "podset", "web", "-n", namespace)
		Expect(text).To(ContainSubstring("Pod Names:"))
		for _, name := range left {
			Expect(text).To(MatchRegexp(`Pod Names:[^:]*` + name))
		}
		for _, name := range names {
			Expect(text).To(ContainSubstring("created pod " + name + " (pod missing)"))
		}
		Expect(text).To(MatchRegexp(`(?s)PodCreated.*PodCreated.*PodCreated.*PodDeleted.*deleted pod .* \(scale down\)`))
	})

	It("shows a bounded number of events, however many pods change", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 40)
		settle(ctx, podSet, 40)
		scale(ctx, podSet, 0)
		settle(ctx, podSet, 0)
		Consistently(func() int { return len(eventsOf(ctx, podSet)) }).Should(BeNumerically("<=", 13), "most changes should be counted in one event")
		Expect(eventsOf(ctx, podSet)).To(ContainElement(HaveField("Series", HaveField("Count", BeNumerically(">", 1)))))
	})
})
