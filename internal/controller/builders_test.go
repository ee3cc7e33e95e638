package controller

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"example.com/podset-operator/api/v1alpha1"
)

var now = time.Date(2030, time.January, 2, 12, 0, 0, 0, time.UTC)

type (
	pods      = []*corev1.Pod
	podOption = func(*corev1.Pod)
)

// podSet returns PodSet "web" with so many pods wanted.
func podSet(replicas int32) *v1alpha1.PodSet {
	return &v1alpha1.PodSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "uid-of-web", ResourceVersion: "100", Generation: 7},
		Spec:       v1alpha1.PodSetSpec{Replicas: new(replicas)},
	}
}

// pod returns a running pod with the label of PodSet "web" and no owner.
func pod(name string, options ...podOption) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("uid-of-" + name),
			Labels: map[string]string{v1alpha1.PodSetLabel: "web"},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, option := range options {
		option(pod)
	}
	return pod
}

func terminating(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(now)) }

// owner adds an owner reference.
func owner(apiVersion, kind, name string, uid types.UID, controller bool) podOption {
	return func(p *corev1.Pod) {
		p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{
			APIVersion: apiVersion, Kind: kind, Name: name, UID: uid, Controller: new(controller),
		})
	}
}

// owned makes PodSet "web" the controller.
var owned = owner("app.example.com/v1alpha1", "PodSet", "web", "uid-of-web", true)

func mustEqual(t *testing.T, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("got + instead of -:\n%s", diff)
	}
}
