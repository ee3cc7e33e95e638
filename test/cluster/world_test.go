package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/podset-operator/api/v1alpha1"
)

// newNamespace makes a namespace for one spec; it is deleted afterwards.
func newNamespace(ctx SpecContext) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "spec-"}}
	Expect(c.Create(ctx, namespace)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(c.Delete(ctx, namespace))).To(Succeed()) })
	Eventually(func() error {
		return c.Get(ctx, client.ObjectKey{Namespace: namespace.Name, Name: "default"}, &corev1.ServiceAccount{})
	}).Should(Succeed(), "the namespace should have its ServiceAccount")
	return namespace.Name
}

func newPodSet(ctx context.Context, namespace, name string, replicas int32) *v1alpha1.PodSet {
	GinkgoHelper()
	podSet := &v1alpha1.PodSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.PodSetSpec{Replicas: new(replicas)},
	}
	Expect(c.Create(ctx, podSet)).To(Succeed())
	return podSet
}

func scale(ctx context.Context, podSet *v1alpha1.PodSet, replicas int32) {
	GinkgoHelper()
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	Expect(c.Patch(ctx, podSet, client.RawPatch("application/merge-patch+json", patch))).To(Succeed())
}

func podsIn(ctx context.Context, namespace string) []corev1.Pod {
	GinkgoHelper()
	list := &corev1.PodList{}
	Expect(c.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
	return list.Items
}

// activePods returns the names of the PodSet's active pods, sorted.
func activePods(ctx context.Context, podSet *v1alpha1.PodSet) []string {
	GinkgoHelper()
	var names []string
	for _, pod := range podsIn(ctx, podSet.Namespace) {
		finished := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
		if metav1.IsControlledBy(&pod, podSet) && pod.DeletionTimestamp == nil && !finished {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	return names
}

// settle waits until the PodSet is Ready with exactly the wanted pods, and returns their names.
func settle(ctx context.Context, podSet *v1alpha1.PodSet, replicas int, within ...any) []string {
	GinkgoHelper()
	var names []string
	Eventually(func(g Gomega) {
		g.Expect(c.Get(ctx, client.ObjectKeyFromObject(podSet), podSet)).To(Succeed())
		names = activePods(ctx, podSet)
		g.Expect(names).To(HaveLen(replicas))
		g.Expect(podSet.Status.PodNames).To(Equal(names))
		g.Expect(ready(podSet)).To(And(HaveField("Status", metav1.ConditionTrue), HaveField("ObservedGeneration", podSet.Generation)))
	}, within...).Should(Succeed(), "the PodSet should be Ready with its pods")
	return names
}

func ready(podSet *v1alpha1.PodSet) metav1.Condition {
	for _, condition := range podSet.Status.Conditions {
		if condition.Type == v1alpha1.ConditionReady {
			return condition
		}
	}
	return metav1.Condition{}
}

// kubectl runs kubectl as an administrator and returns what it prints.
func kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	output, err := cluster.Kubectl(ctx, args...).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))
	return string(output)
}

// podCreates counts the manager's tries to create a pod in a namespace since a time, as the API server logged them.
func podCreates(namespace string, since time.Time) int {
	GinkgoHelper()
	file, err := os.Open(audit)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = file.Close() }()
	count := 0
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var request struct {
			Verb      string
			User      struct{ Username string }
			ObjectRef struct{ Resource, Namespace string }
			Time      time.Time `json:"requestReceivedTimestamp"`
		}
		if json.Unmarshal(lines.Bytes(), &request) != nil {
			continue // the line that is being written
		}
		if request.Verb == "create" && request.ObjectRef.Resource == "pods" && request.ObjectRef.Namespace == namespace &&
			strings.HasPrefix(request.User.Username, "system:serviceaccount:podset-operator-system:") && request.Time.After(since) {
			count++
		}
	}
	return count
}
