// Command localcluster starts and stops Kubernetes clusters of plain processes
// on this machine; see package test/localcluster for what they are.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"example.com/podset-operator/test/localcluster"
	"example.com/podset-operator/test/localcluster/assets"
)

const usage = `localcluster runs a Kubernetes cluster of plain processes on this machine: etcd,
kube-apiserver, kube-controller-manager, kube-scheduler, and KWOK as its nodes.

Usage:
  localcluster up [--name NAME] [--nodes N]    start a cluster in the background
  localcluster down [--name NAME]              stop it and leave nothing of it
  localcluster run [--name NAME] [--nodes N]   the same until Ctrl-C
  localcluster kubeconfig [--name NAME]        print the path of its kubeconfig
  localcluster assets [--envtest]              make the binaries, print their folder

Environment:
  K8S_VERSION                the Kubernetes version, such as 1.37.2
  KUBEBUILDER_ASSETS         a folder with ready binaries, looked into first
  LOCALCLUSTER_CACHE         where binaries and clusters are kept
                             (default: podset-operator in the user's cache folder)
  LOCALCLUSTER_SKIP_DOWNLOAD not empty: build from source without trying setup-envtest

"localcluster COMMAND --help" tells more about a command.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "localcluster:", err)
		os.Exit(1)
	}
}

// run carries out one command line.
func run(ctx context.Context, args []string) error {
	command := "help"
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	flags := flag.NewFlagSet("localcluster "+command, flag.ExitOnError)
	name := "default"
	nodes := 3
	named := func() { flags.StringVar(&name, "name", name, "`name` of the cluster") }
	sized := func() { flags.IntVar(&nodes, "nodes", nodes, "`number` of nodes") }

	switch command {
	case "up":
		named()
		sized()
		return withState(flags, args, &name, func(s state) error { return up(ctx, s, nodes) })
	case "run":
		named()
		sized()
		return withState(flags, args, &name, func(s state) error { return foreground(ctx, s, nodes) })
	case "down":
		named()
		return withState(flags, args, &name, func(s state) error { return down(ctx, s) })
	case "kubeconfig":
		named()
		return withState(flags, args, &name, printKubeconfig)
	case "assets":
		envtest := flags.Bool("envtest", false, "only etcd, kube-apiserver and kubectl")
		if err := parse(flags, args); err != nil {
			return err
		}
		names := assets.All
		if *envtest {
			names = assets.Envtest
		}
		binaries, err := assets.Ensure(ctx, os.Stderr, names...)
		if err != nil {
			return err
		}
		fmt.Println(binaries.Dir())
		return nil
	case "help", "-h", "-help", "--help":
		fmt.Print(usage)
		return nil
	}
	return fmt.Errorf("there is no command %q; see localcluster --help", command)
}

func parse(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%s takes no argument %q", flags.Name(), flags.Arg(0))
	}
	return nil
}

// withState parses args and calls do with the state of the cluster they name.
func withState(flags *flag.FlagSet, args []string, name *string, do func(state) error) error {
	if err := parse(flags, args); err != nil {
		return err
	}
	s, err := newState(*name)
	if err != nil {
		return err
	}
	return do(s)
}

// up starts this program again with the command run, in the background, and
// waits until the cluster is ready.
func up(ctx context.Context, s state, nodes int) error {
	if s.isUp() {
		return s.alreadyUp()
	}
	// Here, what may take minutes is seen.
	binaries, err := assets.Ensure(ctx, os.Stderr, assets.All...)
	if err != nil {
		return err
	}
	start := time.Now()
	daemon, output, err := startDaemon(s, nodes)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_ = daemon.Wait() // its output tells more
		close(ended)
	}()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for !s.isReady() {
		select {
		case <-ended:
			text, _ := io.ReadAll(output)
			return fmt.Errorf("cluster %q did not start: %s", s.name,
				strings.TrimPrefix(strings.TrimSpace(string(text)), "localcluster: "))
		case <-ctx.Done():
			_ = daemon.Process.Signal(syscall.SIGTERM)
			<-ended
			return fmt.Errorf("cluster %q was stopped before it was ready", s.name)
		case <-ticker.C:
		}
	}
	fmt.Printf("cluster %q is up after %s\n", s.name, time.Since(start).Round(time.Second))
	printHints(s, binaries)
	return nil
}

// startDaemon starts the command run, detached from the terminal. The returned file
// reads what it says.
func startDaemon(s state, nodes int) (*exec.Cmd, io.Reader, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("find this program: %w", err)
	}
	output, err := os.CreateTemp("", "localcluster-*.log")
	if err != nil {
		return nil, nil, fmt.Errorf("make a log for the background: %w", err)
	}
	// Two open files need no name.
	if err := os.Remove(output.Name()); err != nil {
		return nil, nil, err
	}
	daemon := exec.Command(self, "run", "--name", s.name, "--nodes", strconv.Itoa(nodes))
	daemon.Dir = string(filepath.Separator)
	daemon.Stdout, daemon.Stderr = output, output
	daemon.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := daemon.Start(); err != nil {
		return nil, nil, fmt.Errorf("start a cluster in the background: %w", err)
	}
	return daemon, io.NewSectionReader(output, 0, 1<<20), nil
}

// foreground runs a cluster until ctx ends or one of its processes does.
func foreground(ctx context.Context, s state, nodes int) error {
	release, err := s.claim()
	if err != nil {
		return err
	}
	defer release()
	cluster, err := localcluster.Start(ctx, localcluster.Options{Dir: s.dir, Nodes: nodes})
	if err != nil {
		return err
	}
	fmt.Printf("cluster %q is up; Ctrl-C stops it\n", s.name)
	printHints(s, cluster.Binaries)
	waitErr := cluster.Wait(ctx)
	if err := cluster.Stop(); err != nil {
		return err
	}
	return waitErr
}

func down(ctx context.Context, s state) error {
	wasUp, err := s.stop(ctx)
	if err != nil {
		return err
	}
	if wasUp {
		fmt.Printf("cluster %q is stopped\n", s.name)
	} else {
		fmt.Printf("cluster %q is not up\n", s.name)
	}
	return nil
}

func printKubeconfig(s state) error {
	if !s.isReady() {
		return fmt.Errorf("cluster %q is not up", s.name)
	}
	fmt.Println(s.kubeconfig())
	return nil
}

func printHints(s state, binaries assets.Binaries) {
	fmt.Printf(`use it:   export KUBECONFIG=%s PATH=%s:$PATH
          kubectl get nodes
logs:     %s
stop it:  %s
`, s.kubeconfig(), binaries.Dir(), filepath.Join(s.dir, "*.log"), s.stopCommand())
}
