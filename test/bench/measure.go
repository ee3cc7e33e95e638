package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// record is one figure: of a scenario, in a block, for an arm, at a number of pods.
type record struct {
	scenario string
	block    int
	arm      string
	pods     int
	metric   string
	value    float64
}

// calm is how long nothing may be written before a set counts as settled.
const calm = 2 * time.Second

// stretch is what is measured at once: from a user's change until the pods are as wanted, and then until all is quiet.
type stretch struct {
	scenario  string
	namespace string
	replicas  int // how many pods a set may have
	pods      int // how many pods come or go
	// user is how many requests the user makes, by verb and resource; they are not the arm's.
	user requests
	do   func(context.Context) error
	// isDone tells from the tally whether the pods are as wanted.
	isDone func(*tally) bool
}

// moment is the state of all that counts up.
type moment struct {
	requests requests
	written  volumes
	cpu      time.Duration
	queue    map[string]durations
}

func (w *world) now(ctx context.Context, c *controller) (m moment, err error) {
	if m.requests, err = requestsServed(ctx, w.server); err != nil {
		return m, err
	}
	m.written = w.seen.volumes()
	if c == nil {
		return m, nil
	}
	if m.cpu, err = cpuTime(c.PID()); err != nil {
		return m, err
	}
	m.queue, err = queueTimes(ctx, c.metrics, c.queue)
	return m, err
}

// measure runs a stretch, of a controller unless that is nil, and returns its figures by metric.
func (w *world) measure(ctx context.Context, c *controller, s stretch) (map[string]float64, error) {
	w.seen.begin(s.namespace, s.replicas)
	before, err := w.now(ctx, c)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if err := s.do(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", s.scenario, err)
	}
	if err := w.seen.until(ctx, s.namespace, s.isDone); err != nil {
		return nil, fmt.Errorf("%s: %w", s.scenario, err)
	}
	tally := w.seen.end(s.namespace)
	// Of creation and deletion one has happened; of an arm that makes too many pods, both.
	last := slices.MaxFunc(slices.Concat(tally.created, tally.gone), time.Time.Compare)
	if err := w.seen.quiet(ctx, calm); err != nil {
		return nil, err
	}
	after, err := w.now(ctx, c)
	if err != nil {
		return nil, err
	}
	n := float64(s.pods)
	figures := map[string]float64{
		seconds: last.Sub(start).Seconds(),
		rate:    n / last.Sub(start).Seconds(),
		tooMany: float64(w.seen.end(s.namespace).excess),
	}
	served := after.requests.minus(before.requests).minus(s.user)
	figures[perPod(requestsOf)] = served.total() / n
	for what, count := range served {
		figures[perPod(requestsOf, what)] = count / n
	}
	written := after.written.minus(before.written)
	figures[perPod(bytesOf)] = float64(written.total().bytes) / n
	for resource, volume := range written {
		figures[perPod(bytesOf, resource)] = float64(volume.bytes) / n
	}
	if c == nil {
		return figures, nil
	}
	figures[cpu] = float64((after.cpu - before.cpu).Microseconds()) / 1000 / n
	for name, metric := range map[string]string{queueTime: "wait in queue", workTime: "reconcile"} {
		spent := after.queue[name].minus(before.queue[name])
		figures[metric+", mean ms"] = spent.mean() * 1000
		figures[metric+", p99 at most ms"] = spent.atMost(0.99) * 1000
	}
	figures[peakRSS], err = memory(c.PID(), "VmHWM")
	return figures, err
}

// The metrics.
const (
	seconds    = "seconds"
	rate       = "pods/s"
	cpu        = "CPU ms/pod"
	peakRSS    = "peak RSS MiB"
	rss        = "RSS MiB"
	tooMany    = "pods too many"
	requestsOf = "requests"
	bytesOf    = "bytes to etcd"
	median     = "p50 ms"
	slowest    = "p99 ms"
)

// perPod names a metric that is divided by the number of pods; for one kind of request or one resource if that is given.
func perPod(metric string, what ...string) string {
	return strings.Join(append([]string{metric + "/pod"}, what...), ", ")
}

// profileLength is how much of a stretch one profile covers; `go tool pprof` adds several up.
const profileLength = 4 * time.Second

// profileUntil saves profiles of a controller's processor time, one after the other, if it offers them, until stop is
// called. It returns when the last one is there.
func profileUntil(ctx context.Context, c *controller, folder, name string) (stop func() error) {
	if folder == "" || c == nil || c.profile == "" {
		return func() error { return nil }
	}
	stopped, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for n := 1; ; n++ {
			select {
			case <-stopped:
				done <- nil
				return
			default:
			}
			if err := saveProfile(ctx, c, filepath.Join(folder, fmt.Sprintf("%s-%d.pprof", name, n))); err != nil {
				done <- err
				return
			}
		}
	}()
	return func() error {
		close(stopped)
		return <-done
	}
}

func saveProfile(ctx context.Context, c *controller, path string) error {
	url := fmt.Sprintf("%s?seconds=%d", c.profile, int(profileLength.Seconds()))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := insecure.Do(request)
	if err != nil {
		return fmt.Errorf("taking a profile: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("taking a profile: %w", err)
	}
	return os.WriteFile(path, content, 0o600)
}
