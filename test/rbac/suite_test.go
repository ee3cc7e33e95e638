// Package rbac shows that the manager uses each right it has: without any one of them something named stops working. The
// manager is a process of its own, with a token of its ServiceAccount, against a real API server.
package rbac

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"example.com/podset-operator/internal/manager"
	"example.com/podset-operator/test/localcluster"
	"example.com/podset-operator/test/localcluster/assets"
	"example.com/podset-operator/test/operator"
)

var (
	admin      *rest.Config
	c          client.Client
	typed      *kubernetes.Clientset
	binary     string
	kubeconfig string // of the manager's ServiceAccount
)

func TestRights(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(20 * time.Second)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	RunSpecs(t, "The manager's rights")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	dir := GinkgoT().TempDir()
	binaries, err := assets.Ensure(ctx, os.Stderr, assets.Envtest...)
	Expect(err).NotTo(HaveOccurred())
	environment := &envtest.Environment{BinaryAssetsDirectory: binaries.Dir()}
	// It wants of whoever makes an object with an owner that it may change the owner's finalizers, as on OpenShift.
	environment.ControlPlane.GetAPIServer().Configure().Append("enable-admission-plugins", "OwnerReferencesPermissionEnforcement")
	DeferCleanup(environment.Stop)
	admin, err = environment.Start()
	Expect(err).NotTo(HaveOccurred())
	admin.QPS = -1
	c, err = client.New(admin, client.Options{Scheme: manager.Scheme})
	Expect(err).NotTo(HaveOccurred())
	typed, err = kubernetes.NewForConfig(admin)
	Expect(err).NotTo(HaveOccurred())

	Expect(operator.Install(ctx, admin)).To(Succeed())
	account, err := operator.ManagerConfig(ctx, admin)
	Expect(err).NotTo(HaveOccurred())
	kubeconfig = filepath.Join(dir, "kubeconfig")
	Expect(localcluster.WriteKubeconfig(kubeconfig, account)).To(Succeed())
	binary, err = operator.Build(ctx, dir)
	Expect(err).NotTo(HaveOccurred())
})
