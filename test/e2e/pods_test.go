package e2e

import (
	"fmt"
	"maps"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/podset-operator/api/v1alpha1"
)

var _ = Describe("A pod", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	// replaced waits until the PodSet has as many pods as before, the others among them. The new one may have the name of
	// the one that is gone.
	replaced := func(ctx SpecContext, podSet *v1alpha1.PodSet, before map[string]string, gone string) {
		GinkgoHelper()
		others := maps.Clone(before)
		delete(others, gone)
		Eventually(func(g Gomega) {
			now := incarnations(ctx, podSet)
			g.Expect(now).To(HaveLen(len(before)))
			g.Expect(slices.Collect(maps.Values(now))).NotTo(ContainElement(before[gone]))
			maps.DeleteFunc(now, func(name, _ string) bool { return others[name] == "" })
			g.Expect(now).To(Equal(others))
		}).Should(Succeed(), "a new pod should replace %s", gone)
		settle(ctx, podSet, len(before))
	}

	It("that is killed from inside is restarted by its node, not replaced", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 2, running("trap 'exit 3' TERM; while :; do sleep 0.1; done"))
		names := settle(ctx, podSet, 2)
		kubectl(ctx, "exec", "-n", namespace, names[0], "--", "sh", "-c", "kill 1")
		Eventually(func() int32 { return restarts(getPod(ctx, namespace, names[0])) }).Should(BeEquivalentTo(1), "the container should be restarted")
		Expect(settle(ctx, podSet, 2)).To(Equal(names))
	})

	It("that is killed from inside and not restarted is replaced, and kept for diagnosis", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 2, running("echo why; trap 'exit 3' TERM; while :; do sleep 0.1; done",
			func(pod *corev1.PodSpec) { pod.RestartPolicy = corev1.RestartPolicyNever }))
		names := settle(ctx, podSet, 2)
		before := incarnations(ctx, podSet)
		kubectl(ctx, "exec", "-n", namespace, names[0], "--", "sh", "-c", "kill 1")
		replaced(ctx, podSet, before, names[0])
		Expect(getPod(ctx, namespace, names[0]).Status.Phase).To(Equal(corev1.PodFailed))
		Expect(kubectl(ctx, "logs", "-n", namespace, names[0])).To(Equal("why\n"))
	})

	It("that is deleted is replaced", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 3)
		names := settle(ctx, podSet, 3)
		before := incarnations(ctx, podSet)
		kubectl(ctx, "delete", "pod", names[1], "-n", namespace)
		replaced(ctx, podSet, before, names[1])
	})

	It("that is deleted by force is replaced", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 2)
		names := settle(ctx, podSet, 2)
		uid := getPod(ctx, namespace, names[0]).UID
		kubectl(ctx, "delete", "pod", names[0], "-n", namespace, "--force", "--grace-period=0")
		// Its name is free at once, and may be given to the next.
		Eventually(func() []corev1.Pod { return podsIn(ctx, namespace) }).ShouldNot(ContainElement(HaveField("UID", uid)))
		Expect(settle(ctx, podSet, 2)).To(ContainElement(names[1]))
	})

	It("that is evicted is replaced", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 3)
		names := settle(ctx, podSet, 3)
		before := incarnations(ctx, podSet)
		Expect(c.SubResource("eviction").Create(ctx, getPod(ctx, namespace, names[0]), &policyv1.Eviction{})).To(Succeed())
		replaced(ctx, podSet, before, names[0])
	})

	It("whose node is drained is replaced elsewhere, or when the node is back", Serial, func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 3)
		names := settle(ctx, podSet, 3)
		old := slices.Collect(maps.Values(incarnations(ctx, podSet)))
		nodes := map[string]bool{}
		for _, name := range names {
			nodes[getPod(ctx, namespace, name).Spec.NodeName] = true
		}
		uncordon := func(ctx SpecContext) {
			for node := range nodes {
				kubectl(ctx, "uncordon", node)
			}
		}
		DeferCleanup(uncordon)
		for node := range nodes {
			kubectl(ctx, "cordon", node)
			kubectl(ctx, "drain", node, "--pod-selector=app.example.com/podset=web", "--timeout=2m")
		}
		Eventually(func(g Gomega) {
			if slices.ContainsFunc(managerPods(ctx), func(pod corev1.Pod) bool { return pod.Spec.NodeName == "" }) {
				return // a manager that was just killed waits for the node too
			}
			now := incarnations(ctx, podSet)
			g.Expect(now).To(HaveLen(3))
			g.Expect(slices.Collect(maps.Values(now))).NotTo(ContainElement(BeElementOf(old)))
			for _, pod := range podsIn(ctx, namespace) {
				g.Expect(nodes).NotTo(HaveKey(pod.Spec.NodeName))
			}
		}).Should(Succeed(), "other pods should replace those drained")
		uncordon(ctx)
		settle(ctx, podSet, 3)
	})

	It("that crashes again and again is left to its node", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 2, running("exit 1"))
		var names []string
		Eventually(func(g Gomega) {
			names = activePods(ctx, podSet)
			g.Expect(names).To(HaveLen(2))
			for _, name := range names {
				g.Expect(restarts(getPod(ctx, namespace, name))).To(BeNumerically(">=", 1))
			}
		}).Should(Succeed(), "the containers should be restarted")
		Expect(settleWith(ctx, podSet, 2, v1alpha1.ReasonPodsNotAvailable)).To(Equal(names))
		Consistently(func() []string { return activePods(ctx, podSet) }).Should(Equal(names))
	})

	It("that fails again and again is replaced ever more slowly", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 2, running("exit 1",
			func(pod *corev1.PodSpec) { pod.RestartPolicy = corev1.RestartPolicyNever }))
		seen := observe(ctx, podSet)
		// 1, 2, 4 and 8 seconds pass between tries. A new manager starts over.
		few := 12
		if chaos {
			few = 36
		}
		Consistently(seen.creations, 15*time.Second).Should(BeNumerically("<", few), "there should be no storm of pods")
		Eventually(func() metav1.Condition { return condition(ctx, podSet) }).Should(HaveField("Reason", v1alpha1.ReasonPodsFailing))
		Eventually(func() int { return len(podsIn(ctx, namespace)) }).Should(BeNumerically("<=", 3), "old failed pods should go")
		Expect(seen.mostEver()).To(BeNumerically("<=", 2))
	})

	It("whose image cannot be pulled is waited for, and can be scaled away", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 3, running("", func(pod *corev1.PodSpec) {
			pod.Containers[0].Image = "registry.invalid/no/such/image:1"
		}))
		names := settleWith(ctx, podSet, 3, v1alpha1.ReasonPodsNotAvailable)
		Eventually(func(g Gomega) {
			for _, name := range names {
				g.Expect(getPod(ctx, namespace, name).Status.ContainerStatuses).To(ContainElement(
					HaveField("State.Waiting.Reason", BeElementOf("ErrImagePull", "ImagePullBackOff"))))
			}
		}).Should(Succeed(), "the nodes should try to pull the image")
		Consistently(func() []string { return activePods(ctx, podSet) }).Should(Equal(names))
		kubectl(ctx, "scale", "podset", "web", "-n", namespace, "--replicas=1")
		settleWith(ctx, podSet, 1, v1alpha1.ReasonPodsNotAvailable)
		Eventually(func() []corev1.Pod { return podsIn(ctx, namespace) }).Should(HaveLen(1))
	})

	It("that ignores SIGTERM is replaced at once", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 2, stubborn(20))
		names := settle(ctx, podSet, 2)
		before := incarnations(ctx, podSet)
		kubectl(ctx, "delete", "pod", names[0], "-n", namespace, "--wait=false")
		replaced(ctx, podSet, before, names[0])
		Expect(getPod(ctx, namespace, names[0]).DeletionTimestamp).NotTo(BeNil(), "the old one should still be there")
		Expect(podSet.Status.TerminatingReplicas).To(BeEquivalentTo(1))
	})

	It("that ignores SIGTERM is replaced only when it has ended, if so wanted", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 2, stubborn(6), func(spec *v1alpha1.PodSetSpec) {
			spec.PodReplacementPolicy = v1alpha1.TerminationComplete
		})
		names := settle(ctx, podSet, 2)
		old := getPod(ctx, namespace, names[0])
		kubectl(ctx, "delete", "pod", names[0], "-n", namespace, "--wait=false")
		Eventually(func() bool {
			alive := slices.DeleteFunc(podsIn(ctx, namespace), func(pod corev1.Pod) bool { return hasEnded(&pod) })
			Expect(len(alive)).To(BeNumerically("<=", 2), "there should never be a third pod that runs")
			return !slices.ContainsFunc(alive, func(pod corev1.Pod) bool { return pod.UID == old.UID })
		}).Should(BeTrue(), "the old one should end")
		Expect(settle(ctx, podSet, 2)).To(ContainElement(names[1]))
	})

	It("of the default kind is gone within two seconds of its deletion", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 1)
		// A busy node may be late, so there are several tries. One that ignored SIGTERM would never make it: the kubelet
		// gives it two seconds.
		var times []time.Duration
		for range 10 {
			pod := getPod(ctx, namespace, settle(ctx, podSet, 1)[0])
			deleted := time.Now()
			Expect(c.Delete(ctx, pod)).To(Succeed())
			Eventually(isGone(ctx, pod), patience, 20*time.Millisecond).Should(BeTrue(), "the pod should go")
			times = append(times, time.Since(deleted).Round(time.Millisecond))
			if len(times) >= 3 && slices.Min(times) < 2*time.Second {
				break
			}
		}
		AddReportEntry(fmt.Sprintf("gone after %s", times))
		Expect(slices.Min(times)).To(BeNumerically("<", 2*time.Second))
	})

	It("that is marked is the first to go", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 3)
		names := settle(ctx, podSet, 3)
		kubectl(ctx, "annotate", "pod", names[1], "-n", namespace, v1alpha1.DeleteMeAnnotation+"=true")
		kubectl(ctx, "scale", "podset", "web", "-n", namespace, "--replicas=2")
		Expect(settle(ctx, podSet, 2)).To(ConsistOf(names[0], names[2]))
	})

	It("that looks like one of the PodSet but is somebody else's is left alone", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 1)
		settle(ctx, podSet, 1)
		owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "owner"}}
		Expect(c.Create(ctx, owner)).To(Succeed())
		stranger := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: "stranger", Labels: map[string]string{v1alpha1.PodSetLabel: "web", "app": "web"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.UID, Controller: new(true)}},
			},
			Spec: restrictedPod("busybox:1.37", "sleep", "3600"),
		}
		Expect(c.Create(ctx, stranger)).To(Succeed())
		scale(ctx, podSet, 0)
		settle(ctx, podSet, 0)
		Expect(c.Get(ctx, client.ObjectKeyFromObject(stranger), stranger)).To(Succeed())
		Expect(stranger.DeletionTimestamp).To(BeNil())
	})
})

// stubborn makes pods that ignore SIGTERM, as sleep does when it is process 1, for as long as they may.
func stubborn(seconds int64) func(*v1alpha1.PodSetSpec) {
	return running("trap '' TERM; while :; do sleep 0.1; done", func(pod *corev1.PodSpec) { pod.TerminationGracePeriodSeconds = &seconds })
}
