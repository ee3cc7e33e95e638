package e2e

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/podset-operator/api/v1alpha1"
	"example.com/podset-operator/test/operator"
)

// builtImage is the image that the manifests name as they are shipped.
var builtImage = regexp.MustCompile(`image: podset-operator:\S+`)

var _ = Describe("Installing the operator", Serial, func() {
	var podSet *v1alpha1.PodSet
	BeforeEach(func(ctx SpecContext) {
		waitForOperator(ctx)
		podSet = newPodSet(ctx, newNamespace(ctx), "web", 1)
		settle(ctx, podSet, 1)
		DeferCleanup(func(ctx SpecContext) {
			runMake(ctx, "deploy", "IMG="+image)
			waitForOperator(ctx)
		})
	})

	// works shows that there is an operator which works.
	works := func(ctx context.Context) {
		GinkgoHelper()
		waitForOperator(ctx)
		scale(ctx, podSet, 2)
		settle(ctx, podSet, 2, 2*patience)
	}

	It("goes with kubectl apply -k", func(ctx SpecContext) {
		removeOperator(ctx)
		kubectl(ctx, "apply", "-k", "config/default")
		kubectl(ctx, "set", "image", "deployment/"+deploymentName, "manager="+image, "-n", operator.Namespace)
		works(ctx)
	})

	It("goes with dist/install.yaml", func(ctx SpecContext) {
		removeOperator(ctx)
		manifest, err := os.ReadFile(filepath.Join(root, "dist", "install.yaml"))
		Expect(err).NotTo(HaveOccurred())
		Expect(string(manifest)).To(ContainSubstring("image: podset-operator:"))
		mustRun(ctx, builtImage.ReplaceAllString(string(manifest), "image: "+image), kubectlCommand, "apply", "-f", "-")
		works(ctx)
	})

	It("and removing it leaves nothing, neither of the operator nor of the PodSets", func(ctx SpecContext) {
		if foreign {
			Skip("the cluster has PodSets that are not the suite's")
		}
		runMake(ctx, "undeploy")
		Eventually(isGone(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: operator.Namespace}}), patience).Should(BeTrue())
		Eventually(func() []corev1.Pod { return podsIn(ctx, podSet.Namespace) }).Should(BeEmpty(), "the pods should go with the PodSets")
		left := kubectl(ctx, "get", "crd,clusterroles,clusterrolebindings", "-o", "name")
		for line := range strings.FieldsSeq(left) {
			Expect(line).NotTo(Or(ContainSubstring("podset"), ContainSubstring("app.example.com")))
		}

		By("installing the CustomResourceDefinition first, the operator later")
		runMake(ctx, "install")
		Eventually(func() error {
			podSet = &v1alpha1.PodSet{ObjectMeta: metav1.ObjectMeta{Namespace: podSet.Namespace, Name: "early"}}
			return c.Create(ctx, podSet)
		}).Should(Succeed(), "PodSets should be taken")
		Expect(c.Get(ctx, client.ObjectKeyFromObject(podSet), podSet)).To(Succeed())
		Expect(podSet.Status.ObservedGeneration).To(BeEquivalentTo(-1), "nobody should have looked at it")
		runMake(ctx, "deploy", "IMG="+image)
		works(ctx)
		waitForKindToBeKnown(ctx)
	})
})
