package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/kubectl/pkg/util/podutils"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/podset-operator/api/v1alpha1"
	"example.com/podset-operator/test/operator"
)

const (
	deploymentName = "podset-operator-controller-manager"
	leaseName      = "podset-operator.app.example.com"
)

var managerLabels = client.MatchingLabels{"control-plane": "controller-manager"}

// waitForOperator returns when the Deployment's managers run as its spec says, all ready and no old ones left.
func waitForOperator(ctx context.Context) {
	GinkgoHelper()
	deployment := &appsv1.Deployment{}
	Eventually(func(g Gomega) {
		g.Expect(c.Get(ctx, client.ObjectKey{Namespace: operator.Namespace, Name: deploymentName}, deployment)).To(Succeed())
		wanted := *deployment.Spec.Replicas
		g.Expect(deployment.Status).To(And(
			HaveField("ObservedGeneration", deployment.Generation), HaveField("UpdatedReplicas", wanted),
			HaveField("ReadyReplicas", wanted), HaveField("Replicas", wanted)))
	}).Should(Succeed(), "the managers should be ready")
}

// managerPods returns the manager's pods that are not terminating.
func managerPods(ctx context.Context) []corev1.Pod {
	GinkgoHelper()
	return slices.DeleteFunc(podsIn(ctx, operator.Namespace, managerLabels), func(pod corev1.Pod) bool { return !isActive(&pod) })
}

// readyManagers returns those manager pods that are ready.
func readyManagers(ctx context.Context) []corev1.Pod {
	GinkgoHelper()
	return slices.DeleteFunc(managerPods(ctx), func(pod corev1.Pod) bool { return !isReady(&pod) })
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
		return condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
	})
}

// twoManagers runs two managers until the end of the spec.
func twoManagers(ctx SpecContext) {
	GinkgoHelper()
	scaleOperator(ctx, 2)
	DeferCleanup(func(ctx SpecContext) {
		scaleOperator(ctx, 1)
		waitForOperator(ctx)
	})
	waitForOperator(ctx)
}

func scaleOperator(ctx context.Context, replicas int) {
	GinkgoHelper()
	kubectl(ctx, "scale", "deployment", deploymentName, "-n", operator.Namespace, fmt.Sprintf("--replicas=%d", replicas))
}

// lease returns the lease that the leading manager holds.
func lease(ctx context.Context) *coordinationv1.Lease {
	GinkgoHelper()
	lease := &coordinationv1.Lease{}
	Expect(c.Get(ctx, client.ObjectKey{Namespace: operator.Namespace, Name: leaseName}, lease)).To(Succeed())
	return lease
}

// leader returns the pod of the leading manager and the identity it holds the lease under, once there is one.
func leader(ctx context.Context) (pod corev1.Pod, identity string) {
	GinkgoHelper()
	Eventually(func() bool {
		identity = ptr.Deref(lease(ctx).Spec.HolderIdentity, "")
		pods := managerPods(ctx)
		i := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return strings.HasPrefix(identity, pod.Name+"_") })
		if i >= 0 {
			pod = pods[i]
		}
		return i >= 0
	}).Should(BeTrue(), "a manager should lead")
	return pod, identity
}

// crash ends a manager at once, without a chance to release its lease. Nothing in a container can kill its process 1,
// but the Go runtime ends on SIGQUIT without more ado. The signal comes from a container that joins the pod.
func crash(ctx context.Context, manager *corev1.Pod) {
	GinkgoHelper()
	joinManager(ctx, manager, "manager", "kill -QUIT 1")
}

// joinManager runs a script in a container that joins a manager's pod, if that is still there, under the manager's user.
// It sees the processes of the target container, or those of the pod.
func joinManager(ctx context.Context, manager *corev1.Pod, target, script string) {
	GinkgoHelper()
	security := restrictedContainer()
	security.RunAsUser = new(int64(65532))
	Eventually(func() error {
		pod := &corev1.Pod{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(manager), pod); err != nil {
			return client.IgnoreNotFound(err)
		}
		pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, corev1.EphemeralContainer{
			TargetContainerName: target,
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{
				Name:            fmt.Sprintf("joined-%d", len(pod.Spec.EphemeralContainers)),
				Image:           "busybox:1.37",
				ImagePullPolicy: corev1.PullIfNotPresent,
				Command:         []string{"sh", "-c", script},
				SecurityContext: security,
			},
		})
		return client.IgnoreNotFound(c.SubResource("ephemeralcontainers").Update(ctx, pod))
	}).Should(Succeed(), "a container should join the manager")
}

// observer counts a PodSet's active pods at each of the changes that the API server tells of.
type observer struct {
	mu      sync.Mutex
	active  map[types.UID]bool // and whether it is ready
	most    int
	least   int // ready ones, since the observation began
	created []time.Time
}

// observe counts the active pods of the PodSet, and those created from now on, until the spec ends.
func observe(ctx SpecContext, podSet *v1alpha1.PodSet) *observer {
	GinkgoHelper()
	list := &corev1.PodList{}
	Expect(c.List(ctx, list, client.InNamespace(podSet.Namespace))).To(Succeed())
	podSet = podSet.DeepCopy() // the caller's is read anew while this one is in use
	o := &observer{active: map[types.UID]bool{}}
	for i := range list.Items {
		o.see(podSet, watch.Event{Type: watch.Modified, Object: &list.Items[i]})
	}
	o.least = o.ready()
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &toolscache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return typed.CoreV1().Pods(podSet.Namespace).Watch(ctx, options)
		},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(watcher.Stop)
	go func() {
		for event := range watcher.ResultChan() {
			o.see(podSet, event)
		}
	}()
	return o
}

func (o *observer) see(podSet *v1alpha1.PodSet, event watch.Event) {
	pod, ok := event.Object.(*corev1.Pod)
	if !ok || !metav1.IsControlledBy(pod, podSet) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if event.Type == watch.Added {
		o.created = append(o.created, time.Now())
	}
	if event.Type != watch.Deleted && isActive(pod) {
		o.active[pod.UID] = podutils.IsPodReady(pod)
	} else {
		delete(o.active, pod.UID)
	}
	o.most = max(o.most, len(o.active))
	o.least = min(o.least, o.ready())
}

// now is how many pods are active.
func (o *observer) now() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.active)
}

// catchesUp waits until the observer sees what is there by now.
func (o *observer) catchesUp(active int) {
	GinkgoHelper()
	Eventually(o.now).Should(Equal(active), "the observer should see the pods that there are")
}

// mostEver is how many pods were active at the same time at most.
func (o *observer) mostEver() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.most
}

// leastReady is how many of the active pods were ready at least.
func (o *observer) leastReady() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.least
}

func (o *observer) ready() int {
	ready := 0
	for _, isReady := range o.active {
		if isReady {
			ready++
		}
	}
	return ready
}

// creations is how many pods were created, those that are gone included.
func (o *observer) creations() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.created)
}

// longestPause is the longest time between the creation of one pod and the next.
func (o *observer) longestPause() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	var longest time.Duration
	for i := 1; i < len(o.created); i++ {
		longest = max(longest, o.created[i].Sub(o.created[i-1]))
	}
	return longest
}

// startChaos deletes a pod of the manager every fifteen seconds or so until the suite ends, half of them by force. Some of
// the pauses are longer than a lease: a manager takes over that of one that ended without releasing it only after it has
// watched it for fifteen seconds.
func startChaos() {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	DeferCleanup(func() {
		stop()
		<-ended
	})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Duration(5+rand.N(20)) * time.Second):
			}
			list := &corev1.PodList{}
			if err := c.List(ctx, list, client.InNamespace(operator.Namespace), managerLabels); err != nil || len(list.Items) == 0 {
				continue
			}
			victim := &list.Items[rand.N(len(list.Items))]
			var options []client.DeleteOption
			if rand.N(2) == 0 {
				options = append(options, client.GracePeriodSeconds(0))
			}
			_ = c.Delete(ctx, victim, options...)
		}
	}()
}
