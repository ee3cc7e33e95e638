package podset

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"example.com/podset-operator/api/v1alpha1"
)

const outdated = "outdated"

var old = ofRevision(outdated)

// deadline sets after how many seconds without progress the PodSet is stalled.
func deadline(seconds int32) podSetOption {
	return func(p *v1alpha1.PodSet) { p.Spec.ProgressDeadlineSeconds = &seconds }
}

// waits gives the pod one container that waits.
func waits(reason string) podOption {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{
			{Name: "app", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}},
		}
	}
}

// moment is one observation after some seconds.
type moment struct {
	after  int
	podSet *v1alpha1.PodSet
	pods   pods
	holds  map[Action]Hold
}

func (l moment) observation() Observation {
	return Observation{
		PodSet: l.podSet, Owned: l.pods, Holds: l.holds, Revision: present, Now: now.Add(time.Duration(l.after) * time.Second),
	}
}

// A PodSet is stalled when for the deadline, 10 s here, it has not come nearer to its spec than before.
func TestDeadline(t *testing.T) {
	rollOut := podSet(2, deadline(10))
	changed := rollOut.DeepCopy()
	changed.Generation++
	tests := map[string]struct {
		moments []moment
		want    string // when the deadline is, in seconds after the first look; "never" if there is none
	}{
		"all is as wanted":              {[]moment{{0, rollOut, pods{pod("a", ready), pod("b", ready)}, nil}}, "never"},
		"no pod yet":                    {[]moment{{0, rollOut, nil, nil}}, "10s"},
		"time passes, and nothing else": {[]moment{{0, rollOut, nil, nil}, {7, rollOut, nil, nil}}, "10s"},
		"a pod comes":                   {[]moment{{0, rollOut, nil, nil}, {7, rollOut, pods{pod("a")}, nil}}, "17s"},
		"a pod becomes available": {
			[]moment{{0, rollOut, pods{pod("a"), pod("b")}, nil}, {7, rollOut, pods{pod("a", ready), pod("b")}, nil}}, "17s",
		},
		"a pod comes and goes and comes: the same way twice is no progress": {
			[]moment{{0, rollOut, nil, nil}, {3, rollOut, pods{pod("a")}, nil}, {5, rollOut, nil, nil}, {7, rollOut, pods{pod("b")}, nil}}, "13s",
		},
		"a new pod beside the old ones": {
			[]moment{
				{0, rollOut, pods{pod("a", old, ready), pod("b", old, ready)}, nil},
				{4, rollOut, pods{pod("a", old, ready), pod("b", old, ready), pod("c", ofRevision(present))}, nil},
			}, "10s",
		},
		"the new pod becomes available": {
			[]moment{
				{0, rollOut, pods{pod("a", old, ready), pod("b", old, ready)}, nil},
				{4, rollOut, pods{pod("a", old, ready), pod("b", old, ready), pod("c", ofRevision(present), ready)}, nil},
			}, "14s",
		},
		"an old pod goes": {
			[]moment{
				{0, rollOut, pods{pod("a", old, ready), pod("b", old, ready), pod("c", ofRevision(present), ready)}, nil},
				{4, rollOut, pods{pod("b", old, ready), pod("c", ofRevision(present), ready)}, nil},
			}, "14s",
		},
		"another spec": {[]moment{{0, rollOut, nil, nil}, {7, changed, nil, nil}}, "17s"},
		"done, and a pod is lost": {
			[]moment{{0, rollOut, nil, nil}, {3, rollOut, pods{pod("a", ready), pod("b", ready)}, nil}, {20, rollOut, pods{pod("a", ready)}, nil}}, "30s",
		},
		"the roll-out is paused":      {[]moment{{0, podSet(1, paused), pods{pod("a", old, ready)}, nil}}, "never"},
		"old pods are left to others": {[]moment{{0, podSet(1, onDelete), pods{pod("a", old, ready)}, nil}}, "never"},
		"pods are refused": {
			[]moment{{0, rollOut, nil, held(Create, now.Add(time.Hour), Problem{Reason: "QuotaExceeded"})}}, "10s",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var p Progress
			for _, moment := range test.moments {
				p = p.Observe(moment.observation())
			}
			got := "never"
			if at := p.deadline(rollOut); !at.IsZero() {
				got = at.Sub(now).String()
			}
			mustEqual(t, got, test.want)
		})
	}
}

func TestDeadlineIsTenMinutesIfLeftOut(t *testing.T) {
	left := podSet(1)
	p := Progress{}.Observe(moment{0, left, nil, nil}.observation())
	mustEqual(t, p.deadline(left), now.Add(10*time.Minute))
}

// stalled returns the status after the deadline.
func stalled(o Observation) v1alpha1.PodSetStatus {
	o.Progress = o.Progress.Observe(o)
	o.Now = o.Now.Add(time.Hour)
	o.Progress = o.Progress.Observe(o)
	return Status(o)
}

// What the condition Stalled tells after the deadline.
func TestStalledTellsWhatThePodsTell(t *testing.T) {
	tests := map[string]struct {
		pods            pods
		reason, message string
	}{
		"a new pod's container waits": {
			pods{pod("a", old, ready), pod("b", ofRevision(present), waits("ImagePullBackOff"))},
			"ImagePullBackOff", "no progress for 10 s: 1 of 1 updated, 1 available; pod b, container app: ImagePullBackOff",
		},
		"an old pod waits, too": {
			pods{pod("a", old, waits("CrashLoopBackOff")), pod("b", ofRevision(present), waits("ImagePullBackOff"))},
			"ImagePullBackOff", "no progress for 10 s: 1 of 1 updated, 0 available; pod b, container app: ImagePullBackOff",
		},
		"a container is still being created": {
			pods{pod("b", waits("ContainerCreating"))},
			"ProgressDeadlineExceeded", "no progress for 10 s: 0 of 1 pods are available",
		},
		"a container has ended with an error": {
			pods{pod("b", func(p *corev1.Pod) {
				p.Status.InitContainerStatuses = []corev1.ContainerStatus{
					{Name: "init", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}}},
				}
			})},
			"OOMKilled", "no progress for 10 s: 0 of 1 pods are available; pod b, container init: OOMKilled",
		},
		"an init container has ended well": {
			pods{pod("b", func(p *corev1.Pod) {
				p.Status.InitContainerStatuses = []corev1.ContainerStatus{
					{Name: "init", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"}}},
				}
			})},
			"ProgressDeadlineExceeded", "no progress for 10 s: 0 of 1 pods are available",
		},
		"there is no node for a pod": {
			pods{pod("b", func(p *corev1.Pod) {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable"}}
			})},
			"Unschedulable", "no progress for 10 s: 0 of 1 pods are available; pod b: Unschedulable",
		},
		"the words are none that a condition may have for its reason": {
			pods{pod("b", waits("exit status 1: no such file"))},
			"ProgressDeadlineExceeded", "no progress for 10 s: 0 of 1 pods are available; pod b, container app: exit status 1: no such file",
		},
		"the words are too many": {
			pods{pod("b", waits(strings.Repeat("é", 40_000)))},
			"ProgressDeadlineExceeded",
			"no progress for 10 s: 0 of 1 pods are available; pod b, container app: " + strings.Repeat("é", 1024),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status := stalled(Observation{PodSet: podSet(1, deadline(10)), Owned: test.pods, Revision: present, Now: now})
			got := status.Conditions[len(status.Conditions)-1]
			mustEqual(t, []string{got.Type, got.Reason, got.Message}, []string{"Stalled", test.reason, test.message})
		})
	}
}

// The reasons of a failing container alternate; the status does not.
func TestStalledStaysAsItIsUntilThereIsProgress(t *testing.T) {
	first := Observation{PodSet: podSet(1, deadline(10)), Owned: pods{pod("b", waits("ImagePullBackOff"))}, Revision: present, Now: now}
	before := stalled(first)

	again := first
	again.PodSet = first.PodSet.DeepCopy()
	again.PodSet.Status = before
	again.Owned = pods{pod("b", waits("ErrImagePull"))}
	mustEqual(t, stalled(again), before)

	again.Owned = pods{pod("b", ready)}
	mustEqual(t, len(stalled(again).Conditions), 1)
}

// What kept pods from being made says nothing about those that were made since.
func TestStalledForgetsARefusalThatIsOver(t *testing.T) {
	first := Observation{PodSet: podSet(1, deadline(10)), Owned: pods{pod("a", old, ready)}, Revision: present, Now: now}
	first.Holds = held(Create, now.Add(2*time.Hour), Problem{Reason: v1alpha1.ReasonQuotaExceeded, Message: "exceeded quota"})
	before := stalled(first)
	mustEqual(t, before.Conditions[1].Reason, v1alpha1.ReasonQuotaExceeded)

	again := first
	again.PodSet = first.PodSet.DeepCopy()
	again.PodSet.Status = before
	again.Holds = nil
	again.Owned = append(again.Owned, pod("b", ofRevision(present), waits("ImagePullBackOff")))
	mustEqual(t, stalled(again).Conditions[1].Reason, "ImagePullBackOff")
}

// A manager that knows nothing of the past goes on where another has stopped: a PodSet that was stalled still is.
func TestStalledOutlivesTheManager(t *testing.T) {
	first := Observation{PodSet: podSet(1, deadline(10)), Owned: pods{pod("b", waits("ImagePullBackOff"))}, Revision: present, Now: now}
	before := stalled(first)

	restarted := first
	restarted.PodSet = first.PodSet.DeepCopy()
	restarted.PodSet.Status = before
	restarted.Now = now.Add(2 * time.Hour)
	restarted.Progress = Progress{}.Observe(restarted)
	mustEqual(t, Status(restarted), before)

	changed := restarted
	changed.PodSet = restarted.PodSet.DeepCopy()
	changed.PodSet.Generation++
	changed.Progress = Progress{}.Observe(changed)
	mustEqual(t, changed.Progress.deadline(changed.PodSet), changed.Now.Add(10*time.Second))
}
