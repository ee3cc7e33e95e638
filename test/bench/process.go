package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"example.com/podset-operator/test/operator"
)

// controller is a running controller under test.
type controller struct {
	*operator.Process
	// metrics, ready and profile are URLs, queue the name of its work queue. There is a profile only of those that offer one.
	metrics, ready, profile, queue string
	log                            string
	started                        time.Time
}

// startController starts a program with the flags; its log is a file of its own in the folder.
func startController(folder, binary, kubeconfig string, flags []string, c controller) (*controller, error) {
	log, err := os.CreateTemp(folder, filepath.Base(binary)+"-*.log")
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	c.log, c.started = log.Name(), time.Now()
	c.Process, err = operator.StartProcess(binary, kubeconfig, log, flags...)
	return &c, err
}

// untilReady returns when the controller says that it is ready.
func (c *controller) untilReady(ctx context.Context) error {
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.ready, nil)
		if err != nil {
			return err
		}
		response, err := insecure.Do(request)
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-c.Done():
			return fmt.Errorf("a controller ended by itself, see %s", c.log)
		case <-ctx.Done():
			return fmt.Errorf("waiting for a controller to be ready, see %s: %w", c.log, context.Cause(ctx))
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// freeAddress returns a loopback address on which nothing listens at the moment.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// clockTick is the unit of the times in /proc/PID/stat: USER_HZ, the same on all platforms that run this.
const clockTick = 10 * time.Millisecond

// cpuTime returns how much processor time a process has used.
func cpuTime(pid int) (time.Duration, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field, the name in brackets, may have spaces.
	fields := strings.Fields(string(content[strings.LastIndexByte(string(content), ')')+1:]))
	const user, system = 11, 12
	ticks := 0
	for _, field := range []int{user, system} {
		n, err := strconv.Atoi(fields[field])
		if err != nil {
			return 0, fmt.Errorf("reading the processor time of process %d: %w", pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}

// memory returns a field of /proc/PID/status in MiB: VmRSS, what a process has in memory, or VmHWM, its peak.
func memory(pid int, field string) (float64, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(content)) {
		if text, ok := strings.CutPrefix(line, field+":"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("process %d has no %s", pid, field)
}
