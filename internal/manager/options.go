package manager

import (
	"flag"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/leaderelection"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
)

// Options are what the command line says. Each has a flag with its default.
type Options struct {
	WatchNamespaces         []string
	MaxConcurrentReconciles int
	ReconcileTimeout        time.Duration

	LeaderElect             bool
	LeaderElectionNamespace string
	LeaseDuration           time.Duration
	RenewDeadline           time.Duration
	RetryPeriod             time.Duration

	MetricsBindAddress string
	MetricsSecure      bool
	MetricsCertDir     string
	EnableHTTP2        bool
	ProbeBindAddress   string
	PprofBindAddress   string

	LogFormat string
	LogLevel  string
}

// The values that --log-format and --log-level take.
var (
	logFormats = []string{"json", "text"}
	logLevels  = []string{"error", "info", "debug"}
)

// AddFlags adds a flag for each option, and controller-runtime's --kubeconfig.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&o.WatchNamespaces, "watch-namespaces", nil,
		"Namespaces whose PodSets are reconciled, separated by commas; all namespaces if empty.")
	flags.IntVar(&o.MaxConcurrentReconciles, "max-concurrent-reconciles", 10,
		"Number of PodSets reconciled at the same time.")
	flags.DurationVar(&o.ReconcileTimeout, "reconcile-timeout", time.Minute,
		"Longest time one reconcile may take, its requests included.")

	flags.BoolVar(&o.LeaderElect, "leader-elect", false,
		"Act only while holding the lease, so that of several managers one is active.")
	flags.StringVar(&o.LeaderElectionNamespace, "leader-election-namespace", "",
		"Namespace of the lease; the manager's own if empty. Needed outside a cluster.")
	flags.DurationVar(&o.LeaseDuration, "leader-election-lease-duration", 15*time.Second,
		"Time after its last renewal at which a lease may be taken over.")
	flags.DurationVar(&o.RenewDeadline, "leader-election-renew-deadline", 10*time.Second,
		"Time after which a leader that cannot renew its lease stops.")
	flags.DurationVar(&o.RetryPeriod, "leader-election-retry-period", 2*time.Second,
		"Time between tries to take or renew the lease.")

	flags.StringVar(&o.MetricsBindAddress, "metrics-bind-address", ":8443",
		"Address of the metrics endpoint, host:port; 0 turns it off.")
	flags.BoolVar(&o.MetricsSecure, "metrics-secure", true,
		"Serve metrics over HTTPS to clients that are authenticated and may get /metrics; if false, over HTTP to all.")
	flags.StringVar(&o.MetricsCertDir, "metrics-cert-dir", "",
		"Directory with tls.crt and tls.key for the metrics endpoint; self-signed ones are made if empty.")
	flags.BoolVar(&o.EnableHTTP2, "enable-http2", false,
		"Speak HTTP/2 at the metrics endpoint.")
	flags.StringVar(&o.ProbeBindAddress, "health-probe-bind-address", ":8081",
		"Address of /healthz and /readyz, host:port; 0 turns them off.")
	flags.StringVar(&o.PprofBindAddress, "pprof-bind-address", "0",
		"Address of the profiling endpoint, host:port; 0 turns it off. It has no access control: keep it on loopback.")

	flags.StringVar(&o.LogFormat, "log-format", "json",
		"Format of the log: json, or text for reading by people.")
	flags.StringVar(&o.LogLevel, "log-level", "info",
		"Least severe level that is logged: error, info or debug.")

	kubeconfig := flag.NewFlagSet("", flag.ContinueOnError)
	config.RegisterFlags(kubeconfig)
	flags.AddGoFlagSet(kubeconfig)

	// pflag leaves out defaults that are zero values.
	flags.VisitAll(func(f *pflag.Flag) {
		switch f.DefValue {
		case "", "[]":
			f.Usage += " (default none)"
		case "false":
			f.Usage += " (default false)"
		}
	})
}

// Validate returns the first mistake in the options, nil if there is none.
func (o *Options) Validate() error {
	for _, namespace := range o.WatchNamespaces {
		if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
			return fmt.Errorf("--watch-namespaces: %q is not a namespace: %s", namespace, problems[0])
		}
	}
	if problems := validation.IsDNS1123Label(o.LeaderElectionNamespace); o.LeaderElectionNamespace != "" && len(problems) > 0 {
		return fmt.Errorf("--leader-election-namespace: %q is not a namespace: %s", o.LeaderElectionNamespace, problems[0])
	}
	for _, address := range []struct{ flag, value string }{
		{"metrics-bind-address", o.MetricsBindAddress},
		{"health-probe-bind-address", o.ProbeBindAddress},
		{"pprof-bind-address", o.PprofBindAddress},
	} {
		if err := validateAddress(address.value); err != nil {
			return fmt.Errorf("--%s is %q, must be host:port, or 0 to turn it off: %w", address.flag, address.value, err)
		}
	}
	// A wait between tries is lengthened by up to this factor.
	longestRetry := time.Duration(leaderelection.JitterFactor * float64(o.RetryPeriod))
	switch {
	case o.MaxConcurrentReconciles < 1:
		return fmt.Errorf("--max-concurrent-reconciles is %d, must be at least 1", o.MaxConcurrentReconciles)
	case o.ReconcileTimeout <= 0:
		return fmt.Errorf("--reconcile-timeout is %s, must be more than 0", o.ReconcileTimeout)
	case o.RetryPeriod <= 0:
		return fmt.Errorf("--leader-election-retry-period is %s, must be more than 0", o.RetryPeriod)
	case o.RenewDeadline <= longestRetry:
		return fmt.Errorf("--leader-election-renew-deadline is %s, must be more than 1.2 retry periods, %s",
			o.RenewDeadline, longestRetry)
	case o.LeaseDuration <= o.RenewDeadline:
		return fmt.Errorf("--leader-election-lease-duration is %s, must be more than the renew deadline, %s",
			o.LeaseDuration, o.RenewDeadline)
	case !slices.Contains(logFormats, o.LogFormat):
		return fmt.Errorf("--log-format is %q, must be one of %v", o.LogFormat, logFormats)
	case !slices.Contains(logLevels, o.LogLevel):
		return fmt.Errorf("--log-level is %q, must be one of %v", o.LogLevel, logLevels)
	}
	return nil
}

func validateAddress(address string) error {
	if address == "0" {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err
}
