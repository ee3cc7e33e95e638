package manager

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// overdue is for how long a reconcile may outlast its timeout, by which all its requests end. One that still runs then
// waits for something else, such as a lock, and will do so until the manager is restarted.
const overdue = 30 * time.Second

// watchdog is the liveness check: it notices reconciles that do not end. It is put around the reconciler.
type watchdog struct {
	reconciler reconcile.Reconciler
	limit      time.Duration
	clock      clock.PassiveClock

	mu sync.Mutex
	// started tells since when the objects being reconciled are. A controller never reconciles one twice at once.
	started map[ctrl.Request]time.Time
}

func newWatchdog(timeout time.Duration, clockwork clock.PassiveClock) *watchdog {
	return &watchdog{limit: timeout + overdue, clock: clockwork, started: map[ctrl.Request]time.Time{}}
}

// watch makes the watchdog watch over a reconciler, and returns what to call in its place.
func (w *watchdog) watch(reconciler reconcile.Reconciler) reconcile.Reconciler {
	w.reconciler = reconciler
	return w
}

// Reconcile implements reconcile.Reconciler.
func (w *watchdog) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	w.mu.Lock()
	w.started[request] = w.clock.Now()
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.started, request)
	}()
	return w.reconciler.Reconcile(ctx, request)
}

// alive is the check: no reconcile has been running for longer than the limit.
func (w *watchdog) alive(*http.Request) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for request, started := range w.started {
		if running := w.clock.Since(started); running > w.limit {
			return fmt.Errorf("the reconcile of %s has been running for %s, longer than %s", request, running.Round(time.Second), w.limit)
		}
	}
	return nil
}
