// Package cluster tests the operator on a local cluster: a real control plane with garbage collector, namespace,
// quota and horizontal pod autoscaler controllers and a scheduler, and nodes on which pods run and end. The manager is
// a process of its own with the rights of its ServiceAccount.
package cluster

import (
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/podset-operator/internal/manager"
	"example.com/podset-operator/test/localcluster"
	"example.com/podset-operator/test/operator"
)

const patience = 30 * time.Second

var (
	cluster    *localcluster.Cluster
	c          client.WithWatch
	binary     string
	kubeconfig string // of the manager's ServiceAccount
	audit      string
	running    *operator.Process
	managerLog *gbytes.Buffer
)

func TestCluster(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	SetDefaultConsistentlyPollingInterval(100 * time.Millisecond)
	RunSpecs(t, "PodSet on a local cluster")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	dir := GinkgoT().TempDir()
	audit = filepath.Join(dir, "audit.log")
	var err error
	cluster, err = localcluster.Start(ctx, localcluster.Options{AuditLog: audit})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(cluster.Stop()).To(Succeed()) })
	c, err = client.NewWithWatch(cluster.Config, client.Options{Scheme: manager.Scheme})
	Expect(err).NotTo(HaveOccurred())

	Expect(operator.Install(ctx, cluster.Config)).To(Succeed())
	account, err := operator.ManagerConfig(ctx, cluster.Config)
	Expect(err).NotTo(HaveOccurred())
	kubeconfig = filepath.Join(dir, "manager.kubeconfig")
	Expect(localcluster.WriteKubeconfig(kubeconfig, account)).To(Succeed())
	waitForGarbageCollector(ctx)
	binary, err = operator.Build(ctx, dir)
	Expect(err).NotTo(HaveOccurred())
	startManager()
	DeferCleanup(func() { running.Stop() })
})

// waitForGarbageCollector returns when the garbage collector knows PodSets, half a minute after their definition.
func waitForGarbageCollector(ctx SpecContext) {
	GinkgoHelper()
	probe := newPodSet(ctx, "default", "probe", 0)
	Expect(c.Delete(ctx, probe, client.PropagationPolicy(metav1.DeletePropagationForeground))).To(Succeed())
	Eventually(func() error { return c.Get(ctx, client.ObjectKeyFromObject(probe), probe) }, 90*time.Second).
		Should(MatchError(apierrors.IsNotFound, "IsNotFound"), "the garbage collector should finish the deletion")
}

func startManager() {
	GinkgoHelper()
	managerLog = gbytes.NewBuffer()
	var err error
	running, err = operator.StartProcess(binary, kubeconfig, managerLog, "--metrics-bind-address=0", "--health-probe-bind-address=0")
	Expect(err).NotTo(HaveOccurred())
}

var _ = ReportAfterEach(func(report SpecReport) {
	if report.Failed() && managerLog != nil {
		log := managerLog.Contents()
		AddReportEntry("manager log", string(log[max(0, len(log)-10_000):]))
	}
})
