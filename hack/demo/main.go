// Command demo starts a local cluster, runs the operator on it and walks through what a user does with a PodSet, with
// real commands and their real output. It fails if a step does not show what it must.
//
// With KEEP=1 in the environment the cluster and the operator stay up at the end.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"example.com/podset-operator/test/localcluster"
	"example.com/podset-operator/test/operator"
)

const (
	clusterName = "demo"
	// patience is how long a step may take to show what it must.
	patience = time.Minute
	interval = 200 * time.Millisecond
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, os.Getenv("KEEP") != "")
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, keep bool) (err error) {
	if err := runLocalcluster(ctx, "up"); err != nil {
		return err
	}
	kept := false
	defer func() {
		if kept {
			return
		}
		// The context may have ended already; the clean-up must not.
		if downErr := runLocalcluster(context.WithoutCancel(ctx), "down"); err == nil {
			err = downErr
		}
	}()
	d, err := newDemo(ctx)
	if err != nil {
		return err
	}
	manager, err := d.startOperator(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if !kept {
			manager.Stop()
		}
	}()
	for _, step := range session(d) {
		if err := step(ctx); err != nil {
			return fmt.Errorf("%w\nthe end of the manager's log:\n%s", err, tail(d.managerLog()))
		}
	}
	kept = keep
	if kept {
		fmt.Printf(`
The cluster and the operator stay up.
use them:   export KUBECONFIG=%s PATH=%s:$PATH
            kubectl apply -k config/samples
log:        %s
stop them:  go run ./hack/localcluster down --name %s
`, d.kubeconfig, filepath.Dir(d.kubectl), d.managerLog(), clusterName)
	}
	return nil
}

// runLocalcluster runs a command of hack/localcluster for the demo's cluster.
func runLocalcluster(ctx context.Context, command string) error {
	cmd := exec.CommandContext(ctx, "go", "run", "./hack/localcluster", command, "--name", clusterName)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	// Ctrl-C reaches it by the terminal already; killing it would leave the cluster behind.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("localcluster %s: %w", command, err)
	}
	return nil
}

func output(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", append([]string{"run", "./hack/localcluster"}, args...)...).Output()
	return strings.TrimSpace(string(out)), err
}

// demo knows the cluster it runs on.
type demo struct {
	kubeconfig string
	kubectl    string
}

func newDemo(ctx context.Context) (*demo, error) {
	kubeconfig, err := output(ctx, "kubeconfig", "--name", clusterName)
	if err != nil {
		return nil, fmt.Errorf("finding the kubeconfig of the cluster: %w", err)
	}
	binaries, err := output(ctx, "assets")
	if err != nil {
		return nil, fmt.Errorf("finding kubectl: %w", err)
	}
	return &demo{kubeconfig: kubeconfig, kubectl: filepath.Join(binaries, "kubectl")}, nil
}

func (d *demo) folder() string { return filepath.Dir(d.kubeconfig) }

func (d *demo) managerLog() string { return filepath.Join(d.folder(), "manager.log") }

// startOperator installs the operator's manifests and starts its manager with the rights of its ServiceAccount. The
// manager's process id is recorded where the cluster keeps those of its own, so that it ends with the cluster.
func (d *demo) startOperator(ctx context.Context) (*operator.Process, error) {
	admin, err := clientcmd.BuildConfigFromFlags("", d.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	fmt.Println("installing the operator: config/default, the manager as a process under its ServiceAccount's rights")
	if err := operator.Install(ctx, admin); err != nil {
		return nil, fmt.Errorf("installing the operator: %w", err)
	}
	config, err := operator.ManagerConfig(ctx, admin)
	if err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(d.folder(), "manager.kubeconfig")
	if err := localcluster.WriteKubeconfig(kubeconfig, config); err != nil {
		return nil, fmt.Errorf("writing the manager's kubeconfig: %w", err)
	}
	binary, err := operator.Build(ctx, d.folder())
	if err != nil {
		return nil, err
	}
	log, err := os.Create(d.managerLog())
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	manager, err := operator.StartProcess(binary, kubeconfig, log, "--metrics-bind-address=0", "--health-probe-bind-address=0")
	if err != nil {
		return nil, err
	}
	pid := []byte(strconv.Itoa(manager.PID()))
	return manager, os.WriteFile(filepath.Join(d.folder(), "manager.pid"), pid, 0o600)
}

// show prints a command as a user would type it, runs it until its output is what it must be, and prints the output.
func (d *demo) show(ctx context.Context, stdin string, args []string, must expectation) (string, error) {
	line := "kubectl " + strings.Join(args, " ")
	if stdin != "" {
		line += " <<< '" + stdin + "'"
	}
	fmt.Println("\n$ " + line)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		cmd := exec.CommandContext(ctx, d.kubectl, args...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+d.kubeconfig)
		cmd.Stdin = strings.NewReader(stdin)
		var combined bytes.Buffer
		cmd.Stdout, cmd.Stderr = &combined, &combined
		runErr := cmd.Run()
		problem := must.check(combined.String())
		if runErr != nil {
			problem = runErr.Error()
		}
		if problem == "" {
			fmt.Print(combined.String())
			return combined.String(), nil
		}
		select {
		case <-time.After(interval):
			if must.repeatable {
				continue
			}
		case <-ctx.Done():
		}
		return "", fmt.Errorf("%s: %s, but it showed:\n%s", line, problem, combined.String())
	}
}

func tail(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}
