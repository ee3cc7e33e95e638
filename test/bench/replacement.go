package main

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/podset-operator/api/v1alpha1"
)

// replacement measures, in the store, from the revision in which the deletion of a pod begins to the one in which there is
// another. Of
// the bare client it measures the creation of a pod, from the request to the answer.
func replacement(ctx context.Context, b *bench) error {
	const pods = 10
	return b.in(ctx, []string{rawSequential, unlimited, plain, ours}, func(ctx context.Context, w *world, block int, arm arm) error {
		times := b.settings.size / 5
		namespace, err := w.newNamespace(ctx, pods)
		if err != nil {
			return err
		}
		err = b.with(ctx, w, arm, func(c *controller) error {
			set := arm.set(namespace, "web", pods)
			if err := w.client.Create(ctx, set); err != nil {
				return err
			}
			var took []time.Duration
			if c == nil {
				took, err = w.timePosts(ctx, set.(*v1alpha1.PodSet), times)
			} else {
				took, err = w.timeReplacements(ctx, namespace, pods, times)
			}
			if err != nil {
				return err
			}
			slices.Sort(took)
			b.record("replacement", block, arm.name, pods, map[string]float64{
				median:  milliseconds(quantile(took, 0.5)),
				slowest: milliseconds(quantile(took, 0.99)),
				tooMany: float64(w.seen.end(namespace).excess),
			})
			return nil
		})
		if err != nil {
			return err
		}
		return w.clear(ctx, arm, namespace)
	})
}

// userPause is between a replacement and the next deletion.
const userPause = 20 * time.Millisecond

func (w *world) timePosts(ctx context.Context, podSet *v1alpha1.PodSet, times int) ([]time.Duration, error) {
	var took []time.Duration
	for range times {
		start := time.Now()
		pods, err := w.createPods(ctx, podSet, 1, 1)
		if err != nil {
			return nil, err
		}
		took = append(took, time.Since(start))
		if err := w.client.Delete(ctx, pods[0]); err != nil {
			return nil, err
		}
		pause(userPause)
	}
	return took, nil
}

func (w *world) timeReplacements(ctx context.Context, namespace string, pods, times int) ([]time.Duration, error) {
	if err := w.seen.quiet(ctx, calm); err != nil {
		return nil, err
	}
	list := &corev1.PodList{}
	var took []time.Duration
	for range times {
		if err := w.seen.until(ctx, namespace, func(t *tally) bool { return t.pods == pods }); err != nil {
			return nil, err
		}
		pause(userPause)
		if err := w.client.List(ctx, list, client.InNamespace(namespace), client.Limit(1)); err != nil {
			return nil, err
		}
		w.seen.mark(namespace)
		if err := w.client.Delete(ctx, &list.Items[0]); err != nil {
			return nil, err
		}
		err := w.seen.until(ctx, namespace, func(t *tally) bool { return len(t.marked) > 0 && len(t.created) > 0 })
		if err != nil {
			return nil, err
		}
		t := w.seen.end(namespace)
		took = append(took, t.created[0].Sub(t.marked[0]))
	}
	return took, nil
}
