package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"example.com/podset-operator/test/localcluster"
	"example.com/podset-operator/test/localcluster/assets"
)

const (
	lockPollInterval = 50 * time.Millisecond
	// stopTimeout is how long a cluster may take to stop before it is killed.
	stopTimeout = 20 * time.Second
)

var namePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// state is what this machine remembers of a named cluster: a folder, in which
// the process that runs the cluster holds a lock on a file with its id. A lock
// ends with its process, however that ends, so it alone tells whether the
// cluster is up.
type state struct {
	name string
	dir  string
}

func newState(name string) (state, error) {
	if !namePattern.MatchString(name) {
		return state{}, fmt.Errorf("--name %q: use lower-case letters, digits and dashes", name)
	}
	cache, err := assets.CacheDir()
	if err != nil {
		return state{}, err
	}
	return state{name: name, dir: filepath.Join(cache, "clusters", name)}, nil
}

func (s state) kubeconfig() string { return filepath.Join(s.dir, "kubeconfig") }

func (s state) ownerFile() string { return filepath.Join(s.dir, "owner") }

func (s state) stopCommand() string { return "go run ./hack/localcluster down --name " + s.name }

func (s state) alreadyUp() error {
	return fmt.Errorf("cluster %q is already up; stop it with: %s", s.name, s.stopCommand())
}

// isReady tells whether the cluster can be used. Its kubeconfig is the last file
// written when it starts; a killed cluster leaves one too, but is not up.
func (s state) isReady() bool {
	_, err := os.Stat(s.kubeconfig())
	return err == nil && s.isUp()
}

// isUp tells whether a process runs the cluster.
func (s state) isUp() bool {
	lock := flock.New(s.ownerFile(), flock.SetFlag(os.O_RDONLY))
	free, err := lock.TryRLock()
	_ = lock.Close()
	return err == nil && !free
}

// claim makes this process the one that runs the cluster, and removes what a
// killed one left. The returned function gives the claim up.
func (s state) claim() (release func(), err error) {
	err = s.exclusively(func() error {
		if s.isUp() {
			return s.alreadyUp()
		}
		if err := localcluster.RemoveLeftovers(s.dir); err != nil {
			return err
		}
		if err := os.Mkdir(s.dir, 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(s.ownerFile(), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
			return err
		}
		owner := flock.New(s.ownerFile())
		release = func() { _ = owner.Close() }
		return owner.Lock()
	})
	return release, err
}

// stop ends the cluster and whatever a killed process left of it. It reports
// whether there was anything to stop.
func (s state) stop(ctx context.Context) (bool, error) {
	if _, err := os.Stat(s.dir); os.IsNotExist(err) {
		return false, nil
	}
	if err := s.stopOwner(ctx); err != nil {
		return false, fmt.Errorf("stop cluster %q: %w", s.name, err)
	}
	err := s.exclusively(func() error {
		if s.isUp() { // somebody else has just started it again
			return nil
		}
		return localcluster.RemoveLeftovers(s.dir)
	})
	if err != nil {
		return false, fmt.Errorf("clean up after cluster %q: %w", s.name, err)
	}
	return true, nil
}

// stopOwner asks the process that runs the cluster to end, waits for it, and
// kills it if it takes too long.
func (s state) stopOwner(ctx context.Context) error {
	if !s.isUp() {
		return nil
	}
	content, err := os.ReadFile(s.ownerFile())
	if err != nil {
		return fmt.Errorf("read the id of its process: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return fmt.Errorf("read the id of its process: %w", err)
	}
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if err := syscall.Kill(pid, signal); err != nil && s.isUp() {
			return fmt.Errorf("end process %d: %w", pid, err)
		}
		deadline := time.Now().Add(stopTimeout)
		for s.isUp() && time.Now().Before(deadline) {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(lockPollInterval):
			}
		}
		if !s.isUp() {
			return nil
		}
	}
	return fmt.Errorf("process %d does not end", pid)
}

// exclusively runs do while no other process starts or cleans up a cluster.
func (s state) exclusively(do func() error) error {
	clusters := filepath.Dir(s.dir)
	if err := os.MkdirAll(clusters, 0o700); err != nil {
		return err
	}
	lock := flock.New(filepath.Join(clusters, ".lock"))
	if err := lock.Lock(); err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	return do()
}
