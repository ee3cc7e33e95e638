package manager

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestWatchdog(t *testing.T) {
	clock := testclock.NewFakeClock(time.Now())
	watchdog := newWatchdog(time.Minute, clock)
	entered, leave := make(chan struct{}), make(chan struct{})
	watched := watchdog.watch(reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) {
		entered <- struct{}{}
		<-leave
		return ctrl.Result{}, nil
	}))
	alive := func(when string, want bool) {
		t.Helper()
		if err := watchdog.alive(nil); (err == nil) != want {
			t.Errorf("%s: got %v", when, err)
		}
	}
	start := func(name string) (ended chan struct{}) {
		ended = make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = watched.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: name}})
		}()
		<-entered
		return ended
	}

	alive("nothing to reconcile", true)
	stuck := start("stuck")
	clock.Step(time.Minute)
	alive("a reconcile that takes until its timeout", true)
	clock.Step(overdue + time.Second)
	alive("a reconcile that takes longer", false)
	other := start("other")
	alive("a stuck reconcile and a new one", false)
	if message := watchdog.alive(nil).Error(); !strings.Contains(message, "default/stuck") || !strings.Contains(message, "1m31s") {
		t.Errorf("does not tell which one is stuck and for how long: %s", message)
	}
	leave <- struct{}{}
	leave <- struct{}{}
	<-stuck
	<-other
	alive("all reconciles ended", true)
}

func TestWatchdogOutlivesAPanic(t *testing.T) {
	clock := testclock.NewFakeClock(time.Now())
	watchdog := newWatchdog(time.Minute, clock)
	watched := watchdog.watch(reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) { panic("oops") }))
	func() {
		defer func() { _ = recover() }()
		_, _ = watched.Reconcile(t.Context(), ctrl.Request{})
	}()
	clock.Step(time.Hour)
	if err := watchdog.alive(nil); err != nil {
		t.Error(err)
	}
}
