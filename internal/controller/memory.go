package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/podset-operator/api/v1alpha1"
	"example.com/podset-operator/internal/podset"
)

// memory is what the manager remembers of one PodSet from one reconcile to the next. Losing it, as a restart does, costs
// requests but breaks no promise.
type memory struct {
	uid types.UID

	// podWritten and statusWritten are the resource versions that the cached pods and PodSet must have reached: of the
	// last writes, and of pods read live.
	podWritten, statusWritten string
	// reported is when the status was written last.
	reported time.Time
	// podDeleted is the last pod deleted; the response to a delete does not tell a resource version.
	podDeleted types.UID

	// certainUntil is until when the cached view, if it holds the writes remembered here, counts as lacking no other's:
	// for a while after a live look, unless the outcome of a write became unknown since.
	certainUntil time.Time
	// asked are the names of pods whose creation had an unknown outcome, with the time when the request is given up.
	asked map[string]time.Time
	// alive are the names of the pods that were last seen and not being deleted, vanished those that have left the view
	// since and were not deleted as far as could be seen.
	alive, vanished sets.Set[string]

	takenNames sets.Set[string]
	// refusedPods are the pods whose deletion was refused.
	refusedPods sets.Set[types.UID]
	backoff     podset.Backoff
	progress    podset.Progress
	holds       map[podset.Action]podset.Hold
	// heldGeneration is the generation of the spec that the holds are about.
	heldGeneration int64

	// revision is that of the template in the spec of revisionGeneration.
	revision           string
	revisionGeneration int64

	singleEvents flowcontrol.PassiveRateLimiter
}

// lateFor is for how long a request whose outcome is unknown may still be carried out. The API server gives up a request
// after a minute, unless it is told otherwise.
const lateFor = time.Minute

// inDoubt returns the names of the pods that a late request may still make, and when the last of these is given up.
func (m *memory) inDoubt(now time.Time) (asked sets.Set[string], until time.Time) {
	asked = sets.New[string]()
	for name, givenUp := range m.asked {
		if !now.Before(givenUp) {
			delete(m.asked, name)
			continue
		}
		asked.Insert(name)
		if givenUp.After(until) {
			until = givenUp
		}
	}
	return asked, until
}

// revisionOf returns the revision of the PodSet's template, which changes at most with the generation.
func (m *memory) revisionOf(podSet *v1alpha1.PodSet) string {
	if m.revision == "" || m.revisionGeneration != podSet.Generation {
		m.revision, m.revisionGeneration = podset.Revision(podSet.Spec.Template), podSet.Generation
	}
	return m.revision
}

func (m *memory) hold(action podset.Action, generation int64, hold podset.Hold) {
	m.holds[action] = hold
	m.heldGeneration = generation
}

// releaseHolds forgets what was refused once the spec is another: the new one deserves a try at once.
func (m *memory) releaseHolds(generation int64) {
	if m.heldGeneration != generation {
		clear(m.holds)
		clear(m.refusedPods)
	}
}

// memories are the memories of all PodSets. The zero value is ready to use. One memory is used by one reconcile at a
// time, since a controller never reconciles an object twice at once.
type memories struct {
	mu    sync.Mutex
	byKey map[types.NamespacedName]*memory
}

// of returns the memory of the PodSet, empty at first and for a new PodSet of an old name.
func (m *memories) of(podSet *v1alpha1.PodSet) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := client.ObjectKeyFromObject(podSet)
	if known, ok := m.byKey[key]; ok && known.uid == podSet.UID {
		return known
	}
	if m.byKey == nil {
		m.byKey = map[types.NamespacedName]*memory{}
	}
	m.byKey[key] = &memory{
		uid:          podSet.UID,
		asked:        map[string]time.Time{},
		alive:        sets.New[string](),
		vanished:     sets.New[string](),
		takenNames:   sets.New[string](),
		refusedPods:  sets.New[types.UID](),
		holds:        map[podset.Action]podset.Hold{},
		singleEvents: flowcontrol.NewTokenBucketPassiveRateLimiter(singleEventsPerSecond, singleEventsBurst),
	}
	return m.byKey[key]
}

func (m *memories) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byKey, key)
}
