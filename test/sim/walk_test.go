package sim

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

const stepsOfWalk = 200

// walkOf returns where the walk of a seed starts from, and its dice.
func walkOf(seed uint64) (setup, dice) {
	d := dice{Rand: rand.New(rand.NewPCG(seed, 1))}
	upTo := func(n int) int8 { return int8(d.IntN(n + 1)) }
	s := setup{
		Managers:            1 + d.IntN(2),
		PodSets:             1,
		Replicas:            d.IntN(4),
		MaxReplicas:         1 + d.IntN(4),
		TerminationComplete: d.IntN(3) == 0,
		GivesUp:             d.IntN(3) == 0,
		HistoryLimit:        d.IntN(3),
		MinReadyMinutes:     d.IntN(8) / 7,
		PodFinalizer:        d.IntN(6) == 0,
		FineSteps:           d.IntN(2) == 0,
		FaultKinds:          faultSet(d.Uint32()) | faultsOf(lost),
		Budget: budget{
			Faults: [...]int8{0, 1, 1, 2, 3, 10}[d.IntN(6)], Meanwhiles: upTo(12), Restarts: upTo(2), Relists: upTo(10),
			Scales: upTo(20), PodDeletes: upTo(20), PodSetDeletes: upTo(1), PodSetCreates: upTo(3), Orphanings: upTo(1), Foregrounds: upTo(1),
			Strangers: upTo(3), Releases: upTo(2), Steals: upTo(1), Unlabels: upTo(1), Marks: upTo(1), Orphans: upTo(1),
			Failures: upTo(6), Unreadies: upTo(4), Minutes: upTo(6), Quotas: upTo(4), BadSpecs: upTo(3), Closing: int8(d.IntN(20) / 19),
			NewSpecs: upTo(4),
		},
	}
	s.Leases = s.Managers > 1 && d.IntN(2) == 0
	if d.IntN(8) == 0 {
		s.PodSets = 2
	}
	d.faulty, d.busy = 0.3*d.Float64(), 0.3*d.Float64()
	return s, d
}

// walk takes a walk and returns what it found out.
func walk(seed uint64) (*world, error) {
	s, d := walkOf(seed)
	w := newWorld(s, d)
	for range stepsOfWalk {
		w.do(d.pick(w.steps()))
		if w.oracle.broken != nil {
			return w, w.oracle.broken
		}
	}
	return w, w.end()
}

// number returns the number in an environment variable, or the usual one.
func number(t *testing.T, variable string, usual int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// fail reports a failed run as a test that fails like it.
func fail(t *testing.T, what string, s setup, lines script, failure error) {
	t.Helper()
	shorter, err := shrink(s, lines, failure)
	t.Errorf("%s: %v\nshrunk to a test:\n\nfunc TestReplay(t *testing.T) {\n\treplay(t, %s, `\n%s`)\n}\n", what, err, s, shorter)
}

// replay fails if the script breaks a promise.
func replay(t *testing.T, s setup, text string) {
	t.Helper()
	w, err := play(s, parse(text))
	if err != nil {
		t.Errorf("%v\nin\n%s", err, w.trail.script())
	}
}

// TestRandomWalks takes walks of 200 steps with all faults. SEEDS is how many, FIRST_SEED where they begin.
func TestRandomWalks(t *testing.T) {
	seeds, first := number(t, "SEEDS", 10000), number(t, "FIRST_SEED", 0)
	began, faults, revisions, needless, failed := time.Now(), 0, 0, 0, 0
	for seed := first; seed < first+seeds && failed < 3; seed++ {
		w, err := walk(uint64(seed))
		faults += w.faults
		revisions += w.server.lastIndex()
		needless += w.oracle.needless
		if err != nil {
			failed++
			fail(t, fmt.Sprint("seed ", seed), w.setup, w.trail.script(), err)
		}
	}
	t.Logf("%d seeds of %d steps, %d faults, %d revisions judged, %d needless deletions, %.0f s", seeds, stepsOfWalk, faults, revisions, needless, time.Since(began).Seconds())
}
