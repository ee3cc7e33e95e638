package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"example.com/podset-operator/api/v1alpha1"
	"example.com/podset-operator/internal/podset"
)

// act takes the step: one write of a pod, or none. It returns after how long to come back even if nothing changes.
func (r *Reconciler) act(ctx context.Context, o podset.Observation, step podset.Step, m *memory) (time.Duration, error) {
	switch step.Action {
	case podset.Create:
		return r.create(ctx, o, step, m)
	case podset.Adopt:
		return r.adopt(ctx, o, step, m)
	case podset.Release:
		return r.release(ctx, o, step, m)
	case podset.Delete:
		return r.delete(ctx, o, step, m)
	default:
		return 0, nil
	}
}

func (r *Reconciler) create(ctx context.Context, o podset.Observation, step podset.Step, m *memory) (time.Duration, error) {
	pod := podset.NewPod(o.PodSet, step.Name)
	err := r.Client.Create(ctx, pod)
	switch {
	case apierrors.IsAlreadyExists(err):
		return r.resolveName(ctx, o, step, m)
	case err != nil:
		return r.failed(ctx, o, step, err, m)
	}
	m.mustSee(pod.ResourceVersion)
	r.succeeded(ctx, o, step, pod, m)
	return 0, nil
}

// resolveName finds out who has the name that a new pod should get. If it is a pod of this PodSet, an earlier create has
// succeeded after all and the view has yet to show it. One that lost our label, which the view cannot show, is released.
// A name that anybody else has is not asked for again.
func (r *Reconciler) resolveName(ctx context.Context, o podset.Observation, step podset.Step, m *memory) (time.Duration, error) {
	pod := &corev1.Pod{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: o.PodSet.Namespace, Name: step.Name}, pod)
	_, labelled := pod.Labels[v1alpha1.PodSetLabel]
	switch {
	case apierrors.IsNotFound(err):
		return conflictRetry, nil
	case err != nil:
		return r.failed(ctx, o, step, err, m)
	case podset.IsOwnedBy(pod, o.PodSet) && labelled:
		m.mustSee(pod.ResourceVersion)
		return conflictRetry, nil
	case podset.IsOwnedBy(pod, o.PodSet) && !podset.IsDeleted(pod):
		m.vanished.Insert(step.Name)
		return conflictRetry, nil
	}
	m.takenNames.Insert(step.Name)
	delete(m.asked, step.Name)
	r.tell(o.PodSet, nil, corev1.EventTypeWarning, eventPodNameTaken, podset.Create,
		fmt.Sprintf("pod %s exists and is not counted; using the next name", step.Name))
	log.FromContext(ctx).Info("name of new pod is taken", "pod", step.Name)
	return conflictRetry, nil
}

// adopt makes the PodSet the controller of an orphan. It is always decided on a live look.
func (r *Reconciler) adopt(ctx context.Context, o podset.Observation, step podset.Step, m *memory) (time.Duration, error) {
	adopted := step.Pod.DeepCopy()
	// A reference of ours that is not the controller's, by somebody's edit, is replaced.
	adopted.OwnerReferences = slices.DeleteFunc(adopted.OwnerReferences, func(owner metav1.OwnerReference) bool {
		return owner.UID == o.PodSet.UID
	})
	adopted.OwnerReferences = append(adopted.OwnerReferences, *metav1.NewControllerRef(o.PodSet, v1alpha1.PodSetKind))
	// The lock keeps a pod that was deleted and made again, or adopted by somebody else, from being taken.
	patch := client.MergeFromWithOptions(step.Pod, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, adopted, patch); err != nil {
		return r.failed(ctx, o, step, err, m)
	}
	m.mustSee(adopted.ResourceVersion)
	r.succeeded(ctx, o, step, adopted, m)
	return 0, nil
}

// release ends the PodSet's control of a pod that somebody took the PodSet's label from.
func (r *Reconciler) release(ctx context.Context, o podset.Observation, step podset.Step, m *memory) (time.Duration, error) {
	released := step.Pod.DeepCopy()
	released.OwnerReferences = slices.DeleteFunc(released.OwnerReferences, func(owner metav1.OwnerReference) bool {
		return owner.UID == o.PodSet.UID
	})
	patch := client.MergeFromWithOptions(step.Pod, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, released, patch); err != nil {
		return r.failed(ctx, o, step, err, m)
	}
	m.vanished.Delete(step.Pod.Name)
	m.takenNames.Insert(step.Pod.Name)
	r.succeeded(ctx, o, step, released, m)
	return conflictRetry, nil // no event of the pod comes: it is out of sight
}

func (r *Reconciler) delete(ctx context.Context, o podset.Observation, step podset.Step, m *memory) (time.Duration, error) {
	if step.Replacement != "" {
		if err := r.tryReplacement(ctx, o, step); err != nil {
			return r.failed(ctx, o, podset.Step{Action: podset.Create, Why: step.Why, Name: step.Replacement}, err, m)
		}
	}
	// The pod that was chosen dies, or none: not one that got its name since, nor one that changed since, as when it was
	// released, or became the last one ready.
	precondition := client.Preconditions{UID: &step.Pod.UID, ResourceVersion: &step.Pod.ResourceVersion}
	err := r.Client.Delete(ctx, step.Pod.DeepCopy(), precondition)
	if err == nil || classify(err) == gone {
		m.podDeleted = step.Pod.UID
		m.alive.Delete(step.Pod.Name)
	}
	if err != nil {
		return r.failed(ctx, o, step, err, m)
	}
	r.succeeded(ctx, o, step, step.Pod, m)
	return 0, nil
}

// tryReplacement asks whether the API server would take the pod that is to replace the one that the step deletes. Where a
// quota is all that keeps it out, the deletion makes room, and where a webhook cannot be asked, nobody knows.
func (r *Reconciler) tryReplacement(ctx context.Context, o podset.Observation, step podset.Step) error {
	err := r.Client.Create(ctx, podset.NewPod(o.PodSet, step.Replacement), client.DryRunAll)
	if err == nil || apierrors.IsAlreadyExists(err) || apierrors.IsBadRequest(err) ||
		problemOf(podset.Create, err).Reason == v1alpha1.ReasonQuotaExceeded {
		return nil
	}
	return err
}

// isCurrent reports whether the PodSet is still the one that was observed, read from the API server.
func (r *Reconciler) isCurrent(ctx context.Context, observed *v1alpha1.PodSet) (bool, error) {
	live := &v1alpha1.PodSet{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(observed), live); err != nil {
		return false, fmt.Errorf("reading the PodSet before a change: %w", err)
	}
	return live.UID == observed.UID && live.Generation == observed.Generation && live.DeletionTimestamp == nil, nil
}

// succeeded tells that the step was taken.
func (r *Reconciler) succeeded(ctx context.Context, o podset.Observation, step podset.Step, pod *corev1.Pod, m *memory) {
	delete(m.holds, step.Action)
	r.tellDone(o.PodSet, step, pod, m)
	log.FromContext(ctx).Info(done[step.Action].message, "pod", pod.Name, "why", step.Why)
}

// failed handles the error of a step. A refusal holds the action back for a while; it is told in an event when it is
// news, and in the conditions as long as it lasts.
func (r *Reconciler) failed(ctx context.Context, o podset.Observation, step podset.Step, err error, m *memory) (time.Duration, error) {
	switch verdict := classify(err); verdict {
	case closing, refused, invalid:
		r.hold(ctx, o, step, err, m)
		return 0, nil
	case gone:
		if step.Action == podset.Create {
			return maxHold, nil // of a create, it is the namespace that is gone
		}
		return 0, nil
	default:
		after, err := retry(err)
		if err != nil {
			m.certainUntil = time.Time{}
			if step.Action == podset.Create {
				m.asked[step.Name] = r.Clock.Now().Add(lateFor)
			}
			return 0, fmt.Errorf("%s of pod %s: %w", step.Action, step.PodName(), err)
		}
		return after, nil
	}
}

func (r *Reconciler) hold(ctx context.Context, o podset.Observation, step podset.Step, refusal error, m *memory) {
	problem := problemOf(step.Action, refusal)
	before := m.holds[step.Action]
	if step.Action == podset.Delete {
		m.refusedPods.Insert(step.Pod.UID)
	}
	delay := min(max(2*before.Delay, firstHold), maxHold)
	m.hold(step.Action, o.PodSet.Generation, podset.Hold{
		Until:   r.Clock.Now().Add(wait.Jitter(delay, holdJitter)),
		Delay:   delay,
		Problem: problem,
		Why:     step.Why,
	})
	if before.Problem == problem || classify(refusal) == closing {
		return
	}
	r.tell(o.PodSet, nil, corev1.EventTypeWarning, problem.Reason, step.Action, problem.Message)
	log.FromContext(ctx).Info("change of a pod refused", "action", step.Action, "reason", problem.Reason, "message", problem.Message)
}
