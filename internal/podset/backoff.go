package podset

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubectl/pkg/util/podutils"
)

const (
	firstDelay = time.Second
	maxDelay   = 5 * time.Minute
	// healthyAfter is how long a pod must have lived for its end not to count as a failure to start, and how long
	// nothing must have failed for the delay to start over.
	healthyAfter = 10 * time.Minute
)

// Backoff slows down the creation of pods that end soon after their creation. The zero value delays nothing. It is
// remembered from one observation to the next.
type Backoff struct {
	delay    time.Duration
	since    time.Time
	revision string
	seen     sets.Set[types.UID]
}

// Observe returns the backoff after a look at the PodSet's pods. Pods that ended within ten minutes of their creation
// count once each; those that ended while a delay was running do not lengthen it, so that many pods failing
// together are one failure. A new revision of the template starts afresh.
func (b Backoff) Observe(owned []*corev1.Pod, revision string, now time.Time) Backoff {
	next := Backoff{delay: b.delay, since: b.since, revision: b.revision, seen: sets.New[types.UID]()}
	if b.delay > 0 && (now.Sub(b.since) > healthyAfter || b.revision != revision) {
		next.delay = 0
	}
	failed := false
	for _, pod := range owned {
		if !isFinished(pod) {
			continue
		}
		next.seen.Insert(pod.UID)
		failed = failed || !b.seen.Has(pod.UID) && now.Sub(pod.CreationTimestamp.Time) < healthyAfter
	}
	if failed && (next.delay == 0 || !now.Before(next.until())) {
		next.delay = min(max(2*next.delay, firstDelay), maxDelay)
		next.since, next.revision = now, revision
	}
	return next
}

func (b Backoff) until() time.Time { return b.since.Add(b.delay) }

// holdsUntil returns until when no pod may be created, or the zero time. After a failure the delay passes first; then
// pods are tried one at a time, until they become ready or the delay has passed again.
func (b Backoff) holdsUntil(active []*corev1.Pod, now time.Time) time.Time {
	if b.delay == 0 {
		return time.Time{}
	}
	until := b.until()
	for _, pod := range active {
		created := pod.CreationTimestamp
		if !podutils.IsPodReady(pod) && created.Add(b.delay).After(until) {
			until = created.Add(b.delay)
		}
	}
	if !now.Before(until) {
		return time.Time{}
	}
	return until
}
