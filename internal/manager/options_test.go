package manager

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// parse returns the options that the arguments amount to, or what is wrong with them.
func parse(args ...string) (Options, error) {
	var options Options
	flags := flagsOf(&options)
	if err := flags.Parse(args); err != nil {
		return options, err
	}
	return options, options.Validate()
}

func flagsOf(options *Options) *pflag.FlagSet {
	flags := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	options.AddFlags(flags)
	return flags
}

func TestDefaults(t *testing.T) {
	got, err := parse()
	if err != nil {
		t.Fatal(err)
	}
	want := Options{
		MaxConcurrentReconciles: 10,
		ReconcileTimeout:        time.Minute,
		LeaseDuration:           15 * time.Second,
		RenewDeadline:           10 * time.Second,
		RetryPeriod:             2 * time.Second,
		MetricsBindAddress:      ":8443",
		MetricsSecure:           true,
		ProbeBindAddress:        ":8081",
		PprofBindAddress:        "0",
		LogFormat:               "json",
		LogLevel:                "info",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("got + instead of -:\n%s", diff)
	}
}

func TestEveryFlagSetsItsOption(t *testing.T) {
	got, err := parse(
		"--watch-namespaces=a,b", "--max-concurrent-reconciles=3", "--reconcile-timeout=5s",
		"--leader-elect", "--leader-election-namespace=system", "--leader-election-lease-duration=30s",
		"--leader-election-renew-deadline=20s", "--leader-election-retry-period=4s",
		"--metrics-bind-address=127.0.0.1:9443", "--metrics-secure=false", "--metrics-cert-dir=/certs", "--enable-http2",
		"--health-probe-bind-address=[::1]:9081", "--pprof-bind-address=localhost:6060",
		"--log-format=text", "--log-level=debug",
	)
	if err != nil {
		t.Fatal(err)
	}
	want := Options{
		WatchNamespaces: []string{"a", "b"}, MaxConcurrentReconciles: 3, ReconcileTimeout: 5 * time.Second,
		LeaderElect: true, LeaderElectionNamespace: "system", LeaseDuration: 30 * time.Second,
		RenewDeadline: 20 * time.Second, RetryPeriod: 4 * time.Second,
		MetricsBindAddress: "127.0.0.1:9443", MetricsCertDir: "/certs", EnableHTTP2: true,
		ProbeBindAddress: "[::1]:9081", PprofBindAddress: "localhost:6060",
		LogFormat: "text", LogLevel: "debug",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("got + instead of -:\n%s", diff)
	}
	for i, value := 0, reflect.ValueOf(got); i < value.NumField(); i++ {
		if name := value.Type().Field(i).Name; value.Field(i).IsZero() && name != "MetricsSecure" {
			t.Errorf("this test sets no flag for the option %s", name)
		}
	}
}

func TestEveryFlagIsExplained(t *testing.T) {
	flags := flagsOf(&Options{})
	help := slices.Collect(strings.Lines(flags.FlagUsages()))
	flags.VisitAll(func(flag *pflag.Flag) {
		t.Run(flag.Name, func(t *testing.T) {
			explained := regexp.MustCompile(`^ +--` + flag.Name + `\b.* [A-Z]\w+( [^ ]+){3,}\. \(default .+\)\n$`)
			if !slices.ContainsFunc(help, explained.MatchString) {
				t.Errorf("--help does not explain it in a sentence with the default: %s", flag.Usage)
			}
		})
	})
}

func TestMistakesInFlags(t *testing.T) {
	tests := map[string]struct {
		args []string
		flag string
	}{
		"a flag that does not exist":                    {[]string{"--no-such-flag"}, "--no-such-flag"},
		"a number that is none":                         {[]string{"--max-concurrent-reconciles=many"}, "--max-concurrent-reconciles"},
		"a duration without a unit":                     {[]string{"--reconcile-timeout=30"}, "--reconcile-timeout"},
		"a switch that is neither on nor off":           {[]string{"--leader-elect=maybe"}, "--leader-elect"},
		"no reconciles at once":                         {[]string{"--max-concurrent-reconciles=0"}, "--max-concurrent-reconciles"},
		"fewer than no reconciles at once":              {[]string{"--max-concurrent-reconciles=-1"}, "--max-concurrent-reconciles"},
		"no time for a reconcile":                       {[]string{"--reconcile-timeout=0s"}, "--reconcile-timeout"},
		"a namespace with an invalid name":              {[]string{"--watch-namespaces=a,B_c"}, "--watch-namespaces"},
		"an empty namespace among others":               {[]string{"--watch-namespaces=a,"}, "--watch-namespaces"},
		"a lease namespace with an invalid name":        {[]string{"--leader-election-namespace=B_c"}, "--leader-election-namespace"},
		"no time between tries for the lease":           {[]string{"--leader-election-retry-period=0s"}, "--leader-election-retry-period"},
		"a renew deadline as short as the retry period": {[]string{"--leader-election-renew-deadline=2s"}, "--leader-election-renew-deadline"},
		"a renew deadline within the retries' jitter":   {[]string{"--leader-election-renew-deadline=2.1s"}, "--leader-election-renew-deadline"},
		"a lease as short as the renew deadline":        {[]string{"--leader-election-lease-duration=10s"}, "--leader-election-lease-duration"},
		"a metrics address without a port":              {[]string{"--metrics-bind-address=localhost"}, "--metrics-bind-address"},
		"an empty metrics address":                      {[]string{"--metrics-bind-address="}, "--metrics-bind-address"},
		"a probe address without a port":                {[]string{"--health-probe-bind-address=8081"}, "--health-probe-bind-address"},
		"a profiling address with an impossible port":   {[]string{"--pprof-bind-address=:99999"}, "--pprof-bind-address"},
		"a log format that does not exist":              {[]string{"--log-format=xml"}, "--log-format"},
		"an empty log format":                           {[]string{"--log-format="}, "--log-format"},
		"a log level that does not exist":               {[]string{"--log-level=loud"}, "--log-level"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parse(test.args...)
			if err == nil {
				t.Fatal("no error")
			}
			if message := err.Error(); !strings.Contains(message, test.flag) || strings.Contains(message, "\n") {
				t.Errorf("the error is not one line about %s: %s", test.flag, message)
			}
		})
	}
}
