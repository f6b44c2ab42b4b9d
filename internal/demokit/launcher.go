//go:build unix

package demokit

import (
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Launcher starts children from one thread, with which the kernel ends them (see dieWithParent).
type Launcher struct{ starts chan func() }

// NewLauncher begins the thread; Close ends it.
func NewLauncher() *Launcher {
	l := &Launcher{starts: make(chan func())}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for start := range l.starts {
			start()
		}
	}()
	return l
}

// Close ends the thread, and whatever children are left.
func (l *Launcher) Close() { close(l.starts) }

// Start starts a process in a group of its own: an interrupt typed at the terminal reaches only the parent, which ends its children in order. A grandchild that keeps a pipe
// does not hold Wait for ever.
func (l *Launcher) Start(cmd *exec.Cmd) error {
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	started := make(chan error, 1)
	l.starts <- func() { started <- cmd.Start() }
	return <-started
}
