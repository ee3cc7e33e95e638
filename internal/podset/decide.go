package podset

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"example.com/podset-operator/api/v1alpha1"
)

// Observation is one look at a PodSet and its pods. It is not changed by the functions of this package.
type Observation struct {
	PodSet *v1alpha1.PodSet
	// Owned are the pods whose controller is the PodSet.
	Owned []*corev1.Pod
	// Orphans are the pods that carry the PodSet's label and have no controller.
	Orphans []*corev1.Pod
	// Unlabelled is a pod whose controller is the PodSet and from which somebody took the PodSet's label, nil if none is
	// known.
	Unlabelled *corev1.Pod
	// Revision is that of the PodSet's template.
	Revision string
	// TakenNames are names known to belong to pods that are neither owned nor orphans.
	TakenNames sets.Set[string]
	// AskedNames are the names of pods whose creation was tried with unknown outcome, and may yet be carried out.
	AskedNames sets.Set[string]
	// InDoubtUntil is when the last of these requests is given up.
	InDoubtUntil time.Time
	// RefusedPods are the pods that the API server refused to delete.
	RefusedPods sets.Set[types.UID]
	// Backoff is the delay after pods that failed.
	Backoff Backoff
	// Progress tells since when the PodSet has not come closer to its spec.
	Progress Progress
	// Holds tell which actions were refused and are not tried again yet.
	Holds map[Action]Hold
	// Now is the time of the observation.
	Now time.Time

	counted *counts
}

// Action is what a step does to a pod.
type Action string

// The actions. A step changes one pod at most.
const (
	Nothing Action = ""
	Create  Action = "Create"
	Adopt   Action = "Adopt"
	Release Action = "Release"
	Delete  Action = "Delete"
)

// Why says for what purpose a step is taken.
type Why string

// The purposes of the steps.
const (
	PodMissing   Why = "pod missing"
	LabelRemoved Why = "label removed"
	ScaleDown    Why = "scale down"
	DeleteMeNow  Why = "delete-me"
	RollOut      Why = "roll-out"
	OldRevision  Why = "old revision"
	History      Why = "failed pods history limit"
)

// Step is the one next change to make.
type Step struct {
	Action Action
	Why    Why
	// Name is the name of the pod to create.
	Name string
	// Pod is the pod to adopt, to release or to delete.
	Pod *corev1.Pod
	// Replacement, if not empty, is the name of the pod that will be created for the one deleted. If the API server would
	// not take it, the pod is not to be deleted.
	Replacement string
}

// PodName is the name of the pod that the step is about.
func (s Step) PodName() string {
	if s.Pod != nil {
		return s.Pod.Name
	}
	return s.Name
}

// Hold keeps an action that was refused from being tried again before a time.
type Hold struct {
	Until   time.Time
	Problem Problem
	// Why is the purpose of the step that was refused.
	Why Why
	// Delay is how long the action is held back, longer with each refusal.
	Delay time.Duration
}

// Problem is why a step could not be taken, as a condition tells it.
type Problem struct {
	// Reason is one of the condition reasons of the API.
	Reason string
	// Message is the refusal in the server's words.
	Message string
	// Stalled means that trying again is pointless until the PodSet is changed.
	Stalled bool
}

// Decide returns the next step towards the PodSet's spec. The same observation always gives the same step. A deletion that
// was refused is tried again when there is nothing else to do, so that one protected pod blocks no others.
func Decide(o Observation) Step {
	if isBeingDeleted(o.PodSet) {
		return Step{}
	}
	c := o.census()
	questions := []func() Step{
		c.release, c.scale, c.replaceMarked, c.removeUnavailableOld, c.createNew, c.removeAvailableOld, c.trimHistory,
	}
	for _, again := range []bool{false, true} {
		for _, question := range questions {
			step := question()
			if step.Action != Nothing && !o.isHeld(step.Action) && (again || !o.wasRefused(step)) {
				return step
			}
		}
	}
	return Step{}
}

func (o Observation) wasRefused(step Step) bool {
	return step.Action == Delete && o.RefusedPods.Has(step.Pod.UID)
}

// release lets go of a pod that somebody took out of the set.
func (c census) release() Step {
	if c.Unlabelled == nil {
		return Step{}
	}
	return Step{Action: Release, Why: LabelRemoved, Pod: c.Unlabelled}
}

// scale adds a pod if there are too few, and removes the least useful one if there are too many.
func (c census) scale() Step {
	switch {
	case c.missing() > 0:
		return c.addPod()
	case c.excess() > 0:
		return Step{Action: Delete, Why: ScaleDown, Pod: c.leastUseful(c.active)}
	default:
		return Step{}
	}
}

// addPod adopts an orphan if there is one, else creates a pod, unless pods keep failing.
func (c census) addPod() Step {
	if orphan := leastName(filter(c.Orphans, isActive)); orphan != nil && !c.isHeld(Adopt) {
		return Step{Action: Adopt, Why: PodMissing, Pod: orphan}
	}
	if !c.mayCreate() || c.missing() <= c.inDoubt {
		return Step{}
	}
	return Step{Action: Create, Why: PodMissing, Name: c.nextName()}
}

// nextName is the name of the next pod. A name that was asked for with unknown outcome is asked for again: then it does
// not matter whether the first request is carried out after all.
func (c census) nextName() string {
	for _, asked := range sets.List(c.AskedNames) {
		if !slices.Contains(slices.Collect(c.takenNames()), asked) {
			return asked
		}
	}
	most := len(c.Owned) + len(c.Orphans) + len(c.TakenNames)
	return namingOf(c.PodSet.Name, c.PodSet.UID).lowestFree(c.takenNames(), most)
}

// replaceMarked removes a pod that the user wants replaced at once, if a new one can be created.
func (c census) replaceMarked() Step {
	if len(c.markedNow) == 0 || !c.mayCreate() {
		return Step{}
	}
	return Step{Action: Delete, Why: DeleteMeNow, Pod: c.leastUseful(c.markedNow), Replacement: c.nextName()}
}

func (c census) trimHistory() Step {
	limit := int(ptr.Deref(c.PodSet.Spec.FailedPodsHistoryLimit, 1))
	if c.finished <= limit {
		return Step{}
	}
	pod := beyondHistory(c.Owned, limit, c.RefusedPods)
	if pod == nil {
		return Step{}
	}
	return Step{Action: Delete, Why: History, Pod: pod}
}

// NextLook returns when the PodSet should be looked at again although nothing has changed until then, or the zero time
// if there is no need.
func NextLook(o Observation) time.Time {
	if isBeingDeleted(o.PodSet) {
		return time.Time{}
	}
	var next time.Time
	consider := func(t time.Time) {
		if t.After(o.Now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	c := o.census()
	for _, hold := range o.Holds {
		consider(hold.Until)
	}
	if c.missing() > 0 || c.replaces() || len(c.markedNow) > 0 {
		consider(o.Backoff.holdsUntil(c.active, o.Now))
		consider(o.InDoubtUntil)
	}
	consider(o.Progress.deadline(o.PodSet))
	if c.PodSet.Spec.MinReadySeconds == 0 || c.available == c.ready {
		return next
	}
	for _, pod := range c.active {
		if since := readySince(pod); !since.IsZero() {
			// A pod is available after that time, not at it.
			consider(since.Add(time.Duration(o.PodSet.Spec.MinReadySeconds)*time.Second + 1))
		}
	}
	return next
}

func (o Observation) isHeld(action Action) bool { return o.Now.Before(o.Holds[action].Until) }

func leastName(pods []*corev1.Pod) *corev1.Pod {
	var least *corev1.Pod
	for _, pod := range pods {
		if least == nil || pod.Name < least.Name {
			least = pod
		}
	}
	return least
}
