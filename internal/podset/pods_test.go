package podset

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"example.com/podset-operator/api/v1alpha1"
)

func TestMembership(t *testing.T) {
	const owned, orphan, stranger = "owned", "orphan", "stranger"
	labelled := func(value string) podOption {
		return func(p *corev1.Pod) { p.Labels = map[string]string{v1alpha1.PodSetLabel: value} }
	}
	owner := func(kind string, uid types.UID, controller bool) podOption {
		return func(p *corev1.Pod) {
			p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: kind, Name: "web", UID: uid, Controller: new(controller),
			})
		}
	}
	tests := map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"controlled by the PodSet":                         {pod("a", labelled("web"), owner("PodSet", "uid-of-web", true)), owned},
		"controlled by the PodSet, without the label":      {pod("a", owner("PodSet", "uid-of-web", true)), owned},
		"controlled by a predecessor of the same name":     {pod("a", labelled("web"), owner("PodSet", "uid-before", true)), stranger},
		"controlled by somebody else, with our label":      {pod("a", labelled("web"), owner("Other", "uid-of-other", true)), stranger},
		"no controller, with our label":                    {pod("a", labelled("web")), orphan},
		"owned by the PodSet, which is not its controller": {pod("a", labelled("web"), owner("PodSet", "uid-of-web", false)), orphan},
		"no controller, with another PodSet's label":       {pod("a", labelled("shop")), stranger},
		"no controller, no label":                          {pod("a"), stranger},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			mustEqual(t, IsOwnedBy(test.pod, podSet(1)), test.want == owned)
			mustEqual(t, IsOrphanOf(test.pod, podSet(1)), test.want == orphan)
		})
	}
}

func TestStateOfPods(t *testing.T) {
	type state struct{ active, terminating, finished bool }
	tests := map[string]struct {
		pod  *corev1.Pod
		want state
	}{
		"phase not reported yet":    {pod("a", phase("")), state{active: true}},
		"Pending":                   {pod("a", pending), state{active: true}},
		"Running":                   {pod("a", running), state{active: true}},
		"Unknown":                   {pod("a", unknown), state{active: true}},
		"Failed":                    {pod("a", failed), state{finished: true}},
		"Succeeded":                 {pod("a", succeeded), state{finished: true}},
		"Running and terminating":   {pod("a", running, terminating), state{terminating: true}},
		"Failed and terminating":    {pod("a", failed, terminating), state{}},
		"Succeeded and terminating": {pod("a", succeeded, terminating), state{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := state{isActive(test.pod), isTerminating(test.pod), isFinished(test.pod)}
			if got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}
