package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"example.com/podset-operator/test/localcluster"
)

// scenario is something that the arms are put through.
type scenario struct {
	name, what string
	run        func(context.Context, *bench) error
}

var scenarios = []scenario{
	{"one-set", "one set, from 0 to SIZE pods and back", oneSet},
	{"many-sets", "SIZE/5 sets of 5 pods", manySets},
	{"replacement", "one set of 10, one pod deleted again and again, SIZE/5 times", replacement},
	{"large-set", "one set of 5 SIZE pods", largeSet},
	{"growth", "one set of SIZE/4, SIZE/2, SIZE, 2 SIZE and 4 SIZE pods", growth},
	{"idle", "SIZE/5 settled sets of 5, for a minute", idle},
	{"restart", "a manager that starts with SIZE settled sets of one pod", restart},
	{"handover", "the leader is told to stop when half of SIZE pods are there", handover},
	{"foreign-pods", "memory beside 0, 10 SIZE and 50 SIZE pods that belong to nobody", foreignPods},
}

// The parts of scenarios that have figures of their own.
const (
	scaleUp   = "one-set up"
	scaleDown = "one-set down"
)

// bench is one run of the benchmark.
type bench struct {
	settings settings
	programs programs
	random   *rand.Rand
	records  []record
	commands map[string]bool // as programs were started
	say      func(format string, arguments ...any)
}

func (b *bench) record(scenario string, block int, arm string, pods int, figures map[string]float64) {
	for _, metric := range sortedKeys(figures) {
		b.records = append(b.records, record{scenario, block, arm, pods, metric, figures[metric]})
	}
	b.say("%s, block %d, %s, %d pods: %s", scenario, block, arm, pods, summary(figures))
}

// in runs a scenario's arms in a world of its own, in blocks: each arm once in a block, in random order.
func (b *bench) in(ctx context.Context, names []string, do func(ctx context.Context, w *world, block int, arm arm) error) error {
	w, err := newWorld(ctx, b.programs, localcluster.Options{Durable: true})
	if err != nil {
		return err
	}
	b.recordCommands(w)
	return errors.Join(b.inBlocks(ctx, w, names, do), w.close())
}

func (b *bench) inBlocks(
	ctx context.Context, w *world, names []string, do func(ctx context.Context, w *world, block int, arm arm) error,
) error {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !b.settings.arms.MatchString(name) })
	for block := range b.settings.blocks {
		b.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, name := range names {
			turn, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("arm %s: not done after %s", name, patience))
			err := do(turn, w, block+1, armNamed(name))
			cancel()
			if err != nil {
				return fmt.Errorf("arm %s: %w", name, err)
			}
		}
	}
	return nil
}

// patience is how long one arm may take for its part of one block.
const patience = 15 * time.Minute

// with runs do beside the arm's controller, which has served a set of one pod before, so that its caches are filled and
// its workers are up.
func (b *bench) with(ctx context.Context, w *world, arm arm, do func(c *controller) error) error {
	if arm.start == nil {
		return do(nil)
	}
	c, err := arm.start(w)
	if err != nil {
		return err
	}
	defer c.Stop()
	if err := c.untilReady(ctx); err != nil {
		return err
	}
	b.recordCommand(c.PID())
	if err := w.warmUp(ctx, arm); err != nil {
		return err
	}
	return do(c)
}

func (w *world) warmUp(ctx context.Context, arm arm) error {
	namespace, err := w.newNamespace(ctx, 1)
	if err != nil {
		return err
	}
	set := arm.set(namespace, "warm-up", 1)
	if err := w.client.Create(ctx, set); err != nil {
		return err
	}
	if err := w.seen.until(ctx, namespace, func(t *tally) bool { return t.pods == 1 }); err != nil {
		return err
	}
	if err := w.scale(ctx, set, 0); err != nil {
		return err
	}
	if err := w.seen.until(ctx, namespace, func(t *tally) bool { return t.pods == 0 }); err != nil {
		return err
	}
	if err := w.client.Delete(ctx, set); err != nil {
		return err
	}
	return w.seen.quiet(ctx, calm)
}
