// Package manager turns the command line into a running manager: its options and their flags, its log, its caches,
// endpoints and leader election.
package manager

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"example.com/podset-operator/api/v1alpha1"
	"example.com/podset-operator/internal/controller"
)

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=system,resources=leases,verbs=get;create;update
// +kubebuilder:rbac:groups="",namespace=system,resources=events,verbs=create

// leaseName is the name of the lease of leader election.
const leaseName = "podset-operator.app.example.com"

// crdPoll is how often the manager looks whether the API server serves PodSets yet.
const crdPoll = 2 * time.Second

// Scheme knows the types that the manager reads and writes.
var Scheme = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return scheme
}()

// New returns a manager that runs the PodSet controller when it is started. Started against an API server that does not
// serve PodSets, it waits until it does.
func New(config *rest.Config, options Options) (ctrl.Manager, error) {
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: Scheme,
		Cache: cache.Options{
			DefaultNamespaces: cachedNamespaces(options.WatchNamespaces),
			DefaultTransform:  cache.TransformStripManagedFields(),
		},
		Metrics:                       metricsOptions(options),
		HealthProbeBindAddress:        options.ProbeBindAddress,
		PprofBindAddress:              options.PprofBindAddress,
		LeaderElection:                options.LeaderElect,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       options.LeaderElectionNamespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &options.LeaseDuration,
		RenewDeadline:                 &options.RenewDeadline,
		RetryPeriod:                   &options.RetryPeriod,
	})
	switch {
	case err != nil && options.LeaderElect && options.LeaderElectionNamespace == "":
		return nil, fmt.Errorf("making the manager (outside a cluster --leader-elect needs --leader-election-namespace): %w", err)
	case err != nil:
		return nil, fmt.Errorf("making the manager: %w", err)
	}
	starter := &starter{manager: mgr, options: options, watchdog: newWatchdog(options.ReconcileTimeout, clock.RealClock{})}
	if err := mgr.Add(starter); err != nil {
		return nil, fmt.Errorf("adding the controller: %w", err)
	}
	if err := mgr.AddHealthzCheck("reconciles", starter.watchdog.alive); err != nil {
		return nil, fmt.Errorf("adding the liveness check: %w", err)
	}
	if err := mgr.AddReadyzCheck("caches", starter.ready); err != nil {
		return nil, fmt.Errorf("adding the readiness check: %w", err)
	}
	return mgr, nil
}

func cachedNamespaces(namespaces []string) map[string]cache.Config {
	if len(namespaces) == 0 {
		return nil
	}
	cached := map[string]cache.Config{}
	for _, namespace := range namespaces {
		cached[namespace] = cache.Config{}
	}
	return cached
}

func metricsOptions(options Options) metricsserver.Options {
	metrics := metricsserver.Options{
		BindAddress:   options.MetricsBindAddress,
		SecureServing: options.MetricsSecure,
		CertDir:       options.MetricsCertDir,
	}
	if options.MetricsSecure {
		metrics.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	if !options.EnableHTTP2 {
		// Without HTTP/2 its rapid reset and continuation flood attacks have no target.
		metrics.TLSOpts = []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }}
	}
	return metrics
}

// starter adds the controller to a running manager once the API server serves PodSets, so that the manager can be
// started, and probed, before the CRD is installed.
type starter struct {
	manager  ctrl.Manager
	options  Options
	watchdog *watchdog
	synced   atomic.Pointer[func() bool]
}

// NeedLeaderElection makes a standby manager set up its caches too.
func (s *starter) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (s *starter) Start(ctx context.Context) error {
	if err := s.waitForPodSets(ctx); err != nil {
		return nil //nolint:nilerr // the manager was stopped while it waited
	}
	synced, err := controller.SetUp(ctx, s.manager, controller.Options{
		MaxConcurrentReconciles: s.options.MaxConcurrentReconciles,
		ReconcileTimeout:        s.options.ReconcileTimeout,
		WatchNamespaces:         s.options.WatchNamespaces,
		Wrap:                    s.watchdog.watch,
	})
	if err != nil {
		return err
	}
	s.synced.Store(&synced)
	return nil
}

// waitForPodSets returns when the API server serves PodSets, or with an error when the context ends before.
func (s *starter) waitForPodSets(ctx context.Context) error {
	logger, said := s.manager.GetLogger(), ""
	return wait.PollUntilContextCancel(ctx, crdPoll, true, func(context.Context) (bool, error) {
		_, err := s.manager.GetRESTMapper().RESTMapping(v1alpha1.PodSetKind.GroupKind(), v1alpha1.PodSetKind.Version)
		if err == nil {
			return true, nil
		}
		message := "waiting for the API server"
		if meta.IsNoMatchError(err) {
			message = "waiting for the CustomResourceDefinition podsets.app.example.com to be installed"
		}
		if message != said {
			logger.Info(message, "cause", err.Error())
			said = message
		}
		return false, nil
	})
}

// ready is the readiness check: the caches hold what the API server has.
func (s *starter) ready(*http.Request) error {
	synced := s.synced.Load()
	switch {
	case synced == nil:
		return errors.New("the API server does not serve PodSets yet")
	case !(*synced)():
		return errors.New("the caches are not filled yet")
	}
	return nil
}
