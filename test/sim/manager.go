package sim

import (
	"context"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"example.com/podset-operator/api/v1alpha1"
	"example.com/podset-operator/internal/controller"
)

const namespace = "sim"

// manager is one running manager: the production reconciler with what it remembers, the views of its informers, and its
// work queue.
type manager struct {
	number        int
	podSets, pods view
	// reconciler is not run itself but copied for each run, so that copies of a world share it.
	reconciler *controller.Reconciler
	queue      [maxPodSets]queued
	// deposed is set while it does not know that another one leads.
	deposed bool
	known   [maxPodSets]knownWrites
	refused [maxPodSets]refusal
}

// queued is the entry of one PodSet in the work queue. As in controller-runtime's priority queue there is one at most: an
// event makes it ready at once, and a reconcile uses it up.
type queued struct {
	ready    bool
	due      time.Time
	failures int
	// wakes are when it became ready because it was due, while settling.
	wakes []time.Time
}

// knownWrites are the indexes of the last revisions that the manager knows to have written for a PodSet.
type knownWrites struct {
	uid         types.UID
	pod, status int
}

func (w *world) restart(m *manager, podSets, pods int) {
	*m = manager{
		number:     m.number,
		podSets:    w.server.relisted(podSets),
		pods:       w.server.relisted(pods),
		reconciler: &controller.Reconciler{},
	}
	for _, podSet := range w.server.at(podSets).podSets {
		m.enqueue(podSet.Name)
	}
	for _, pod := range w.server.at(pods).pods {
		m.enqueue(ownerOf(pod))
	}
}

// refusal is the last refusal of a new pod.
type refusal struct {
	uid        types.UID
	generation int64
	at         time.Time
}

// lease is how long the leader must have been idle for another to take its place.
const lease = time.Minute

// mayAct reports whether a manager can reconcile: if it leads, if it can take the lease, or, deposed, if it has yet to
// find that out.
func (w *world) mayAct(m *manager) bool {
	return !w.setup.Leases || m.number == w.leader || m.deposed || w.now.Sub(w.lastAct) >= lease
}

// actAs lets the manager reconcile as its lease allows. A deposed one carries out what it had begun, and ends.
func (w *world) actAs(m *manager, podSet int) {
	stale := m.deposed
	if w.setup.Leases && !stale {
		if m.number != w.leader {
			w.managers[w.leader].deposed, w.leader = true, m.number
		}
		w.lastAct = w.now
	}
	w.reconcile(m, podSet)
	if stale {
		w.restart(m, m.podSets.index, m.pods.index)
	}
}

func (m *manager) enqueue(podSet string) {
	if i := slices.Index(podSetNames, podSet); i >= 0 {
		m.queue[i].ready = true
	}
}

func (m *manager) seen(r *revision) {
	for _, pod := range []*corev1.Pod{r.oldPod, r.newPod} {
		if isMember(pod) {
			m.enqueue(ownerOf(pod))
		}
	}
	if r.newPodSet != nil {
		m.enqueue(r.newPodSet.Name)
	} else if r.oldPodSet != nil {
		m.enqueue(r.oldPodSet.Name)
	}
}

func (w *world) follow(m *manager, k kind, events int) {
	if k == ofPod {
		w.server.follow(&m.pods, k, events, m.seen)
	} else {
		w.server.follow(&m.podSets, k, events, m.seen)
	}
}

// relist jumps to the present; the handlers are told of what was there and of what is there now, not of what was there
// in between.
func (w *world) relist(m *manager, k kind) {
	now := w.server.relisted(w.server.lastIndex())
	if k == ofPodSet {
		for _, podSet := range append(slices.Clip(w.server.at(m.podSets.index).podSets), w.server.last().podSets...) {
			m.enqueue(podSet.Name)
		}
		m.podSets = now
		return
	}
	for _, pod := range append(slices.Clip(w.server.at(m.pods.index).pods), w.server.last().pods...) {
		if isMember(pod) {
			m.enqueue(ownerOf(pod))
		}
	}
	m.pods = now
}

// run is one reconcile.
type run struct {
	world   *world
	manager *manager
	podSet  int
	began   time.Time

	// seen and seenPods are what the reconcile saw of its PodSet and its pods, live what it last read from the server.
	seen     *v1alpha1.PodSet
	seenPods []*corev1.Pod
	live     *v1alpha1.PodSet
	livePods []*corev1.Pod
	listed   bool

	podWrites, statusWrites int
}

// crashed is thrown where a manager dies.
type crashed struct{}

var quiet = log.IntoContext(context.Background(), logr.Discard())

// First delay of a reconcile that returned an error, and the longest.
const (
	firstRetry = 50 * time.Millisecond
	maxRetry   = time.Minute
)

// reconcile runs the production code once.
func (w *world) reconcile(m *manager, podSet int) {
	r := &run{world: w, manager: m, podSet: podSet, began: w.now}
	reconciler := &controller.Reconciler{Client: cachedClient{r: r}, Live: liveReader{r: r}, Pods: r, Events: noEvents{}, Clock: w}
	copyMemory(reconciler, m.reconciler)
	entry := &m.queue[podSet]
	entry.ready, entry.due = false, time.Time{}

	var result ctrl.Result
	var err error
	if !survives(func() { result, err = reconciler.Reconcile(quiet, requestFor(podSet)) }) {
		w.restart(m, m.podSets.index, m.pods.index)
		return
	}
	m.reconciler = reconciler
	switch {
	case err != nil:
		delay := maxRetry
		if entry.failures < 12 {
			delay = min(firstRetry<<entry.failures, maxRetry)
		}
		entry.failures++
		entry.due = w.now.Add(delay)
	default:
		entry.failures = 0
		if result.RequeueAfter > 0 {
			entry.due = w.now.Add(result.RequeueAfter)
		}
	}
}

func requestFor(podSet int) ctrl.Request {
	return ctrl.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: podSetNames[podSet]}}
}

// survives reports whether the manager does not die in a call.
func survives(call func()) (survives bool) {
	defer func() {
		thrown := recover()
		if _, died := thrown.(crashed); thrown != nil && !died {
			panic(thrown)
		}
		survives = thrown == nil
	}()
	call()
	return true
}

// Of implements controller.PodView. An index of an informer has no order; this one is never that of the names.
func (r *run) Of(podSet *v1alpha1.PodSet) (controller.SeenPods, error) {
	server, at := r.world.server, r.manager.pods
	seen := controller.SeenPods{ResourceVersion: versionText(at.version)}
	for _, pod := range slices.Backward(server.at(at.index).pods) {
		if !isMember(pod) || pod.Namespace != podSet.Namespace {
			continue
		}
		switch owner := metav1.GetControllerOfNoCopy(pod); {
		case owner == nil && pod.Labels[v1alpha1.PodSetLabel] == podSet.Name:
			seen.Orphans = append(seen.Orphans, pod)
		case owner != nil && owner.UID == podSet.UID:
			seen.Owned = append(seen.Owned, pod)
		}
	}
	r.seenPods = seen.Owned
	return seen, nil
}

// Now implements the clock of the reconciler.
func (w *world) Now() time.Time { return w.now }

// Since implements the clock of the reconciler.
func (w *world) Since(t time.Time) time.Duration { return w.now.Sub(t) }

// noEvents is an event recorder that tells nobody.
type noEvents struct{}

func (noEvents) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}
