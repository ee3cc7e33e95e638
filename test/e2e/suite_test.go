// Package e2e tests the operator as users have it: deployed from its image into a cluster whose nodes run real
// containers, and driven with kubectl. `make test-e2e` runs it, with these environment variables:
//
//	KUBECONFIG     the cluster to use. Unset, a kind cluster is made for the run, the image built and loaded into it.
//	IMG            the image of the manager. The nodes of the cluster of KUBECONFIG have it or can pull it.
//	IMG_NEXT       an image of another version to upgrade to. Unset, the upgrade is a restart with the same one.
//	KUBECTL, KIND, CONTAINER_TOOL  the commands to use.
//	ARTIFACTS      a folder that gets a file for each failed spec with what one needs to understand it.
//	E2E_CHAOS      if 1, the manager's pods are killed at random while the specs run.
//
// The cluster needs nothing but the image busybox:1.37 on its nodes or within their reach. PodSets that it has before are
// left alone, and so is the operator if it was there; then specs that remove all PodSets are skipped.
package e2e

import (
	"cmp"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"example.com/podset-operator/api/v1alpha1"
	"example.com/podset-operator/internal/manager"
	"example.com/podset-operator/test/operator"
)

var (
	root  string
	image = cmp.Or(os.Getenv("IMG"), "podset-operator:v0.1.0")
	chaos = os.Getenv("E2E_CHAOS") == "1"
	admin *rest.Config
	c     client.WithWatch
	typed *kubernetes.Clientset
	// foreign tells that the cluster had PodSets before.
	foreign bool
)

// patience is how long something may take. A node pulls images, and a manager that is killed again and again takes its
// time to come back.
var patience = func() time.Duration {
	if chaos {
		return 3 * time.Minute
	}
	return time.Minute
}()

func TestEndToEnd(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(200 * time.Millisecond)
	SetDefaultConsistentlyDuration(3 * time.Second)
	SetDefaultConsistentlyPollingInterval(200 * time.Millisecond)
	RunSpecs(t, "PodSet on a cluster")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	ctrllog.SetLogger(GinkgoLogr)
	var err error
	root, err = operator.Root()
	Expect(err).NotTo(HaveOccurred())
	if os.Getenv("KUBECONFIG") == "" {
		createKindCluster(ctx)
	}
	admin, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	Expect(err).NotTo(HaveOccurred())
	admin.QPS = -1
	c, err = client.NewWithWatch(admin, client.Options{Scheme: manager.Scheme})
	Expect(err).NotTo(HaveOccurred())
	typed, err = kubernetes.NewForConfig(admin)
	Expect(err).NotTo(HaveOccurred())

	podSets := &v1alpha1.PodSetList{}
	err = c.List(ctx, podSets)
	if !meta.IsNoMatchError(err) {
		Expect(err).NotTo(HaveOccurred())
	}
	foreign = len(podSets.Items) > 0
	present := !apierrors.IsNotFound(c.Get(ctx, client.ObjectKey{Name: operator.Namespace}, &corev1.Namespace{}))

	By("deploying the operator with the image " + image)
	runMake(ctx, "deploy", "IMG="+image)
	if !present && !foreign {
		DeferCleanup(func(ctx SpecContext) { runMake(ctx, "undeploy") })
	}
	waitForOperator(ctx)
	waitForKindToBeKnown(ctx)
	if chaos {
		startChaos()
	}
}, NodeTimeout(20*time.Minute))

// waitForKindToBeKnown returns when all parts of the control plane know the kind PodSet. The garbage collector and the
// admission plugin OwnerReferencesPermissionEnforcement learn of it only half a minute after its definition.
func waitForKindToBeKnown(ctx SpecContext) {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-probe-"}}
	Expect(c.Create(ctx, namespace)).To(Succeed())
	defer func() { Expect(c.Delete(ctx, namespace)).To(Succeed()) }()
	probe := newPodSet(ctx, namespace.Name, "probe", 1)
	settle(ctx, probe, 1, 3*time.Minute)
	Expect(c.Delete(ctx, probe, client.PropagationPolicy(metav1.DeletePropagationForeground))).To(Succeed())
	Eventually(func() error { return c.Get(ctx, client.ObjectKeyFromObject(probe), probe) }, 2*time.Minute).
		Should(MatchError(apierrors.IsNotFound, "IsNotFound"), "the garbage collector should finish the deletion")
}

// What a failed spec leaves behind, taken before its namespace goes.
var _ = AfterEach(func(ctx SpecContext) {
	if !CurrentSpecReport().Failed() {
		return
	}
	evidence := collectEvidence(ctx)
	AddReportEntry("state of the cluster", evidence, ReportEntryVisibilityFailureOrVerbose)
	if folder := os.Getenv("ARTIFACTS"); folder != "" {
		Expect(os.MkdirAll(folder, 0o750)).To(Succeed())
		name := fileName(CurrentSpecReport().FullText()) + ".txt"
		Expect(os.WriteFile(filepath.Join(folder, name), []byte(evidence), 0o600)).To(Succeed())
	}
})
