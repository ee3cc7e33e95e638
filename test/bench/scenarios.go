package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/podset-operator/api/v1alpha1"
	"example.com/podset-operator/internal/manager"
	"example.com/podset-operator/test/localcluster"
	"example.com/podset-operator/test/operator"
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
	for metric, value := range figures {
		b.records = append(b.records, record{scenario, block, arm, pods, metric, value})
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

// inAuditedWorld runs do in a world whose API server tells the requests of one user from those of others.
func (b *bench) inAuditedWorld(ctx context.Context, do func(w *world, audit *auditLog) error) error {
	audit := &auditLog{path: filepath.Join(b.settings.scratch, "audit.log")}
	w, err := newWorld(ctx, b.programs, localcluster.Options{Durable: true, AuditLog: audit.path})
	if err != nil {
		return err
	}
	b.recordCommands(w)
	return errors.Join(do(w, audit), w.close(), audit.remove())
}

// election are the flags of a manager that may have to wait for its turn, as config/manager sets them.
var election = []string{"--leader-elect", "--leader-election-namespace=" + operator.Namespace}

func idle(ctx context.Context, b *bench) error {
	return b.inAuditedWorld(ctx, func(w *world, audit *auditLog) error {
		leading := armNamed(ours)
		leading.start = startOurs(election...)
		return b.with(ctx, w, leading, func(c *controller) error {
			sets := b.settings.size / podsOfMany
			if err := w.settle(ctx, leading, sets, podsOfMany); err != nil {
				return err
			}
			before, err := cpuTime(c.PID())
			if err != nil {
				return err
			}
			start := time.Now()
			pause(time.Minute)
			figures := map[string]float64{}
			after, err := cpuTime(c.PID())
			if err != nil {
				return err
			}
			figures["CPU ms/s"] = float64((after - before).Milliseconds()) / 60
			if figures[rss], err = memory(c.PID(), "VmRSS"); err != nil {
				return err
			}
			made, err := audit.byManager(start)
			if err != nil {
				return err
			}
			for what, n := range made {
				figures["requests, "+what] = n
				if !strings.Contains(what, "leases") && !strings.HasPrefix(what, "watch ") {
					figures[unexpected] += n
				}
			}
			figures[unexpected] += 0
			b.record("idle", 1, ours, sets*podsOfMany, figures)
			return nil
		})
	})
}

// unexpected are requests that an idle manager has no reason for.
const unexpected = "requests but watches and the lease"

// settle makes sets and returns when they are quiet.
func (w *world) settle(ctx context.Context, arm arm, sets, replicas int) error {
	namespace, err := w.newNamespace(ctx, replicas)
	if err != nil {
		return err
	}
	if err := w.createSets(ctx, arm, namespace, sets, replicas); err != nil {
		return err
	}
	if err := w.seen.until(ctx, namespace, func(t *tally) bool { return t.pods == sets*replicas }); err != nil {
		return err
	}
	return w.seen.quiet(ctx, 2*calm)
}

// restart compares the time from the start of a manager's process until it is ready with that which a bare client takes,
// from its connection on, to list the sets and their pods.
func restart(ctx context.Context, b *bench) error {
	return b.inAuditedWorld(ctx, func(w *world, audit *auditLog) error {
		arm := armNamed(ours)
		err := b.with(ctx, w, arm, func(*controller) error { return w.settle(ctx, arm, b.settings.size, 1) })
		if err != nil {
			return err
		}
		for block := range b.settings.blocks {
			listing, err := w.timeListing(ctx, b.settings.size)
			if err != nil {
				return err
			}
			start := time.Now()
			c, err := arm.start(w)
			if err != nil {
				return err
			}
			err = c.untilReady(ctx)
			ready := time.Since(start)
			if err == nil {
				err = w.seen.quiet(ctx, 3*calm)
			}
			c.Stop()
			if err != nil {
				return err
			}
			made, err := audit.byManager(start)
			if err != nil {
				return err
			}
			figures := map[string]float64{"ready ms": milliseconds(ready), "listing ms": milliseconds(listing), writes: 0}
			for what, n := range made {
				figures["requests, "+what] = n
				if verb, _, _ := strings.Cut(what, " "); verb != "get" && verb != "list" && verb != "watch" {
					figures[writes] += n
				}
			}
			b.record("restart", block+1, ours, b.settings.size, figures)
		}
		return nil
	})
}

const writes = "requests that write"

func (w *world) timeListing(ctx context.Context, sets int) (time.Duration, error) {
	start := time.Now()
	c, err := client.New(w.cluster.Config, client.Options{Scheme: manager.Scheme})
	if err != nil {
		return 0, err
	}
	podSets, pods := &v1alpha1.PodSetList{}, &corev1.PodList{}
	if err := c.List(ctx, podSets); err != nil {
		return 0, err
	}
	if err := c.List(ctx, pods, client.HasLabels{v1alpha1.PodSetLabel}); err != nil {
		return 0, err
	}
	took := time.Since(start)
	if len(podSets.Items) != sets || len(pods.Items) != sets {
		return 0, fmt.Errorf("there are %d sets and %d pods, not %d", len(podSets.Items), len(pods.Items), sets)
	}
	return took, nil
}

// handover measures the longest time between two creations from when the leader is told to stop.
func handover(ctx context.Context, b *bench) error {
	electing := armNamed(ours)
	electing.start = startOurs(election...)
	return b.in(ctx, []string{ours}, func(ctx context.Context, w *world, block int, _ arm) error {
		return b.with(ctx, w, electing, func(leader *controller) error {
			standby, err := electing.start(w)
			if err != nil {
				return err
			}
			defer standby.Stop()
			if err := standby.untilReady(ctx); err != nil {
				return err
			}
			namespace, err := w.newNamespace(ctx, b.settings.size)
			if err != nil {
				return err
			}
			if err := w.client.Create(ctx, electing.set(namespace, "web", b.settings.size)); err != nil {
				return err
			}
			if err := w.seen.until(ctx, namespace, func(t *tally) bool { return t.pods >= b.settings.size/2 }); err != nil {
				return err
			}
			told := time.Now()
			leader.Signal(syscall.SIGTERM)
			<-leader.Done()
			ended := time.Since(told)
			if err := w.seen.until(ctx, namespace, func(t *tally) bool { return t.pods >= b.settings.size }); err != nil {
				return err
			}
			if err := w.seen.quiet(ctx, calm); err != nil {
				return err
			}
			tally := w.seen.end(namespace)
			b.record("handover", block, ours, b.settings.size, map[string]float64{
				"leader ended after s":       ended.Seconds(),
				"longest time without pod s": longestGap(tally.created, told).Seconds(),
				tooMany:                      float64(tally.excess),
			})
			standby.Stop()
			return w.clear(ctx, electing, namespace)
		})
	})
}

// longestGap returns the longest time between one moment and the next from a time on.
func longestGap(moments []time.Time, from time.Time) time.Duration {
	longest := time.Duration(0)
	for _, moment := range moments {
		if moment.After(from) {
			longest = max(longest, moment.Sub(from))
			from = moment
		}
	}
	return longest
}

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
