package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/podset-operator/api/v1alpha1"
)

// newNamespace makes a namespace for one spec.
func newNamespace(ctx context.Context, labels ...string) string {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "spec-", Labels: map[string]string{}}}
	for i := 0; i < len(labels); i += 2 {
		namespace.Labels[labels[i]] = labels[i+1]
	}
	Expect(c.Create(ctx, namespace)).To(Succeed())
	return namespace.Name
}

// newPodSet creates a PodSet. The changes are applied to it before.
func newPodSet(ctx context.Context, namespace, name string, replicas int32, changes ...func(*v1alpha1.PodSetSpec)) *v1alpha1.PodSet {
	GinkgoHelper()
	podSet := &v1alpha1.PodSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.PodSetSpec{Replicas: new(replicas)},
	}
	for _, change := range changes {
		change(&podSet.Spec)
	}
	Expect(c.Create(ctx, podSet)).To(Succeed())
	return podSet
}

// change updates the spec of a PodSet, again if somebody else changed the PodSet in between.
func change(ctx context.Context, podSet *v1alpha1.PodSet, change func(*v1alpha1.PodSetSpec)) {
	GinkgoHelper()
	Eventually(func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(podSet), podSet); err != nil {
			return err
		}
		change(&podSet.Spec)
		return c.Update(ctx, podSet)
	}).Should(Succeed(), "the PodSet should take the change")
}

func scale(ctx context.Context, podSet *v1alpha1.PodSet, replicas int32) {
	GinkgoHelper()
	change(ctx, podSet, func(spec *v1alpha1.PodSetSpec) { spec.Replicas = &replicas })
}

func get(ctx context.Context, podSet *v1alpha1.PodSet) *v1alpha1.PodSet {
	GinkgoHelper()
	Expect(c.Get(ctx, client.ObjectKeyFromObject(podSet), podSet)).To(Succeed())
	return podSet
}

// podsIn returns all pods of a namespace by name.
func podsIn(ctx context.Context, namespace string) map[string]*corev1.Pod {
	GinkgoHelper()
	list := &corev1.PodList{}
	Expect(c.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
	pods := map[string]*corev1.Pod{}
	for i := range list.Items {
		pods[list.Items[i].Name] = &list.Items[i]
	}
	return pods
}

// activePods returns the names of the PodSet's active pods, sorted.
func activePods(ctx context.Context, podSet *v1alpha1.PodSet) []string {
	GinkgoHelper()
	var names []string
	for name, pod := range podsIn(ctx, podSet.Namespace) {
		finished := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
		if metav1.IsControlledBy(pod, podSet) && pod.DeletionTimestamp == nil && !finished {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// settle waits until the PodSet has exactly the wanted pods and says so, and returns their names.
func settle(ctx context.Context, podSet *v1alpha1.PodSet, replicas int) []string {
	GinkgoHelper()
	var names []string
	Eventually(func(g Gomega) {
		names = activePods(ctx, podSet)
		g.Expect(names).To(HaveLen(replicas))
		status := get(ctx, podSet).Status
		g.Expect(status.PodNames).To(Equal(names))
		g.Expect(status.Replicas).To(BeEquivalentTo(replicas))
		g.Expect(status.ObservedGeneration).To(Equal(podSet.Generation))
	}).Should(Succeed(), "the PodSet should have its pods and report them")
	return names
}

// settleReady lets the pods become ready as a kubelet would, until the PodSet is Ready.
func settleReady(ctx context.Context, podSet *v1alpha1.PodSet, replicas int) []string {
	GinkgoHelper()
	names := settle(ctx, podSet, replicas)
	for _, name := range names {
		run(ctx, podSet.Namespace, name)
	}
	Eventually(func() *metav1.Condition { return condition(ctx, podSet, v1alpha1.ConditionReady) }).
		Should(HaveField("Status", metav1.ConditionTrue), "the PodSet should be Ready")
	return names
}

// condition returns a condition of the PodSet, nil if it has none of the type.
func condition(ctx context.Context, podSet *v1alpha1.PodSet, conditionType string) *metav1.Condition {
	GinkgoHelper()
	for _, condition := range get(ctx, podSet).Status.Conditions {
		if condition.Type == conditionType {
			return &condition
		}
	}
	return nil
}

// run plays the kubelet that runs a pod and finds it ready.
func run(ctx context.Context, namespace, name string) {
	GinkgoHelper()
	setStatus(ctx, namespace, name, running())
}

// running is the status of a pod that runs and is ready.
func running() corev1.PodStatus {
	return corev1.PodStatus{
		Phase:      corev1.PodRunning,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}},
	}
}

// fail plays the kubelet that gives a pod up.
func fail(ctx context.Context, namespace, name, reason string) {
	GinkgoHelper()
	setStatus(ctx, namespace, name, corev1.PodStatus{Phase: corev1.PodFailed, Reason: reason})
}

func setStatus(ctx context.Context, namespace, name string, status corev1.PodStatus) {
	GinkgoHelper()
	patch, err := json.Marshal(map[string]any{"status": status})
	Expect(err).NotTo(HaveOccurred())
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	Expect(client.IgnoreNotFound(c.Status().Patch(ctx, pod, client.RawPatch("application/merge-patch+json", patch)))).To(Succeed())
}

// bind plays the scheduler. A bound pod that is deleted stays, terminating, until the kubelet removes it.
func bind(ctx context.Context, namespace, node string, names ...string) {
	GinkgoHelper()
	for _, name := range names {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}}
		Expect(c.SubResource("binding").Create(ctx, pod, binding)).To(Succeed())
		Eventually(func() string {
			Expect(c.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
			return pod.Spec.NodeName
		}).Should(Equal(node), "the API server should know that the pod is bound")
	}
}

// deletePod deletes a pod as a user does.
func deletePod(ctx context.Context, namespace, name string) {
	GinkgoHelper()
	Expect(c.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})).To(Succeed())
}

// remove plays the kubelet that has stopped a terminating pod.
func remove(ctx context.Context, namespace, name string) {
	GinkgoHelper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	Expect(c.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
}

func annotate(ctx context.Context, namespace, name, key, value string) {
	GinkgoHelper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	Expect(c.Patch(ctx, pod, client.RawPatch("application/merge-patch+json", []byte(patch)))).To(Succeed())
}

// eventsOf returns the events about a PodSet.
func eventsOf(ctx context.Context, podSet *v1alpha1.PodSet) []eventsv1.Event {
	GinkgoHelper()
	list := &eventsv1.EventList{}
	Expect(c.List(ctx, list, client.InNamespace(podSet.Namespace))).To(Succeed())
	return slices.DeleteFunc(list.Items, func(e eventsv1.Event) bool { return e.Regarding.UID != podSet.UID })
}

func namesOf(pods map[string]*corev1.Pod) []string { return slices.Sorted(maps.Keys(pods)) }

// kubectl runs kubectl as a user does and returns what it prints.
func kubectl(stdin string, args ...string) string {
	GinkgoHelper()
	output, err := kubectlRun(stdin, args...)
	Expect(err).NotTo(HaveOccurred(), output)
	return output
}

// kubectlFails runs a kubectl command that must fail and returns what it prints.
func kubectlFails(stdin string, args ...string) string {
	GinkgoHelper()
	output, err := kubectlRun(stdin, args...)
	Expect(err).To(HaveOccurred(), output)
	return output
}

func oneContainer() *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "app", Image: "busybox:1.37", Command: []string{"sleep", "3600"}}},
	}}
}

func withTemplate(change func(*corev1.PodTemplateSpec)) func(*v1alpha1.PodSetSpec) {
	return func(spec *v1alpha1.PodSetSpec) {
		spec.Template = oneContainer()
		change(spec.Template)
	}
}
