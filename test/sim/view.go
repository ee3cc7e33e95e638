package sim

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/podset-operator/api/v1alpha1"
)

// view is how far an informer of one kind has come: what it shows is the store as of a revision.
type view struct {
	// index is that of the revision it stands at.
	index int
	// version is what client-go calls LastStoreSyncResourceVersion: that of the last event, or of the last list.
	version uint64
}

func isMember(pod *corev1.Pod) bool {
	if pod == nil {
		return false
	}
	_, labelled := pod.Labels[v1alpha1.PodSetLabel]
	return labelled
}

// concerns reports whether an informer of the kind gets an event of the revision. That of pods selects by label.
func (r *revision) concerns(k kind) bool {
	return r.kind == k && (k == ofPodSet || isMember(r.oldPod) || isMember(r.newPod))
}

// pending is how many events of the kind the view has yet to see.
func (s *server) pending(v view, k kind) int {
	n := 0
	for i := v.index + 1; i <= s.lastIndex(); i++ {
		if s.at(i).concerns(k) {
			n++
		}
	}
	return n
}

// follow moves the view forward by some events and calls seen with each.
func (s *server) follow(v *view, k kind, events int, seen func(*revision)) {
	for events > 0 && v.index < s.lastIndex() {
		v.index++
		if r := s.at(v.index); r.concerns(k) {
			v.version = r.version
			seen(r)
			events--
		}
	}
}

// relisted is a view that has just listed the store as of a revision.
func (s *server) relisted(index int) view { return view{index: index, version: s.at(index).version} }

// ownerOf is the PodSet that wants to know about the pod, by name.
func ownerOf(pod *corev1.Pod) string {
	if controller := metav1.GetControllerOfNoCopy(pod); controller != nil {
		if controller.Kind != v1alpha1.PodSetKind.Kind {
			return ""
		}
		return controller.Name
	}
	return pod.Labels[v1alpha1.PodSetLabel]
}
