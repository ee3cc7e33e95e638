package podset

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"example.com/podset-operator/api/v1alpha1"
)

// Progress is since when a PodSet has not come closer to its spec. The zero value is that of one which has nothing left
// to do. It is remembered from one observation to the next.
type Progress struct {
	generation int64
	since      time.Time
	nearest    distance
}

// distance is how far a PodSet is from its spec, in several ways.
type distance [4]int

// Observe returns the progress after a look at the PodSet. Coming nearer than ever since the last change of the spec, in
// any way, is progress; pods that fail and are replaced over and over make none.
func (p Progress) Observe(o Observation) Progress {
	c := o.census()
	work := c.obstacle()
	if work == nil {
		work = c.remaining()
	}
	if work == nil || work.Reason == v1alpha1.ReasonRollOutPaused {
		return Progress{}
	}
	at := distance{
		max(0, c.desired-c.available),
		max(0, c.desired-c.updated+c.onTrial),
		max(c.desired-len(c.active), len(c.active)-c.desired),
		len(c.old),
	}
	if p.since.IsZero() || p.generation != o.PodSet.Generation {
		return Progress{generation: o.PodSet.Generation, since: p.start(o), nearest: at}
	}
	for i := range at {
		if at[i] < p.nearest[i] {
			p.nearest[i], p.since = at[i], o.Now
		}
	}
	return p
}

// start is the time from which a PodSet counts as without progress when nothing is remembered of it: now, or if it was
// reported as stalled before, by a manager that has ended, long ago.
func (p Progress) start(o Observation) time.Time {
	stalled := meta.FindStatusCondition(o.PodSet.Status.Conditions, v1alpha1.ConditionStalled)
	if p.since.IsZero() && stalled != nil && stalled.ObservedGeneration == o.PodSet.Generation &&
		stalled.Reason != v1alpha1.ReasonInvalidTemplate {
		return o.Now.Add(-limit(o.PodSet))
	}
	return o.Now
}

// deadline is when the PodSet counts as stalled, the zero time if it has nothing left to do.
func (p Progress) deadline(podSet *v1alpha1.PodSet) time.Time {
	if p.since.IsZero() {
		return time.Time{}
	}
	return p.since.Add(limit(podSet))
}

func (p Progress) isExceeded(podSet *v1alpha1.PodSet, now time.Time) bool {
	deadline := p.deadline(podSet)
	return !deadline.IsZero() && !now.Before(deadline)
}

func limit(podSet *v1alpha1.PodSet) time.Duration {
	return time.Duration(ptr.Deref(podSet.Spec.ProgressDeadlineSeconds, 600)) * time.Second
}

// maxTold is how much of what others wrote a condition repeats, in characters. Nobody bounds what they write, and the API
// server refuses a status with a text that is too long.
const maxTold = 1024

// conditionReason is what the API server takes for the reason of a condition.
var conditionReason = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// trouble returns what keeps a pod from becoming available, in the words of the kubelet or the scheduler, of the first pod
// that tells; those of the present template come before old ones.
func (c census) trouble() (reason, message string) {
	told, where := c.told()
	if told == "" {
		return v1alpha1.ReasonProgressDeadlineExceeded, ""
	}
	reason = told
	if len(told) > maxTold || !conditionReason.MatchString(told) {
		reason = v1alpha1.ReasonProgressDeadlineExceeded
	}
	return reason, fmt.Sprintf("; %s: %.*s", where, maxTold, told)
}

// told returns the reason that a pod tells, and where, empty if none tells any.
func (c census) told() (reason, where string) {
	waiting := filter(c.active, func(pod *corev1.Pod) bool { return !c.isAvailable(pod) })
	slices.SortFunc(waiting, func(a, b *corev1.Pod) int {
		return cmp.Or(
			cmp.Compare(trueFirst(c.revisionOf(a) == c.Revision), trueFirst(c.revisionOf(b) == c.Revision)),
			cmp.Compare(a.Name, b.Name),
		)
	})
	for _, pod := range waiting {
		for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if reason := troubleOf(container); reason != "" {
				return reason, fmt.Sprintf("pod %s, container %s", pod.Name, container.Name)
			}
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse && condition.Reason != "" {
				return condition.Reason, "pod " + pod.Name
			}
		}
	}
	return "", ""
}

// troubleOf returns why a container does not run, empty if it does, or is on the way.
func troubleOf(container corev1.ContainerStatus) string {
	switch state := container.State; {
	case state.Waiting != nil && state.Waiting.Reason != "ContainerCreating" && state.Waiting.Reason != "PodInitializing":
		return state.Waiting.Reason
	case state.Terminated != nil && state.Terminated.ExitCode != 0:
		return state.Terminated.Reason
	default:
		return ""
	}
}
