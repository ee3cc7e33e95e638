// Package manager tests the manager's binary: its command line, its endpoints, how it starts, waits, leads and stops.
package manager

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"example.com/podset-operator/internal/manager"
	"example.com/podset-operator/test/localcluster"
	"example.com/podset-operator/test/localcluster/assets"
	"example.com/podset-operator/test/operator"
)

var (
	binary     string
	admin      *rest.Config
	c          client.Client
	kubeconfig string // of the manager's ServiceAccount
)

func TestManager(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(20 * time.Second)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	RunSpecs(t, "The manager")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	binary, err = operator.Build(ctx, GinkgoT().TempDir())
	Expect(err).NotTo(HaveOccurred())
})

// startAPIServer starts an API server that ends with the spec or container it is started in. The operator is not
// installed in it.
func startAPIServer(ctx SpecContext) *rest.Config {
	GinkgoHelper()
	binaries, err := assets.Ensure(ctx, os.Stderr, assets.Envtest...)
	Expect(err).NotTo(HaveOccurred())
	environment := &envtest.Environment{BinaryAssetsDirectory: binaries.Dir()}
	DeferCleanup(environment.Stop)
	config, err := environment.Start()
	Expect(err).NotTo(HaveOccurred())
	config.QPS = -1
	return config
}

// connect makes admin, c and kubeconfig those of an API server in which the operator is installed.
func connect(ctx SpecContext, config *rest.Config) {
	GinkgoHelper()
	admin = config
	var err error
	c, err = client.New(admin, client.Options{Scheme: manager.Scheme})
	Expect(err).NotTo(HaveOccurred())
	account, err := operator.ManagerConfig(ctx, admin)
	Expect(err).NotTo(HaveOccurred())
	kubeconfig = filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(localcluster.WriteKubeconfig(kubeconfig, account)).To(Succeed())
}

// running is a manager process and what it logs.
type running struct {
	*operator.Process
	log *gbytes.Buffer
}

// start starts a manager that is stopped at the end of the spec, with free ports unless the flags say otherwise.
func start(flags ...string) running {
	GinkgoHelper()
	log := gbytes.NewBuffer()
	process, err := operator.StartProcess(binary, kubeconfig, log, append([]string{
		"--metrics-bind-address=0", "--health-probe-bind-address=0",
	}, flags...)...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(process.Stop)
	DeferCleanup(func() {
		if CurrentSpecReport().Failed() {
			AddReportEntry("manager log", string(log.Contents()))
		}
	})
	return running{process, log}
}

// run runs the binary to its end and returns what it printed and its exit code.
func run(args ...string) (output string, code int) {
	GinkgoHelper()
	cmd := exec.Command(binary, args...)
	cmd.Env = []string{"HOME=" + GinkgoT().TempDir()} // no kubeconfig of the user's
	watchdog := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Signal(syscall.SIGKILL) })
	defer watchdog.Stop()
	out, _ := cmd.CombinedOutput()
	return string(out), cmd.ProcessState.ExitCode()
}
