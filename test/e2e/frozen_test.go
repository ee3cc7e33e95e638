package e2e

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/podset-operator/api/v1alpha1"
	"example.com/podset-operator/test/operator"
)

// Nothing in a container can stop its process 1, so these managers share their processes with the containers that join
// them.
var _ = Describe("A manager that hangs", Serial, func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) {
		waitForOperator(ctx)
		namespace = newNamespace(ctx)
	})

	It("is restarted by its node", func(ctx SpecContext) {
		changeManager(ctx, func(pod *corev1.PodSpec) {
			pod.ShareProcessNamespace = new(true)
			probe := pod.Containers[0].LivenessProbe
			probe.InitialDelaySeconds, probe.PeriodSeconds, probe.FailureThreshold = 1, 2, 2
		})
		hanging, _ := leader(ctx)
		before := restarts(&hanging)
		freeze(ctx, &hanging)
		Eventually(func() bool {
			pod := &corev1.Pod{}
			err := c.Get(ctx, client.ObjectKeyFromObject(&hanging), pod)
			return apierrors.IsNotFound(err) || restarts(pod) > before
		}).Should(BeTrue(), "the container should be restarted")
		settle(ctx, newPodSet(ctx, namespace, "web", 2), 2, 2*patience)
	})

	It("and thaws while another leads does no harm", func(ctx SpecContext) {
		changeManager(ctx, func(pod *corev1.PodSpec) { pod.ShareProcessNamespace = new(true) })
		twoManagers(ctx)
		podSet := newPodSet(ctx, namespace, "web", 0, unscheduled)
		seen := observe(ctx, podSet)
		hanging, _ := leader(ctx)
		scale(ctx, podSet, 300)
		Eventually(seen.now, patience, 5*time.Millisecond).Should(BeNumerically(">", 20))
		freeze(ctx, &hanging)
		settleWith(ctx, podSet, 300, v1alpha1.ReasonPodsNotAvailable)
		seen.catchesUp(300)
		thaw(ctx, &hanging)
		Consistently(seen.now).Should(Equal(300))
		scale(ctx, podSet, 290)
		settleWith(ctx, podSet, 290, v1alpha1.ReasonPodsNotAvailable)
		seen.catchesUp(290)
		Expect(seen.mostEver()).To(Equal(300))
		Expect(seen.creations()).To(Equal(300))
	})
})

// changeManager changes the manager's pods until the end of the spec.
func changeManager(ctx SpecContext, change func(*corev1.PodSpec)) {
	GinkgoHelper()
	deployment := &appsv1.Deployment{}
	set := func(ctx context.Context, change func(*corev1.PodSpec)) {
		GinkgoHelper()
		Eventually(func() error {
			if err := c.Get(ctx, client.ObjectKey{Namespace: operator.Namespace, Name: deploymentName}, deployment); err != nil {
				return err
			}
			change(&deployment.Spec.Template.Spec)
			return c.Update(ctx, deployment)
		}).Should(Succeed(), "the Deployment should take the change")
		waitForOperator(ctx)
	}
	var original corev1.PodSpec
	DeferCleanup(func(ctx SpecContext) { set(ctx, func(pod *corev1.PodSpec) { *pod = original }) })
	set(ctx, func(pod *corev1.PodSpec) {
		original = *pod.DeepCopy()
		change(pod)
	})
}

func freeze(ctx context.Context, manager *corev1.Pod) {
	GinkgoHelper()
	signalManager(ctx, manager, "STOP")
}

func thaw(ctx context.Context, manager *corev1.Pod) {
	GinkgoHelper()
	signalManager(ctx, manager, "CONT")
}

// signalManager sends a signal to a manager that shares its processes, if its pod is still there.
func signalManager(ctx context.Context, manager *corev1.Pod, signal string) {
	GinkgoHelper()
	script := fmt.Sprintf(`for p in /proc/[0-9]*; do case "$(cat $p/cmdline)" in /manager*) kill -%s ${p#/proc/};; esac; done`, signal)
	joinManager(ctx, manager, "", script)
}
