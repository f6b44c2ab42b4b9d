//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// groupOfItsOwn makes the command the head of a process group, and cancelling it the end of the group.
func groupOfItsOwn(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = waitDelay
}
