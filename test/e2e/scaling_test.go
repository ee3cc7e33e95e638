package e2e

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/podset-operator/api/v1alpha1"
)

var _ = Describe("A PodSet", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	It("is scaled by kubectl, up and down, also to nothing and back", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 1)
		names := settle(ctx, podSet, 1)
		kubectl(ctx, "scale", "podset/web", "-n", namespace, "--replicas=5", "--current-replicas=1")
		Expect(settle(ctx, podSet, 5)).To(ContainElements(names))
		kubectl(ctx, "scale", "podset/web", "-n", namespace, "--replicas=0")
		settle(ctx, podSet, 0)
		Eventually(func() []corev1.Pod { return podsIn(ctx, namespace) }).Should(BeEmpty())
		kubectl(ctx, "scale", "podset/web", "-n", namespace, "--replicas=2")
		settle(ctx, podSet, 2)
	})

	It("is scaled by a HorizontalPodAutoscaler", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 1)
		settle(ctx, podSet, 1)
		autoscaler := &autoscalingv2.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PodSet", Name: "web"},
				MinReplicas:    new(int32(3)),
				MaxReplicas:    5,
				Metrics: []autoscalingv2.MetricSpec{{
					Type: autoscalingv2.ResourceMetricSourceType,
					Resource: &autoscalingv2.ResourceMetricSource{
						Name:   corev1.ResourceCPU,
						Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(80))},
					},
				}},
			},
		}
		Expect(c.Create(ctx, autoscaler)).To(Succeed())
		// Also where nobody collects metrics, it reads /scale and keeps to its bounds.
		settle(ctx, podSet, 3, 2*patience)
		Expect(c.Get(ctx, client.ObjectKeyFromObject(autoscaler), autoscaler)).To(Succeed())
		Expect(autoscaler.Status.Conditions).To(ContainElement(And(
			HaveField("Type", autoscalingv2.AbleToScale), HaveField("Status", corev1.ConditionTrue))))
	})

	It("is protected by a PodDisruptionBudget", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 3)
		names := settle(ctx, podSet, 3)
		budget := &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
			Spec: policyv1.PodDisruptionBudgetSpec{
				// A percentage is of spec.replicas, which the disruption controller reads from /scale.
				MaxUnavailable: new(intstr.FromString("30%")),
				Selector:       &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.PodSetLabel: "web"}},
			},
		}
		Expect(c.Create(ctx, budget)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(c.Get(ctx, client.ObjectKeyFromObject(budget), budget)).To(Succeed())
			g.Expect(budget.Status).To(And(HaveField("ExpectedPods", BeEquivalentTo(3)), HaveField("DisruptionsAllowed", BeEquivalentTo(1))))
		}).Should(Succeed(), "the budget should know the PodSet's size")
		kubectl(ctx, "patch", "pdb", "web", "-n", namespace, "--type=merge", `-p={"spec":{"maxUnavailable":0}}`)
		Eventually(func() error {
			return c.SubResource("eviction").Create(ctx, getPod(ctx, namespace, names[0]), &policyv1.Eviction{})
		}).
			Should(MatchError(apierrors.IsTooManyRequests, "IsTooManyRequests"), "an eviction should be refused")
		kubectl(ctx, "patch", "pdb", "web", "-n", namespace, "--type=merge", `-p={"spec":{"maxUnavailable":1}}`)
		settle(ctx, podSet, 3)
		survivors := activePods(ctx, podSet)
		Eventually(func() error {
			return c.SubResource("eviction").Create(ctx, getPod(ctx, namespace, survivors[0]), &policyv1.Eviction{})
		}).Should(Succeed(), "one eviction should be allowed")
		Expect(settle(ctx, podSet, 3)).To(ContainElements(survivors[1:]))
	})

	It("stops at a quota, says so, and goes on when it is raised", func(ctx SpecContext) {
		quota := &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "few"},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("2")}},
		}
		Expect(c.Create(ctx, quota)).To(Succeed())
		Eventually(func() corev1.ResourceList {
			Expect(c.Get(ctx, client.ObjectKeyFromObject(quota), quota)).To(Succeed())
			return quota.Status.Used
		}).ShouldNot(BeEmpty(), "the quota should be in force")
		podSet := newPodSet(ctx, namespace, "web", 4)
		settleWith(ctx, podSet, 2, v1alpha1.ReasonQuotaExceeded)
		Expect(ready(podSet).Message).To(ContainSubstring("exceeded quota: few"))
		kubectl(ctx, "patch", "resourcequota", "few", "-n", namespace, "--type=merge", `-p={"spec":{"hard":{"pods":"10"}}}`)
		settle(ctx, podSet, 4, 60*time.Second+patience)
	})

	It("says so when its pods are not as strict as its namespace, and goes on when they may be", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 2, func(spec *v1alpha1.PodSetSpec) {
			running("sleep 3600")(spec)
			spec.Template.Spec.SecurityContext, spec.Template.Spec.Containers[0].SecurityContext = nil, nil
		})
		settleWith(ctx, podSet, 0, v1alpha1.ReasonForbidden)
		Expect(ready(podSet).Message).To(ContainSubstring(`violates PodSecurity "restricted`))
		kubectl(ctx, "label", "namespace", namespace, "pod-security.kubernetes.io/enforce=privileged", "--overwrite")
		settle(ctx, podSet, 2, 60*time.Second+patience)
	})

	It("runs the samples", func(ctx SpecContext) {
		kubectl(ctx, "apply", "-n", namespace, "-f", "config/samples/app_v1alpha1_podset.yaml", "-f", "config/samples/app_v1alpha1_podset_exclusive.yaml")
		settle(ctx, &v1alpha1.PodSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "example-podset"}}, 3)
		settle(ctx, &v1alpha1.PodSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "exclusive"}}, 2)
		kubectl(ctx, "apply", "-n", namespace, "-k", "config/samples", "--dry-run=server")
	})
})
