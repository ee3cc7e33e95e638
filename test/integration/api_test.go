package integration

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/podset-operator/api/v1alpha1"
	"example.com/podset-operator/test/operator"
)

var _ = Describe("The API", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	manifest := func(name, spec string) string {
		return fmt.Sprintf("{apiVersion: app.example.com/v1alpha1, kind: PodSet, metadata: {name: %s}, spec: %s}", name, spec)
	}
	apply := func(manifest string) string { return kubectl(manifest, "apply", "-n", namespace, "-f", "-") }
	applyFails := func(manifest string) string { return kubectlFails(manifest, "apply", "-n", namespace, "-f", "-") }
	named := func(name string) *v1alpha1.PodSet {
		return &v1alpha1.PodSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	scaleOf := func(ctx SpecContext, podSet *v1alpha1.PodSet) *autoscalingv1.Scale {
		GinkgoHelper()
		scale := &autoscalingv1.Scale{}
		Expect(c.SubResource("scale").Get(ctx, podSet, scale)).To(Succeed())
		return scale
	}

	DescribeTable("takes sensible numbers of replicas",
		func(ctx SpecContext, spec string, replicas int) {
			apply(manifest("web", spec))
			podSet := named("web")
			settle(ctx, get(ctx, podSet), replicas)
			Expect(scaleOf(ctx, podSet).Spec.Replicas).To(BeEquivalentTo(replicas))
			raw := kubectl("", "get", "podset", "web", "-n", namespace, "-o", "jsonpath={.status.replicas}")
			Expect(raw).To(Equal(fmt.Sprint(replicas)), "status.replicas should be there, also when it is 0")
		},
		Entry("no spec at all is one", "null", 1),
		Entry("left out is one", "{}", 1),
		Entry("null is one", "{replicas: null}", 1),
		Entry("none", "{replicas: 0}", 0),
		Entry("some", "{replicas: 2}", 2),
	)

	DescribeTable("refuses what it cannot run and says what to do",
		func(manifestName, spec, says string) {
			Expect(applyFails(manifest(manifestName, spec))).To(ContainSubstring(says))
		},
		Entry("negative replicas", "web", "{replicas: -1}", "should be greater than or equal to 0"),
		Entry("a fraction of a pod", "web", "{replicas: 1.5}", "must be of type integer"),
		Entry("a text", "web", `{replicas: "3"}`, "must be of type integer"),
		Entry("too many replicas", "web", "{replicas: 10001}", "should be less than or equal to 10000"),
		Entry("a name that is no label value", strings.Repeat("a", 64), "{}", "at most 63 characters"),
		Entry("an empty list of containers", "web", "{template: {spec: {containers: []}}}", "must name at least one container"),
		Entry("no list of containers", "web", "{template: {spec: {}}}", "spec.template.spec.containers"),
		Entry("a template without a spec", "web", "{template: {}}", "must name at least one container"),
		Entry("a port that no client can read", "web",
			"{template: {spec: {containers: [{name: web, livenessProbe: {tcpSocket: {port: 99999999999}}}]}}}", "2147483647"),
		Entry("a quantity that no client can read", "web",
			`{template: {spec: {containers: [{name: web, resources: {limits: {cpu: "1e1.5"}}}]}}}`, "limits.cpu"),
		Entry("a quantity that takes for ever to read", "web",
			`{template: {spec: {containers: [{name: web, resources: {limits: {cpu: "1e-2147483647"}}}]}}}`, "limits.cpu"),
		Entry("negative minReadySeconds", "web", "{minReadySeconds: -1}", "should be greater than or equal to 0"),
		Entry("a negative history limit", "web", "{failedPodsHistoryLimit: -1}", "should be greater than or equal to 0"),
		Entry("budgets that let nothing move", "web", "{updateStrategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 0}}}", "cannot both be 0"),
		Entry("budgets of nothing per cent", "web", `{updateStrategy: {rollingUpdate: {maxUnavailable: "0%", maxSurge: "0%"}}}`, "cannot both be 0"),
		Entry("no surge, and the default beside it", "web", "{updateStrategy: {rollingUpdate: {maxSurge: 0}}}", "cannot both be 0"),
		Entry("budgets without a roll-out", "web", "{updateStrategy: {type: OnDelete, rollingUpdate: {maxSurge: 1}}}", "for the type RollingUpdate only"),
		Entry("an unknown strategy", "web", "{updateStrategy: {type: Recreate}}", "RollingUpdate"),
		Entry("more than all pods unavailable", "web", `{updateStrategy: {rollingUpdate: {maxUnavailable: "101%"}}}`, "from 0% to 100%"),
		Entry("a negative surge", "web", "{updateStrategy: {rollingUpdate: {maxSurge: -1}}}", "a number from 0"),
		Entry("a surge in words", "web", "{updateStrategy: {rollingUpdate: {maxSurge: one}}}", "a number from 0"),
		Entry("a number as a text", "web", `{updateStrategy: {rollingUpdate: {maxSurge: "1"}}}`, "percentage"),
		Entry("no time to make progress", "web", "{progressDeadlineSeconds: 0}", "should be greater than or equal to 1"),
		Entry("pods that are available after the deadline only", "web", "{minReadySeconds: 600}", "must be greater than minReadySeconds"),
		Entry("an unknown replacement policy", "web", "{podReplacementPolicy: Never}", "TerminationStarted"),
	)

	It("works fully with a name of 63 characters", func(ctx SpecContext) {
		name := strings.Repeat("long-name-", 6) + "abc"
		Expect(name).To(HaveLen(63))
		apply(manifest(name, "{replicas: 2}"))
		podSet := get(ctx, named(name))
		for _, pod := range settle(ctx, podSet, 2) {
			Expect(pod).To(HavePrefix(name + "-pod"))
		}
		kubectl("", "scale", "podset/"+name, "-n", namespace, "--replicas=1")
		settle(ctx, podSet, 1)
		expectSelectorMatchesOwnPods(ctx, podSet)
	})

	It("works fully with a dotted name", func(ctx SpecContext) {
		apply(manifest("web.v1.2", "{replicas: 2}"))
		podSet := get(ctx, named("web.v1.2"))
		names := settle(ctx, podSet, 2)
		Expect(names).To(HaveEach(MatchRegexp(`^web\.v1\.2-pod[a-z0-9]{5}$`)))
		deletePod(ctx, namespace, names[0])
		Eventually(func() []string { return activePods(ctx, podSet) }).Should(And(HaveLen(2), Not(ContainElement(names[0]))), "the pod should be replaced")
		kubectl("", "scale", "podset/web.v1.2", "-n", namespace, "--replicas=3")
		settle(ctx, podSet, 3)
		expectSelectorMatchesOwnPods(ctx, podSet)
	})

	It("reads as in progress before the first reconcile", func(ctx SpecContext) {
		podSet := &v1alpha1.PodSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
		Expect(c.Create(ctx, podSet)).To(Succeed())
		Expect(podSet.Status.ObservedGeneration).To(BeEquivalentTo(-1))
	})

	It("serves /scale as an HPA needs it, also at no replicas", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 0)
		settle(ctx, podSet, 0)
		scale := scaleOf(ctx, podSet)
		Expect(scale.Status.Replicas).To(BeZero())
		Expect(scale.Status.Selector).To(Equal("app.example.com/podset=web"))

		scale.Spec.Replicas = 3
		Expect(c.SubResource("scale").Update(ctx, podSet, client.WithSubResourceBody(scale))).To(Succeed())
		settle(ctx, podSet, 3)
		Expect(scaleOf(ctx, podSet).Status.Replicas).To(BeEquivalentTo(3))
		expectSelectorMatchesOwnPods(ctx, podSet)
	})

	It("passes an odd template through, but the membership label is ours", func(ctx SpecContext) {
		apply(oddTemplate)
		podSet := get(ctx, named("frontend"))
		names := settle(ctx, podSet, 2)
		pod := podsIn(ctx, namespace)[names[0]]
		Expect(pod.Labels).To(Equal(map[string]string{
			"app": "web", v1alpha1.PodSetLabel: "frontend", v1alpha1.TemplateHashLabel: get(ctx, podSet).Status.UpdateRevision,
		}))
		Expect(pod.Annotations).To(HaveKeyWithValue("example.com/team", "blue"))
		Expect(pod.Spec.InitContainers).To(HaveLen(1))
		Expect(pod.Spec.InitContainers[0].Command).To(Equal([]string{"true"}))
		Expect(pod.Spec.Containers).To(HaveLen(1))
		Expect(pod.Spec.Containers[0].VolumeMounts).To(ContainElement(HaveField("MountPath", "/scratch")))
		Expect(pod.Spec.Volumes).To(ContainElement(HaveField("Name", "scratch")))
	})

	It("shows the columns that people know", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 1)
		settleReady(ctx, podSet, 1)
		Expect(strings.Fields(kubectl("", "get", "podset", "web", "-n", namespace))[:12]).
			To(Equal([]string{"NAME", "DESIRED", "CURRENT", "UP-TO-DATE", "READY", "AVAILABLE", "AGE", "web", "1", "1", "1", "1"}))
		wide := kubectl("", "get", "podset", "web", "-n", namespace, "-o", "wide")
		Expect(wide).To(And(ContainSubstring("SELECTOR"), ContainSubstring("app.example.com/podset=web"),
			ContainSubstring("REASON"), ContainSubstring(v1alpha1.ReasonPodsAvailable)))
		Expect(kubectl("", "get", "all", "-n", namespace)).To(ContainSubstring("podset.app.example.com/web"))
	})

	DescribeTable("explains its own fields",
		func(field, says string) { Expect(kubectl("", "explain", "podset."+field)).To(ContainSubstring(says)) },
		Entry(nil, "spec.replicas", "number of pods to keep running"),
		Entry(nil, "spec.template", "describes the pods"),
		Entry(nil, "spec.podReplacementPolicy", "TerminationComplete"),
		Entry(nil, "status.podNames", "names of the active pods"),
		Entry(nil, "status.conditions", "Ready"),
	)

	It("installs with a plain client-side apply, again and again", func() {
		folder, err := operator.Root()
		Expect(err).NotTo(HaveOccurred())
		kubectl("", "apply", "-k", folder+"/config/default")
		again := kubectl("", "apply", "-k", folder+"/config/default")
		Expect(strings.Split(strings.TrimSpace(again), "\n")).To(HaveEach(HaveSuffix(" unchanged")))
	})

	It("ships samples that apply as they are", func(ctx SpecContext) {
		folder, err := operator.Root()
		Expect(err).NotTo(HaveOccurred())
		kubectl("", "apply", "-n", namespace, "-k", folder+"/config/samples")
		podSets := &v1alpha1.PodSetList{}
		Expect(c.List(ctx, podSets, client.InNamespace(namespace))).To(Succeed())
		Expect(podSets.Items).NotTo(BeEmpty())
		for i := range podSets.Items {
			settle(ctx, &podSets.Items[i], int(*podSets.Items[i].Spec.Replicas))
		}
	})
})

func expectSelectorMatchesOwnPods(ctx SpecContext, podSet *v1alpha1.PodSet) {
	GinkgoHelper()
	selector, err := labels.Parse(get(ctx, podSet).Status.Selector)
	Expect(err).NotTo(HaveOccurred())
	list := &corev1.PodList{}
	Expect(c.List(ctx, list, client.InNamespace(podSet.Namespace), client.MatchingLabelsSelector{Selector: selector})).To(Succeed())
	Expect(list.Items).NotTo(BeEmpty())
	for i := range list.Items {
		Expect(metav1.IsControlledBy(&list.Items[i], podSet)).To(BeTrue(), "pod %s should be the PodSet's", list.Items[i].Name)
	}
}

const oddTemplate = `
apiVersion: app.example.com/v1alpha1
kind: PodSet
metadata: {name: frontend}
spec:
  replicas: 2
  template:
    metadata:
      labels: {app: web, app.example.com/podset: somebody-else}
      annotations: {example.com/team: blue}
    spec:
      initContainers:
      - {name: wait, image: "busybox:1.37", command: ["true"]}
      containers:
      - name: web
        image: busybox:1.37
        command: ["sleep", "3600"]
        volumeMounts: [{name: scratch, mountPath: /scratch}]
      volumes: [{name: scratch, emptyDir: {}}]
`
