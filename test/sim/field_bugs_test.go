package sim

import "testing"

// TestFieldBugs replays what went wrong in controllers of this kind. None of it may break a promise here.
func TestFieldBugs(t *testing.T) {
	tests := map[string]struct {
		setup setup
		text  string
	}{
		"an old view does not double the pods": {
			setup{Managers: 1, PodSets: 1, Replicas: 1},
			`
m0 reconciles web
m0 reconciles web
m0 sees 1 events of podsets
m0 reconciles web
`,
		},
		"a create whose reply was lost is not repeated under another name": {
			setup{Managers: 1, PodSets: 1, Replicas: 2, FaultKinds: faultsOf(lost), Budget: budget{Faults: 2}},
			`
m0 reconciles web
	create: lost
m0 sees 1 events of podsets
m0 reconciles web
m0 sees 1 events of pods
m0 reconciles web
	create: lost
m0 reconciles web
`,
		},
		"a create that failed before it was carried out is tried again, also where nothing else would start a reconcile": {
			setup{Managers: 1, PodSets: 1, Replicas: 1, FaultKinds: faultsOf(internal), Soon: true, Budget: budget{Faults: 2}},
			`
m0 reconciles web
	create: internal
m0 sees 1 events of podsets
m0 reconciles web
	create: internal
`,
		},
		"scaled from two to one to two, with a restart on an old view": {
			setup{Managers: 1, PodSets: 1, Replicas: 2, Existing: 2, MaxReplicas: 2, Budget: budget{Scales: 2, Restarts: 1}},
			`
user scales web to 1
m0 sees 1 events of podsets
m0 reconciles web
user scales web to 2
m0 restarts on an old view
m0 reconciles web
m0 sees 2 events of podsets
m0 reconciles web
`,
		},
		"nothing waits for ever for a pod that came and went while the view was down": {
			setup{Managers: 1, PodSets: 1, Replicas: 1, Budget: budget{PodDeletes: 1, Relists: 2}},
			`
m0 reconciles web
user deletes pod web-podlqdfg
m0 lists podsets anew
m0 lists pods anew
m0 reconciles web
`,
		},
		"nothing waits for ever for an event that never comes": {
			setup{Managers: 1, PodSets: 1, Replicas: 1, Budget: budget{PodDeletes: 1, Relists: 1}},
			`
m0 reconciles web
m0 sees 1 events of podsets
m0 reconciles web
user deletes pod web-podlqdfg
m0 lists pods anew
`,
		},
		"a deletion that is in no view yet is not repeated on another pod": {
			setup{Managers: 1, PodSets: 1, Replicas: 2, Existing: 2, MaxReplicas: 2, Budget: budget{Scales: 1}},
			`
user scales web to 1
m0 sees 1 events of podsets
m0 reconciles web
m0 sees 1 events of podsets
m0 reconciles web
`,
		},
		"a stranger's pod is neither counted nor deleted": {
			setup{Managers: 1, PodSets: 1, Replicas: 1, MaxReplicas: 1, Existing: 1, Budget: budget{Strangers: 1, Steals: 1, Scales: 1}},
			`
a stranger takes the next name of web
another controller takes pod web-podlqdfg
user scales web to 0
m0 sees 1 events of podsets
m0 reconciles web
m0 sees 1 events of pods
m0 reconciles web
`,
		},
		"a deleted and re-created podset does not count its predecessor's pods": {
			setup{Managers: 1, PodSets: 1, Replicas: 1, Existing: 1, Budget: budget{PodSetDeletes: 1, PodSetCreates: 1}},
			`
user deletes podset web
user creates podset web with 1 replicas
m0 sees 2 events of podsets
m0 reconciles web
the garbage collector treats web-podlqdfg
m0 reconciles web
`,
		},
		"a quota that is used up is asked once in a while, and its end is noticed": {
			setup{Managers: 1, PodSets: 1, Replicas: 2, Existing: 1, Budget: budget{Quotas: 2, Minutes: 2}},
			`
quota allows no more pods
m0 reconciles web
m0 sees 1 events of podsets
m0 reconciles web
a minute passes
m0 reconciles web
`,
		},
		"a user scales between the live read and the deletion": {
			setup{Managers: 1, PodSets: 1, Replicas: 2, Existing: 2, MaxReplicas: 2, Budget: budget{Scales: 2, Meanwhiles: 1}},
			`
user scales web to 1
m0 sees 1 events of podsets
m0 reconciles web
	before delete
		user scales web to 2
`,
		},
		"a victim that changed since it was chosen is spared": {
			setup{Managers: 1, PodSets: 1, Replicas: 2, Existing: 2, MaxReplicas: 2, Budget: budget{Scales: 1, Meanwhiles: 2, Releases: 1}},
			`
user scales web to 1
m0 sees 1 events of podsets
m0 reconciles web
	before delete
		user releases pod web-podfwrdf
	before delete
		user releases pod web-podlqdfg
`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { replay(t, test.setup, test.text) })
	}
}
