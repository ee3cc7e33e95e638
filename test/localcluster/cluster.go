package localcluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"example.com/podset-operator/test/localcluster/assets"
)

const (
	defaultNodes       = 3
	defaultPodsPerNode = 2000

	// startTimeout is generous for a machine that is busy with other tests; an
	// idle one needs about ten seconds.
	startTimeout = 2 * time.Minute
	pollInterval = 50 * time.Millisecond
)

// Options say how to start a cluster. The zero value is a good choice.
type Options struct {
	// Dir is the folder for the cluster's files, which must not exist or be empty.
	// Stop removes it. Empty means a new temporary folder.
	Dir string
	// Nodes is the number of nodes; 0 means 3.
	Nodes int
	// PodsPerNode is how many pods a node takes; 0 means 2000.
	PodsPerNode int
	// AuditLog, if not empty, is a file to which the apiserver appends one JSON
	// line per request, without bodies (the audit level Metadata). Stop keeps it.
	AuditLog string
	// ControlPlaneOnly leaves out kube-controller-manager, kube-scheduler and the
	// nodes: pods stay Pending, nothing is collected, and a namespace other than
	// default has no ServiceAccount unless somebody makes one.
	ControlPlaneOnly bool
	// Durable makes etcd sync each write to disk, as it does where data matters.
	Durable bool
	// Progress is told about long work, such as building missing binaries; nil
	// means standard error.
	Progress io.Writer
}

// Cluster is a running cluster.
type Cluster struct {
	// Config is that of an administrator (of the group system:masters) and has no
	// client-side rate limit. To act as somebody else, copy it and set Impersonate.
	Config *rest.Config
	// KubeconfigPath is a file with the same rights as Config.
	KubeconfigPath string
	// EtcdURL is where etcd serves, to whoever asks.
	EtcdURL string
	// Dir holds the cluster's files, among them a log of each process.
	Dir string
	// Binaries are those the cluster runs, and kubectl.
	Binaries assets.Binaries

	client    kubernetes.Interface
	options   Options
	processes []*process
	exited    chan *process
	stopOnce  sync.Once
	stopErr   error
}

// Start starts a cluster and waits until its nodes, if it has any, take pods and
// the namespace default has its ServiceAccount. It first makes the binaries that are missing,
// as package assets says. If it fails, or ctx ends before it is done, nothing is
// left behind; ctx does not matter afterwards.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	if options.Nodes == 0 {
		options.Nodes = defaultNodes
	}
	if options.PodsPerNode == 0 {
		options.PodsPerNode = defaultPodsPerNode
	}
	if options.Progress == nil {
		options.Progress = os.Stderr
	}
	binaries, err := assets.Ensure(ctx, options.Progress, assets.All...)
	if err != nil {
		return nil, fmt.Errorf("get the binaries of a local cluster: %w", err)
	}
	if options.AuditLog != "" {
		if options.AuditLog, err = filepath.Abs(options.AuditLog); err != nil {
			return nil, fmt.Errorf("find the audit log: %w", err)
		}
	}
	dir, err := makeDir(options.Dir)
	if err != nil {
		return nil, fmt.Errorf("make the folder of a local cluster: %w", err)
	}
	c := &Cluster{
		KubeconfigPath: filepath.Join(dir, "kubeconfig"),
		Dir:            dir,
		Binaries:       binaries,
		options:        options,
		exited:         make(chan *process, len(assets.All)),
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready after %s", startTimeout))
	defer cancel()
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start a local cluster: %w", err), c.Stop())
	}
	return c, nil
}

// Stop ends the cluster's processes, and others whose ids are recorded in its
// folder as theirs are, and removes the folder. It can be called more than once.
func (c *Cluster) Stop() error {
	c.stopOnce.Do(func() {
		for _, p := range c.processes {
			p.kill()
		}
		c.stopErr = RemoveLeftovers(c.Dir)
	})
	return c.stopErr
}

// Wait returns nil when ctx ends, or an error as soon as a process of the
// cluster ends by itself.
func (c *Cluster) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case p := <-c.exited:
		return p.failure()
	}
}

// Kubectl returns a command that runs kubectl as an administrator.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.Binaries["kubectl"], args...)
	cmd.Env = c.Env()
	return cmd
}

// Env returns the environment of this process, changed so that a plain kubectl
// is the cluster's own and talks to the cluster.
func (c *Cluster) Env() []string {
	return append(os.Environ(),
		"KUBECONFIG="+c.KubeconfigPath,
		"PATH="+c.Binaries.Dir()+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func makeDir(dir string) (string, error) {
	if dir == "" {
		return os.MkdirTemp("", "localcluster-")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o700)
}
