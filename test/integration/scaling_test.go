package integration

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/podset-operator/api/v1alpha1"
)

var _ = Describe("Scaling", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	It("keeps the wanted number of pods, owned and named after the PodSet", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "example-podset", 3)
		for _, name := range settle(ctx, podSet, 3) {
			Expect(name).To(MatchRegexp(`^example-podset-pod[bcdfghjklmnpqrstvwxz2456789]{5}$`))
			pod := podsIn(ctx, namespace)[name]
			Expect(pod.Labels).To(Equal(map[string]string{
				"app": "example-podset", v1alpha1.PodSetLabel: "example-podset", v1alpha1.TemplateHashLabel: get(ctx, podSet).Status.UpdateRevision,
			}))
			Expect(pod.OwnerReferences).To(ConsistOf(*metav1.NewControllerRef(podSet, v1alpha1.PodSetKind)))
		}
		Consistently(func() []string { return activePods(ctx, podSet) }).Should(HaveLen(3), "nothing more should come")
	})

	It("replaces a deleted pod at once", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 3)
		names := settle(ctx, podSet, 3)
		deletePod(ctx, namespace, names[1])
		Eventually(func() []string { return activePods(ctx, podSet) }).
			Should(And(HaveLen(3), ContainElements(names[0], names[2])), "the other pods should stay")
		settle(ctx, podSet, 3)
	})

	It("scales down to what is wanted, and to nothing", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 4)
		settle(ctx, podSet, 4)
		scale(ctx, podSet, 2)
		settle(ctx, podSet, 2)
		scale(ctx, podSet, 0)
		settle(ctx, podSet, 0)
		Expect(get(ctx, podSet).Status.PodNames).To(BeEmpty())
	})

	It("deletes the pod marked delete-me first, then the cheapest", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 4)
		names := settleReady(ctx, podSet, 4)
		annotate(ctx, namespace, names[0], corev1.PodDeletionCost, "100")
		annotate(ctx, namespace, names[1], corev1.PodDeletionCost, "-5")
		annotate(ctx, namespace, names[2], corev1.PodDeletionCost, "100")
		annotate(ctx, namespace, names[3], corev1.PodDeletionCost, "1000")
		annotate(ctx, namespace, names[3], v1alpha1.DeleteMeAnnotation, "true")
		scale(ctx, podSet, 3)
		Expect(settle(ctx, podSet, 3)).NotTo(ContainElement(names[3]))
		scale(ctx, podSet, 2)
		Expect(settle(ctx, podSet, 2)).To(ConsistOf(names[0], names[2]))
	})

	It("deletes a pod that is not ready before one that is", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 3)
		names := settle(ctx, podSet, 3)
		run(ctx, namespace, names[0])
		run(ctx, namespace, names[2])
		Eventually(func() int32 { return get(ctx, podSet).Status.ReadyReplicas }).Should(BeEquivalentTo(2), "the status should count ready pods")
		scale(ctx, podSet, 2)
		Expect(settle(ctx, podSet, 2)).To(ConsistOf(names[0], names[2]))
	})

	It("writes at most one pod and one status in a reconcile", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 12)
		settleReady(ctx, podSet, 12)
		scale(ctx, podSet, 4)
		settle(ctx, podSet, 4)

		podWrites, statusWrites := map[string]int{}, map[string]int{}
		total := 0
		for _, w := range audit.byManager(namespace) {
			switch {
			case w.ObjectRef.Resource == "pods":
				podWrites[w.UserAgent]++
				total++
			case w.ObjectRef.Subresource == "status":
				statusWrites[w.UserAgent]++
			default:
				Expect(w.ObjectRef.Resource).To(Equal("events"), "nothing else should be written")
			}
		}
		Expect(total).To(Equal(12+8), "one create per pod and one delete per pod should do")
		Expect(podWrites).To(HaveEach(1))
		Expect(statusWrites).To(HaveEach(1))
	})

	It("is quiet once settled", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 3)
		settleReady(ctx, podSet, 3)
		settled := get(ctx, podSet).ResourceVersion
		writes := len(audit.byManager(namespace))
		Consistently(func() string { return get(ctx, podSet).ResourceVersion }, "3s").Should(Equal(settled), "the PodSet should not be written again")
		Expect(audit.byManager(namespace)).To(HaveLen(writes))
	})

	It("settles many pods in one PodSet", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "big", 200)
		Eventually(func() []string { return activePods(ctx, podSet) }, "60s", "200ms").Should(HaveLen(200), "all pods should come")
		settle(ctx, podSet, 200)
		scale(ctx, podSet, 0)
		Eventually(func() []string { return activePods(ctx, podSet) }, "60s", "200ms").Should(BeEmpty(), "all pods should go")
	})

	It("settles many PodSets, each with its own pods", func(ctx SpecContext) {
		var podSets []*v1alpha1.PodSet
		for i := range 40 {
			podSets = append(podSets, newPodSet(ctx, namespace, fmt.Sprintf("set-%d", i), 5))
		}
		for _, podSet := range podSets {
			settle(ctx, podSet, 5)
		}
		Expect(podsIn(ctx, namespace)).To(HaveLen(200))
	})

	When("a terminating pod is replaced only when it is gone", func() {
		It("does not count the pod and waits for its end", func(ctx SpecContext) {
			podSet := newPodSet(ctx, namespace, "web", 2, func(spec *v1alpha1.PodSetSpec) {
				spec.PodReplacementPolicy = v1alpha1.TerminationComplete
			})
			names := settle(ctx, podSet, 2)
			bind(ctx, namespace, "node", names...)
			deletePod(ctx, namespace, names[0])

			Eventually(func(g Gomega) {
				status := get(ctx, podSet).Status
				g.Expect(status.TerminatingReplicas).To(BeEquivalentTo(1))
				g.Expect(status.PodNames).To(Equal(names[1:]))
			}).Should(Succeed(), "the status should show the terminating pod")
			Expect(condition(ctx, podSet, v1alpha1.ConditionReady)).To(HaveField("Reason", v1alpha1.ReasonPodsTerminating))
			Consistently(func() int { return len(podsIn(ctx, namespace)) }).Should(Equal(2), "no replacement should come yet")

			remove(ctx, namespace, names[0])
			settle(ctx, podSet, 2)
		})
	})

	When("a terminating pod is replaced at once", func() {
		It("takes another name, and leaves the terminating pod alone", func(ctx SpecContext) {
			podSet := newPodSet(ctx, namespace, "web", 2)
			names := settle(ctx, podSet, 2)
			bind(ctx, namespace, "node", names...)
			deletePod(ctx, namespace, names[0])
			settle(ctx, podSet, 2)
			Expect(podsIn(ctx, namespace)).To(HaveLen(3))
			Expect(get(ctx, podSet).Status.TerminatingReplicas).To(BeEquivalentTo(1))

			scale(ctx, podSet, 1)
			Expect(settle(ctx, podSet, 1)).NotTo(ContainElement(names[0]))
		})
	})

	It("counts a pod as available only after minReadySeconds", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 1, func(spec *v1alpha1.PodSetSpec) { spec.MinReadySeconds = 3 })
		names := settle(ctx, podSet, 1)
		run(ctx, namespace, names[0])
		ready := time.Now()
		Eventually(func() int32 { return get(ctx, podSet).Status.ReadyReplicas }).Should(BeEquivalentTo(1), "the pod should be ready")
		Expect(get(ctx, podSet).Status.AvailableReplicas).To(BeZero())
		Eventually(func() int32 { return get(ctx, podSet).Status.AvailableReplicas }).Should(BeEquivalentTo(1), "the pod should become available")
		Expect(time.Since(ready)).To(BeNumerically(">", 2*time.Second))
		Expect(condition(ctx, podSet, v1alpha1.ConditionReady)).To(HaveField("Status", metav1.ConditionTrue))
	})
})
