package localcluster

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
)

// childAttributes keep Ctrl-C on the terminal from reaching a process of the
// cluster, and end it when this process is killed. (The kernel looks at the
// thread that started it; Go ends a thread only with a goroutine locked to it.)
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// commandLine returns the arguments of a process, or "" if there is none.
func commandLine(pid int) string {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	return string(bytes.ReplaceAll(content, []byte{0}, []byte{' '}))
}
