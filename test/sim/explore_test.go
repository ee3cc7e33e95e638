package sim

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

var (
	ambiguous = faultsOf(lost, late, crashAfter)
	allFaults = faultsOf(internal, lost, late, crashBefore, crashAfter)
)

// scenarios are explored completely, or up to the limit.
var scenarios = map[string]setup{
	"one pod, two faults of any kind": {
		Managers: 1, MaxLag: 6, Asleep: true, PodSets: 1, Replicas: 1, MaxReplicas: 1, FaultKinds: allFaults,
		Budget: budget{Faults: 2, Restarts: 1, Relists: 1},
	},
	"one pod deleted by a user, two ambiguous faults": {
		Managers: 1, MaxLag: 6, Asleep: true, PodSets: 1, Replicas: 1, MaxReplicas: 1, FaultKinds: ambiguous,
		Budget: budget{Faults: 2, PodDeletes: 1, Restarts: 1},
	},
	"scaled from two to one to two, with a restart": {
		Managers: 1, MaxLag: 6, Asleep: true, PodSets: 1, Replicas: 2, MaxReplicas: 2, Existing: 2, FaultKinds: ambiguous,
		Budget: budget{Faults: 1, Scales: 2, Restarts: 1},
	},
	"three pods, each created under a fault": {
		Managers: 1, MaxLag: 6, Asleep: true, PodSets: 1, Replicas: 3, MaxReplicas: 3, FaultKinds: faultsOf(lost, crashAfter),
		Budget: budget{Faults: 3, Relists: 1},
	},
	"scaled up and down, lists anew": {
		Managers: 1, MaxLag: 6, Asleep: true, PodSets: 1, Replicas: 1, MaxReplicas: 3, Existing: 1,
		FaultKinds: faultsOf(lost), Budget: budget{Faults: 1, Scales: 3, Relists: 2},
	},
	"two managers create": {
		Managers: 2, MaxLag: 4, Asleep: true, PodSets: 1, Replicas: 2, MaxReplicas: 2, FaultKinds: ambiguous, Budget: budget{Faults: 1},
	},
	"two managers scale down": {
		Managers: 2, MaxLag: 4, Asleep: true, PodSets: 1, Replicas: 2, MaxReplicas: 2, Existing: 2, Budget: budget{Scales: 1, Meanwhiles: 1},
	},
	"two managers and a user who deletes a pod": {
		Managers: 2, MaxLag: 4, Asleep: true, PodSets: 1, Replicas: 1, MaxReplicas: 1, Existing: 1, Budget: budget{PodDeletes: 1, Meanwhiles: 1},
	},
	"two managers, replaced when gone": {
		Managers: 2, MaxLag: 4, Asleep: true, PodSets: 1, Replicas: 1, MaxReplicas: 1, Existing: 1, TerminationComplete: true,
		FaultKinds: faultsOf(late), Budget: budget{PodDeletes: 1, Faults: 1},
	},
	"a leader that was paused past its lease": {
		Managers: 2, Leases: true, MaxLag: 4, Asleep: true, PodSets: 1, Replicas: 2, MaxReplicas: 2, Existing: 1,
		Budget: budget{PodDeletes: 1, Minutes: 3},
	},
	"a leader that was paused past its lease, and an orphan": {
		Managers: 2, Leases: true, MaxLag: 4, Asleep: true, PodSets: 1, Replicas: 2, MaxReplicas: 2,
		Budget: budget{Orphans: 1, Minutes: 2},
	},
	"replaced when gone, three faults": {
		Managers: 1, MaxLag: 6, Asleep: true, PodSets: 1, Replicas: 1, MaxReplicas: 1, Existing: 1, TerminationComplete: true, FaultKinds: ambiguous,
		Budget: budget{Faults: 3, PodDeletes: 1, Restarts: 1},
	},
	"replaced when gone, scaled": {
		Managers: 1, MaxLag: 6, Asleep: true, PodSets: 1, Replicas: 2, MaxReplicas: 2, Existing: 2, TerminationComplete: true, FaultKinds: ambiguous,
		Budget: budget{Faults: 2, Scales: 2},
	},
	"podset deleted and created again": {
		Managers: 1, MaxLag: 6, Asleep: true, PodSets: 1, Replicas: 1, MaxReplicas: 1, Existing: 1, FaultKinds: ambiguous,
		Budget: budget{Faults: 1, PodSetDeletes: 1, PodSetCreates: 1, Restarts: 1},
	},
	"podset deleted in the foreground": {
		Managers: 1, MaxLag: 6, Asleep: true, PodSets: 1, Replicas: 2, MaxReplicas: 2, Existing: 1, FaultKinds: ambiguous,
		Budget: budget{Faults: 1, Foregrounds: 1, PodSetCreates: 1, Meanwhiles: 1},
	},
	"podset deleted, its pods left and adopted": {
		Managers: 1, MaxLag: 6, Asleep: true, PodSets: 1, Replicas: 2, MaxReplicas: 2, Existing: 2, FaultKinds: faultsOf(lost, crashAfter),
		Budget: budget{Faults: 1, Orphanings: 1, PodSetCreates: 1},
	},
	"strangers take and leave names": {
		Managers: 1, MaxLag: 6, Asleep: true, PodSets: 1, Replicas: 2, MaxReplicas: 2, FaultKinds: faultsOf(lost), Budget: budget{Faults: 1, Strangers: 3, Meanwhiles: 1},
	},
	"an orphan that another controller takes": {
		Managers: 1, MaxLag: 6, Asleep: true, PodSets: 1, Replicas: 1, MaxReplicas: 1, FaultKinds: faultsOf(lost, crashAfter),
		Budget: budget{Faults: 1, Orphans: 1, Steals: 1, Meanwhiles: 1},
	},
	"pods released and taken by others": {
		Managers: 1, MaxLag: 6, Asleep: true, PodSets: 1, Replicas: 1, MaxReplicas: 2, Existing: 1, FaultKinds: faultsOf(lost, late),
		Budget: budget{Faults: 1, Releases: 1, Steals: 1, Scales: 1, Meanwhiles: 1},
	},
	"pods fail, and their history is trimmed": {
		Managers: 1, MaxLag: 6, Asleep: true, PodSets: 1, Replicas: 1, MaxReplicas: 1, HistoryLimit: 1, FaultKinds: faultsOf(lost, crashAfter),
		Budget: budget{Faults: 1, Failures: 3, Minutes: 3},
	},
	"quota": {
		Managers: 1, MaxLag: 6, Asleep: true, PodSets: 1, Replicas: 2, MaxReplicas: 2, Existing: 1, FaultKinds: ambiguous,
		Budget: budget{Faults: 1, Quotas: 2, Minutes: 2, Scales: 1},
	},
	"a finalizer keeps deleted pods": {
		Managers: 1, MaxLag: 6, Asleep: true, PodSets: 1, Replicas: 1, MaxReplicas: 2, PodFinalizer: true, FaultKinds: ambiguous,
		Budget: budget{Faults: 1, Scales: 2, PodDeletes: 1},
	},
	"a bad template, then a good one": {
		Managers: 1, MaxLag: 6, Asleep: true, PodSets: 1, Replicas: 2, MaxReplicas: 2, Existing: 1, FaultKinds: ambiguous,
		Budget: budget{Faults: 1, BadSpecs: 2, Minutes: 2, PodDeletes: 1},
	},
	"a new template": {
		Managers: 1, MaxLag: 6, PodSets: 1, Replicas: 1, MaxReplicas: 1, Existing: 1, FaultKinds: ambiguous,
		Budget: budget{Faults: 1, NewSpecs: 2, Restarts: 1},
	},
	"a new template, a pod given up for it": {
		Managers: 1, MaxLag: 6, PodSets: 1, Replicas: 2, MaxReplicas: 2, Existing: 2, GivesUp: true, FaultKinds: ambiguous,
		Budget: budget{Faults: 1, NewSpecs: 1, Meanwhiles: 1},
	},
	"a new template, scaled meanwhile": {
		Managers: 1, MaxLag: 6, PodSets: 1, Replicas: 2, MaxReplicas: 3, Existing: 2, FaultKinds: faultsOf(lost),
		Budget: budget{Faults: 1, NewSpecs: 1, Scales: 1},
	},
	"a new template by two managers": {
		Managers: 2, MaxLag: 4, PodSets: 1, Replicas: 1, MaxReplicas: 1, Existing: 1, Budget: budget{NewSpecs: 1, Meanwhiles: 1},
	},
	"a new template, replaced when gone": {
		Managers: 1, MaxLag: 6, PodSets: 1, Replicas: 1, MaxReplicas: 1, Existing: 1, TerminationComplete: true, FaultKinds: ambiguous,
		Budget: budget{Faults: 2, NewSpecs: 1, PodDeletes: 1},
	},
	"a new template under a quota": {
		Managers: 1, MaxLag: 6, PodSets: 1, Replicas: 1, MaxReplicas: 1, Existing: 1, FaultKinds: faultsOf(lost),
		Budget: budget{Faults: 1, NewSpecs: 1, Quotas: 2, Minutes: 2},
	},
	"pods taken out of the set, and replaced at once": {
		Managers: 1, MaxLag: 6, PodSets: 1, Replicas: 2, MaxReplicas: 2, Existing: 2, FaultKinds: ambiguous,
		Budget: budget{Faults: 1, Unlabels: 1, Marks: 1, Scales: 1},
	},
	"scheduled, running and ready one after the other": {
		Managers: 1, MaxLag: 6, PodSets: 1, Replicas: 2, MaxReplicas: 2, FineSteps: true, FaultKinds: faultsOf(lost, late),
		Budget: budget{Faults: 1, Scales: 1, Unreadies: 1},
	},
}

// enough is how many states make a proof worth its name. A run that was not told to be shorter fails with fewer.
const enough = 300_000

// TestEveryState explores the scenarios. STATES is how many states are visited at most, in all scenarios together, and
// EXPLORE_SECONDS for how long.
func TestEveryState(t *testing.T) {
	wanted := number(t, "STATES", 1_000_000)
	limit := wanted / len(scenarios)
	began := time.Now()
	until := began.Add(time.Duration(number(t, "EXPLORE_SECONDS", 280)) * time.Second)
	var explored, states, transitions, complete atomic.Int64
	t.Run("scenarios", func(t *testing.T) {
		for name, s := range scenarios {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				started := time.Now()
				x := exploration{setup: s, limit: limit, until: until}
				x.run()
				explored.Add(1)
				states.Add(int64(x.states))
				transitions.Add(int64(x.transitions))
				extent := "stopped at the limit"
				if x.complete {
					complete.Add(1)
					extent = "complete"
				}
				t.Logf("%s: %d states, %d transitions, %d settled, depth %d, %.1f s, %s",
					name, x.states, x.transitions, x.settled, x.depth, time.Since(started).Seconds(), extent)
				if x.failure != nil {
					fail(t, fmt.Sprintf("%q", name), s, x.failed.trail.script(), x.failure)
				}
			})
		}
	})
	t.Logf("%d scenarios, %d of them complete, %d states, %d transitions, %.0f s",
		explored.Load(), complete.Load(), states.Load(), transitions.Load(), time.Since(began).Seconds())
	if all := int(explored.Load()) == len(scenarios); all && wanted > enough && states.Load() < enough && !t.Failed() {
		t.Errorf("visited fewer than %d states in the time given", enough)
	}
}
