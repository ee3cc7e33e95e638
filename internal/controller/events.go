package controller

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"example.com/podset-operator/api/v1alpha1"
	"example.com/podset-operator/internal/podset"
)

// Reasons of the events. A refusal has the reason of the condition it causes.
const (
	eventPodCreated   = "PodCreated"
	eventPodAdopted   = "PodAdopted"
	eventPodDeleted   = "PodDeleted"
	eventPodNameTaken = "PodNameTaken"
)

// A PodSet gets an event of its own for each of the first changes of pods; when many come together, the rest become one
// event that only counts.
const (
	singleEventsBurst     = 10
	singleEventsPerSecond = 1.0 / 60
)

var eventOfAction = map[podset.Action]string{
	podset.Create: eventPodCreated,
	podset.Adopt:  eventPodAdopted,
	podset.Delete: eventPodDeleted,
}

// tellDone sends the event of a pod that was changed. Events about different related objects are different events,
// those without one add up in a series, of which only the count and the time are written.
func (r *Reconciler) tellDone(podSet *v1alpha1.PodSet, step podset.Step, pod *corev1.Pod, memory *memory) {
	reason := eventOfAction[step.Action]
	if !memory.singleEvents.TryAccept() {
		r.tell(podSet, nil, corev1.EventTypeNormal, reason, step.Action, fmt.Sprintf("many pods at once (%s)", step.Why))
		return
	}
	note := fmt.Sprintf("%s pod %s (%s)", pastOf[step.Action], pod.Name, step.Why)
	r.tell(podSet, pod, corev1.EventTypeNormal, reason, step.Action, note)
}

var pastOf = map[podset.Action]string{
	podset.Create: "created",
	podset.Adopt:  "adopted",
	podset.Delete: "deleted",
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

func truncate(note string) string {
	if len(note) <= maxNote {
		return note
	}
	return note[:maxNote-3] + "..."
}
