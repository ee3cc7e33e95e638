package podset

import (
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
)

func TestDecide(t *testing.T) {
	// slot is the name of the pod in one of the slots of PodSet "web".
	slot := func(number int) string { return namingOf("web", "uid-of-web").name(number) }
	create := func(name string) Step { return Step{Action: Create, Why: PodMissing, Name: name} }
	adopt := func(name string) Step { return Step{Action: Adopt, Why: PodMissing, Pod: pod(name)} }
	nothing := Step{}

	tests := map[string]struct {
		seen Observation
		want Step
	}{
		"no pods, three wanted: one is created": {
			Observation{PodSet: podSet(3)},
			create(slot(0)),
		},
		"as many pods as wanted: nothing": {
			Observation{PodSet: podSet(2), Owned: pods{pod("a"), pod("b", pending)}},
			nothing,
		},
		"replicas left out: one is wanted": {
			Observation{PodSet: podSet(0, replicasLeftOut)},
			create(slot(0)),
		},
		"replicas left out, one pod: nothing": {
			Observation{PodSet: podSet(0, replicasLeftOut), Owned: pods{pod("a")}},
			nothing,
		},
		"none wanted, none there: nothing": {
			Observation{PodSet: podSet(0)},
			nothing,
		},
		"none wanted, one there: it is deleted": {
			Observation{PodSet: podSet(0), Owned: pods{pod("a")}},
			Step{Action: Delete, Why: ScaleDown, Pod: pod("a")},
		},
		"too many pods: the least useful is deleted": {
			Observation{PodSet: podSet(1), Owned: pods{pod("a", ready), pod("b"), pod("c", ready)}},
			Step{Action: Delete, Why: ScaleDown, Pod: pod("b")},
		},
		"too many pods, some terminating: those are neither counted nor chosen": {
			Observation{PodSet: podSet(1), Owned: pods{pod("a", ready), pod("b", ready, created(0)), pod("c", pending, terminating)}},
			Step{Action: Delete, Why: ScaleDown, Pod: pod("b", ready, created(0))},
		},
		"too many pods, some finished: those are neither counted nor chosen": {
			Observation{PodSet: podSet(1), Owned: pods{pod("a"), pod("b", failed)}},
			nothing,
		},

		"an owned pod has the lowest name: the next is used": {
			Observation{PodSet: podSet(2), Owned: pods{pod(slot(0))}},
			create(slot(1)),
		},
		"a name between others is free: it is used": {
			Observation{PodSet: podSet(3), Owned: pods{pod(slot(0)), pod(slot(2))}},
			create(slot(1)),
		},
		"terminating and finished pods and orphans have names: they are not used": {
			Observation{
				PodSet:  podSet(1),
				Owned:   pods{pod(slot(0), terminating), pod(slot(1), failed), pod(slot(2), succeeded)},
				Orphans: pods{pod(slot(3), failed), pod(slot(4), terminating)},
			},
			Step{Action: Create, Why: PodMissing, Name: slot(5)},
		},
		"a name was asked for with unknown outcome: it is asked for again, before lower slots": {
			Observation{PodSet: podSet(2), Owned: pods{pod(slot(1))}, AskedNames: sets.New(slot(2))},
			create(slot(2)),
		},
		"a name was asked for with unknown outcome, and its pod is there: the lowest free slot": {
			Observation{PodSet: podSet(2), Owned: pods{pod(slot(1))}, AskedNames: sets.New(slot(1))},
			create(slot(0)),
		},
		"strangers have names: they are not used": {
			Observation{PodSet: podSet(1), TakenNames: sets.New(slot(0), slot(1))},
			create(slot(2)),
		},

		"a pod terminates, policy left out: it is replaced at once": {
			Observation{PodSet: podSet(1), Owned: pods{pod("a", terminating)}},
			create(slot(0)),
		},
		"a pod terminates, TerminationStarted: it is replaced at once": {
			Observation{PodSet: podSet(1, terminationStarted), Owned: pods{pod("a", terminating)}},
			create(slot(0)),
		},
		"a pod terminates, TerminationComplete: it is not replaced yet": {
			Observation{PodSet: podSet(2, terminationComplete), Owned: pods{pod("a"), pod("b", terminating)}},
			nothing,
		},
		"a pod terminates, TerminationComplete: an orphan is not adopted yet either": {
			Observation{PodSet: podSet(1, terminationComplete), Owned: pods{pod("a", terminating)}, Orphans: pods{pod("o")}},
			nothing,
		},
		"one pod terminates, two are missing, TerminationComplete: the other one is created": {
			Observation{PodSet: podSet(2, terminationComplete), Owned: pods{pod("a", terminating)}},
			create(slot(0)),
		},
		"more pods terminate than are missing, TerminationComplete: nothing": {
			Observation{PodSet: podSet(1, terminationComplete), Owned: pods{pod("a", terminating), pod("b", terminating)}},
			nothing,
		},
		"too many pods and some terminate, TerminationComplete: one is deleted": {
			Observation{PodSet: podSet(1, terminationComplete), Owned: pods{pod("a"), pod("b"), pod("c", terminating)}},
			Step{Action: Delete, Why: ScaleDown, Pod: pod("a")},
		},

		"being deleted with pods missing: nothing": {
			Observation{PodSet: podSet(3, beingDeleted), Orphans: pods{pod("o")}},
			nothing,
		},
		"being deleted with too many pods: nothing": {
			Observation{PodSet: podSet(0, beingDeleted), Owned: pods{pod("a"), pod("b")}},
			nothing,
		},
		"being deleted with too much history: nothing": {
			Observation{PodSet: podSet(0, beingDeleted, historyLimit(0)), Owned: pods{pod("a", failed)}},
			nothing,
		},

		"a pod is missing and there are orphans: the first by name is adopted": {
			Observation{PodSet: podSet(2), Owned: pods{pod("a")}, Orphans: pods{pod("p"), pod("o"), pod("q")}},
			adopt("o"),
		},
		"the orphans are finished or terminating: a pod is created": {
			Observation{PodSet: podSet(1), Orphans: pods{pod("o", failed), pod("p", succeeded), pod("q", terminating)}},
			create(slot(0)),
		},
		"no pod is missing: orphans stay orphans": {
			Observation{PodSet: podSet(1), Owned: pods{pod("a")}, Orphans: pods{pod("o")}},
			nothing,
		},
		"too many pods: orphans are not deleted": {
			Observation{PodSet: podSet(0), Orphans: pods{pod("o"), pod("p", failed)}},
			nothing,
		},
		"adoption was refused: a pod is created": {
			Observation{PodSet: podSet(1), Orphans: pods{pod("o")}, Holds: held(Adopt, now.Add(time.Second), Problem{})},
			create(slot(0)),
		},

		"creation was refused: nothing": {
			Observation{PodSet: podSet(1), Holds: held(Create, now.Add(time.Second), Problem{})},
			nothing,
		},
		"creation was refused: an orphan is adopted": {
			Observation{PodSet: podSet(1), Orphans: pods{pod("o")}, Holds: held(Create, now.Add(time.Second), Problem{})},
			adopt("o"),
		},
		"creation was refused: the history is trimmed": {
			Observation{
				PodSet: podSet(1, historyLimit(0)), Owned: pods{pod("a", failed)},
				Holds: held(Create, now.Add(time.Second), Problem{}),
			},
			Step{Action: Delete, Why: History, Pod: pod("a", failed)},
		},
		"creation was refused, and it is time to try again": {
			Observation{PodSet: podSet(1), Holds: held(Create, now, Problem{})},
			create(slot(0)),
		},
		"deletion was refused: no scale-down": {
			Observation{PodSet: podSet(0), Owned: pods{pod("a")}, Holds: held(Delete, now.Add(time.Second), Problem{})},
			nothing,
		},
		"deletion was refused: the history is not trimmed": {
			Observation{
				PodSet: podSet(0, historyLimit(0)), Owned: pods{pod("a", failed)},
				Holds: held(Delete, now.Add(time.Second), Problem{}),
			},
			nothing,
		},
		"deletion was refused: pods are created": {
			Observation{PodSet: podSet(1), Holds: held(Delete, now.Add(time.Second), Problem{})},
			create(slot(0)),
		},

		"pods keep failing: creation waits": {
			Observation{PodSet: podSet(1), Backoff: podsFailing()},
			nothing,
		},
		"pods keep failing: an orphan is adopted": {
			Observation{PodSet: podSet(1), Orphans: pods{pod("o")}, Backoff: podsFailing()},
			adopt("o"),
		},
		"pods keep failing: too many are deleted": {
			Observation{PodSet: podSet(0), Owned: pods{pod("a")}, Backoff: podsFailing()},
			Step{Action: Delete, Why: ScaleDown, Pod: pod("a")},
		},
		"pods keep failing: the history is trimmed": {
			Observation{PodSet: podSet(1, historyLimit(0)), Owned: pods{pod("a", failed)}, Backoff: podsFailing()},
			Step{Action: Delete, Why: History, Pod: pod("a", failed)},
		},
		"pods kept failing, and the delay has passed: a pod is created": {
			Observation{PodSet: podSet(1), Backoff: podsFailing(), Now: now.Add(time.Second)},
			create(slot(0)),
		},

		"a pod failed: it is replaced and stays": {
			Observation{PodSet: podSet(1), Owned: pods{pod("a", failed)}},
			create(slot(0)),
		},
		"a pod succeeded: it is replaced and stays": {
			Observation{PodSet: podSet(1), Owned: pods{pod("a", succeeded)}},
			create(slot(0)),
		},
		"history limit left out: one finished pod is kept": {
			Observation{PodSet: podSet(0), Owned: pods{pod("a", failed)}},
			nothing,
		},
		"history limit left out, two finished pods: the older one is removed": {
			Observation{PodSet: podSet(0), Owned: pods{
				pod("a", failed, created(time.Minute)), pod("b", succeeded, created(time.Hour)),
			}},
			Step{Action: Delete, Why: History, Pod: pod("b", succeeded, created(time.Hour))},
		},
		"finished pods of the same age: the first by name is removed": {
			Observation{PodSet: podSet(0), Owned: pods{pod("b", failed), pod("a", failed)}},
			Step{Action: Delete, Why: History, Pod: pod("a", failed)},
		},
		"as many finished pods as the limit: nothing": {
			Observation{PodSet: podSet(0, historyLimit(2)), Owned: pods{pod("a", failed), pod("b", failed)}},
			nothing,
		},
		"terminating pods are not history": {
			Observation{PodSet: podSet(0), Owned: pods{pod("a", failed, terminating), pod("b", failed)}},
			nothing,
		},
		"a pod is missing and there is too much history: the pod comes first": {
			Observation{PodSet: podSet(1, historyLimit(0)), Owned: pods{pod("a", failed)}},
			create(slot(0)),
		},
		"too many pods and too much history: the scale-down comes first": {
			Observation{PodSet: podSet(0, historyLimit(0)), Owned: pods{pod("a", failed), pod("b")}},
			Step{Action: Delete, Why: ScaleDown, Pod: pod("b")},
		},
		"a pod is waited for and there is too much history: it is trimmed": {
			Observation{
				PodSet: podSet(1, terminationComplete, historyLimit(0)),
				Owned:  pods{pod("a", failed), pod("b", terminating)},
			},
			Step{Action: Delete, Why: History, Pod: pod("a", failed)},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.seen.Now.IsZero() {
				test.seen.Now = now
			}
			for range 5 { // in any order of the pods
				mustEqual(t, Decide(test.seen), test.want)
				shuffle(test.seen.Owned)
				shuffle(test.seen.Orphans)
			}
		})
	}
}

func shuffle(pods pods) {
	rand.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
}

func TestNextLook(t *testing.T) {
	in := now.Add
	never := time.Time{}
	tests := map[string]struct {
		seen Observation
		want time.Time
	}{
		"all is well: never": {
			Observation{PodSet: podSet(1), Owned: pods{pod("a", ready)}},
			never,
		},
		"a pod is not ready: never, its change is an event": {
			Observation{PodSet: podSet(1, minReadySeconds(10)), Owned: pods{pod("a")}},
			never,
		},
		"a refused action: when it may be tried again": {
			Observation{PodSet: podSet(1), Holds: held(Create, in(30*time.Second), Problem{})},
			in(30 * time.Second),
		},
		"a hold that is over: never": {
			Observation{PodSet: podSet(1), Owned: pods{pod("a")}, Holds: held(Create, in(0), Problem{})},
			never,
		},
		"two refused actions: the earlier": {
			Observation{PodSet: podSet(1), Holds: map[Action]Hold{
				Create: {Until: in(40 * time.Second)}, Adopt: {Until: in(30 * time.Second)},
			}},
			in(30 * time.Second),
		},
		"pods keep failing: when the delay has passed": {
			Observation{PodSet: podSet(1), Backoff: podsFailing()},
			in(time.Second),
		},
		"pods kept failing and none is missing: never": {
			Observation{PodSet: podSet(0), Backoff: podsFailing()},
			never,
		},
		"pods keep failing, and one is to be replaced: when the delay has passed": {
			Observation{PodSet: podSet(1), Owned: pods{pod("a", ready, deleteMe("now"))}, Backoff: podsFailing()},
			in(time.Second),
		},
		"being deleted: never": {
			Observation{PodSet: podSet(1, beingDeleted), Holds: held(Create, in(time.Second), Problem{})},
			never,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.seen.Now = now
			mustEqual(t, NextLook(test.seen), test.want)
		})
	}
}

// Whoever looks again only when told to sees each pod become available, and is not told to look for ever.
func TestNextLookFindsEveryPodAvailable(t *testing.T) {
	o := Observation{
		PodSet: podSet(3, minReadySeconds(10)),
		Owned: pods{
			pod("a", readyFor(0)), pod("b", readyFor(4*time.Second)), pod("c", readyFor(9*time.Second+time.Nanosecond)),
			pod("d", readyFor(4*time.Second), terminating), pod("e", readyFor(4*time.Second), failed),
		},
		Now: now,
	}
	for looks := 0; ; looks++ {
		next := NextLook(o)
		if next.IsZero() {
			break
		}
		if looks == 10 {
			t.Fatal("looked ten times and is to look again")
		}
		if !next.After(o.Now) {
			t.Fatalf("the next look after %s is at %s", o.Now, next)
		}
		o.Now = next
	}
	mustEqual(t, Status(o).AvailableReplicas, int32(3))
	if late := o.Now.Sub(now.Add(10 * time.Second)); late < 0 || late > time.Millisecond {
		t.Errorf("the last pod is available after 10 s, and was seen to be %s later", late)
	}
}
