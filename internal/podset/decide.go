package podset

import (
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
	// TakenNames are names known to belong to pods that are neither owned nor orphans.
	TakenNames sets.Set[string]
	// AskedName is the name of a pod whose creation was tried with unknown outcome, empty if there is none.
	AskedName string
	// RefusedPods are the pods that the API server refused to delete.
	RefusedPods sets.Set[types.UID]
	// Backoff is the delay after pods that failed.
	Backoff Backoff
	// Holds tell which actions were refused and are not tried again yet.
	Holds map[Action]Hold
	// Now is the time of the observation.
	Now time.Time
}

// Action is what a step does to a pod.
type Action string

// The actions. A step changes one pod at most.
const (
	Nothing Action = ""
	Create  Action = "Create"
	Adopt   Action = "Adopt"
	Delete  Action = "Delete"
)

// Why says for what purpose a step is taken.
type Why string

// The purposes of the steps.
const (
	PodMissing Why = "pod missing"
	ScaleDown  Why = "scale down"
	History    Why = "failed pods history limit"
)

// Step is the one next change to make.
type Step struct {
	Action Action
	Why    Why
	// Name is the name of the pod to create.
	Name string
	// Pod is the pod to adopt or to delete.
	Pod *corev1.Pod
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

// Decide returns the next step towards the PodSet's spec. The same observation always gives the same step.
func Decide(o Observation) Step {
	if isBeingDeleted(o.PodSet) {
		return Step{}
	}
	step := Step{}
	switch active := o.active(); {
	case o.missing() > 0:
		step = o.addPod(active)
	case len(active) > o.desired():
		step = Step{Action: Delete, Why: ScaleDown, Pod: leastUseful(active, o.RefusedPods)}
	}
	if step.Action == Nothing || o.isHeld(step.Action) {
		step = o.trimHistory()
	}
	if o.isHeld(step.Action) {
		return Step{}
	}
	return step
}

// addPod adopts an orphan if there is one, else creates a pod, unless pods keep failing.
func (o Observation) addPod(active []*corev1.Pod) Step {
	if orphan := leastName(filter(o.Orphans, isActive)); orphan != nil && !o.isHeld(Adopt) {
		return Step{Action: Adopt, Why: PodMissing, Pod: orphan}
	}
	if !o.Backoff.holdsUntil(active, o.Now).IsZero() {
		return Step{}
	}
	return Step{Action: Create, Why: PodMissing, Name: o.nextName()}
}

// nextName is the name of the next pod. A name that was asked for with unknown outcome is asked for again: then it does
// not matter whether the first request is carried out after all.
func (o Observation) nextName() string {
	taken := o.takenNames()
	if o.AskedName != "" && !taken.Has(o.AskedName) {
		return o.AskedName
	}
	return freeName(o.PodSet.Name, o.PodSet.UID, taken.Has)
}

func (o Observation) trimHistory() Step {
	limit := int(ptr.Deref(o.PodSet.Spec.FailedPodsHistoryLimit, 1))
	pod := beyondHistory(o.Owned, limit, o.RefusedPods)
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
	for _, hold := range o.Holds {
		consider(hold.Until)
	}
	if o.missing() > 0 {
		consider(o.Backoff.holdsUntil(o.active(), o.Now))
	}
	for _, pod := range o.active() {
		if since := readySince(pod); !since.IsZero() {
			// A pod is available after that time, not at it.
			consider(since.Add(time.Duration(o.PodSet.Spec.MinReadySeconds)*time.Second + 1))
		}
	}
	return next
}

func (o Observation) desired() int { return int(ptr.Deref(o.PodSet.Spec.Replicas, 1)) }

func (o Observation) active() []*corev1.Pod { return filter(o.Owned, isActive) }

// missing is how many pods to add, none if it is not positive.
func (o Observation) missing() int {
	missing := o.desired() - len(o.active())
	if o.PodSet.Spec.PodReplacementPolicy == v1alpha1.TerminationComplete && missing > 0 {
		missing -= len(filter(o.Owned, isTerminating))
	}
	return missing
}

func (o Observation) isHeld(action Action) bool { return o.Now.Before(o.Holds[action].Until) }

// takenNames are the names no new pod can have, those of terminating and finished pods included.
func (o Observation) takenNames() sets.Set[string] {
	taken := o.TakenNames.Clone()
	for _, pod := range o.Owned {
		taken.Insert(pod.Name)
	}
	for _, pod := range o.Orphans {
		taken.Insert(pod.Name)
	}
	return taken
}

func leastName(pods []*corev1.Pod) *corev1.Pod {
	var least *corev1.Pod
	for _, pod := range pods {
		if least == nil || pod.Name < least.Name {
			least = pod
		}
	}
	return least
}
