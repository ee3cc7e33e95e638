package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/podset-operator/api/v1alpha1"
)

var _ = Describe("Deleting a PodSet", func() {
	var namespace string
	var podSet *v1alpha1.PodSet
	var names []string
	BeforeEach(func(ctx SpecContext) {
		namespace = newNamespace(ctx)
		podSet = newPodSet(ctx, namespace, "web", 3)
		names = settle(ctx, podSet, 3)
	})

	It("takes its pods along", func(ctx SpecContext) {
		kubectl(ctx, "delete", "podset", "web", "-n", namespace)
		Eventually(func() []corev1.Pod { return podsIn(ctx, namespace) }).Should(BeEmpty(), "the garbage collector should remove the pods")
	})

	It("in the foreground ends after its pods have", func(ctx SpecContext) {
		seen := observe(ctx, podSet)
		kubectl(ctx, "delete", "podset", "web", "-n", namespace, "--cascade=foreground", "--timeout=60s")
		Expect(podsIn(ctx, namespace)).To(BeEmpty())
		Expect(seen.creations()).To(BeZero(), "no pod should be created for a PodSet that goes")
	})

	It("as an orphan maker leaves its pods, which a new one of the name adopts", func(ctx SpecContext) {
		before := incarnations(ctx, podSet)
		kubectl(ctx, "delete", "podset", "web", "-n", namespace, "--cascade=orphan")
		Eventually(func(g Gomega) {
			pods := podsIn(ctx, namespace)
			g.Expect(pods).To(HaveLen(3))
			for _, pod := range pods {
				g.Expect(pod.OwnerReferences).To(BeEmpty())
				g.Expect(pod.DeletionTimestamp).To(BeNil())
			}
		}).Should(Succeed(), "the pods should be orphans")
		heir := newPodSet(ctx, namespace, "web", 3)
		Expect(settle(ctx, heir, 3)).To(Equal(names))
		Expect(incarnations(ctx, heir)).To(Equal(before))
	})

	It("by deleting its namespace leaves nothing", func(ctx SpecContext) {
		seen := observe(ctx, podSet)
		kubectl(ctx, "delete", "namespace", namespace, "--timeout=2m")
		Expect(isGone(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})()).To(BeTrue())
		Expect(seen.creations()).To(BeNumerically("<=", 3), "there should be no struggle over the pods")
	})
})
