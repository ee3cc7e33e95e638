package podset

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"example.com/podset-operator/api/v1alpha1"
)

// now is the time of every observation unless it says otherwise.
var now = time.Date(2030, time.January, 2, 12, 0, 0, 0, time.UTC)

type (
	pods         = []*corev1.Pod
	podOption    = func(*corev1.Pod)
	podSetOption = func(*v1alpha1.PodSet)
)

// podSet returns PodSet "web" that wants so many pods.
func podSet(replicas int32, options ...podSetOption) *v1alpha1.PodSet {
	podSet := &v1alpha1.PodSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "uid-of-web", Generation: 7},
		Spec:       v1alpha1.PodSetSpec{Replicas: new(replicas)},
	}
	for _, option := range options {
		option(podSet)
	}
	return podSet
}

func replicasLeftOut(p *v1alpha1.PodSet) { p.Spec.Replicas = nil }

func beingDeleted(p *v1alpha1.PodSet) { p.DeletionTimestamp = new(metav1.NewTime(now)) }

func terminationStarted(p *v1alpha1.PodSet) {
	p.Spec.PodReplacementPolicy = v1alpha1.TerminationStarted
}

func terminationComplete(p *v1alpha1.PodSet) {
	p.Spec.PodReplacementPolicy = v1alpha1.TerminationComplete
}

func historyLimit(limit int32) podSetOption {
	return func(p *v1alpha1.PodSet) { p.Spec.FailedPodsHistoryLimit = new(limit) }
}

func minReadySeconds(seconds int32) podSetOption {
	return func(p *v1alpha1.PodSet) { p.Spec.MinReadySeconds = seconds }
}

func template(t *corev1.PodTemplateSpec) podSetOption {
	return func(p *v1alpha1.PodSet) { p.Spec.Template = t }
}

// pod returns a pod that runs on a node since an hour and is not ready.
func pod(name string, options ...podOption) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-of-" + name)},
		Spec:       corev1.PodSpec{NodeName: "node"},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	created(time.Hour)(pod)
	for _, option := range options {
		option(pod)
	}
	return pod
}

// asIs changes nothing.
func asIs(*corev1.Pod) {}

func named(name string) podOption { return func(p *corev1.Pod) { p.Name = name } }

func created(ago time.Duration) podOption { return createdAt(now.Add(-ago)) }

func createdAt(t time.Time) podOption {
	return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(t) }
}

func terminating(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(now)) }

func phase(phase corev1.PodPhase) podOption { return func(p *corev1.Pod) { p.Status.Phase = phase } }

var (
	failed    = phase(corev1.PodFailed)
	succeeded = phase(corev1.PodSucceeded)
	running   = phase(corev1.PodRunning)
	unknown   = phase(corev1.PodUnknown)
	pending   = phase(corev1.PodPending)
)

func readiness(status corev1.ConditionStatus, since time.Time) podOption {
	return func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)},
			{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(since)},
		}
	}
}

func readyFor(d time.Duration) podOption { return readiness(corev1.ConditionTrue, now.Add(-d)) }

var (
	ready    = readyFor(30 * time.Minute)
	notReady = readiness(corev1.ConditionFalse, now.Add(-30*time.Minute))
)

func onNode(name string) podOption { return func(p *corev1.Pod) { p.Spec.NodeName = name } }

// present is the revision of the present template in tests that have one.
const present = "present"

func ofRevision(revision string) podOption {
	return func(p *corev1.Pod) { metav1.SetMetaDataLabel(&p.ObjectMeta, v1alpha1.TemplateHashLabel, revision) }
}

func annotated(key, value string) podOption {
	return func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value) }
}

func deleteMe(value string) podOption { return annotated(v1alpha1.DeleteMeAnnotation, value) }

func deletionCostOf(value string) podOption { return annotated(corev1.PodDeletionCost, value) }

// restarts gives the pod one container for each count of restarts.
func restarts(counts ...int32) podOption {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses = nil
		for _, count := range counts {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{RestartCount: count})
		}
	}
}

// podsFailing is the backoff just after the first pod failed.
func podsFailing() Backoff {
	return Backoff{}.Observe(pods{pod("bad", failed, created(0))}, "", now)
}

// held is the hold of an action that was refused and may be tried again at a time.
func held(action Action, until time.Time, problem Problem) map[Action]Hold {
	return map[Action]Hold{action: {Until: until, Problem: problem}}
}

func mustEqual(t *testing.T, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("got + instead of -:\n%s", diff)
	}
}
