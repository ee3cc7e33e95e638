package e2e

import (
	"cmp"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
)

const kindCluster = "podset-operator-test-e2e"

// createKindCluster builds the image, makes a kind cluster that has it, and points KUBECONFIG to the cluster. The
// cluster goes with the suite.
func createKindCluster(ctx SpecContext) {
	GinkgoHelper()
	kind, tool := cmp.Or(os.Getenv("KIND"), "kind"), cmp.Or(os.Getenv("CONTAINER_TOOL"), "docker")
	dir := GinkgoT().TempDir()
	kubeconfig, archive := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "image.tar")

	By("building the image " + image + " with " + tool)
	runMake(ctx, "docker-build", "IMG="+image, "CONTAINER_TOOL="+tool)
	mustRun(ctx, "", tool, "save", "-o", archive, image)

	By("creating the kind cluster " + kindCluster)
	DeferCleanup(func(ctx SpecContext) { mustRun(ctx, "", kind, "delete", "cluster", "--name", kindCluster) })
	mustRun(ctx, "", kind, "create", "cluster", "--name", kindCluster, "--kubeconfig", kubeconfig, "--wait", "3m")
	mustRun(ctx, "", kind, "load", "image-archive", archive, "--name", kindCluster)
	GinkgoT().Setenv("KUBECONFIG", kubeconfig)
}
