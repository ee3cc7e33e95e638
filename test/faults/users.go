package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/podset-operator/api/v1alpha1"
)

// users change PodSets and pods in a namespace, whatever the operator is doing.
type users struct {
	client    client.Client
	namespace string
	random    *rand.Rand
	changes   int
}

const podSets = 4

// newPodSet returns the n-th PodSet: of all kinds that count pods differently.
func (u *users) newPodSet(n int) *v1alpha1.PodSet {
	podSet := &v1alpha1.PodSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: u.namespace, Name: fmt.Sprint("web-", n)},
		Spec:       v1alpha1.PodSetSpec{Replicas: new(int32(3)), Template: template("1")},
	}
	if n%2 == 1 {
		podSet.Spec.PodReplacementPolicy = v1alpha1.TerminationComplete
	}
	if n >= podSets/2 {
		podSet.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdateBudgets{
			MaxSurge: new(intstr.FromInt32(0)), MaxUnavailable: new(intstr.FromInt32(1)),
		}
	}
	return podSet
}

func template(version string) *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"version": version}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}
}

// act makes one change. It is no error if the server cannot take it just now.
func (u *users) act(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	podSet := u.newPodSet(u.random.IntN(podSets))
	if err := u.client.Get(ctx, client.ObjectKeyFromObject(podSet), podSet); apierrors.IsNotFound(err) {
		_ = u.client.Create(ctx, podSet)
		return
	} else if err != nil {
		return
	}
	u.changes++
	patch := func(format string, arguments ...any) {
		_ = u.client.Patch(ctx, podSet, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, format, arguments...)))
	}
	switch n := u.random.IntN(20); {
	case n < 9:
		patch(`{"spec":{"replicas":%d}}`, u.random.IntN(7))
	case n < 13:
		patch(`{"spec":{"template":{"metadata":{"annotations":{"version":"%d"}}}}}`, u.random.IntN(4))
	case n == 13:
		_ = u.client.Delete(ctx, podSet)
	default:
		u.changePod(ctx, n)
	}
}

func (u *users) changePod(ctx context.Context, n int) {
	list := &corev1.PodList{}
	if err := u.client.List(ctx, list, client.InNamespace(u.namespace)); err != nil || len(list.Items) == 0 {
		return
	}
	pod := &list.Items[u.random.IntN(len(list.Items))]
	patch := func(text string) {
		_ = u.client.Patch(ctx, pod, client.RawPatch("application/merge-patch+json", []byte(text)))
	}
	switch n {
	case 14, 15, 16:
		_ = u.client.Delete(ctx, pod)
	case 17:
		patch(`{"metadata":{"annotations":{"app.example.com/delete-me":"now"}}}`)
	case 18:
		patch(`{"metadata":{"ownerReferences":null}}`)
	case 19:
		pod.Status.Phase = corev1.PodFailed
		_ = u.client.Status().Update(ctx, pod)
	}
}

// settled returns nil if every PodSet has the pods it asks for, of the present template, and says so.
func (u *users) settled(ctx context.Context) error {
	list := &v1alpha1.PodSetList{}
	if err := u.client.List(ctx, list, client.InNamespace(u.namespace)); err != nil {
		return err
	}
	pods := &corev1.PodList{}
	if err := u.client.List(ctx, pods, client.InNamespace(u.namespace)); err != nil {
		return err
	}
	for i := range list.Items {
		podSet := &list.Items[i]
		active := 0
		for j := range pods.Items {
			if pod := &pods.Items[j]; ownerOf(pod) == podSet.UID && isReady(pod) && !isOldFor(podSet)(pod) {
				active++
			}
		}
		ready := meta.FindStatusCondition(podSet.Status.Conditions, v1alpha1.ConditionReady)
		switch {
		case active != int(*podSet.Spec.Replicas) || active != int(podSet.Status.Replicas):
			return fmt.Errorf("%s has %d ready pods of %d, and reports %d",
				podSet.Name, active, *podSet.Spec.Replicas, podSet.Status.Replicas)
		case ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != podSet.Generation:
			return fmt.Errorf("%s is not Ready: %+v", podSet.Name, ready)
		}
	}
	return nil
}
