package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/podset-operator/api/v1alpha1"
)

var _ = Describe("A roll-out", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	image := func(name string) func(*v1alpha1.PodSetSpec) {
		return withTemplate(func(t *corev1.PodTemplateSpec) { t.Spec.Containers[0].Image = name })
	}
	budgets := func(maxUnavailable, maxSurge string) func(*v1alpha1.PodSetSpec) {
		return func(spec *v1alpha1.PodSetSpec) {
			spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdateBudgets{
				MaxUnavailable: new(intstr.Parse(maxUnavailable)),
				MaxSurge:       new(intstr.Parse(maxSurge)),
			}
		}
	}
	imagesOf := func(ctx SpecContext, podSet *v1alpha1.PodSet) map[string]int {
		GinkgoHelper()
		images := map[string]int{}
		for _, pod := range podsIn(ctx, namespace) {
			if metav1.IsControlledBy(pod, podSet) && pod.DeletionTimestamp == nil {
				images[pod.Spec.Containers[0].Image]++
			}
		}
		return images
	}
	// complete waits until the roll-out of the image has ended and the PodSet says so, with all conditions gone but Ready.
	complete := func(ctx SpecContext, podSet *v1alpha1.PodSet, replicas int, image string) {
		GinkgoHelper()
		Eventually(func(g Gomega) {
			g.Expect(imagesOf(ctx, podSet)).To(Equal(map[string]int{image: replicas}))
			status := get(ctx, podSet).Status
			g.Expect(status.UpdatedReplicas).To(BeEquivalentTo(replicas))
			g.Expect(status.CurrentRevision).To(Equal(status.UpdateRevision))
			g.Expect(status.Conditions).To(ConsistOf(And(
				HaveField("Type", v1alpha1.ConditionReady), HaveField("Status", metav1.ConditionTrue), HaveField("ObservedGeneration", podSet.Generation),
			)))
		}).Should(Succeed(), "the roll-out should complete")
	}

	It("replaces the pods one by one, none available fewer, one beside at most", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 3, image("app:1"))
		old := settleReady(ctx, podSet, 3)
		before := get(ctx, podSet).Status.UpdateRevision
		seen := watchPods(ctx, podSet)
		playKubelet(namespace, nil)

		change(ctx, podSet, image("app:2"))
		complete(ctx, podSet, 3, "app:2")
		least, most := seen()
		Expect([]int{least, most}).To(Equal([]int{3, 4}))
		Expect(get(ctx, podSet).Status.UpdateRevision).NotTo(Equal(before))

		pods := map[string]int{}
		for _, w := range audit.byManager(namespace) {
			if w.ObjectRef.Resource == "pods" && !strings.Contains(w.RequestURI, "dryRun") {
				pods[w.UserAgent]++
			}
		}
		Expect(pods).To(And(HaveLen(3+3+3), HaveEach(1)), "each reconcile should change one pod")
		Eventually(func() []string { return notesOf(ctx, podSet) }).
			Should(ContainElement(MatchRegexp(`created pod web-pod\w{5} \(roll-out\)`)), "an event should tell why")
		for _, name := range old {
			Eventually(func() []string { return notesOf(ctx, podSet) }).
				Should(ContainElement(fmt.Sprintf("deleted pod %s (old revision)", name)), "an event should tell why")
		}
	})

	It("keeps percentages of the pods, rounded as a Deployment does", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 6, image("app:1"), budgets("25%", "25%"))
		settleReady(ctx, podSet, 6)
		seen := watchPods(ctx, podSet)
		playKubelet(namespace, nil)
		change(ctx, podSet, image("app:2"))
		complete(ctx, podSet, 6, "app:2")
		least, most := seen()
		Expect(least).To(Equal(5), "a quarter of 6 rounded down may be unavailable")
		Expect(most).To(And(BeNumerically(">", 6), BeNumerically("<=", 8)), "a quarter of 6 rounded up may be beside them")
	})

	It("moves on with one pod fewer if the percentages leave nothing to move with", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 3, image("app:1"), budgets("10%", "0"))
		settleReady(ctx, podSet, 3)
		seen := watchPods(ctx, podSet)
		playKubelet(namespace, nil)
		change(ctx, podSet, image("app:2"))
		complete(ctx, podSet, 3, "app:2")
		least, most := seen()
		Expect([]int{least, most}).To(Equal([]int{2, 3}))
	})

	It("counts only pods that have been ready for minReadySeconds", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 2, image("app:1"), func(spec *v1alpha1.PodSetSpec) { spec.MinReadySeconds = 2 })
		settleReady(ctx, podSet, 2)
		playKubelet(namespace, nil)
		start := time.Now()
		change(ctx, podSet, image("app:2"))
		complete(ctx, podSet, 2, "app:2")
		Expect(time.Since(start)).To(BeNumerically(">", 3*time.Second), "each of two pods should be waited for")
	})

	It("tells how far it is, and lets kubectl wait until it is complete", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 3, image("app:1"))
		settleReady(ctx, podSet, 3)
		wait := []string{"wait", "podset/web", "-n", namespace, "--for=condition=Ready"}
		change(ctx, podSet, image("app:2"))
		Eventually(func() *metav1.Condition { return condition(ctx, podSet, v1alpha1.ConditionReconciling) }).Should(And(
			HaveField("Reason", v1alpha1.ReasonRollingOut), HaveField("Message", "1 of 3 updated, 3 available"),
		), "the condition should tell how far it is")
		Expect(condition(ctx, podSet, v1alpha1.ConditionReady)).To(And(
			HaveField("Status", metav1.ConditionTrue), HaveField("ObservedGeneration", podSet.Generation-1),
		), "enough pods serve, of the template before")
		kubectlFails("", append(wait, "--timeout=2s")...)

		playKubelet(namespace, nil)
		kubectl("", append(wait, "--timeout=15s")...)
		complete(ctx, podSet, 3, "app:2")
	})

	It("can be paused and resumed, while the size follows the spec", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 3, image("app:1"))
		settleReady(ctx, podSet, 3)
		playKubelet(namespace, nil)
		change(ctx, podSet, func(spec *v1alpha1.PodSetSpec) { image("app:2")(spec); spec.Paused = true })
		Eventually(func() *metav1.Condition { return condition(ctx, podSet, v1alpha1.ConditionReconciling) }).Should(And(
			HaveField("Reason", v1alpha1.ReasonRollOutPaused), HaveField("Message", "0 of 3 updated, 3 available; spec.paused is true"),
		), "the condition should tell of the pause")
		Consistently(func() map[string]int { return imagesOf(ctx, podSet) }).Should(Equal(map[string]int{"app:1": 3}))

		scale(ctx, podSet, 4)
		Eventually(func() map[string]int { return imagesOf(ctx, podSet) }).Should(Equal(map[string]int{"app:1": 3, "app:2": 1}), "new pods are of the new template")
		Consistently(func() map[string]int { return imagesOf(ctx, podSet) }).Should(HaveLen(2))
		change(ctx, podSet, func(spec *v1alpha1.PodSetSpec) { spec.Paused = false })
		complete(ctx, podSet, 4, "app:2")
	})

	It("goes on with what is wanted when the size changes on the way", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 4, image("app:1"))
		settleReady(ctx, podSet, 4)
		change(ctx, podSet, image("app:2"))
		Eventually(func() map[string]int { return imagesOf(ctx, podSet) }).Should(HaveKey("app:2"), "the roll-out should begin")
		scale(ctx, podSet, 6)
		Eventually(func() map[string]int { return imagesOf(ctx, podSet) }).Should(Equal(map[string]int{"app:1": 4, "app:2": 3}),
			"the two more and the one beside should be of the new template")
		scale(ctx, podSet, 2)
		Eventually(func() map[string]int { return imagesOf(ctx, podSet) }).Should(Equal(map[string]int{"app:1": 2, "app:2": 1}),
			"old pods should go first, but not those that serve")
		playKubelet(namespace, nil)
		complete(ctx, podSet, 2, "app:2")
	})

	It("gives way to the next one", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 3, image("app:1"))
		settleReady(ctx, podSet, 3)
		seen := watchPods(ctx, podSet)
		change(ctx, podSet, image("app:2"))
		Eventually(func() map[string]int { return imagesOf(ctx, podSet) }).Should(Equal(map[string]int{"app:1": 3, "app:2": 1}), "the roll-out should begin")
		playKubelet(namespace, nil)
		change(ctx, podSet, image("app:3"))
		complete(ctx, podSet, 3, "app:3")
		least, most := seen()
		Expect([]int{least, most}).To(Equal([]int{3, 4}))
	})

	It("keeps the old pods when their template is wanted again", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 3, image("app:1"))
		settleReady(ctx, podSet, 3)
		old := activeUIDs(ctx, podSet)
		change(ctx, podSet, image("app:2"))
		Eventually(func() map[string]int { return imagesOf(ctx, podSet) }).Should(Equal(map[string]int{"app:1": 3, "app:2": 1}), "the roll-out should begin")
		change(ctx, podSet, image("app:1"))
		complete(ctx, podSet, 3, "app:1")
		Expect(activeUIDs(ctx, podSet)).To(Equal(old))
	})

	It("removes first the old pods that serve nobody", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 3, image("app:1"))
		names := settleReady(ctx, podSet, 3)
		setStatus(ctx, namespace, names[1], corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Now()}},
		})
		Eventually(func() int32 { return get(ctx, podSet).Status.AvailableReplicas }).Should(BeEquivalentTo(2), "the pod should be seen as not available")
		old := activeUIDs(ctx, podSet)
		change(ctx, podSet, image("app:2"))
		Eventually(func() []types.UID { return activeUIDs(ctx, podSet) }).Should(And(HaveLen(4), Not(ContainElement(old[1]))),
			"the pod that is not ready should go first")
		Consistently(func() []types.UID { return activeUIDs(ctx, podSet) }).Should(ContainElements(old[0], old[2]))
	})

	When("the new pods do not come up", func() {
		stuck := corev1.PodStatus{
			Phase:      corev1.PodPending,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Now()}},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "app", Image: "app:2", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}},
			}},
		}

		It("keeps the old ones, serves on, stalls after the deadline with the container's reason, and recovers", func(ctx SpecContext) {
			podSet := newPodSet(ctx, namespace, "web", 3, image("app:1"), func(spec *v1alpha1.PodSetSpec) { spec.ProgressDeadlineSeconds = ptr.To[int32](2) })
			old := settleReady(ctx, podSet, 3)
			playKubelet(namespace, func(pod *corev1.Pod) corev1.PodStatus {
				if pod.Spec.Containers[0].Image == "app:2" {
					return stuck
				}
				return running()
			})
			change(ctx, podSet, image("app:2"))
			Eventually(func() *metav1.Condition { return condition(ctx, podSet, v1alpha1.ConditionStalled) }).Should(And(
				HaveField("Status", metav1.ConditionTrue),
				HaveField("Reason", "ImagePullBackOff"),
				HaveField("Message", MatchRegexp(`^no progress for 2 s: 1 of 3 updated, 3 available; pod web-pod\w{5}, container app: ImagePullBackOff$`)),
			), "the condition should tell what the container waits for")
			Expect(condition(ctx, podSet, v1alpha1.ConditionReconciling)).To(BeNil())
			Expect(condition(ctx, podSet, v1alpha1.ConditionReady)).To(HaveField("Status", metav1.ConditionTrue))
			stalled := get(ctx, podSet).ResourceVersion
			Consistently(func() []string { return activePods(ctx, podSet) }, "3s").Should(And(HaveLen(4), ContainElements(old)), "the old pods should stay")
			Expect(get(ctx, podSet).ResourceVersion).To(Equal(stalled), "nothing should be written while nothing moves")

			change(ctx, podSet, image("app:3"))
			complete(ctx, podSet, 3, "app:3")
		})

		It("takes no more of them on trial than the budgets allow", func(ctx SpecContext) {
			podSet := newPodSet(ctx, namespace, "web", 5, image("app:1"), budgets("2", "1"))
			settleReady(ctx, podSet, 5)
			seen := watchPods(ctx, podSet)
			playKubelet(namespace, func(*corev1.Pod) corev1.PodStatus { return stuck })
			change(ctx, podSet, image("app:2"))
			Eventually(func() map[string]int { return imagesOf(ctx, podSet) }).Should(Equal(map[string]int{"app:1": 3, "app:2": 3}))
			Consistently(func() map[string]int { return imagesOf(ctx, podSet) }).Should(Equal(map[string]int{"app:1": 3, "app:2": 3}))
			least, most := seen()
			Expect([]int{least, most}).To(Equal([]int{3, 6}))
		})

		It("keeps every old pod if admission refuses the new ones", func(ctx SpecContext) {
			restricted := newNamespace(ctx, "pod-security.kubernetes.io/enforce", "restricted")
			podSet := newPodSet(ctx, restricted, "web", 3, budgets("1", "0"))
			old := settleReady(ctx, podSet, 3)
			change(ctx, podSet, withTemplate(func(t *corev1.PodTemplateSpec) { t.Spec.HostNetwork = true }))
			Eventually(func() *metav1.Condition { return condition(ctx, podSet, v1alpha1.ConditionReconciling) }).Should(And(
				HaveField("Reason", v1alpha1.ReasonForbidden), HaveField("Message", ContainSubstring(`violates PodSecurity "restricted`)),
			), "the condition should have the server's words")
			Consistently(func() []string { return activePods(ctx, podSet) }, "3s").Should(Equal(old), "no pod should go")
			Expect(condition(ctx, podSet, v1alpha1.ConditionReady)).To(HaveField("Status", metav1.ConditionTrue))
		})

		It("keeps every old pod if the template is invalid, and moves on when it is fixed", func(ctx SpecContext) {
			podSet := newPodSet(ctx, namespace, "web", 3, image("app:1"), budgets("1", "0"))
			old := settleReady(ctx, podSet, 3)
			change(ctx, podSet, withTemplate(func(t *corev1.PodTemplateSpec) {
				t.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "nowhere", MountPath: "/data"}}
			}))
			Eventually(func() *metav1.Condition { return condition(ctx, podSet, v1alpha1.ConditionStalled) }).
				Should(HaveField("Reason", v1alpha1.ReasonInvalidTemplate), "the condition should tell")
			Consistently(func() []string { return activePods(ctx, podSet) }).Should(Equal(old), "no pod should go")
			playKubelet(namespace, nil)
			change(ctx, podSet, image("app:2"))
			complete(ctx, podSet, 3, "app:2")
		})
	})

	It("is left to others with OnDelete", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 3, image("app:1"), func(spec *v1alpha1.PodSetSpec) { spec.UpdateStrategy.Type = v1alpha1.OnDelete })
		names := settleReady(ctx, podSet, 3)
		playKubelet(namespace, nil)
		change(ctx, podSet, image("app:2"))
		Eventually(func() int32 { return get(ctx, podSet).Status.UpdatedReplicas }).Should(BeZero(), "no pod is of the new template")
		Consistently(func() []string { return activePods(ctx, podSet) }).Should(Equal(names))
		Eventually(func() *metav1.Condition { return condition(ctx, podSet, v1alpha1.ConditionReady) }).Should(And(
			HaveField("Status", metav1.ConditionTrue), HaveField("ObservedGeneration", podSet.Generation),
		), "nothing is left to do for the operator")
		for i, name := range names {
			deletePod(ctx, namespace, name)
			Eventually(func() map[string]int { return imagesOf(ctx, podSet) }).Should(HaveKeyWithValue("app:2", i+1), "the replacement should be of the new template")
		}
		complete(ctx, podSet, 3, "app:2")
	})

	It("counts terminating pods where they are waited for", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 2, image("app:1"), func(spec *v1alpha1.PodSetSpec) { spec.PodReplacementPolicy = v1alpha1.TerminationComplete })
		names := settleReady(ctx, podSet, 2)
		bind(ctx, namespace, "node", names...)
		playKubelet(namespace, nil)
		change(ctx, podSet, image("app:2"))
		Eventually(func() int32 { return get(ctx, podSet).Status.TerminatingReplicas }).Should(BeEquivalentTo(1), "the first old pod should go")
		Consistently(func() int { return len(podsIn(ctx, namespace)) }).Should(Equal(3), "with the terminating one there are all that may be")
		for name, pod := range podsIn(ctx, namespace) {
			if pod.DeletionTimestamp != nil {
				remove(ctx, namespace, name)
			}
		}
		Eventually(func() map[string]int { return imagesOf(ctx, podSet) }).Should(Equal(map[string]int{"app:2": 2}), "the second one should go")
	})

	It("is nothing to pods made before there were revisions, until the template changes", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 2, image("app:1"))
		names := settleReady(ctx, podSet, 2)
		for _, name := range names {
			kubectl("", "label", "pod", name, "-n", namespace, v1alpha1.TemplateHashLabel+"-")
		}
		Consistently(func() []string { return activePods(ctx, podSet) }).Should(Equal(names), "no pod should be replaced")
		playKubelet(namespace, nil)
		change(ctx, podSet, image("app:2"))
		complete(ctx, podSet, 2, "app:2")
	})
})

var _ = Describe("Marks and labels on a pod", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	It("replace it at once with delete-me=now, the size as it is", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 3)
		names := settleReady(ctx, podSet, 3)
		annotate(ctx, namespace, names[0], v1alpha1.DeleteMeAnnotation, "true")
		Consistently(func() []string { return activePods(ctx, podSet) }).Should(Equal(names), "a mark for the next scale-down changes nothing")
		before := activeUIDs(ctx, podSet)
		annotate(ctx, namespace, names[1], v1alpha1.DeleteMeAnnotation, "now")
		Eventually(func() []types.UID { return activeUIDs(ctx, podSet) }).
			Should(And(HaveLen(3), ContainElements(before[0], before[2]), Not(ContainElement(before[1]))), "the pod should be replaced")
		Eventually(func() []string { return notesOf(ctx, podSet) }).Should(ContainElement(fmt.Sprintf("deleted pod %s (delete-me)", names[1])), "an event should tell why")
	})

	It("quarantine it: a pod without our label is replaced, released, and left alone", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 3)
		names := settleReady(ctx, podSet, 3)
		kubectl("", "label", "pod", names[0], "-n", namespace, v1alpha1.PodSetLabel+"-")
		Eventually(func() []metav1.OwnerReference { return podsIn(ctx, namespace)[names[0]].OwnerReferences }).Should(BeEmpty(), "the pod should be released")
		Expect(settle(ctx, podSet, 3)).To(And(ContainElements(names[1], names[2]), Not(ContainElement(names[0]))))
		released := podsIn(ctx, namespace)[names[0]].ResourceVersion

		scale(ctx, podSet, 0)
		settle(ctx, podSet, 0)
		Expect(podsIn(ctx, namespace)).To(And(HaveLen(1), HaveKeyWithValue(names[0], HaveField("ResourceVersion", released))))
		scale(ctx, podSet, 2)
		settle(ctx, podSet, 2)
		Expect(podsIn(ctx, namespace)[names[0]].ResourceVersion).To(Equal(released))

		By("giving the label back")
		scale(ctx, podSet, 3)
		settle(ctx, podSet, 3)
		kubectl("", "label", "pod", names[0], "-n", namespace, v1alpha1.PodSetLabel+"=web")
		scale(ctx, podSet, 4)
		Expect(settle(ctx, podSet, 4)).To(ContainElement(names[0]), "the pod should be adopted again")
	})
})

// activeUIDs returns the UIDs of the PodSet's active pods, in the order of their names.
func activeUIDs(ctx SpecContext, podSet *v1alpha1.PodSet) []types.UID {
	GinkgoHelper()
	pods := podsIn(ctx, podSet.Namespace)
	var uids []types.UID
	for _, name := range namesOf(pods) {
		if metav1.IsControlledBy(pods[name], podSet) && pods[name].DeletionTimestamp == nil {
			uids = append(uids, pods[name].UID)
		}
	}
	return uids
}

// notesOf returns the texts of the events about a PodSet.
func notesOf(ctx SpecContext, podSet *v1alpha1.PodSet) []string {
	GinkgoHelper()
	var notes []string
	for _, event := range eventsOf(ctx, podSet) {
		notes = append(notes, event.Note)
	}
	return notes
}

// playKubelet gives each pod of the namespace that has no status yet one, until the spec ends: that of a running pod if
// statusOf is nil.
func playKubelet(namespace string, statusOf func(*corev1.Pod) corev1.PodStatus) {
	if statusOf == nil {
		statusOf = func(*corev1.Pod) corev1.PodStatus { return running() }
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(ended)
		for ctx.Err() == nil {
			for name, pod := range podsIn(context.Background(), namespace) {
				if pod.DeletionTimestamp == nil && len(pod.Status.Conditions) == 0 {
					setStatus(context.Background(), namespace, name, statusOf(pod))
				}
			}
			time.Sleep(interval) //nolint:forbidigo // the pace of the kubelet that is played here
		}
	}()
	DeferCleanup(func() { stop(); <-ended })
}

// watchPods follows every change of the PodSet's pods from now on. The function it returns tells how many active pods
// were there at most, and how many of them were ready at least, of all states the API server went through.
func watchPods(ctx SpecContext, podSet *v1alpha1.PodSet) func() (leastReady, most int) {
	GinkgoHelper()
	podSet = podSet.DeepCopy() // the spec goes on reading into its own
	list := &corev1.PodList{}
	Expect(c.List(ctx, list, client.InNamespace(podSet.Namespace))).To(Succeed())
	pods := map[string]*corev1.Pod{}
	for i := range list.Items {
		pods[list.Items[i].Name] = &list.Items[i]
	}
	watcher, err := c.Watch(context.Background(), &corev1.PodList{}, client.InNamespace(podSet.Namespace),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	Expect(err).NotTo(HaveOccurred())
	least, most := count(podSet, pods)
	DeferCleanup(watcher.Stop)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for event := range watcher.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			pods[pod.Name] = pod
			if event.Type == watch.Deleted {
				delete(pods, pod.Name)
			}
			ready, active := count(podSet, pods)
			least, most = min(least, ready), max(most, active)
		}
	}()
	return func() (int, int) {
		watcher.Stop()
		<-ended
		return least, most
	}
}

func count(podSet *v1alpha1.PodSet, pods map[string]*corev1.Pod) (ready, active int) {
	for _, pod := range pods {
		if !metav1.IsControlledBy(pod, podSet) || pod.DeletionTimestamp != nil {
			continue
		}
		active++
		if slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}) {
			ready++
		}
	}
	return ready, active
}
