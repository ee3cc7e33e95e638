package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"example.com/podset-operator/api/v1alpha1"
	"example.com/podset-operator/internal/podset"
)

// +kubebuilder:rbac:groups=app.example.com,resources=podsets,verbs=get;list;watch
// +kubebuilder:rbac:groups=app.example.com,resources=podsets/status,verbs=update
// +kubebuilder:rbac:groups=app.example.com,resources=podsets/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

const (
	firstRetry = 50 * time.Millisecond
	maxRetry   = time.Minute
	// staleCheck is when a reconcile that found its view behind its own writes looks again, should the event that
	// brings the view up to date not have started another one before.
	staleCheck = 5 * time.Second
)

// Reconciler moves PodSets towards their spec, one pod at a time.
type Reconciler struct {
	// Client reads PodSets from the cache and writes pods and statuses.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Pods is the cached view of the pods.
	Pods PodView
	// Events tells users what was done.
	Events events.EventRecorder
	// Clock gives the time of observations.
	Clock clock.PassiveClock

	memories memories
}

// Reconcile takes at most one step for the PodSet and reports what it observed before: at most one write of a pod and
// one of the status. It returns an error only where the outcome of a request is unknown.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	podSet := &v1alpha1.PodSet{}
	if err := r.Client.Get(ctx, request.NamespacedName, podSet); err != nil {
		if apierrors.IsNotFound(err) {
			r.memories.forget(request.NamespacedName)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("reading PodSet: %w", err)
	}
	if podSet.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	m := r.memories.of(podSet)

	observation, fresh, err := r.observe(ctx, podSet, m)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !fresh {
		return ctrl.Result{RequeueAfter: staleCheck}, nil
	}
	actAgain, actErr := r.decideAndAct(ctx, observation, m)
	reportAgain, reportErr := r.report(ctx, observation, m)
	if err := errors.Join(actErr, reportErr); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: soonest(actAgain, reportAgain, r.untilNextLook(observation), m.untilNextSearch())}, nil
}

// observe looks at the PodSet's pods in the cached view. It reports false if the view does not hold every write this
// manager has made for the PodSet yet; then nothing may be decided.
func (r *Reconciler) observe(ctx context.Context, podSet *v1alpha1.PodSet, m *memory) (podset.Observation, bool, error) {
	view, err := r.Pods.Of(podSet)
	if err != nil {
		return podset.Observation{}, false, fmt.Errorf("reading the pods of the PodSet: %w", err)
	}
	if !m.isIn(podSet, view) {
		return podset.Observation{}, false, nil
	}
	unlabelled, err := r.searchVanished(ctx, podSet, view, m)
	if err != nil {
		return podset.Observation{}, false, err
	}
	o := podset.Observation{
		PodSet:      podSet,
		Owned:       view.Owned,
		Orphans:     view.Orphans,
		Unlabelled:  unlabelled,
		Revision:    m.revisionOf(podSet),
		TakenNames:  m.takenNames,
		RefusedPods: m.refusedPods,
		Holds:       m.holds, // not a copy: the report is to tell what act is refused
		Now:         r.Clock.Now(),
	}
	o.AskedNames, o.InDoubtUntil = m.inDoubt(o.Now)
	o = o.Counted()
	m.releaseHolds(podSet.Generation)
	m.backoff = m.backoff.Observe(o.Owned, o.Revision, o.Now)
	o.Backoff = m.backoff
	m.progress = m.progress.Observe(o)
	o.Progress = m.progress
	return o, true, nil
}

// decideAndAct takes the step that the observation asks for. If the cached view cannot be relied on, the step is decided
// again on a live one, of the PodSet as well as of its pods. Nothing is deleted or released by a spec that is no longer
// asked for, nor for a PodSet that is going away.
func (r *Reconciler) decideAndAct(ctx context.Context, o podset.Observation, m *memory) (time.Duration, error) {
	step := podset.Decide(o)
	relies := m.mayRely(step, o.Now)
	if !relies || step.Action == podset.Delete || step.Action == podset.Release {
		current, err := r.isCurrent(ctx, o.PodSet)
		if err != nil {
			return retry(err)
		}
		if !current {
			return staleCheck, nil // the event that brings the PodSet up to date starts a reconcile before
		}
	}
	if !relies {
		live, err := r.livePods(ctx, o, m)
		if err != nil {
			return retry(fmt.Errorf("reading the pods of the PodSet live: %w", err))
		}
		m.certainUntil = o.Now.Add(certainFor)
		step = podset.Decide(live)
	}
	return r.act(ctx, o, step, m)
}

// untilNextLook is how long nothing will be due as far as the observation can tell, zero if for ever. It counts from now:
// the requests since the observation took time.
func (r *Reconciler) untilNextLook(o podset.Observation) time.Duration {
	next := podset.NextLook(o)
	if next.IsZero() {
		return 0
	}
	return max(time.Nanosecond, next.Sub(r.Clock.Now()))
}

// soonest returns the shortest of the durations that are not zero.
func soonest(durations ...time.Duration) time.Duration {
	var soonest time.Duration
	for _, d := range durations {
		if d > 0 && (soonest == 0 || d < soonest) {
			soonest = d
		}
	}
	return soonest
}

// Options configure the controller.
type Options struct {
	// MaxConcurrentReconciles is how many PodSets are reconciled at the same time.
	MaxConcurrentReconciles int
	// ReconcileTimeout bounds one reconcile, all its requests included.
	ReconcileTimeout time.Duration
	// WatchNamespaces are the namespaces whose PodSets are reconciled; none means all.
	WatchNamespaces []string
	// Wrap, if not nil, returns what to call in place of the reconciler.
	Wrap func(reconcile.Reconciler) reconcile.Reconciler
}

// SetUp adds the PodSet controller and its cache of pods to the manager. The API server must serve PodSets already. The
// function returned tells whether the caches hold what the API server has.
func SetUp(ctx context.Context, mgr ctrl.Manager, options Options) (synced func() bool, err error) {
	podSets, err := mgr.GetCache().GetInformer(ctx, &v1alpha1.PodSet{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("making the PodSet informer: %w", err)
	}
	pods, err := newPodCaches(ctx, mgr, options.WatchNamespaces)
	if err != nil {
		return nil, err
	}
	reconciler := &Reconciler{
		Client: mgr.GetClient(),
		Live:   mgr.GetAPIReader(),
		Pods:   pods,
		Events: mgr.GetEventRecorder("podset-controller"),
		Clock:  clock.RealClock{},
	}
	podSetController := ctrl.NewControllerManagedBy(mgr).
		Named("podset").
		For(&v1alpha1.PodSet{}).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: options.MaxConcurrentReconciles,
			ReconciliationTimeout:   options.ReconcileTimeout,
			// A standby manager fills its caches and its queue, so that it can act as soon as it leads.
			EnableWarmup: new(true),
			RateLimiter:  workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, maxRetry),
		})
	for _, podCache := range pods.caches {
		podSetController.WatchesRawSource(source.Kind(podCache, &corev1.Pod{}, handler.TypedEnqueueRequestsFromMapFunc(podSetOf)))
	}
	var wrapped reconcile.Reconciler = reconciler
	if options.Wrap != nil {
		wrapped = options.Wrap(reconciler)
	}
	if err := podSetController.Complete(wrapped); err != nil {
		return nil, fmt.Errorf("building the PodSet controller: %w", err)
	}
	return func() bool { return podSets.HasSynced() && pods.haveSynced() }, nil
}
