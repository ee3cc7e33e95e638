package e2e

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/podset-operator/api/v1alpha1"
)

// namespaceOfSpec is the namespace of the running spec.
var namespaceOfSpec string

// newNamespace makes a namespace for one spec, as strict as Pod Security can be; it is deleted afterwards.
func newNamespace(ctx SpecContext) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "e2e-",
		Labels:       map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	Expect(c.Create(ctx, namespace)).To(Succeed())
	namespaceOfSpec = namespace.Name
	DeferCleanup(func(ctx SpecContext) {
		namespaceOfSpec = ""
		Expect(client.IgnoreNotFound(c.Delete(ctx, namespace))).To(Succeed())
	})
	Eventually(func() error {
		return c.Get(ctx, client.ObjectKey{Namespace: namespace.Name, Name: "default"}, &corev1.ServiceAccount{})
	}).Should(Succeed(), "the namespace should have its ServiceAccount")
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

// running makes the pods run a shell script.
func running(script string, changes ...func(*corev1.PodSpec)) func(*v1alpha1.PodSetSpec) {
	return func(spec *v1alpha1.PodSetSpec) {
		spec.Template = &corev1.PodTemplateSpec{Spec: restrictedPod("busybox:1.37", "sh", "-c", script)}
		for _, change := range changes {
			change(&spec.Template.Spec)
		}
	}
}

// unscheduled makes pods that no scheduler looks at. They cost the node nothing, so that there can be many.
func unscheduled(spec *v1alpha1.PodSetSpec) {
	running("sleep 3600", func(pod *corev1.PodSpec) { pod.SchedulerName = "nobody" })(spec)
}

// restrictedPod is a pod of one container that the restricted Pod Security Standard allows.
func restrictedPod(image string, command ...string) corev1.PodSpec {
	return corev1.PodSpec{
		AutomountServiceAccountToken:  new(false),
		TerminationGracePeriodSeconds: new(int64(1)),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot:   new(true),
			RunAsUser:      new(int64(65532)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name:            "main",
			Image:           image,
			ImagePullPolicy: corev1.PullIfNotPresent,
			Command:         command,
			SecurityContext: restrictedContainer(),
		}},
	}
}

func restrictedContainer() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

func scale(ctx context.Context, podSet *v1alpha1.PodSet, replicas int32) {
	GinkgoHelper()
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	Expect(c.Patch(ctx, podSet, client.RawPatch(types.MergePatchType, patch))).To(Succeed())
}

func podsIn(ctx context.Context, namespace string, options ...client.ListOption) []corev1.Pod {
	GinkgoHelper()
	list := &corev1.PodList{}
	Expect(c.List(ctx, list, append(options, client.InNamespace(namespace))...)).To(Succeed())
	return list.Items
}

func getPod(ctx context.Context, namespace, name string) *corev1.Pod {
	GinkgoHelper()
	pod := &corev1.Pod{}
	Expect(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod)).To(Succeed())
	return pod
}

func isActive(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && !hasEnded(pod) }

func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// activePods returns the names of the PodSet's active pods, sorted.
func activePods(ctx context.Context, podSet *v1alpha1.PodSet) []string {
	GinkgoHelper()
	names := []string{}
	for _, pod := range podsIn(ctx, podSet.Namespace) {
		if metav1.IsControlledBy(&pod, podSet) && isActive(&pod) {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	return names
}

// settle waits until the PodSet is Ready with exactly the wanted pods, and returns their names.
func settle(ctx context.Context, podSet *v1alpha1.PodSet, replicas int, within ...any) []string {
	GinkgoHelper()
	return settleWith(ctx, podSet, replicas, v1alpha1.ReasonPodsAvailable, within...)
}

// settleWith waits until the PodSet has exactly the wanted pods and is Ready, or not, for the reason.
func settleWith(ctx context.Context, podSet *v1alpha1.PodSet, replicas int, reason string, within ...any) []string {
	GinkgoHelper()
	var names []string
	Eventually(func(g Gomega) {
		g.Expect(c.Get(ctx, client.ObjectKeyFromObject(podSet), podSet)).To(Succeed())
		names = activePods(ctx, podSet)
		g.Expect(names).To(HaveLen(replicas))
		g.Expect(podSet.Status.PodNames).To(HaveExactElements(names))
		g.Expect(ready(podSet)).To(And(HaveField("Reason", reason), HaveField("ObservedGeneration", podSet.Generation)))
	}, within...).Should(Succeed(), "the PodSet should have its pods and report them")
	return names
}

// ready returns the condition Ready of the PodSet as last read.
func ready(podSet *v1alpha1.PodSet) metav1.Condition {
	for _, condition := range podSet.Status.Conditions {
		if condition.Type == v1alpha1.ConditionReady {
			return condition
		}
	}
	return metav1.Condition{}
}

// condition reads the PodSet and returns its condition Ready.
func condition(ctx context.Context, podSet *v1alpha1.PodSet) metav1.Condition {
	GinkgoHelper()
	Expect(c.Get(ctx, client.ObjectKeyFromObject(podSet), podSet)).To(Succeed())
	return ready(podSet)
}

// incarnations returns for each active pod of the PodSet what changes if it, or one of its containers, is restarted.
func incarnations(ctx context.Context, podSet *v1alpha1.PodSet) map[string]string {
	GinkgoHelper()
	found := map[string]string{}
	for _, pod := range podsIn(ctx, podSet.Namespace) {
		if metav1.IsControlledBy(&pod, podSet) && isActive(&pod) {
			found[pod.Name] = fmt.Sprint(pod.UID, restarts(&pod))
		}
	}
	return found
}

func restarts(pod *corev1.Pod) int32 {
	var restarts int32
	for _, container := range pod.Status.ContainerStatuses {
		restarts += container.RestartCount
	}
	return restarts
}

func isGone(ctx context.Context, object client.Object) func() bool {
	return func() bool { return apierrors.IsNotFound(c.Get(ctx, client.ObjectKeyFromObject(object), object)) }
}

// kubectl runs kubectl and returns what it prints.
func kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	return mustRun(ctx, "", kubectlCommand, args...)
}

// kubectlApply applies a manifest in a namespace.
func kubectlApply(ctx context.Context, namespace, manifest string) string {
	GinkgoHelper()
	return mustRun(ctx, manifest, kubectlCommand, "apply", "-n", namespace, "-f", "-")
}

var kubectlCommand = cmp.Or(os.Getenv("KUBECTL"), "kubectl")

// runMake runs targets of the Makefile as a user does.
func runMake(ctx context.Context, args ...string) string {
	GinkgoHelper()
	return mustRun(ctx, "", "make", append([]string{"--no-print-directory"}, args...)...)
}

// mustRun runs a command in the project's folder and returns what it prints.
func mustRun(ctx context.Context, stdin, command string, args ...string) string {
	GinkgoHelper()
	output, err := run(ctx, stdin, command, args...)
	Expect(err).NotTo(HaveOccurred(), "%s %s: %s", command, strings.Join(args, " "), output)
	return output
}

func run(ctx context.Context, stdin, command string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, command, args...)
	cmd.Dir = root
	cmd.Stdin = strings.NewReader(stdin)
	// The make that runs the suite has its own arguments, which are not for the makes that the suite runs.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "MAKEFLAGS=") || strings.HasPrefix(variable, "MAKELEVEL=")
	})
	cmd.WaitDelay = time.Second
	output, err := cmd.CombinedOutput()
	return string(output), err
}

var notInFileName = regexp.MustCompile(`[^a-zA-Z0-9]+`)

func fileName(text string) string {
	return strings.Trim(notInFileName.ReplaceAllString(text, "-"), "-")
}
