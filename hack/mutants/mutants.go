package main

// mutant is one wrong version of a rule.
type mutant struct {
	// name says what is wrong.
	name string
	// file is where, from the root of the project.
	file  string
	edits []edit
}

// edit replaces a text that is in the file once.
type edit struct{ old, new string }

const (
	act        = "internal/controller/act.go"
	errorsFile = "internal/controller/errors.go"
	freshness  = "internal/controller/freshness.go"
	reconciler = "internal/controller/podset_controller.go"
	report     = "internal/controller/report.go"
	backoff    = "internal/podset/backoff.go"
	census     = "internal/podset/census.go"
	decide     = "internal/podset/decide.go"
	names      = "internal/podset/names.go"
	newPod     = "internal/podset/newpod.go"
	order      = "internal/podset/deletion_order.go"
	pods       = "internal/podset/pods.go"
	rollOut    = "internal/podset/rollout.go"
	status     = "internal/podset/status.go"
)

var mutants = []mutant{
	// Names.
	{"names are random", names, []edit{{"uint64(slot)%slots*stride", "uint64(rand.Intn(slots))*stride"}}},
	{"a pod whose name exists already is not looked at: the next name", act, []edit{
		{"case podset.IsOwnedBy(pod, o.PodSet) && labelled:", "case podset.IsOwnedBy(pod, o.PodSet) && !labelled && labelled:"},
	}},
	{"whoever has the name is taken for an own pod", act, []edit{
		{"case podset.IsOwnedBy(pod, o.PodSet) && labelled:", "case labelled || !labelled:"},
	}},
	{"a create that may come late gets no room", decide, []edit{{"c.missing() <= c.inDoubt", "c.missing() <= 0"}}},

	// Membership.
	{"pods belong to the PodSet by label", pods, []edit{
		{"return metav1.IsControlledBy(pod, podSet)", "return pod.Labels[v1alpha1.PodSetLabel] == podSet.Name"},
	}},
	{"new pods have no owner", newPod, []edit{
		{
			"OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(podSet, v1alpha1.PodSetKind)},",
			"OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(podSet, v1alpha1.PodSetKind)}[:0],",
		},
	}},
	{"a pod is adopted as the cached view has it", freshness, []edit{
		{"step.Action != podset.Adopt && now.Before(m.certainUntil)", "now.Before(m.certainUntil)"},
	}},
	{"a pod is adopted although it has changed since", act, []edit{
		{
			"from being taken.\n\tpatch := client.MergeFromWithOptions(step.Pod, client.MergeFromWithOptimisticLock{})",
			"from being taken.\n\tpatch := client.MergeFrom(step.Pod)",
		},
	}},
	{"pods that have ended are adopted", decide, []edit{{"filter(c.Orphans, isActive)", "c.Orphans"}}},
	{"a pod that has its label is released", freshness, []edit{
		{"!podset.IsDeleted(pod) && !labelled {", "!podset.IsDeleted(pod) && (labelled || !labelled) {"},
	}},

	// What counts.
	{"terminating pods count as active", pods, []edit{
		{"return !IsDeleted(pod) && !hasEnded(pod) }\n\nfunc isTerminating", "return !hasEnded(pod) }\n\nfunc isTerminating"},
	}},
	{"ended pods count as active", pods, []edit{
		{"return !IsDeleted(pod) && !hasEnded(pod) }\n\nfunc isTerminating", "return !IsDeleted(pod) }\n\nfunc isTerminating"},
	}},
	{"TerminationComplete does not wait", census, []edit{{"taken += c.terminating", "taken += 0"}}},
	{"one pod too many is right", census, []edit{
		{"return len(c.active) - c.desired - beside", "return len(c.active) - c.desired - beside - 1"},
	}},

	// Freshness.
	{"the view may lack own writes", reconciler, []edit{{"if !fresh {", "if false && !fresh {"}}},
	{"the view may lack an own create", freshness, []edit{
		{"reached(seen.ResourceVersion, m.podWritten) &&", "true &&"},
	}},
	{"the view may lack an own delete", freshness, []edit{
		{"return pod.UID == m.podDeleted && !podset.IsDeleted(pod)", "return false"},
	}},
	{"the view may lack an own status", freshness, []edit{
		{"return reached(podSet.ResourceVersion, m.statusWritten) &&", "return true &&"},
	}},
	{"the view must be newer than the own write", freshness, []edit{
		{"return err == nil && order >= 0", "return err == nil && order > 0"},
	}},
	{"the cached view is always relied on", freshness, []edit{
		{"step.Action != podset.Adopt && now.Before(m.certainUntil)", "true"},
	}},
	{"a live look is relied on for an hour", freshness, []edit{
		{"const certainFor = 5 * time.Second", "const certainFor = time.Hour"},
	}},
	{"the live look is not decided on", reconciler, []edit{{"step = podset.Decide(live)", "_ = live"}}},

	// Errors.
	{"a write with unknown outcome has failed", act, []edit{
		{"m.certainUntil = time.Time{}", ""},
		{"m.asked[step.Name] = r.Clock.Now().Add(lateFor)", ""},
	}},
	{"an unknown outcome is forgotten", act, []edit{
		{`return 0, fmt.Errorf("%s of pod %s: %w", step.Action, step.PodName(), err)`, "return 0, nil"},
	}},
	{"a refused create is repeated at once", act, []edit{
		{"\t\tr.hold(ctx, o, step, err, m)\n\t\treturn 0, nil", "\t\treturn conflictRetry, nil"},
	}},
	{"failing pods are replaced at once", decide, []edit{{"if !c.mayCreate() || c.missing()", "if c.missing()"}}},
	{"a failed pod delays for ever", backoff, []edit{
		{"maxDelay   = 5 * time.Minute", "maxDelay   = 500 * time.Hour"},
		{"firstDelay = time.Second", "firstDelay = 500 * time.Hour"},
	}},

	// Deletions.
	{"pods are deleted without preconditions", act, []edit{
		{"r.Client.Delete(ctx, step.Pod.DeepCopy(), precondition)", "r.Client.Delete(ctx, step.Pod.DeepCopy())\n\t_ = precondition"},
	}},
	{"pods are deleted although they have changed since", act, []edit{
		{"UID: &step.Pod.UID, ResourceVersion: &step.Pod.ResourceVersion}", "UID: &step.Pod.UID}"},
	}},
	{"pods are deleted by the cached spec", reconciler, []edit{
		{"if !relies || step.Action == podset.Delete || step.Action == podset.Release {", "if !relies {"},
	}},
	{"pods are deleted by an old generation", act, []edit{{"live.Generation == observed.Generation && ", ""}}},
	{"pods are deleted for a predecessor", act, []edit{{"live.UID == observed.UID && ", ""}}},
	{"the most useful pod is deleted", order, []edit{
		{"return slices.MinFunc(candidates", "return slices.MaxFunc(candidates"},
	}},
	{"the mark is not looked at", order, []edit{{"return trueFirst(isMarked(a), isMarked(b))", "return 0"}}},
	{"finished pods are never removed", decide, []edit{
		{
			"if pod == nil {\n\t\treturn Step{}\n\t}\n\treturn Step{Action: Delete, Why: History",
			"if pod != nil {\n\t\treturn Step{}\n\t}\n\treturn Step{Action: Delete, Why: History",
		},
	}},
	{"pods are written while the PodSet is being deleted", reconciler, []edit{
		{"if podSet.DeletionTimestamp != nil {", "if podSet.DeletionTimestamp = nil; podSet.DeletionTimestamp != nil {"},
	}},

	// One step, one status.
	{"two pods are created in one reconcile", act, []edit{
		{
			"err := r.Client.Create(ctx, pod)\n\tswitch",
			"_ = r.Client.Create(ctx, podset.NewPod(o.PodSet, step.Name+\"x\"))\n\terr := r.Client.Create(ctx, pod)\n\tswitch",
		},
	}},
	{"the status is written every time", report, []edit{{"case equality.Semantic", "case false && equality.Semantic"}}},
	{"a status that waits is forgotten", report, []edit{{"return wait, nil // without", "return 0, nil // without"}}},
	{"an old status replaces a newer one", report, []edit{
		{"updated.Status = status", "updated.Status, updated.ResourceVersion = status, \"\""},
	}},
	{"the names are not sorted", status, []edit{
		{"slices.Sort(names)", "slices.Sort(names)\n\tslices.Reverse(names)"},
	}},
	{"the generation is not the one observed", status, []edit{
		{"ObservedGeneration:  o.PodSet.Generation,", "ObservedGeneration:  o.PodSet.Generation + 1,"},
	}},

	// Roll-outs.
	{"a roll-out exceeds the surge", rollOut, []edit{
		{"c.taken()+c.inDoubt >= c.desired+c.surge", "c.taken()+c.inDoubt > c.desired+c.surge"},
	}},
	{"a roll-out takes one pod too many away", rollOut, []edit{
		{"c.available <= c.desired-c.tolerated", "c.available < c.desired-c.tolerated"},
	}},
	{"a roll-out never ends", rollOut, []edit{
		{"c.updated >= c.desired || c.taken()", "c.updated+1 >= c.desired || c.taken()"},
	}},
}
