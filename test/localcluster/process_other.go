//go:build !linux

package localcluster

import (
	"os/exec"
	"strconv"
	"syscall"
)

// childAttributes keep Ctrl-C on the terminal from reaching a process of the
// cluster.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// commandLine returns the arguments of a process, or "" if there is none.
func commandLine(pid int) string {
	out, err := exec.Command("ps", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return ""
	}
	return string(out)
}
