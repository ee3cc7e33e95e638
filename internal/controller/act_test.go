package controller

import (
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"

	"example.com/podset-operator/internal/podset"
)

// refuse lets creation be refused one time after the other, each time when it may be tried again, and returns for how
// long it was held back each time.
func refuse(t *testing.T, r *Reconciler, memory *memory, messages ...string) []time.Duration {
	t.Helper()
	var held []time.Duration
	clock := clocktesting.NewFakePassiveClock(now)
	r.Clock = clock
	for _, message := range messages {
		o := podset.Observation{PodSet: podSet(1), Now: clock.Now().Add(-time.Second)} // the request took a second
		after, err := r.failed(t.Context(), o, podset.Step{Action: podset.Create, Name: "web-podb2c4d"}, forbidden(message), memory)
		if err != nil || after != 0 {
			t.Fatalf("retry after %s, %v; want a hold instead", after, err)
		}
		until := memory.holds[podset.Create].Until
		held = append(held, until.Sub(clock.Now()))
		clock.SetTime(until)
	}
	return held
}

func TestARefusedActionIsHeldEverLonger(t *testing.T) {
	var all memories
	r := &Reconciler{Events: events.NewFakeRecorder(100)}
	got := refuse(t, r, all.of(podSet(1)), "no", "no", "no", "no", "no", "no", "no")
	for i, seconds := range []int{2, 4, 8, 16, 30, 30, 30} {
		least := time.Duration(seconds) * time.Second
		if most := least * 3 / 2; got[i] < least || got[i] > most {
			t.Errorf("refusal %d: held for %s, want %s to %s", i+1, got[i], least, most)
		}
	}
}

func TestPodSetsThatMetTheSameRefusalDoNotComeBackTogether(t *testing.T) {
	var held []time.Duration
	for range 20 {
		var all memories
		r := &Reconciler{Events: events.NewFakeRecorder(1)}
		held = append(held, refuse(t, r, all.of(podSet(1)), "no")...)
	}
	if spread := slices.Max(held) - slices.Min(held); spread < 100*time.Millisecond {
		t.Errorf("20 PodSets come back within %s", spread)
	}
}

func TestARefusalIsToldOnceUntilItIsAnother(t *testing.T) {
	var all memories
	recorder := events.NewFakeRecorder(10)
	refuse(t, &Reconciler{Events: recorder}, all.of(podSet(1)), "no", "no", "no", "never", "never")
	close(recorder.Events)

	var got []string
	for event := range recorder.Events {
		got = append(got, event)
	}
	mustEqual(t, got, []string{
		`Warning Forbidden pods "web-podb2c4d" is forbidden: no`,
		`Warning Forbidden pods "web-podb2c4d" is forbidden: never`,
	})
}
