package e2e

import (
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
)

const exampleName = "example-podset"

var _ = Describe("The first session of a user", func() {
	It("goes as the README shows it", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		apply := func(replicas string) string {
			return kubectlApply(ctx, namespace, "{apiVersion: app.example.com/v1alpha1, kind: PodSet, metadata: {name: example-podset}, spec: {replicas: "+replicas+"}}")
		}
		// shows repeats a command until its output is as it must be.
		shows := func(must gomegatypes.GomegaMatcher, args ...string) string {
			GinkgoHelper()
			var output string
			Eventually(func() string {
				output = kubectl(ctx, append(args, "-n", namespace)...)
				return output
			}).Should(must, "kubectl %s", strings.Join(args, " "))
			return output
		}

		Expect(apply("3")).To(Equal("podset.app.example.com/example-podset created\n"))
		first := podNames(shows(havePods(3), "get", "pods", "-l", "app=example-podset"))
		for _, name := range first {
			Expect(name).To(MatchRegexp(`^example-podset-pod[bcdfghjklmnpqrstvwxz2456789]{5}$`))
		}

		kubectl(ctx, "delete", "pod", first[2], "-n", namespace)
		second := podNames(shows(havePods(3), "get", "pods", "-l", "app=example-podset"))
		Expect(second).To(And(ContainElements(first[0], first[1]), Not(ContainElement(first[2]))))

		shows(ContainSubstring("podset.app.example.com/example-podset scaled"), "scale", "podset/example-podset", "--replicas=2")
		third := podNames(shows(havePods(2), "get", "pods", "-l", "app=example-podset"))
		Expect(second).To(ContainElements(third))

		Expect(apply("4")).To(Equal("podset.app.example.com/example-podset configured\n"))
		fourth := podNames(shows(havePods(4), "get", "pods", "-l", "app=example-podset"))
		Expect(fourth).To(ContainElements(third))

		shows(ContainSubstring("condition met"), "wait", "podset/example-podset", "--for=condition=Ready", "--timeout=60s")
		description := shows(MatchRegexp(`(?s)Pod Names:.*Events:.*Pod(Created|Deleted)`), "describe", "podset/example-podset")
		_, status, _ := strings.Cut(description, "Status:")
		Expect(slices.Compact(podName.FindAllString(strings.Split(status, "Events:")[0], -1))).To(ConsistOf(fourth))

		Expect(kubectl(ctx, "delete", "podset", "example-podset", "-n", namespace)).To(ContainSubstring(`"example-podset" deleted`))
		shows(HavePrefix("No resources found"), "get", "pods", "-l", "app=example-podset")
	})

	It("shows the PodSet at a glance and explains its fields", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		settle(ctx, newPodSet(ctx, namespace, exampleName, 1), 1)
		Expect(kubectl(ctx, "get", "podsets", "-n", namespace)).To(MatchRegexp(`(?s)NAME +DESIRED +CURRENT .*READY +AVAILABLE +AGE\nexample-podset +1 +1 `))
		Expect(kubectl(ctx, "get", "podsets", "-n", namespace, "-o", "wide")).To(And(ContainSubstring("SELECTOR"), ContainSubstring("app.example.com/podset=example-podset")))
		Expect(kubectl(ctx, "explain", "podset.spec.replicas")).To(ContainSubstring("number of pods"))
	})

	It("does not get far with a mistake", func(ctx SpecContext) {
		output, err := run(ctx, `{apiVersion: app.example.com/v1alpha1, kind: PodSet, metadata: {name: wrong}, spec: {replicas: -1}}`,
			kubectlCommand, "apply", "-n", newNamespace(ctx), "-f", "-")
		Expect(err).To(HaveOccurred())
		Expect(output).To(ContainSubstring("spec.replicas"))
	})
})

var (
	podName    = regexp.MustCompile(`example-podset-pod[a-z0-9]{5}`)
	runningPod = regexp.MustCompile(`(?m)^(example-podset-pod[a-z0-9]{5}) +1/1 +Running `)
)

// podNames returns the names of the pods that `kubectl get pods` shows as running.
func podNames(output string) []string {
	var names []string
	for _, match := range runningPod.FindAllStringSubmatch(output, -1) {
		names = append(names, match[1])
	}
	return names
}

// havePods matches a list with that many pods running, and besides them only such as are going.
func havePods(n int) gomegatypes.GomegaMatcher {
	return WithTransform(func(output string) string {
		lines := strings.Split(strings.TrimSpace(output), "\n")[1:]
		lines = slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, " Terminating ") })
		if len(lines) != len(podNames(output)) || len(lines) != n {
			return output
		}
		return ""
	}, BeEmpty())
}
