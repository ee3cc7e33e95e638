// Command manager runs the PodSet operator.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"example.com/podset-operator/internal/manager"
	"example.com/podset-operator/internal/version"
)

func main() {
	err := run(os.Args[1:])
	switch {
	case errors.Is(err, pflag.ErrHelp):
		os.Exit(0)
	case err != nil:
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}

// run runs the manager until it is told to stop.
func run(args []string) error {
	flags := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	flags.SortFlags = false
	showVersion := flags.Bool("version", false, "Print the version and the commit it was built from, and end.")
	var options manager.Options
	options.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; options are given as flags, see --help", flags.Arg(0))
	}
	if *showVersion {
		fmt.Printf("podset-operator %s, commit %s\n", version.Version(), version.Commit())
		return nil
	}
	if err := options.Validate(); err != nil {
		return err
	}
	// The logger comes after the configuration, whose loader logs what it returns as well.
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("no cluster to connect to; give --kubeconfig or set KUBECONFIG: %w", err)
	}
	logger := options.Logger(os.Stderr)
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	logger.Info("starting podset-operator", "version", version.Version(), "commit", version.Commit())
	mgr, err := manager.New(config, options)
	if err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}
