package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/podset-operator/api/v1alpha1"
	"example.com/podset-operator/test/operator"
)

var _ = Describe("A roll-out", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	It("ends where a Deployment's does, and never has fewer pods available on the way", func(ctx SpecContext) {
		const replicas = 8
		quarter := new(intstr.FromString("25%"))
		podSet := &v1alpha1.PodSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "podset"},
			Spec: v1alpha1.PodSetSpec{
				Replicas:        new(int32(replicas)),
				MinReadySeconds: 1,
				Template:        template("podset", "app:1"),
				UpdateStrategy: v1alpha1.UpdateStrategy{
					RollingUpdate: &v1alpha1.RollingUpdateBudgets{MaxUnavailable: quarter, MaxSurge: quarter},
				},
			},
		}
		deployment := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "deployment"},
			Spec: appsv1.DeploymentSpec{
				Replicas:        new(int32(replicas)),
				MinReadySeconds: 1,
				Selector:        &metav1.LabelSelector{MatchLabels: map[string]string{"app": "deployment"}},
				Template:        *template("deployment", "app:1"),
				Strategy: appsv1.DeploymentStrategy{
					RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: quarter, MaxSurge: quarter},
				},
			},
		}
		Expect(c.Create(ctx, podSet)).To(Succeed())
		Expect(c.Create(ctx, deployment)).To(Succeed())
		completed(ctx, namespace)

		ofPodSet, ofDeployment := watchPods(ctx, namespace, "app=podset"), watchPods(ctx, namespace, "app=deployment")
		kubectl(ctx, "patch", "podset/podset", "-n", namespace, "--type=merge", "-p", imagePatch("app:2"))
		kubectl(ctx, "patch", "deployment/deployment", "-n", namespace, "-p", imagePatch("app:2"))
		completed(ctx, namespace)

		podSetSaw, deploymentSaw := ofPodSet.end(), ofDeployment.end()
		GinkgoWriter.Printf("PodSet: %+v; Deployment: %+v\n", podSetSaw, deploymentSaw)
		Expect(podSetSaw.leastReady).To(BeNumerically(">=", 6), "the budget")
		Expect(podSetSaw.most).To(BeNumerically("<=", 10), "the budget")
		Expect(podSetSaw.leastReady).To(BeNumerically(">=", deploymentSaw.leastReady))
		Expect(podSetSaw.most).To(BeNumerically("<=", 10))
		for _, app := range []string{"podset", "deployment"} {
			Expect(images(ctx, namespace, "app="+app)).To(Equal(map[string]int{"app:2": replicas}), app)
		}
	}, NodeTimeout(3*time.Minute))

	It("proceeds in a quota that has no room beside the old pods only if a pod may be unavailable", func(ctx SpecContext) {
		quota := &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "three"},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("3")}},
		}
		Expect(c.Create(ctx, quota)).To(Succeed())
		Eventually(func() corev1.ResourceList {
			Expect(c.Get(ctx, client.ObjectKeyFromObject(quota), quota)).To(Succeed())
			return quota.Status.Used
		}).ShouldNot(BeEmpty(), "the quota should be in force")
		podSet := newPodSet(ctx, namespace, "web", 3)
		names := settle(ctx, podSet, 3)

		kubectl(ctx, "patch", "podset/web", "-n", namespace, "--type=merge", "-p", `{"spec":{"template":`+oneContainer("app:2")+`}}`)
		Eventually(func() []metav1.Condition {
			Expect(c.Get(ctx, client.ObjectKeyFromObject(podSet), podSet)).To(Succeed())
			return podSet.Status.Conditions
		}).Should(ContainElement(And(
			HaveField("Type", v1alpha1.ConditionReconciling), HaveField("Reason", v1alpha1.ReasonQuotaExceeded),
		)), "the condition should tell")
		Consistently(func() []string { return activePods(ctx, podSet) }, "3s").Should(Equal(names), "every old pod should stay")
		Expect(ready(podSet)).To(HaveField("Status", metav1.ConditionTrue))

		kubectl(ctx, "patch", "podset/web", "-n", namespace, "--type=merge", "-p",
			`{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":1}}}}`)
		settle(ctx, podSet, 3, 3*time.Minute)
		Expect(images(ctx, namespace, "")).To(Equal(map[string]int{"app:2": 3}))
	}, NodeTimeout(5*time.Minute))

	It("respects what a PodDisruptionBudget is for, and evictions respect the budget", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 3)
		settle(ctx, podSet, 3)
		budget := &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
			Spec: policyv1.PodDisruptionBudgetSpec{
				// The number of pods that this is a part of is asked of the PodSet, by /scale.
				MaxUnavailable: new(intstr.FromString("34%")),
				Selector:       &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.PodSetLabel: "web"}},
			},
		}
		Expect(c.Create(ctx, budget)).To(Succeed())
		Eventually(func() policyv1.PodDisruptionBudgetStatus {
			Expect(c.Get(ctx, client.ObjectKeyFromObject(budget), budget)).To(Succeed())
			return budget.Status
		}).Should(And(HaveField("ExpectedPods", BeEquivalentTo(3)), HaveField("DisruptionsAllowed", BeNumerically(">=", 1))), "the budget should know the PodSet")

		old := podsIn(ctx, namespace)
		saw := watchPods(ctx, namespace, "app=web")
		for _, pod := range old {
			Eventually(func() error {
				return c.SubResource("eviction").Create(ctx, &pod, &policyv1.Eviction{})
			}).Should(Succeed(), "each pod should be evicted in its turn")
		}
		Eventually(func() []corev1.Pod {
			return slices.DeleteFunc(podsIn(ctx, namespace), func(pod corev1.Pod) bool {
				return !slices.ContainsFunc(old, func(before corev1.Pod) bool { return before.UID == pod.UID })
			})
		}).Should(BeEmpty(), "every old pod should go")
		settle(ctx, podSet, 3)
		Expect(saw.end().leastReady).To(BeNumerically(">=", 1))
	})

	It("moves pods to other nodes when theirs is drained", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 4)
		settle(ctx, podSet, 4)
		node := podsIn(ctx, namespace)[0].Spec.NodeName
		DeferCleanup(func(ctx SpecContext) { kubectl(ctx, "uncordon", node) })
		kubectl(ctx, "drain", node, "--pod-selector="+v1alpha1.PodSetLabel+"=web", "--timeout=60s")
		settle(ctx, podSet, 4)
		for _, pod := range podsIn(ctx, namespace) {
			Expect(pod.Spec.NodeName).NotTo(Equal(node))
		}
	})
})

var _ = Describe("The samples", func() {
	It("become ready, are rolled out and disrupted as they say", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		root, err := operator.Root()
		Expect(err).NotTo(HaveOccurred())
		kubectl(ctx, "apply", "-n", namespace, "-k", root+"/config/samples")
		kubectl(ctx, "wait", "podset", "--all", "-n", namespace, "--for=condition=Ready", "--timeout=90s")
		Eventually(func() string {
			return kubectl(ctx, "get", "pdb/web", "-n", namespace, "-o", "jsonpath={.status.disruptionsAllowed}")
		}).
			Should(Equal("1"), "the disruption budget should allow one")
		Eventually(func() string {
			return kubectl(ctx, "get", "hpa/autoscaled", "-n", namespace, "-o", `jsonpath={.status.conditions[?(@.type=="AbleToScale")].status}`)
		}).Should(Equal("True"), "the autoscaler should reach the PodSet")

		before := kubectl(ctx, "get", "podset/web", "-n", namespace, "-o", "jsonpath={.status.currentRevision}")
		kubectl(ctx, "patch", "podset/web", "-n", namespace, "--type=json", "-p",
			`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"nginxinc/nginx-unprivileged:1.29-alpine"}]`)
		kubectl(ctx, "wait", "podset/web", "-n", namespace, "--for=condition=Ready", "--timeout=2m")
		Expect(images(ctx, namespace, v1alpha1.PodSetLabel+"=web")).To(Equal(map[string]int{"nginxinc/nginx-unprivileged:1.29-alpine": 3}))
		Expect(kubectl(ctx, "get", "podset/web", "-n", namespace, "-o", "jsonpath={.status.currentRevision}")).NotTo(Equal(before))
	}, NodeTimeout(5*time.Minute))
})

func template(app, image string) *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: image}}},
	}
}

func oneContainer(image string) string {
	return fmt.Sprintf(`{"spec":{"containers":[{"name":"app","image":%q}]}}`, image)
}

func imagePatch(image string) string { return `{"spec":{"template":` + oneContainer(image) + `}}` }

// completed waits until the PodSet and the Deployment of the namespace say that their roll-out is complete.
func completed(ctx context.Context, namespace string) {
	GinkgoHelper()
	kubectl(ctx, "wait", "podset/podset", "-n", namespace, "--for=condition=Ready", "--timeout=60s")
	kubectl(ctx, "rollout", "status", "deployment/deployment", "-n", namespace, "--timeout=60s")
}

// images counts the active pods of a namespace that match the selector, by what they run.
func images(ctx context.Context, namespace, selector string) map[string]int {
	GinkgoHelper()
	list := &corev1.PodList{}
	matching := &metav1.ListOptions{LabelSelector: selector}
	Expect(c.List(ctx, list, &client.ListOptions{Namespace: namespace, Raw: matching})).To(Succeed())
	images := map[string]int{}
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil {
			images[pod.Spec.Containers[0].Image]++
		}
	}
	return images
}

// extremes are how many pods there were, of all states the API server went through.
type extremes struct{ leastReady, most int }

// podWatch follows every change of some pods.
type podWatch struct {
	watcher watch.Interface
	ended   sync.WaitGroup
	saw     extremes
}

// watchPods follows the pods that match the selector, from now on until it is ended.
func watchPods(ctx context.Context, namespace, selector string) *podWatch {
	GinkgoHelper()
	matching := &client.ListOptions{Namespace: namespace, Raw: &metav1.ListOptions{LabelSelector: selector}}
	list := &corev1.PodList{}
	Expect(c.List(ctx, list, matching)).To(Succeed())
	pods := map[string]corev1.Pod{}
	for _, pod := range list.Items {
		pods[pod.Name] = pod
	}
	matching.Raw.ResourceVersion = list.ResourceVersion
	watcher, err := c.Watch(context.WithoutCancel(ctx), &corev1.PodList{}, matching)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(watcher.Stop)
	w := &podWatch{watcher: watcher}
	ready, active := count(pods)
	w.saw = extremes{ready, active}
	w.ended.Go(func() {
		for event := range watcher.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			pods[pod.Name] = *pod
			if event.Type == watch.Deleted {
				delete(pods, pod.Name)
			}
			ready, active := count(pods)
			w.saw = extremes{min(w.saw.leastReady, ready), max(w.saw.most, active)}
		}
	})
	return w
}

func (w *podWatch) end() extremes {
	w.watcher.Stop()
	w.ended.Wait()
	return w.saw
}

func count(pods map[string]corev1.Pod) (ready, active int) {
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil {
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
