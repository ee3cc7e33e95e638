package rbac

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/podset-operator/api/v1alpha1"
	"example.com/podset-operator/test/operator"
)

// behaviour is something that the manager does with its rights.
type behaviour struct {
	name string
	// shown returns an error if the manager does not do it within a few seconds. It takes a fraction of one otherwise.
	shown func(ctx SpecContext) error
}

// soon is how long a manager is given to do something after its start.
const soon = 3 * time.Second

var (
	createsPods = behaviour{"creates pods", func(ctx SpecContext) error {
		start()
		return havePods(ctx, newPodSet(ctx, 2), 2)
	}}

	createsPodsWithoutStreamedLists = behaviour{"creates pods where lists are not streamed", func(ctx SpecContext) error {
		// API servers that do not send what there is at the begin of a watch have to be asked for a list.
		GinkgoT().Setenv("KUBE_FEATURE_WatchListClient", "false")
		return createsPods.shown(ctx)
	}}

	deletesPods = behaviour{"deletes pods", func(ctx SpecContext) error {
		start()
		podSet := newPodSet(ctx, 2)
		if err := havePods(ctx, podSet, 2); err != nil {
			return err
		}
		Expect(c.Patch(ctx, podSet, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":0}}`)))).To(Succeed())
		return havePods(ctx, podSet, 0)
	}}

	keepsUp = behaviour{"keeps up with changes", func(ctx SpecContext) error {
		start()
		podSet := newPodSet(ctx, 1)
		// Without a watch it lists what there is again and again, but takes ever longer breaks.
		ended := time.Now().Add(soon)
		for replicas := range 6 {
			scale := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas+1)
			Expect(c.Patch(ctx, podSet, client.RawPatch(types.MergePatchType, scale))).To(Succeed())
			if err := havePods(ctx, podSet, replicas+1); err != nil {
				return err
			}
			Expect(c.Delete(ctx, &podsOf(ctx, podSet)[0])).To(Succeed())
			if err := havePods(ctx, podSet, replicas+1); err != nil {
				return err
			}
		}
		if time.Now().After(ended) {
			return errors.New("all changes should be followed soon")
		}
		return nil
	}}

	releasesPods = behaviour{"releases pods that lost the label", func(ctx SpecContext) error {
		start()
		podSet := newPodSet(ctx, 1)
		if err := havePods(ctx, podSet, 1); err != nil {
			return err
		}
		// The manager does not see pods without its label, and so has to ask for this one.
		pod := podsOf(ctx, podSet)[0]
		unlabel := fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, v1alpha1.PodSetLabel)
		Expect(c.Patch(ctx, &pod, client.RawPatch(types.MergePatchType, unlabel))).To(Succeed())
		return eventually(ctx, "the pod should be replaced and released", func() bool {
			pods := podsOf(ctx, podSet)
			return len(pods) == 1 && pods[0].Name != pod.Name
		})
	}}

	adoptsOrphans = behaviour{"adopts orphans", func(ctx SpecContext) error {
		start()
		namespace := newNamespace(ctx)
		orphan := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "orphan", Labels: map[string]string{v1alpha1.PodSetLabel: "web"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "busybox:1.37"}}},
		}
		Expect(c.Create(ctx, orphan)).To(Succeed())
		podSet := newPodSetIn(ctx, namespace, 1)
		return eventually(ctx, "the orphan should be adopted", func() bool {
			return slices.ContainsFunc(podsOf(ctx, podSet), func(pod corev1.Pod) bool { return pod.Name == "orphan" })
		})
	}}

	reportsStatus = behaviour{"reports the status", func(ctx SpecContext) error {
		start()
		podSet := newPodSet(ctx, 1)
		return eventually(ctx, "the status should name the pod", func() bool {
			Expect(c.Get(ctx, client.ObjectKeyFromObject(podSet), podSet)).To(Succeed())
			return len(podSet.Status.PodNames) == 1
		})
	}}

	tellsOfPods = behaviour{"tells of pods in events", func(ctx SpecContext) error {
		start()
		podSet := newPodSet(ctx, 1)
		return eventually(ctx, "an event should tell of the pod", func() bool {
			return slices.ContainsFunc(eventsOf(ctx, podSet), func(event eventsv1.Event) bool { return event.Reason == "PodCreated" })
		})
	}}

	countsRepeatedEvents = behaviour{"counts repeated events", func(ctx SpecContext) error {
		start()
		podSet := newPodSet(ctx, 20)
		return eventually(ctx, "an event should be a series", func() bool {
			return slices.ContainsFunc(eventsOf(ctx, podSet), func(event eventsv1.Event) bool { return event.Series != nil })
		})
	}}

	servesMetrics = behaviour{"serves metrics to those who may read them", func(ctx SpecContext) error {
		address := freeAddress()
		start("--metrics-bind-address=" + address)
		token := scraper(ctx)
		return eventually(ctx, "the metrics should be served", func() bool { return getMetrics(ctx, address, token) == http.StatusOK })
	}}

	tellsWhoLeads = behaviour{"tells in an event who leads", func(ctx SpecContext) error {
		deleteLease(ctx)
		Expect(c.DeleteAllOf(ctx, &corev1.Event{}, client.InNamespace(operator.Namespace))).To(Succeed())
		start(elect...)
		return eventually(ctx, "an event should tell who leads", func() bool {
			list := &corev1.EventList{}
			Expect(c.List(ctx, list, client.InNamespace(operator.Namespace))).To(Succeed())
			return slices.ContainsFunc(list.Items, func(event corev1.Event) bool { return event.Reason == "LeaderElection" })
		})
	}}

	leadsAsTheFirst = behaviour{"leads when nobody has led before", func(ctx SpecContext) error {
		deleteLease(ctx)
		start(elect...)
		return havePods(ctx, newPodSet(ctx, 1), 1)
	}}

	leadsAfterAnother = behaviour{"leads after another", func(ctx SpecContext) error {
		deleteLease(ctx)
		released := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: operator.Namespace, Name: leaseName},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: new(""), LeaseDurationSeconds: new(int32(1)), LeaseTransitions: new(int32(1)),
				AcquireTime: new(metav1.NowMicro()), RenewTime: new(metav1.NowMicro()),
			},
		}
		Expect(c.Create(ctx, released)).To(Succeed())
		start(elect...)
		return havePods(ctx, newPodSet(ctx, 1), 1)
	}}
)

const leaseName = "podset-operator.app.example.com"

var elect = []string{"--leader-elect", "--leader-election-namespace=" + operator.Namespace, "--leader-election-retry-period=200ms"}

// start starts a manager that is stopped at the end of the spec.
func start(flags ...string) {
	GinkgoHelper()
	flags = append([]string{"--metrics-bind-address=0", "--health-probe-bind-address=0"}, flags...)
	process, err := operator.StartProcess(binary, kubeconfig, GinkgoWriter, flags...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(process.Stop)
}

func eventually(ctx context.Context, should string, condition func() bool) error {
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, soon, true, func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		return errors.New(should)
	}
	return nil
}

func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "spec-"}}
	Expect(c.Create(ctx, namespace)).To(Succeed())
	return namespace.Name
}

func newPodSet(ctx context.Context, replicas int32) *v1alpha1.PodSet {
	GinkgoHelper()
	return newPodSetIn(ctx, newNamespace(ctx), replicas)
}

// newPodSetIn creates a PodSet that is deleted at the end of the spec, so that no later manager cares for it.
func newPodSetIn(ctx context.Context, namespace string, replicas int32) *v1alpha1.PodSet {
	GinkgoHelper()
	podSet := &v1alpha1.PodSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
		Spec:       v1alpha1.PodSetSpec{Replicas: &replicas},
	}
	Expect(c.Create(ctx, podSet)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(c.Delete(ctx, podSet)).To(Succeed()) })
	return podSet
}

func podsOf(ctx context.Context, podSet *v1alpha1.PodSet) []corev1.Pod {
	GinkgoHelper()
	list := &corev1.PodList{}
	Expect(c.List(ctx, list, client.InNamespace(podSet.Namespace))).To(Succeed())
	return slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return !metav1.IsControlledBy(&pod, podSet) })
}

func havePods(ctx context.Context, podSet *v1alpha1.PodSet, n int) error {
	GinkgoHelper()
	return eventually(ctx, fmt.Sprintf("there should be %d pods", n), func() bool { return len(podsOf(ctx, podSet)) == n })
}

func eventsOf(ctx context.Context, podSet *v1alpha1.PodSet) []eventsv1.Event {
	GinkgoHelper()
	list := &eventsv1.EventList{}
	Expect(c.List(ctx, list, client.InNamespace(podSet.Namespace))).To(Succeed())
	return list.Items
}

func deleteLease(ctx context.Context) {
	GinkgoHelper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: operator.Namespace, Name: leaseName}}
	Expect(client.IgnoreNotFound(c.Delete(ctx, lease))).To(Succeed())
}

func freeAddress() string {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// scraper makes a ServiceAccount that may read the metrics, and returns a token of it.
func scraper(ctx context.Context) string {
	GinkgoHelper()
	namespace := newNamespace(ctx)
	Expect(c.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "scraper"}})).To(Succeed())
	Expect(c.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "podset-operator-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: "scraper"}},
	})).To(Succeed())
	config, err := operator.TokenConfig(ctx, admin, namespace, "scraper")
	Expect(err).NotTo(HaveOccurred())
	return config.BearerToken
}

// getMetrics returns the status code of a request for the metrics, 0 if there is no answer.
func getMetrics(ctx context.Context, address, token string) int {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/metrics", nil)
	if err != nil {
		return 0
	}
	request.Header.Set("Authorization", "Bearer "+token)
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // the endpoint's certificate is self-signed
		DisableKeepAlives: true,
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}
