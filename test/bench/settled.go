package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
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
			after, err := cpuTime(c.PID())
			if err != nil {
				return err
			}
			figures := map[string]float64{"CPU ms/s": milliseconds(after-before) / 60, unexpected: 0}
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
