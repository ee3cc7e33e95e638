package integration

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/podset-operator/api/v1alpha1"
)

var _ = Describe("Membership", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	// stranger makes a pod with the labels, controlled by the owner if there is one.
	stranger := func(ctx SpecContext, name string, labels map[string]string, owner *metav1.OwnerReference) *corev1.Pod {
		GinkgoHelper()
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
			Spec:       oneContainer().Spec,
		}
		if owner != nil {
			pod.OwnerReferences = []metav1.OwnerReference{*owner}
		}
		Expect(c.Create(ctx, pod)).To(Succeed())
		return pod
	}
	replicaSet := func(ctx SpecContext) *metav1.OwnerReference {
		GinkgoHelper()
		labels := map[string]string{"app": "shop"}
		set := &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop"},
			Spec: appsv1.ReplicaSetSpec{
				Replicas: ptr.To[int32](1),
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: oneContainer().Spec},
			},
		}
		Expect(c.Create(ctx, set)).To(Succeed())
		return metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
	}

	It("never touches strangers, whatever their labels", func(ctx SpecContext) {
		owner := replicaSet(ctx)
		bare := stranger(ctx, "shop-debug", map[string]string{"app": "shop"}, nil)
		controlled := stranger(ctx, "shop-abcde", map[string]string{"app": "shop"}, owner)
		inDisguise := stranger(ctx, "shop-podxxxxx", map[string]string{"app": "shop", v1alpha1.PodSetLabel: "shop"}, owner)
		strangers := []*corev1.Pod{bare, controlled, inDisguise}

		podSet := newPodSet(ctx, namespace, "shop", 2)
		Expect(settle(ctx, podSet, 2)).NotTo(ContainElement(BeElementOf("shop-debug", "shop-abcde", "shop-podxxxxx")))
		scale(ctx, podSet, 0)
		settle(ctx, podSet, 0)
		for _, pod := range strangers {
			now := podsIn(ctx, namespace)[pod.Name]
			Expect(now).NotTo(BeNil(), "pod %s should still be there", pod.Name)
			Expect(now.ResourceVersion).To(Equal(pod.ResourceVersion), "pod %s should not be changed", pod.Name)
		}
	})

	It("does not match strangers with the selector of /scale", func(ctx SpecContext) {
		stranger(ctx, "shop-debug", map[string]string{"app": "shop"}, nil)
		podSet := newPodSet(ctx, namespace, "shop", 2)
		settle(ctx, podSet, 2)
		expectSelectorMatchesOwnPods(ctx, podSet)
	})

	It("keeps PodSets of the same name in two namespaces apart", func(ctx SpecContext) {
		other := newNamespace(ctx)
		one, two := newPodSet(ctx, namespace, "web", 2), newPodSet(ctx, other, "web", 3)
		names := settle(ctx, one, 2)
		settle(ctx, two, 3)
		scale(ctx, two, 0)
		settle(ctx, two, 0)
		Expect(settle(ctx, one, 2)).To(Equal(names))
	})

	It("adopts an orphan with its label before it creates a pod", func(ctx SpecContext) {
		stranger(ctx, "left-behind", map[string]string{v1alpha1.PodSetLabel: "web"}, nil)
		podSet := newPodSet(ctx, namespace, "web", 2)
		Expect(settle(ctx, podSet, 2)).To(ContainElement("left-behind"))
		Expect(podsIn(ctx, namespace)).To(HaveLen(2))
		Expect(podsIn(ctx, namespace)["left-behind"].OwnerReferences).To(ConsistOf(*metav1.NewControllerRef(podSet, v1alpha1.PodSetKind)))
	})

	It("leaves an orphan alone as long as no pod is missing", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 1)
		settle(ctx, podSet, 1)
		orphan := stranger(ctx, "spare", map[string]string{v1alpha1.PodSetLabel: "web"}, nil)
		Consistently(func() string { return podsIn(ctx, namespace)["spare"].ResourceVersion }).Should(Equal(orphan.ResourceVersion), "it should not be touched")
		scale(ctx, podSet, 2)
		Expect(settle(ctx, podSet, 2)).To(ContainElement("spare"))
	})

	It("does not count the pods of a predecessor of the same name", func(ctx SpecContext) {
		first := newPodSet(ctx, namespace, "web", 2)
		old := settle(ctx, first, 2)
		Expect(c.Delete(ctx, first)).To(Succeed())
		second := newPodSet(ctx, namespace, "web", 2)
		names := settle(ctx, second, 2)
		Expect(names).NotTo(ContainElement(BeElementOf(old)))
		Expect(podsIn(ctx, namespace)).To(HaveLen(4), "without a garbage collector the old pods should still be there")
	})

	It("touches nothing while the PodSet is being deleted", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 3)
		names := settle(ctx, podSet, 3)
		Expect(c.Delete(ctx, podSet, client.PropagationPolicy(metav1.DeletePropagationForeground))).To(Succeed())
		Expect(get(ctx, podSet).DeletionTimestamp).NotTo(BeNil())
		writes := len(audit.byManager(namespace))
		deletePod(ctx, namespace, names[0])
		Consistently(func() []string { return activePods(ctx, podSet) }).Should(Equal(names[1:]), "no pod should come or go")
		Expect(audit.byManager(namespace)).To(HaveLen(writes))
	})

	It("takes the next name if a stranger has the one it wants, and says so", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 1)
		names := settle(ctx, podSet, 1)
		scale(ctx, podSet, 0)
		settle(ctx, podSet, 0)
		thief := stranger(ctx, names[0], nil, nil)
		scale(ctx, podSet, 1)
		Expect(settle(ctx, podSet, 1)).NotTo(Equal(names))
		Expect(podsIn(ctx, namespace)[thief.Name].ResourceVersion).To(Equal(thief.ResourceVersion))
		Eventually(func() []string {
			var notes []string
			for _, event := range eventsOf(ctx, podSet) {
				if event.Reason == "PodNameTaken" {
					notes = append(notes, event.Note)
				}
			}
			return notes
		}).Should(ConsistOf(ContainSubstring(names[0])), "an event should tell")
	})

	It("replaces a pod that lost our label and does not stumble over it", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 2)
		names := settle(ctx, podSet, 2)
		kubectl("", "label", "pod", names[0], "-n", namespace, v1alpha1.PodSetLabel+"-")
		Eventually(func() []string { return get(ctx, podSet).Status.PodNames }).
			Should(And(HaveLen(2), Not(ContainElement(names[0]))), "the pod should be replaced")
		scale(ctx, podSet, 0)
		Eventually(func() []string { return namesOf(podsIn(ctx, namespace)) }).Should(Equal([]string{names[0]}), "the unlabelled pod should stay")
	})

	It("creates pods under the rights of config/rbac with owner references protected", func(ctx SpecContext) {
		// The API server of this suite runs the admission plugin OwnerReferencesPermissionEnforcement.
		podSet := newPodSet(ctx, namespace, "web", 1)
		names := settle(ctx, podSet, 1)
		pod := podsIn(ctx, namespace)[names[0]]
		Expect(pod.OwnerReferences[0].BlockOwnerDeletion).To(HaveValue(BeTrue()))
		Expect(managerLog.with("forbidden", strings.TrimSpace(namespace))).To(BeEmpty())
	})
})
