package cluster

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/podset-operator/api/v1alpha1"
)

var _ = Describe("A PodSet", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	It("gets its pods running and becomes ready", func(ctx SpecContext) {
		names := settle(ctx, newPodSet(ctx, namespace, "web", 3), 3)
		Expect(kubectl(ctx, "get", "pods", "-n", namespace, "-l", "app=web")).To(And(
			ContainSubstring(names[0]), WithTransform(func(s string) int { return strings.Count(s, "Running") }, Equal(3))))
	})

	It("takes its pods with it when it is deleted", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 4)
		settle(ctx, podSet, 4)
		kubectl(ctx, "delete", "podset", "web", "-n", namespace)
		Eventually(func() []corev1.Pod { return podsIn(ctx, namespace) }).Should(BeEmpty(), "the garbage collector should remove the pods")
	})

	It("goes after its pods when it is deleted in the foreground", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 4)
		settle(ctx, podSet, 4)
		kubectl(ctx, "delete", "podset", "web", "-n", namespace, "--cascade=foreground", "--timeout=30s")
		Expect(podsIn(ctx, namespace)).To(BeEmpty())
	})

	It("leaves its pods behind on request, and a new one of the name adopts them", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 3)
		names := settle(ctx, podSet, 3)
		kubectl(ctx, "delete", "podset", "web", "-n", namespace, "--cascade=orphan")
		Eventually(func() []metav1.OwnerReference { return podsIn(ctx, namespace)[0].OwnerReferences }).Should(BeEmpty(), "the pods should be orphans")
		Expect(podsIn(ctx, namespace)).To(HaveLen(3))
		Expect(settle(ctx, newPodSet(ctx, namespace, "web", 3), 3)).To(Equal(names))
	})

	It("can be deleted while the operator is down", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 2)
		settle(ctx, podSet, 2)
		running.Stop()
		DeferCleanup(startManager)
		kubectl(ctx, "delete", "podset", "web", "-n", namespace, "--cascade=foreground", "--timeout=30s")
		Expect(podsIn(ctx, namespace)).To(BeEmpty())
	})

	It("goes with its namespace, without a fuss", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 5)
		settle(ctx, podSet, 5)
		start := time.Now()
		logged := len(managerLog.Contents())
		Expect(c.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
		Eventually(func() bool {
			return apierrors.IsNotFound(c.Get(ctx, client.ObjectKey{Name: namespace}, &corev1.Namespace{}))
		}, time.Minute).Should(BeTrue(), "the namespace should go")
		Expect(podCreates(namespace, start)).To(BeNumerically("<=", 3))
		Expect(string(managerLog.Contents()[logged:])).NotTo(ContainSubstring(`"level":"error"`))
	})

	It("replaces an evicted pod", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 3)
		names := settle(ctx, podSet, 3)
		evicted := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: names[0]}}
		Expect(c.SubResource("eviction").Create(ctx, evicted, &policyv1.Eviction{})).To(Succeed())
		Expect(settle(ctx, podSet, 3)).To(ContainElements(names[1], names[2]))
	})

	It("stops at a quota, and goes on within a minute when it is raised", func(ctx SpecContext) {
		quota := &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "few"},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("3")}},
		}
		Expect(c.Create(ctx, quota)).To(Succeed())
		Eventually(func() corev1.ResourceList {
			Expect(c.Get(ctx, client.ObjectKeyFromObject(quota), quota)).To(Succeed())
			return quota.Status.Used
		}).ShouldNot(BeEmpty(), "the quota should be in force")

		podSet := newPodSet(ctx, namespace, "web", 50)
		start := time.Now()
		Eventually(func() metav1.Condition {
			Expect(c.Get(ctx, client.ObjectKeyFromObject(podSet), podSet)).To(Succeed())
			return ready(podSet)
		}).Should(And(
			HaveField("Status", metav1.ConditionFalse),
			HaveField("Reason", v1alpha1.ReasonQuotaExceeded),
			HaveField("Message", ContainSubstring("exceeded quota: few")),
		), "the condition should have the server's words")
		Consistently(func() int { return len(activePods(ctx, podSet)) }, time.Until(start.Add(time.Minute))).Should(BeNumerically("<=", 3), "no more pods than the quota allows")
		Expect(activePods(ctx, podSet)).To(HaveLen(3))
		Expect(podCreates(namespace, start)).To(BeNumerically("<", 20))

		kubectl(ctx, "patch", "resourcequota", "few", "-n", namespace, "--type=merge", `-p={"spec":{"hard":{"pods":"60"}}}`)
		settle(ctx, podSet, 50, time.Minute)
	})

	It("can be scaled by a HorizontalPodAutoscaler", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 1)
		settle(ctx, podSet, 1)
		autoscaler := &autoscalingv2.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PodSet", Name: "web"},
				MinReplicas:    ptr.To[int32](3),
				MaxReplicas:    5,
				Metrics: []autoscalingv2.MetricSpec{{
					Type: autoscalingv2.ResourceMetricSourceType,
					Resource: &autoscalingv2.ResourceMetricSource{
						Name:   corev1.ResourceCPU,
						Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](80)},
					},
				}},
			},
		}
		Expect(c.Create(ctx, autoscaler)).To(Succeed())
		// Without metrics it still reads /scale and keeps to its bounds.
		settle(ctx, podSet, 3, time.Minute)
		Expect(c.Get(ctx, client.ObjectKeyFromObject(autoscaler), autoscaler)).To(Succeed())
		Expect(autoscaler.Status.Conditions).To(ContainElement(And(
			HaveField("Type", autoscalingv2.AbleToScale), HaveField("Status", corev1.ConditionTrue))))
	})

	It("is brought to its size by a manager that was killed in the middle, with not one pod too many", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 100)
		Eventually(func() int { return len(activePods(ctx, podSet)) }, patience, "10ms").Should(BeNumerically(">", 20))
		running.Signal(syscall.SIGKILL)
		Eventually(running.Done()).Should(BeClosed())
		Expect(len(activePods(ctx, podSet))).To(BeNumerically("<", 100))
		startManager()
		settle(ctx, podSet, 100)
		Consistently(func() int { return len(podsIn(ctx, namespace)) }, "1s").Should(Equal(100))
	})

	It("settles at a thousand pods, and at none", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "big", 1000)
		settle(ctx, podSet, 1000, 5*time.Minute, "1s")
		Expect(podsIn(ctx, namespace)).To(HaveLen(1000), "not one pod too many was ever made")
		Expect(podCreates(namespace, time.Time{})).To(Equal(1000))
		scale(ctx, podSet, 0)
		settle(ctx, podSet, 0, 5*time.Minute, "1s")
	}, NodeTimeout(12*time.Minute))

	It("settles together with two hundred others", func(ctx SpecContext) {
		var podSets []*v1alpha1.PodSet
		for i := range 200 {
			podSets = append(podSets, newPodSet(ctx, namespace, fmt.Sprintf("set-%d", i), 5))
		}
		for _, podSet := range podSets {
			Eventually(func() int32 {
				Expect(c.Get(ctx, client.ObjectKeyFromObject(podSet), podSet)).To(Succeed())
				return podSet.Status.AvailableReplicas
			}, 5*time.Minute).Should(BeEquivalentTo(5), "PodSet %s should have its pods", podSet.Name)
		}
		Expect(podsIn(ctx, namespace)).To(HaveLen(1000))
		Expect(podCreates(namespace, time.Time{})).To(Equal(1000))
	}, NodeTimeout(10*time.Minute))
})
