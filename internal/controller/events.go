package controller

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"example.com/podset-operator/api/v1alpha1"
	"example.com/podset-operator/internal/podset"
)

// Reasons of the events. A refusal has the reason of the condition it causes.
const (
	eventPodCreated   = "PodCreated"
	eventPodAdopted   = "PodAdopted"
	eventPodReleased  = "PodReleased"
	eventPodDeleted   = "PodDeleted"
	eventPodNameTaken = "PodNameTaken"
)

// A PodSet gets an event of its own for each of the first changes of pods; when many come together, the rest become one
// event that only counts.
const (
	singleEventsBurst     = 10
	singleEventsPerSecond = 1.0 / 6
)

// done says of each action how its success is told.
var done = map[podset.Action]struct{ reason, message string }{
	podset.Create:  {eventPodCreated, "created pod"},
	podset.Adopt:   {eventPodAdopted, "adopted pod"},
	podset.Release: {eventPodReleased, "released pod"},
	podset.Delete:  {eventPodDeleted, "deleted pod"},
}

// tellDone sends the event of a pod that was changed. Events about different related objects are different events,
// those without one add up in a series, of which only the count and the time are written.
func (r *Reconciler) tellDone(podSet *v1alpha1.PodSet, step podset.Step, pod *corev1.Pod, m *memory) {
	told := done[step.Action]
	if !m.singleEvents.TryAccept() {
		note := fmt.Sprintf("%ss, more than are told one by one (%s)", told.message, step.Why)
		r.tell(podSet, nil, corev1.EventTypeNormal, told.reason, step.Action, note)
		return
	}
	note := fmt.Sprintf("%s %s (%s)", told.message, pod.Name, step.Why)
	r.tell(podSet, pod, corev1.EventTypeNormal, told.reason, step.Action, note)
}

// tell sends an event about the PodSet. It refers to the PodSet without a resource version: events about different
// versions would be different events and not add up.
func (r *Reconciler) tell(podSet *v1alpha1.PodSet, related runtime.Object, eventType, reason string, action podset.Action, note string) {
	regarding := &corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(),
		Kind:       v1alpha1.PodSetKind.Kind,
		Namespace:  podSet.Namespace,
		Name:       podSet.Name,
		UID:        podSet.UID,
	}
	r.Events.Eventf(regarding, related, eventType, reason, string(action), "%s", truncate(note))
}

// maxNote is the longest note that the events API takes, in bytes.
const maxNote = 1024

// truncate shortens a text to maxNote, without cutting a character in two.
func truncate(note string) string {
	if len(note) <= maxNote {
		return note
	}
	return strings.ToValidUTF8(note[:maxNote-3], "") + "..."
}
