package podset

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"example.com/podset-operator/api/v1alpha1"
)

// world is a PodSet and its pods, changed by steps and by everybody else.
type world struct {
	t      *testing.T
	random *rand.Rand

	podSet         *v1alpha1.PodSet
	owned, orphans pods
	backoff        Backoff
	now            time.Time
	madeByOthers   int
}

func (w *world) observe() Observation {
	w.backoff = w.backoff.Observe(w.owned, Revision(w.podSet.Spec.Template), w.now)
	return Observation{PodSet: w.podSet, Owned: w.owned, Orphans: w.orphans, Backoff: w.backoff, Now: w.now}
}

func (w *world) wanted() int { return int(*w.podSet.Spec.Replicas) }

func (w *world) with(is func(*corev1.Pod) bool) pods { return filter(w.owned, is) }

// take checks that a step is justified by what is there, and takes it.
func (w *world) take(step Step) {
	active := len(w.with(isActive))
	justified := false
	switch step.Action {
	case Nothing:
		justified = step == Step{}
	case Create:
		exists := slices.ContainsFunc(slices.Concat(w.owned, w.orphans), func(pod *corev1.Pod) bool { return pod.Name == step.Name })
		justified = active < w.wanted() && !exists
		w.owned = append(w.owned, pod(step.Name, createdAt(w.now), pending))
	case Adopt:
		justified = active < w.wanted() && isActive(step.Pod) && slices.Contains(w.orphans, step.Pod)
		w.orphans = without(w.orphans, step.Pod)
		w.owned = append(w.owned, step.Pod)
	case Release: // nobody takes labels off pods here
	case Delete:
		justified = slices.Contains(w.owned, step.Pod) &&
			(step.Why == ScaleDown && isActive(step.Pod) && active > w.wanted() ||
				step.Why == History && isFinished(step.Pod) && len(w.with(isFinished)) > w.historyLimit())
		if isFinished(step.Pod) { // the API server grants it no grace period
			w.owned = without(w.owned, step.Pod)
		}
		terminating(step.Pod)
	}
	if !justified {
		w.t.Fatalf("with %d of %d pods active took the step %+v", active, w.wanted(), step)
	}
}

func (w *world) historyLimit() int { return int(*w.podSet.Spec.FailedPodsHistoryLimit) }

// disturb does what users, nodes and time do.
func (w *world) disturb() {
	active, ending := w.with(isActive), w.with(isTerminating)
	change := func(option podOption) {
		if len(active) > 0 {
			option(active[w.random.IntN(len(active))])
		}
	}
	switch w.random.IntN(10) {
	case 0:
		*w.podSet.Spec.Replicas = w.random.Int32N(7)
	case 1:
		change(failed)
	case 2:
		change(succeeded)
	case 3:
		change(readiness(corev1.ConditionTrue, w.now))
	case 4:
		change(deleteMe("true"))
	case 5:
		change(terminating)
	case 6:
		change(func(pod *corev1.Pod) { w.owned = without(w.owned, pod) })
	case 7:
		if len(ending) > 0 {
			w.owned = without(w.owned, ending[0])
		}
	case 8:
		w.madeByOthers++
		w.orphans = append(w.orphans, pod(fmt.Sprint("made-by-others-", w.madeByOthers), createdAt(w.now)))
	case 9:
		w.now = w.now.Add(time.Duration(w.random.IntN(30)) * time.Second)
	}
}

// rest lets pods become ready and terminating ones go, or time pass until the next look; it reports false if nothing is
// left to happen.
func (w *world) rest() bool {
	unready := w.with(func(pod *corev1.Pod) bool { return isActive(pod) && readySince(pod).IsZero() })
	next := NextLook(w.observe())
	if len(unready) == 0 && len(w.with(isTerminating)) == 0 && next.IsZero() {
		return false
	}
	for _, pod := range unready {
		running(pod)
		readiness(corev1.ConditionTrue, w.now)(pod)
	}
	w.owned = w.with(func(pod *corev1.Pod) bool { return !isTerminating(pod) })
	if next.After(w.now) {
		w.now = next
	}
	return true
}

func without(all pods, gone *corev1.Pod) pods {
	return filter(all, func(pod *corev1.Pod) bool { return pod != gone })
}

func TestSequencesOfSteps(t *testing.T) {
	for _, policy := range []v1alpha1.PodReplacementPolicy{v1alpha1.TerminationStarted, v1alpha1.TerminationComplete} {
		for seed := range uint64(100) {
			t.Run(fmt.Sprintf("%s, seed %d", policy, seed), func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 0))
				w := &world{t: t, random: random, now: now, podSet: podSet(random.Int32N(7), historyLimit(random.Int32N(3)))}
				w.podSet.Spec.PodReplacementPolicy = policy

				neverTooMany(w)
				settles(w)
			})
		}
	}
}

// neverTooMany takes steps while much else happens. There are never more active pods than were ever asked for, with
// TerminationComplete even if terminating ones are counted in.
func neverTooMany(w *world) {
	most := w.wanted()
	for range 300 {
		if w.random.IntN(3) == 0 {
			w.disturb()
		}
		most = max(most, w.wanted())
		w.take(Decide(w.observe()))

		counted := len(w.with(isActive))
		if w.podSet.Spec.PodReplacementPolicy == v1alpha1.TerminationComplete {
			counted += len(w.with(isTerminating))
		}
		if counted > most {
			w.t.Fatalf("%d pods, at most %d were ever asked for", counted, most)
		}
	}
}

// settles leaves the PodSet alone. It needs one step for each pod too few or too many, and then it is ready and
// nothing is left to do.
func settles(w *world) {
	missing := w.wanted() - len(w.with(isActive))
	needed := max(missing, -missing) + max(0, len(w.with(isFinished))-w.historyLimit())
	steps := 0
	for idle := 0; ; {
		step := Decide(w.observe())
		w.take(step)
		switch {
		case step.Action != Nothing:
			steps++
		case !w.rest():
			if steps != needed {
				w.t.Errorf("took %d steps, needed %d", steps, needed)
			}
			status := Status(w.observe())
			if int(status.Replicas) != w.wanted() || status.Conditions[0].Status != "True" {
				w.t.Errorf("wanted %d pods, settled with %+v", w.wanted(), status)
			}
			return
		default:
			if idle++; idle > 100 {
				w.t.Fatalf("does not come to rest; took %d steps, needed %d", steps, needed)
			}
		}
		if steps > needed {
			w.t.Fatalf("took more than the %d steps needed", needed)
		}
	}
}
