//go:build unix && !linux

package guard

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func adoptOrphans() error { return nil }

func guardAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func commandAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// leader is the command's first process.
type leader struct {
	pid    int
	status syscall.WaitStatus
	reaped bool
}

func (l *leader) exited() bool {
	if !l.reaped && l.pid > 0 {
		pid, err := syscall.Wait4(l.pid, &l.status, syscall.WNOHANG, nil)
		l.reaped = pid == l.pid || err == syscall.ECHILD
	}
	return l.reaped
}

func (l *leader) tidy() {}

const maxPause = 20 * time.Millisecond

// sweep kills the group until nobody is in it.
func (l *leader) sweep() int {
	if l.pid == 0 {
		return 0
	}
	ended, left := l.exited(), 0
	for pause := time.Millisecond; unix.Kill(-l.pid, syscall.SIGKILL) == nil || !l.exited(); pause = min(2*pause, maxPause) {
		if ended {
			left = 1 // at least
		}
		time.Sleep(pause)
	}
	return left
}

// inherited is what is left to go by once the guard is dead: the group, which is not this process's child.
func inherited(pid int) int { return pid }
