package manager

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/podset-operator/api/v1alpha1"
	"example.com/podset-operator/test/localcluster"
	"example.com/podset-operator/test/operator"
)

var _ = Describe("The command line", func() {
	It("explains every flag with its default", func() {
		output, code := run("--help")
		Expect(code).To(BeZero())
		for _, line := range strings.Split(strings.TrimSpace(output), "\n")[1:] {
			Expect(line).To(MatchRegexp(`^\s+--[a-z0-9-]+.*\(default .+\)$`))
		}
	})

	DescribeTable("ends with one clear line when it is wrong",
		func(says string, args ...string) {
			output, code := run(args...)
			Expect(code).To(Equal(1))
			Expect(strings.Split(strings.TrimSpace(output), "\n")).To(ConsistOf(And(HavePrefix("manager: "), ContainSubstring(says))))
		},
		Entry("an unknown flag", "unknown flag: --nonsense", "--nonsense"),
		Entry("an argument that is no flag", `unexpected argument "now"`, "now"),
		Entry("not a number", "--max-concurrent-reconciles", "--max-concurrent-reconciles=many"),
		Entry("too small a number", "must be at least 1", "--max-concurrent-reconciles=0"),
		Entry("not a duration", "--reconcile-timeout", "--reconcile-timeout=5"),
		Entry("a lease shorter than its renewal", "--leader-election-lease-duration", "--leader-election-lease-duration=1s"),
		Entry("an unknown log format", "--log-format", "--log-format=xml"),
		Entry("a namespace that cannot be", "--watch-namespaces", "--watch-namespaces=Not_A_Namespace"),
		Entry("a kubeconfig that is not there", "no such file", "--kubeconfig=/does/not/exist"),
		Entry("no cluster at all", "no cluster to connect to"),
	)

	It("ends with one clear line when the kubeconfig is broken", func() {
		broken := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
		Expect(os.WriteFile(broken, []byte("}{"), 0o600)).To(Succeed())
		output, code := run("--kubeconfig=" + broken)
		Expect(code).To(Equal(1))
		Expect(strings.Split(strings.TrimSpace(output), "\n")).To(HaveLen(1))
	})
})

var _ = Describe("Without the CustomResourceDefinition", func() {
	It("waits, says so, and starts to work when it is installed", func(ctx SpecContext) {
		config := startAPIServer(ctx)
		kubeconfig = filepath.Join(GinkgoT().TempDir(), "kubeconfig")
		user := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "everyone"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:serviceaccounts"}},
		}
		bare, err := client.New(config, client.Options{})
		Expect(err).NotTo(HaveOccurred())
		Expect(bare.Create(ctx, user)).To(Succeed())
		Expect(bare.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "early"}})).To(Succeed())
		early, err := operator.TokenConfig(ctx, config, "default", "early")
		Expect(err).NotTo(HaveOccurred())
		Expect(localcluster.WriteKubeconfig(kubeconfig, early)).To(Succeed())

		probes := freeAddress()
		m := start("--health-probe-bind-address=" + probes)
		Eventually(m.log).Should(gbytes.Say("waiting for the CustomResourceDefinition podsets.app.example.com"))
		Eventually(statusOf("http://"+probes+"/healthz")).Should(Equal(http.StatusOK), "a waiting manager is alive")
		Expect(statusOf("http://" + probes + "/readyz")()).To(Equal(http.StatusInternalServerError))
		Consistently(m.Done(), "2s").ShouldNot(BeClosed(), "it should go on waiting")

		Expect(operator.Install(ctx, config)).To(Succeed())
		connect(ctx, config)
		podSet := newPodSet(ctx, "default", 2)
		expectPods(ctx, podSet, 2)
		Eventually(statusOf("http://"+probes+"/readyz")).Should(Equal(http.StatusOK), "now it is ready")
		Expect(string(m.log.Contents())).NotTo(ContainSubstring(`"level":"error"`))
	})
})

var _ = Describe("A manager", Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		config := startAPIServer(ctx)
		Expect(operator.Install(ctx, config)).To(Succeed())
		connect(ctx, config)
	})

	It("logs lines of JSON, and ends with exit code 0 on SIGTERM", func(ctx SpecContext) {
		m := start()
		expectPods(ctx, newPodSet(ctx, newNamespace(ctx), 1), 1)
		m.Stop()
		Expect(m.ExitCode()).To(BeZero())
		for line := range strings.SplitSeq(strings.TrimSpace(string(m.log.Contents())), "\n") {
			Expect(json.Unmarshal([]byte(line), &map[string]any{})).To(Succeed(), "%q should be JSON", line)
		}
		Expect(string(m.log.Contents())).To(And(ContainSubstring(`"msg":"created pod"`), Not(ContainSubstring(`"level":"error"`))))
	})

	It("logs for people on request", func(ctx SpecContext) {
		m := start("--log-format=text")
		expectPods(ctx, newPodSet(ctx, newNamespace(ctx), 1), 1)
		Eventually(m.log).Should(gbytes.Say(`INFO\s+created pod`))
	})

	It("serves metrics to those who may read them, over HTTPS", func(ctx SpecContext) {
		metrics := freeAddress()
		start("--metrics-bind-address=" + metrics)
		url := "https://" + metrics + "/metrics"
		scraper := tokenOf(ctx, "scraper")
		Eventually(statusOf(url)).Should(Equal(http.StatusUnauthorized), "without a token")
		Expect(statusOf(url, scraper)()).To(Equal(http.StatusForbidden), "without the right")
		Expect(c.Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "scraper"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "podset-operator-metrics-reader"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "scraper"}},
		})).To(Succeed())
		// The manager remembers a denial for a few seconds.
		Eventually(statusOf(url, scraper), "40s").Should(Equal(http.StatusOK), "with both")
		Expect(statusOf("http://"+metrics+"/metrics")()).To(Equal(http.StatusBadRequest), "without HTTPS")
		Expect(negotiated(metrics)).To(Equal("http/1.1"), "HTTP/2 is off")
	})

	It("speaks HTTP/2 at the metrics endpoint on request", func() {
		metrics := freeAddress()
		start("--metrics-bind-address="+metrics, "--enable-http2")
		Eventually(func() string { return negotiated(metrics) }).Should(Equal("h2"))
	})

	It("serves profiles only on request", func() {
		pprof := freeAddress()
		start("--pprof-bind-address=" + pprof)
		Eventually(statusOf("http://" + pprof + "/debug/pprof/cmdline")).Should(Equal(http.StatusOK))
	})

	It("reconciles only the namespaces it is told to", func(ctx SpecContext) {
		one, two, other := newNamespace(ctx), newNamespace(ctx), newNamespace(ctx)
		start("--watch-namespaces=" + one + "," + two)
		inOne, inTwo, inOther := newPodSet(ctx, one, 2), newPodSet(ctx, two, 3), newPodSet(ctx, other, 1)
		expectPods(ctx, inOne, 2)
		expectPods(ctx, inTwo, 3)
		scale(ctx, inOne, 1)
		expectPods(ctx, inOne, 1)
		scale(ctx, inTwo, 4)
		expectPods(ctx, inTwo, 4)
		Consistently(func() int { return len(podsOf(ctx, inOther)) }, "1s").Should(BeZero(), "the other namespace should be left alone")
		Expect(c.Delete(ctx, inOther)).To(Succeed())
	})

	It("changes nothing about settled PodSets when it is restarted", func(ctx SpecContext) {
		m := start()
		podSet := newPodSet(ctx, newNamespace(ctx), 3)
		expectPods(ctx, podSet, 3)
		Eventually(func() []string { return statusNames(ctx, podSet) }).Should(HaveLen(3))
		m.Stop()
		before := podsOf(ctx, podSet)
		version := podSet.ResourceVersion
		again := start()
		Eventually(again.log).Should(gbytes.Say("Starting workers"))
		Consistently(func() string { statusNames(ctx, podSet); return podSet.ResourceVersion }, "2s").Should(Equal(version))
		Expect(podsOf(ctx, podSet)).To(Equal(before))
	})

	It("hands over within seconds when the leader is told to stop, without a pod too many", func(ctx SpecContext) {
		elect := []string{"--leader-elect", "--leader-election-namespace=" + operator.Namespace}
		first := start(elect...)
		Eventually(first.log).Should(gbytes.Say("Starting workers"))
		probes := freeAddress()
		second := start(append(elect, "--health-probe-bind-address="+probes)...)
		Eventually(statusOf("http://"+probes+"/readyz")).Should(Equal(http.StatusOK), "a standby is ready, its caches warm")
		Expect(string(second.log.Contents())).NotTo(ContainSubstring("Starting workers"))

		podSet := newPodSet(ctx, newNamespace(ctx), 60)
		Eventually(func() int { return len(podsOf(ctx, podSet)) }, "10s", "10ms").Should(BeNumerically(">", 10))
		stopped := time.Now()
		first.Signal(syscall.SIGTERM)
		Eventually(second.log).Should(gbytes.Say("Starting workers"))
		Expect(time.Since(stopped)).To(BeNumerically("<", 5*time.Second), "the lease should be released, not waited for")
		expectPods(ctx, podSet, 60)
		Consistently(func() int { return len(podsOf(ctx, podSet)) }, "1s").Should(Equal(60))

		Eventually(first.Done()).Should(BeClosed())
		lease := &coordinationv1.Lease{}
		Expect(c.Get(ctx, client.ObjectKey{Namespace: operator.Namespace, Name: "podset-operator.app.example.com"}, lease)).To(Succeed())
		second.Stop()
		Expect(second.ExitCode()).To(BeZero())
	})
})

func newNamespace(ctx SpecContext) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "spec-"}}
	Expect(c.Create(ctx, namespace)).To(Succeed())
	return namespace.Name
}

func newPodSet(ctx SpecContext, namespace string, replicas int32) *v1alpha1.PodSet {
	GinkgoHelper()
	podSet := &v1alpha1.PodSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
		Spec:       v1alpha1.PodSetSpec{Replicas: new(replicas)},
	}
	Expect(c.Create(ctx, podSet)).To(Succeed())
	return podSet
}

func scale(ctx SpecContext, podSet *v1alpha1.PodSet, replicas int32) {
	GinkgoHelper()
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	Expect(c.Patch(ctx, podSet, client.RawPatch("application/merge-patch+json", patch))).To(Succeed())
}

func podsOf(ctx SpecContext, podSet *v1alpha1.PodSet) []string {
	GinkgoHelper()
	list := &corev1.PodList{}
	Expect(c.List(ctx, list, client.InNamespace(podSet.Namespace))).To(Succeed())
	var names []string
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], podSet) {
			names = append(names, list.Items[i].Name)
		}
	}
	return names
}

func expectPods(ctx SpecContext, podSet *v1alpha1.PodSet, n int) {
	GinkgoHelper()
	Eventually(func() []string { return podsOf(ctx, podSet) }).Should(HaveLen(n), "the PodSet should have its pods")
}

func statusNames(ctx SpecContext, podSet *v1alpha1.PodSet) []string {
	GinkgoHelper()
	Expect(c.Get(ctx, client.ObjectKeyFromObject(podSet), podSet)).To(Succeed())
	return podSet.Status.PodNames
}

func freeAddress() string {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// tokenOf makes a ServiceAccount without any rights and returns a token of it.
func tokenOf(ctx SpecContext, name string) string {
	GinkgoHelper()
	Expect(c.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}})).To(Succeed())
	config, err := operator.TokenConfig(ctx, admin, "default", name)
	Expect(err).NotTo(HaveOccurred())
	return config.BearerToken
}

var insecure = &tls.Config{InsecureSkipVerify: true}

// statusOf returns a function that gets the URL and returns the status code, 0 if there is no answer.
func statusOf(url string, token ...string) func() int {
	return func() int {
		request, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			return 0
		}
		for _, t := range token {
			request.Header.Set("Authorization", "Bearer "+t)
		}
		transport := &http.Transport{TLSClientConfig: insecure.Clone(), DisableKeepAlives: true}
		response, err := (&http.Client{Transport: transport, Timeout: 5 * time.Second}).Do(request)
		if err != nil {
			return 0
		}
		defer func() { _ = response.Body.Close() }()
		_, _ = io.Copy(io.Discard, response.Body)
		return response.StatusCode
	}
}

// negotiated returns the protocol that a server chooses if it is offered HTTP/2 and HTTP/1.1.
func negotiated(address string) string {
	config := insecure.Clone()
	config.NextProtos = []string{"h2", "http/1.1"}
	connection, err := tls.Dial("tcp", address, config)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = connection.Close() }()
	return connection.ConnectionState().NegotiatedProtocol
}
