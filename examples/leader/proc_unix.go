//go:build unix

package main

import (
	"errors"
	"fmt"
	"os/exec"
	"syscall"
)

// canPause is nil where processes can be stopped and continued, which the demonstration is about.
var canPause error

// ownGroup puts a child in a process group of its own. An interrupt typed at the terminal then reaches only the parent,
// which ends its children in order; and the group shows at the end whether anything was left behind.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
}

func (p *process) pause() error  { return p.signal(syscall.SIGSTOP) }
func (p *process) resume() error { return p.signal(syscall.SIGCONT) }
func (p *process) kill() error   { return p.signal(syscall.SIGKILL) }

// terminate asks the child to stop. One that somebody has stopped by hand must run to hear it.
func (p *process) terminate() error {
	return errors.Join(p.signal(syscall.SIGTERM), p.signal(syscall.SIGCONT))
}

func (p *process) signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("send %v to %s: %w", sig, p.name, err)
	}
	return nil
}

// leftBehind tells whether any process of the child's group still exists after the child itself is gone.
func (p *process) leftBehind() bool {
	return !errors.Is(syscall.Kill(-p.cmd.Process.Pid, 0), syscall.ESRCH)
}
