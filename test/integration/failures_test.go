package integration

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"example.com/podset-operator/api/v1alpha1"
)

var _ = Describe("When things go wrong", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	warnings := func(ctx SpecContext, podSet *v1alpha1.PodSet) []eventsv1.Event {
		GinkgoHelper()
		var warnings []eventsv1.Event
		for _, event := range eventsOf(ctx, podSet) {
			if event.Type == corev1.EventTypeWarning {
				warnings = append(warnings, event)
			}
		}
		return warnings
	}
	// refused waits for the condition and shows that the refusal is told once and not tried again at once.
	refused := func(ctx SpecContext, podSet *v1alpha1.PodSet, reason, says string) {
		GinkgoHelper()
		start := time.Now().Add(-time.Minute)
		Eventually(func() *metav1.Condition { return condition(ctx, podSet, v1alpha1.ConditionReady) }).Should(And(
			HaveField("Status", metav1.ConditionFalse), HaveField("Reason", reason), HaveField("Message", ContainSubstring(says)),
		), "the condition should have the server's words")
		Consistently(func() int { return audit.podCreates(podSet.Namespace, start) }, "3s").Should(BeNumerically("<=", 2), "the create should not be repeated at once")
		Eventually(func() []eventsv1.Event { return warnings(ctx, podSet) }).Should(ConsistOf(And(
			HaveField("Reason", reason), HaveField("Note", ContainSubstring(says)), HaveField("Series", BeNil()),
		)), "one event should tell")
		Expect(managerLog.with(`"level":"error"`, podSet.Namespace)).To(BeEmpty())
	}

	It("replaces a pod that failed and keeps it for diagnosis", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 2)
		names := settle(ctx, podSet, 2)
		fail(ctx, namespace, names[0], "Evicted")
		Eventually(func() []string { return activePods(ctx, podSet) }, 5*time.Second).Should(And(HaveLen(2), ContainElement(names[1])), "a replacement should come")
		settle(ctx, podSet, 2)
		Consistently(func() []string { return namesOf(podsIn(ctx, namespace)) }).Should(And(HaveLen(3), ContainElement(names[0])), "the failed pod should stay")
	})

	It("keeps only the newest failed pods", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 3)
		names := settle(ctx, podSet, 3)
		for _, name := range names {
			fail(ctx, namespace, name, "Evicted")
		}
		Eventually(func(g Gomega) {
			g.Expect(activePods(ctx, podSet)).To(HaveLen(3))
			g.Expect(podsIn(ctx, namespace)).To(HaveLen(4))
		}).Should(Succeed(), "one failed pod should stay")
		change(ctx, podSet, func(spec *v1alpha1.PodSetSpec) { spec.FailedPodsHistoryLimit = ptr.To[int32](0) })
		Eventually(func() int { return len(podsIn(ctx, namespace)) }).Should(Equal(3), "no failed pod should stay")
	})

	It("slows down when pods fail as soon as they are created, and recovers", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 3)
		start := time.Now()
		messages := map[string]bool{}
		for time.Since(start) < time.Minute {
			for _, name := range activePods(ctx, podSet) {
				fail(ctx, namespace, name, "OutOfcpu")
			}
			if ready := condition(ctx, podSet, v1alpha1.ConditionReady); ready != nil && ready.Reason == v1alpha1.ReasonPodsFailing {
				messages[ready.Message] = true
			}
			time.Sleep(20 * time.Millisecond) //nolint:forbidigo // the pace of the kubelet that is played here
		}
		Expect(audit.podCreates(namespace, start)).To(And(BeNumerically(">=", 4), BeNumerically("<", 30)))
		Expect(len(messages)).To(BeNumerically(">=", 3), "the condition should show growing delays: %v", messages)

		By("letting pods live again")
		Eventually(func() []string {
			names := activePods(ctx, podSet)
			for _, name := range names {
				run(ctx, namespace, name)
			}
			return names
		}, 70*time.Second).Should(HaveLen(3), "all pods should come back")
		settleReady(ctx, podSet, 3)
	}, NodeTimeout(3*time.Minute))

	It("stalls on a template that the API server refuses, and recovers when it is fixed", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 1, withTemplate(func(t *corev1.PodTemplateSpec) {
			t.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "nowhere", MountPath: "/data"}}
		}))
		refused(ctx, podSet, v1alpha1.ReasonInvalidTemplate, "nowhere")
		Expect(condition(ctx, podSet, v1alpha1.ConditionStalled)).To(HaveField("Status", metav1.ConditionTrue))
		Expect(condition(ctx, podSet, v1alpha1.ConditionReconciling)).To(BeNil())

		change(ctx, podSet, func(spec *v1alpha1.PodSetSpec) { spec.Template = oneContainer() })
		settleReady(ctx, podSet, 1)
		Expect(condition(ctx, podSet, v1alpha1.ConditionStalled)).To(BeNil())
	})

	It("reports a denial by Pod Security, and recovers when the spec complies", func(ctx SpecContext) {
		restricted := newNamespace(ctx, "pod-security.kubernetes.io/enforce", "restricted")
		podSet := newPodSet(ctx, restricted, "web", 1, withTemplate(func(t *corev1.PodTemplateSpec) { t.Spec.HostNetwork = true }))
		refused(ctx, podSet, v1alpha1.ReasonForbidden, `violates PodSecurity "restricted`)
		Expect(condition(ctx, podSet, v1alpha1.ConditionReconciling)).To(HaveField("Status", metav1.ConditionTrue))
		change(ctx, podSet, func(spec *v1alpha1.PodSetSpec) { spec.Template = nil })
		settleReady(ctx, podSet, 1)
	})

	It("runs its default pod under the restricted Pod Security level", func(ctx SpecContext) {
		restricted := newNamespace(ctx, "pod-security.kubernetes.io/enforce", "restricted")
		settleReady(ctx, newPodSet(ctx, restricted, "web", 1), 1)
	})

	It("reports a denial by an admission policy", func(ctx SpecContext) {
		only := map[string]string{"kubernetes.io/metadata.name": namespace}
		policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "no-pods-" + namespace},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				MatchConstraints: &admissionregistrationv1.MatchResources{
					NamespaceSelector: &metav1.LabelSelector{MatchLabels: only},
					ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
						Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
						Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
					}}},
				},
				Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: "no pods on Sundays"}},
			},
		}
		binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: policy.Name},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName:        policy.Name,
				ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			},
		}
		Expect(c.Create(ctx, policy)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(c.Delete(ctx, policy)).To(Succeed()) })
		Expect(c.Create(ctx, binding)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(c.Delete(ctx, binding)).To(Succeed()) })
		Eventually(func() error {
			return c.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "probe-"}, Spec: oneContainer().Spec})
		}).Should(MatchError(ContainSubstring("no pods on Sundays")), "the policy should be in force")
		podSet := newPodSet(ctx, namespace, "web", 1)
		refused(ctx, podSet, v1alpha1.ReasonForbidden, "no pods on Sundays")
	})

	It("does not let broken PodSets, more than are reconciled at a time, hold up another", func(ctx SpecContext) {
		bad := withTemplate(func(t *corev1.PodTemplateSpec) { t.Spec.PriorityClassName = "missing" })
		var broken []*v1alpha1.PodSet
		for n := range 3 * workers {
			broken = append(broken, newPodSet(ctx, namespace, fmt.Sprint("broken-", n), 5, bad))
		}
		good := newPodSet(ctx, namespace, "good", 1)
		Eventually(func() []string { return activePods(ctx, good) }, "5s").Should(HaveLen(1), "its pod should not wait for the others")
		for _, podSet := range broken {
			Eventually(func() *metav1.Condition { return condition(ctx, podSet, v1alpha1.ConditionReady) }).
				Should(HaveField("Reason", v1alpha1.ReasonForbidden), "the others should be broken")
		}
		scale(ctx, good, 2)
		Eventually(func() []string { return activePods(ctx, good) }, "5s").Should(HaveLen(2), "nor should it wait later")
	})

	It("stays calm when the namespace is going", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 3)
		names := settle(ctx, podSet, 3)
		Expect(c.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
		start := time.Now()
		for _, name := range names {
			deletePod(ctx, namespace, name)
		}
		Eventually(func() *metav1.Condition { return condition(ctx, podSet, v1alpha1.ConditionReady) }).
			Should(HaveField("Reason", v1alpha1.ReasonNamespaceTerminating), "the condition should tell")
		Consistently(func() int { return audit.podCreates(namespace, start) }, "3s").Should(BeNumerically("<=", 3), "there should be few tries")
		Expect(warnings(ctx, podSet)).To(BeEmpty())
		Expect(managerLog.with(`"level":"error"`, namespace)).To(BeEmpty())
	})
})
