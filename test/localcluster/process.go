package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// process is one program of a cluster.
type process struct {
	name    string
	log     string
	cmd     *exec.Cmd
	done    chan struct{} // closed when it has ended
	err     error         // how it ended, once done is closed
	crashes atomic.Bool   // it ends because Crash wants it to
}

// run starts a program with its output in a log file, and records its process
// id for RemoveLeftovers. An argument must mention the cluster's folder.
func (c *Cluster) run(name string, args ...string) error {
	p := &process{
		name: name,
		log:  filepath.Join(c.Dir, name+".log"),
		cmd:  exec.Command(c.Binaries[name], args...),
		done: make(chan struct{}),
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("make the log of %s: %w", name, err)
	}
	defer func() { _ = log.Close() }()
	p.cmd.Dir = c.Dir
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = childAttributes()
	// A configuration in the user's home folder must not mix with ours.
	p.cmd.Env = append(os.Environ(), "KWOK_WORKDIR="+c.Dir)
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	c.processes = append(c.processes, p)
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
		if !p.crashes.Load() {
			c.exited <- p
		}
	}()
	if err := os.WriteFile(pidFile(c.Dir, name), []byte(strconv.Itoa(p.cmd.Process.Pid)), 0o600); err != nil {
		return fmt.Errorf("record the process id of %s: %w", name, err)
	}
	return nil
}

// Crash ends a program of the cluster without any notice, and starts it again with
// the same data. It does not wait until it serves again.
func (c *Cluster) Crash(name string) error {
	i := slices.IndexFunc(c.processes, func(p *process) bool { return p.name == name })
	if i < 0 {
		return fmt.Errorf("the cluster has no %s", name)
	}
	p := c.processes[i]
	c.processes = slices.Delete(c.processes, i, i+1)
	p.crashes.Store(true)
	p.kill()
	return c.run(name, p.cmd.Args[1:]...)
}

// kill ends the process and waits for its end. Nothing of it is worth a
// graceful one: its data goes with the cluster's folder.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// failure tells how the process ended and what it last said.
func (p *process) failure() error {
	reason := "exit status 0"
	if p.err != nil {
		reason = p.err.Error()
	}
	return fmt.Errorf("%s ended by itself: %s; the end of its log:\n%s", p.name, reason, logTail(p.log))
}

// waitFor polls until condition returns nil. It fails when ctx ends or when a
// process of the cluster does.
func (c *Cluster) waitFor(ctx context.Context, what string, condition func(context.Context) error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := condition(ctx)
		if err == nil {
			return nil
		}
		select {
		case p := <-c.exited:
			return p.failure()
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w (last: %w)", what, context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}

// RemoveLeftovers ends the processes that a cluster with the folder dir left
// because its own process was killed, and removes dir.
func RemoveLeftovers(dir string) error {
	files, err := filepath.Glob(pidFile(dir, "*"))
	if err != nil {
		return err
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read a recorded process id: %w", err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
		if err != nil {
			continue // killed while it wrote the file
		}
		// The id may belong to another process by now.
		if !strings.Contains(commandLine(pid), dir) {
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("end process %d of a local cluster: %w", pid, err)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the folder of a local cluster: %w", err)
	}
	return nil
}

func pidFile(dir, name string) string {
	return filepath.Join(dir, name+".pid")
}

// logTail returns the last lines of a log.
func logTail(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	const lines = 15
	all := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
