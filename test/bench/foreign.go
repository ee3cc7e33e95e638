package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"example.com/podset-operator/api/v1alpha1"
	"example.com/podset-operator/test/localcluster"
)

// foreignPods measures the memory of controllers beside ever more pods that carry no set's label.
func foreignPods(ctx context.Context, b *bench) error {
	w, err := newWorld(ctx, b.programs, localcluster.Options{Durable: true})
	if err != nil {
		return err
	}
	return errors.Join(b.besideForeignPods(ctx, w), w.close())
}

func (b *bench) besideForeignPods(ctx context.Context, w *world) error {
	namespace, err := w.newNamespace(ctx, 0)
	if err != nil {
		return err
	}
	there := 0
	for _, foreign := range []int{0, 10 * b.settings.size, 50 * b.settings.size} {
		if err := w.createForeignPods(ctx, namespace, there, foreign); err != nil {
			return err
		}
		there = foreign
		err := b.inBlocks(ctx, w, []string{plain, ours}, func(ctx context.Context, w *world, block int, arm arm) error {
			return b.with(ctx, w, arm, func(c *controller) error {
				pause(settleMemory)
				figures := map[string]float64{}
				var err error
				for metric, field := range map[string]string{rss: "VmRSS", peakRSS: "VmHWM"} {
					if figures[metric], err = memory(c.PID(), field); err != nil {
						return err
					}
				}
				b.record("foreign-pods", block, arm.name, foreign, figures)
				return nil
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// settleMemory is how long a controller has to give back what filling its caches took.
const settleMemory = 3 * time.Second

func (w *world) createForeignPods(ctx context.Context, namespace string, from, to int) error {
	const workers = 16
	return inParallel(workers, to-from, func(i int) error {
		pod := &corev1.Pod{Spec: template().Spec}
		pod.Namespace, pod.Name, pod.Labels = namespace, fmt.Sprintf("foreign-%d", from+i), map[string]string{v1alpha1.AppLabel: "foreign"}
		return w.client.Create(ctx, pod)
	})
}
