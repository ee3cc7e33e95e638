// Package integration tests the operator against a real kube-apiserver and etcd. The manager runs under a token of its
// own ServiceAccount, with the rights of config/rbac. There is no kubelet and no controller manager: the specs play the
// kubelet, so that they decide what happens to a pod and when.
package integration

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"example.com/podset-operator/internal/manager"
	"example.com/podset-operator/test/localcluster/assets"
	"example.com/podset-operator/test/operator"
)

const (
	patience = 15 * time.Second
	interval = 50 * time.Millisecond
	// calm is how long something must not happen before it counts as not happening.
	calm = 1500 * time.Millisecond
	// workers is how many PodSets are reconciled at a time.
	workers = 10
)

var (
	admin      *rest.Config
	c          client.WithWatch
	kubectlRun func(stdin string, args ...string) (string, error)
	audit      *auditLog
	managerLog = &lines{}
)

func TestIntegration(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(interval)
	SetDefaultConsistentlyDuration(calm)
	SetDefaultConsistentlyPollingInterval(interval)
	RunSpecs(t, "PodSet on a real API server")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	dir := GinkgoT().TempDir()
	binaries, err := assets.Ensure(ctx, os.Stderr, assets.Envtest...)
	Expect(err).NotTo(HaveOccurred())

	audit = newAuditLog(dir)
	environment := &envtest.Environment{BinaryAssetsDirectory: binaries.Dir()}
	environment.ControlPlane.GetAPIServer().Configure().
		Append("enable-admission-plugins", "OwnerReferencesPermissionEnforcement").
		Set("audit-policy-file", audit.policy).
		Set("audit-log-path", audit.path).
		Set("audit-log-mode", "blocking-strict")
	DeferCleanup(environment.Stop)
	admin, err = environment.Start()
	Expect(err).NotTo(HaveOccurred())
	admin.QPS = -1

	kubeconfig := filepath.Join(dir, "admin.kubeconfig")
	user, err := environment.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
	Expect(err).NotTo(HaveOccurred())
	content, err := user.KubeConfig()
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(kubeconfig, content, 0o600)).To(Succeed())
	kubectlRun = func(stdin string, args ...string) (string, error) {
		cmd := exec.Command(binaries["kubectl"], append([]string{"--kubeconfig", kubeconfig}, args...)...)
		cmd.Stdin = strings.NewReader(stdin)
		output, err := cmd.CombinedOutput()
		return string(output), err
	}

	Expect(operator.Install(ctx, admin)).To(Succeed())
	c, err = client.NewWithWatch(admin, client.Options{Scheme: manager.Scheme})
	Expect(err).NotTo(HaveOccurred())

	config, err := operator.ManagerConfig(ctx, admin)
	Expect(err).NotTo(HaveOccurred())
	config.Wrap(signReconcile)
	startManager(config)
})

// startManager runs a manager until the suite ends.
func startManager(config *rest.Config) {
	ours := goleak.IgnoreCurrent()
	options := manager.Options{
		MaxConcurrentReconciles: workers,
		ReconcileTimeout:        time.Minute,
		MetricsBindAddress:      "0",
		ProbeBindAddress:        "0",
		LogLevel:                "info",
		LogFormat:               "json",
	}
	ctrl.SetLogger(options.Logger(managerLog))
	mgr, err := manager.New(config, options)
	Expect(err).NotTo(HaveOccurred())
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- mgr.Start(ctx) }()
	DeferCleanup(func() {
		stop()
		Eventually(ended).Should(Receive(BeNil()), "the manager should end without an error")
		// Connections are kept for the next request of whoever makes one.
		kept := goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*ClientConn).readLoop")
		Expect(goleak.Find(ours, kept)).To(Succeed(), "the manager should leave no goroutine behind")
	})
}

var _ = ReportAfterEach(func(report SpecReport) {
	if report.Failed() {
		AddReportEntry("manager log", managerLog.tail(60))
	}
})
