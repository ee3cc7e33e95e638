package podset

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"

	"example.com/podset-operator/api/v1alpha1"
)

// budget sets how many pods a roll-out may leave unavailable and make beside the wanted ones, as users write them.
func budget(maxUnavailable, maxSurge string) podSetOption {
	return func(p *v1alpha1.PodSet) {
		p.Spec.UpdateStrategy = v1alpha1.UpdateStrategy{
			Type: v1alpha1.RollingUpdate,
			RollingUpdate: &v1alpha1.RollingUpdateBudgets{
				MaxUnavailable: new(intstr.Parse(maxUnavailable)), MaxSurge: new(intstr.Parse(maxSurge)),
			},
		}
	}
}

func onDelete(p *v1alpha1.PodSet) { p.Spec.UpdateStrategy.Type = v1alpha1.OnDelete }

func paused(p *v1alpha1.PodSet) { p.Spec.Paused = true }

func TestBudgets(t *testing.T) {
	tests := map[string]struct {
		option                podSetOption
		desired               int
		surge, maxUnavailable int
	}{
		"left out":                                {func(*v1alpha1.PodSet) {}, 4, 1, 0},
		"both left out of rollingUpdate":          {func(p *v1alpha1.PodSet) { p.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdateBudgets{} }, 4, 1, 0},
		"numbers":                                 {budget("1", "2"), 4, 2, 1},
		"percentages":                             {budget("50%", "25%"), 4, 1, 2},
		"surge rounds up, unavailable down":       {budget("25%", "25%"), 10, 3, 2},
		"nothing left by rounding: one":           {budget("10%", "0%"), 5, 0, 1},
		"both zero, which the API server refuses": {budget("0", "0"), 5, 0, 1},
		"surge alone":                             {budget("0", "100%"), 3, 3, 0},
		"no more unavailable than wanted":         {budget("5", "0"), 3, 0, 3},
		"none wanted":                             {budget("100%", "100%"), 0, 0, 0},
		"OnDelete":                                {onDelete, 4, 0, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			surge, unavailable := budgets(podSet(1, test.option).Spec.UpdateStrategy, test.desired)
			mustEqual(t, [2]int{surge, unavailable}, [2]int{test.surge, test.maxUnavailable})
		})
	}
}

// oldPod is a pod of an older template, newPod one of the present.
func oldPod(name string, options ...podOption) *corev1.Pod {
	return pod(name, append(options, ofRevision("older"))...)
}

func newPod(name string, options ...podOption) *corev1.Pod {
	return pod(name, append(options, ofRevision(present))...)
}

func TestRollOut(t *testing.T) {
	slot := func(number int) string { return namingOf("web", "uid-of-web").name(number) }
	create := Step{Action: Create, Why: RollOut, Name: slot(0)}
	remove := func(pod *corev1.Pod) Step { return Step{Action: Delete, Why: OldRevision, Pod: pod} }
	replace := func(pod *corev1.Pod) Step {
		return Step{Action: Delete, Why: OldRevision, Pod: pod, Replacement: slot(0)}
	}
	nothing := Step{}
	quota := held(Create, now.Add(time.Second), Problem{Reason: v1alpha1.ReasonQuotaExceeded})
	refusal := held(Create, now.Add(time.Second), Problem{Reason: v1alpha1.ReasonForbidden})
	refused := func(names ...string) sets.Set[types.UID] {
		uids := sets.New[types.UID]()
		for _, name := range names {
			uids.Insert(pod(name).UID)
		}
		return uids
	}
	surging := budget("0", "1")
	giving := budget("1", "0")
	both := budget("1", "1")
	a, b := oldPod("a", ready), oldPod("b", ready)

	tests := map[string]struct {
		seen Observation
		want Step
	}{
		"surge: a new pod comes first":                     {Observation{PodSet: podSet(2, surging), Owned: pods{a, b}}, create},
		"surge: the new pod is waited for":                 {Observation{PodSet: podSet(2, surging), Owned: pods{a, b, newPod("c")}}, nothing},
		"surge: the new pod is available, an old one goes": {Observation{PodSet: podSet(2, surging), Owned: pods{a, b, newPod("c", ready)}}, remove(a)},
		"surge: an old pod went, the next new one comes":   {Observation{PodSet: podSet(2, surging), Owned: pods{b, newPod("c", ready)}}, create},
		"surge: the last old pod goes":                     {Observation{PodSet: podSet(2, surging), Owned: pods{b, newPod("c", ready), newPod("d", ready)}}, remove(b)},
		"surge: done":                                      {Observation{PodSet: podSet(2, surging), Owned: pods{newPod("c", ready), newPod("d", ready)}}, nothing},
		"surge: the last new pod is not available: wait":   {Observation{PodSet: podSet(2, surging), Owned: pods{b, newPod("c", ready), newPod("d")}}, nothing},
		"surge: minReadySeconds count":                     {Observation{PodSet: podSet(2, surging, minReadySeconds(60)), Owned: pods{a, b, newPod("c", readyFor(time.Second))}}, nothing},
		"strategy left out: as surge":                      {Observation{PodSet: podSet(2), Owned: pods{a, b}}, create},

		"no surge: an old pod goes first":        {Observation{PodSet: podSet(2, giving), Owned: pods{a, b}}, replace(a)},
		"no surge: a new one comes in its place": {Observation{PodSet: podSet(2, giving), Owned: pods{b}}, Step{Action: Create, Why: PodMissing, Name: slot(0)}},
		"no surge: the new one is waited for":    {Observation{PodSet: podSet(2, giving), Owned: pods{b, newPod("c")}}, nothing},
		"both budgets: a new pod comes first":    {Observation{PodSet: podSet(2, both), Owned: pods{a, b}}, create},
		"both budgets: then an old one goes":     {Observation{PodSet: podSet(2, both), Owned: pods{a, b, newPod("c")}}, remove(a)},

		"an old pod that serves nobody goes first": {Observation{PodSet: podSet(2, surging), Owned: pods{a, oldPod("b")}}, replace(oldPod("b"))},
		"no old pod serves anybody: new ones come up first, one at a time": {
			Observation{PodSet: podSet(2, surging), Owned: pods{oldPod("a"), newPod("c")}}, create,
		},
		"as many new pods on trial as the budgets make: old ones that serve nobody stay": {
			Observation{PodSet: podSet(2, surging), Owned: pods{oldPod("a"), newPod("c"), newPod("d")}}, nothing,
		},

		"paused: nothing":                    {Observation{PodSet: podSet(2, surging, paused), Owned: pods{a, b}}, nothing},
		"paused: what was made beside stays": {Observation{PodSet: podSet(2, surging, paused), Owned: pods{a, b, newPod("c", ready)}}, nothing},
		"paused: a missing pod comes, of the present template": {
			Observation{PodSet: podSet(2, surging, paused), Owned: pods{a}}, Step{Action: Create, Why: PodMissing, Name: slot(0)},
		},
		"OnDelete: nothing":             {Observation{PodSet: podSet(2, onDelete), Owned: pods{a, b}}, nothing},
		"OnDelete: a missing pod comes": {Observation{PodSet: podSet(2, onDelete), Owned: pods{a}}, Step{Action: Create, Why: PodMissing, Name: slot(0)}},

		"scaled up meanwhile: the missing pod comes": {Observation{PodSet: podSet(3, surging), Owned: pods{a, b}}, Step{Action: Create, Why: PodMissing, Name: slot(0)}},
		"scaled down meanwhile: an old pod goes":     {Observation{PodSet: podSet(1, surging), Owned: pods{a, b, newPod("c", ready)}}, Step{Action: Delete, Why: ScaleDown, Pod: a}},
		"scaled down meanwhile, the new pod serves nobody: an old one goes as long as enough are available": {
			Observation{PodSet: podSet(1, surging), Owned: pods{a, b, newPod("c")}}, Step{Action: Delete, Why: ScaleDown, Pod: a},
		},
		"scaled to 0 meanwhile: an old pod goes": {Observation{PodSet: podSet(0, surging), Owned: pods{a, newPod("c", ready)}}, Step{Action: Delete, Why: ScaleDown, Pod: a}},
		"back to the old template: the pods that live are kept": {
			Observation{PodSet: podSet(2, surging), Owned: pods{newPod("a", ready), newPod("b", ready), oldPod("c")}}, remove(oldPod("c")),
		},
		"a second change: a pod of the first that serves nobody goes before one of the oldest": {
			Observation{PodSet: podSet(2, surging), Owned: pods{a, b, pod("c", ofRevision("second"))}},
			Step{Action: Delete, Why: ScaleDown, Pod: pod("c", ofRevision("second"))},
		},

		"quota too tight to surge: nothing": {Observation{PodSet: podSet(2, surging), Owned: pods{a, b}, Holds: quota}, nothing},
		"quota too tight, one may be unavailable: an old pod makes room": {
			Observation{PodSet: podSet(2, both), Owned: pods{a, b}, Holds: quota}, replace(a),
		},
		"admission refuses new pods: old ones stay": {Observation{PodSet: podSet(2, both), Owned: pods{a, b}, Holds: refusal}, nothing},
		"admission refuses new pods: also old ones that serve nobody stay": {
			Observation{PodSet: podSet(2, both), Owned: pods{a, oldPod("b")}, Holds: refusal}, nothing,
		},
		"new pods keep failing: old ones stay": {Observation{PodSet: podSet(2, both), Owned: pods{a, b}, Backoff: podsFailing()}, nothing},
		"admission refuses new pods, all new ones are there: the old one goes": {
			Observation{PodSet: podSet(1, both), Owned: pods{a, newPod("c", ready)}, Holds: refusal}, remove(a),
		},

		"TerminationComplete: a terminating pod takes the room of the surge": {
			Observation{PodSet: podSet(2, surging, terminationComplete), Owned: pods{b, newPod("c", ready), oldPod("a", terminating)}}, nothing,
		},
		"TerminationStarted: it does not": {
			Observation{PodSet: podSet(2, surging, terminationStarted), Owned: pods{b, newPod("c", ready), oldPod("a", terminating)}}, create,
		},
		"a create of unknown outcome takes the room of the surge": {
			Observation{PodSet: podSet(2, surging), Owned: pods{a, b, oldPod(slot(0), terminating)}, AskedNames: sets.New(slot(0))}, nothing,
		},

		"an old pod that serves nobody cannot be deleted: a new one comes": {
			Observation{PodSet: podSet(2, surging), Owned: pods{a, oldPod("b")}, RefusedPods: refused("b")}, create,
		},
		"an old pod that serves nobody cannot be deleted, nor any other just now: a new one comes": {
			Observation{PodSet: podSet(2, surging), Owned: pods{a, oldPod("b")}, RefusedPods: refused("b"), Holds: held(Delete, now.Add(time.Second), Problem{})}, create,
		},
		"an old pod that serves nobody cannot be deleted: one that serves is replaced": {
			Observation{PodSet: podSet(2, budget("0", "2")), Owned: pods{a, oldPod("b"), newPod("c", ready), newPod("d", ready)}, RefusedPods: refused("b")}, remove(a),
		},
		"an old pod that serves nobody cannot be deleted: when nothing else is to be done, it is tried again": {
			Observation{PodSet: podSet(1, surging), Owned: pods{oldPod("b"), newPod("c", ready)}, RefusedPods: refused("b")}, remove(oldPod("b")),
		},
		"scaled down, and the pod that serves nobody cannot be deleted: those that are needed stay": {
			Observation{PodSet: podSet(2, surging), Owned: pods{a, b, oldPod("x")}, RefusedPods: refused("x")},
			Step{Action: Delete, Why: ScaleDown, Pod: oldPod("x")},
		},
		"scaled down, and no old pod can be deleted: the new one stays": {
			Observation{PodSet: podSet(1, surging), Owned: pods{a, b, newPod("c", ready)}, RefusedPods: refused("a", "b")},
			Step{Action: Delete, Why: ScaleDown, Pod: a},
		},
		"delete-me=now, and it cannot be deleted: the roll-out goes on": {
			Observation{PodSet: podSet(2, surging), Owned: pods{a, newPod("b", ready, deleteMe("now"))}, RefusedPods: refused("b")}, create,
		},
		"delete-me=now, and it cannot be deleted: the history is trimmed": {
			Observation{
				PodSet: podSet(1, historyLimit(0)), RefusedPods: refused("a"),
				Owned: pods{newPod("a", ready, deleteMe("now")), newPod("f", failed, created(24*time.Hour))},
			},
			Step{Action: Delete, Why: History, Pod: newPod("f", failed, created(24*time.Hour))},
		},

		"delete-me=now: replaced at once":               {Observation{PodSet: podSet(1), Owned: pods{newPod("a", ready, deleteMe("now"))}}, Step{Action: Delete, Why: DeleteMeNow, Pod: newPod("a", ready, deleteMe("now")), Replacement: slot(0)}},
		"delete-me=true: not before a scale-down":       {Observation{PodSet: podSet(1), Owned: pods{newPod("a", ready, deleteMe("true"))}}, nothing},
		"delete-me=now, new pods are refused: it stays": {Observation{PodSet: podSet(1), Owned: pods{newPod("a", ready, deleteMe("now"))}, Holds: refusal}, nothing},
		"a pod without our label is released, before anything else": {
			Observation{PodSet: podSet(2), Owned: pods{a}, Unlabelled: pod("x")}, Step{Action: Release, Why: LabelRemoved, Pod: pod("x")},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.seen.Now, test.seen.Revision = now, present
			for range 5 { // in any order of the pods
				mustEqual(t, Decide(test.seen), test.want)
				shuffle(test.seen.Owned)
			}
		})
	}
}

// rollOutCase is a small roll-out: how many pods of each kind there are, and what is wanted.
type rollOutCase struct {
	oldDown, oldUp, newDown, newUp int
	desired, surge, maxUnavailable int
}

func (c rollOutCase) observe() Observation {
	o := Observation{
		PodSet:   podSet(int32(c.desired), budget(fmt.Sprint(c.maxUnavailable), fmt.Sprint(c.surge))),
		Revision: present, Now: now,
	}
	for kind, count := range []int{c.oldDown, c.oldUp, c.newDown, c.newUp} {
		for i := range count {
			revision, readiness := []string{"older", present}[kind/2], []podOption{notReady, ready}[kind%2]
			o.Owned = append(o.Owned, pod(fmt.Sprint("pod-", kind, "-", i), ofRevision(revision), readiness))
		}
	}
	return o
}

func (c rollOutCase) total() int     { return c.oldDown + c.oldUp + c.newDown + c.newUp }
func (c rollOutCase) available() int { return c.oldUp + c.newUp }

// after is the case after a step.
func (c rollOutCase) after(step Step) rollOutCase {
	switch {
	case step.Action == Create:
		c.newDown++
	case step.Pod == nil:
	case step.Pod.Labels[v1alpha1.TemplateHashLabel] == present && !readySince(step.Pod).IsZero():
		c.newUp--
	case step.Pod.Labels[v1alpha1.TemplateHashLabel] == present:
		c.newDown--
	case readySince(step.Pod).IsZero():
		c.oldDown--
	default:
		c.oldUp--
	}
	return c
}

// From every small case, with new pods becoming available and any pod failing its probes at every possible moment: the
// operator never takes away an available pod that is needed nor makes one too many, and once the probes hold it comes to
// an end.
func TestEverySmallRollOut(t *testing.T) {
	const most = 3
	cases := 0
	seen := sets.New[rollOutCase]()
	var explore func(c rollOutCase)
	explore = func(c rollOutCase) {
		if seen.Has(c) {
			return
		}
		seen.Insert(c)
		cases++
		step := Decide(c.observe())
		next := c.after(step)
		switch {
		case step.Action == Create && next.total() > c.desired+c.surge:
			t.Fatalf("%+v: a pod too many: %+v", c, step)
		case step.Action == Delete && next.available() < c.available() && next.available() < c.desired-max(c.maxUnavailable, 0):
			t.Fatalf("%+v: not enough are left available by %+v", c, step)
		case step.Action == Delete && step.Why == OldRevision && step.Pod.Labels[v1alpha1.TemplateHashLabel] == present:
			t.Fatalf("%+v: a pod of the present template was replaced", c)
		}
		if step.Action != Nothing {
			explore(next)
		}
		c.mustEnd(t)
		if c.newDown > 0 {
			up := c
			up.newDown, up.newUp = c.newDown-1, c.newUp+1
			explore(up)
		}
		if c.newUp > 0 {
			down := c
			down.newDown, down.newUp = c.newDown+1, c.newUp-1
			explore(down)
		}
		if c.oldUp > 0 {
			down := c
			down.oldDown, down.oldUp = c.oldDown+1, c.oldUp-1
			explore(down)
		}
	}
	for number := range 4 * 4 * 4 * 4 * 4 * 3 * 3 {
		var c rollOutCase
		for _, field := range []*int{&c.oldDown, &c.oldUp, &c.newDown, &c.newUp, &c.desired} {
			*field, number = number%(most+1), number/(most+1)
		}
		c.surge, c.maxUnavailable = number%3, number/3
		if c.surge+c.maxUnavailable > 0 {
			explore(c)
		}
	}
	if cases < 8*4*256 {
		t.Errorf("only %d cases were looked at", cases)
	}
}

// mustEnd lets new pods become available, and checks that only wanted ones are left, after no more steps than pods.
func (c rollOutCase) mustEnd(t *testing.T) {
	t.Helper()
	at := c
	for range 2*c.total() + 3*c.desired + 3 {
		step := Decide(at.observe())
		if step.Action == Nothing && at.newDown == 0 {
			break
		}
		at = at.after(step)
		if step.Action == Nothing {
			at.newDown, at.newUp = at.newDown-1, at.newUp+1
		}
	}
	want := rollOutCase{newUp: c.desired, desired: c.desired, surge: c.surge, maxUnavailable: c.maxUnavailable}
	if at != want {
		t.Fatalf("%+v ends as %+v", c, at)
	}
}
