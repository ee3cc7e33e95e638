package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/podset-operator/api/v1alpha1"
)

// up makes one set of so many pods, and returns what down needs.
func (b *bench) up(ctx context.Context, w *world, c *controller, arm arm, scenario string, block, pods int) (*oneSetState, error) {
	namespace, err := w.newNamespace(ctx, pods)
	if err != nil {
		return nil, err
	}
	s := &oneSetState{namespace: namespace, set: arm.set(namespace, "web", pods)}
	do := func(ctx context.Context) error { return w.client.Create(ctx, s.set) }
	user := requests{"POST " + arm.resource: 1}
	if c == nil {
		if err := w.client.Create(ctx, s.set); err != nil {
			return nil, err
		}
		user = nil
		do = func(ctx context.Context) (err error) {
			s.pods, err = w.createPods(ctx, s.set.(*v1alpha1.PodSet), pods, arm.workers)
			return err
		}
	}
	figures, err := b.profiled(ctx, w, c, block, stretch{
		scenario: scenario, namespace: namespace, replicas: pods, pods: pods, user: user, do: do,
		isDone: func(t *tally) bool { return t.pods == pods },
	})
	if err != nil {
		return nil, err
	}
	b.record(scenario, block, arm.name, pods, figures)
	return s, nil
}

// profiled measures a stretch, and leaves profiles of it if they are wanted.
func (b *bench) profiled(ctx context.Context, w *world, c *controller, block int, s stretch) (map[string]float64, error) {
	name := strings.ReplaceAll(fmt.Sprintf("%s-%d-block%d", s.scenario, s.pods, block), " ", "-")
	stop := profileUntil(ctx, c, b.settings.profiles, name)
	figures, err := w.measure(ctx, c, s)
	return figures, errors.Join(err, stop())
}

type oneSetState struct {
	namespace string
	set       client.Object
	pods      []*corev1.Pod // of a bare client
}

func oneSet(ctx context.Context, b *bench) error {
	names := []string{rawSequential, rawParallel, limited, unlimited, plain, ours}
	return b.in(ctx, names, func(ctx context.Context, w *world, block int, arm arm) error {
		var s *oneSetState
		err := b.with(ctx, w, arm, func(c *controller) (err error) {
			if s, err = b.up(ctx, w, c, arm, scaleUp, block, b.settings.size); err != nil {
				return err
			}
			return b.down(ctx, w, c, arm, block, s)
		})
		if err != nil {
			return err
		}
		return w.clear(ctx, arm, s.namespace)
	})
}

// down brings a set to 0 pods.
func (b *bench) down(ctx context.Context, w *world, c *controller, arm arm, block int, s *oneSetState) error {
	do := func(ctx context.Context) error { return w.scale(ctx, s.set, 0) }
	user := requests{"PATCH " + arm.resource: 1}
	if c == nil {
		user = nil
		do = func(ctx context.Context) error {
			return w.deletePods(ctx, s.set.(*v1alpha1.PodSet), s.pods, arm.workers)
		}
	}
	figures, err := b.profiled(ctx, w, c, block, stretch{
		scenario: scaleDown, namespace: s.namespace, replicas: b.settings.size, pods: b.settings.size, user: user, do: do,
		isDone: func(t *tally) bool { return t.pods == 0 },
	})
	if err != nil {
		return err
	}
	b.record(scaleDown, block, arm.name, b.settings.size, figures)
	return nil
}

const podsOfMany = 5

func manySets(ctx context.Context, b *bench) error {
	return b.in(ctx, []string{unlimited, plain, ours}, func(ctx context.Context, w *world, block int, arm arm) error {
		sets := b.settings.size / podsOfMany
		namespace, err := w.newNamespace(ctx, podsOfMany)
		if err != nil {
			return err
		}
		err = b.with(ctx, w, arm, func(c *controller) error {
			figures, err := w.measure(ctx, c, stretch{
				scenario: "many-sets", namespace: namespace, replicas: podsOfMany, pods: sets * podsOfMany,
				user:   requests{"POST " + arm.resource: float64(sets)},
				do:     func(ctx context.Context) error { return w.createSets(ctx, arm, namespace, sets, podsOfMany) },
				isDone: func(t *tally) bool { return t.pods == sets*podsOfMany },
			})
			if err != nil {
				return err
			}
			b.record("many-sets", block, arm.name, sets*podsOfMany, figures)
			return nil
		})
		if err != nil {
			return err
		}
		return w.clear(ctx, arm, namespace)
	})
}

func (w *world) createSets(ctx context.Context, arm arm, namespace string, sets, replicas int) error {
	const users = 4
	return inParallel(users, sets, func(i int) error {
		return w.client.Create(ctx, arm.set(namespace, fmt.Sprintf("set-%d", i), replicas))
	})
}

func largeSet(ctx context.Context, b *bench) error {
	return b.in(ctx, []string{rawSequential, unlimited, ours}, func(ctx context.Context, w *world, block int, arm arm) error {
		return b.upAndAway(ctx, w, arm, "large-set", block, 5*b.settings.size)
	})
}

// upAndAway makes one set of so many pods and removes all.
func (b *bench) upAndAway(ctx context.Context, w *world, arm arm, scenario string, block, pods int) error {
	var s *oneSetState
	err := b.with(ctx, w, arm, func(c *controller) (err error) {
		s, err = b.up(ctx, w, c, arm, scenario, block, pods)
		return err
	})
	if err != nil {
		return err
	}
	return w.clear(ctx, arm, s.namespace)
}

func growth(ctx context.Context, b *bench) error {
	return b.in(ctx, []string{unlimited, ours}, func(ctx context.Context, w *world, block int, arm arm) error {
		for _, pods := range []int{b.settings.size / 4, b.settings.size / 2, b.settings.size, 2 * b.settings.size, 4 * b.settings.size} {
			if err := b.upAndAway(ctx, w, arm, "growth", block, pods); err != nil {
				return err
			}
		}
		return nil
	})
}
