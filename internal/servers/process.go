//go:build unix

package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	startBound = 30 * time.Second       // until a server answers, on a busy machine
	stopBound  = 10 * time.Second       // from the polite signal to the kill
	askEvery   = 50 * time.Millisecond  // while it starts
	tailBytes  = 4 << 10                // of its output, for errors
	probeBound = 500 * time.Millisecond // of one question whether it is ready
)

// Server is a process that answers on an address of its own. Signals go to its process group and to its children.
type Server struct {
	Addr string // host:port on loopback

	cmd  *exec.Cmd
	out  *tail
	done chan struct{} // closed when it has ended
	stop os.Signal
}

// find looks for a program in PATH and then in the directories given as patterns, of which the last that fits counts.
func find(program, pkg string, patterns ...string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	for _, pattern := range patterns {
		if found, _ := filepath.Glob(filepath.Join(pattern, program)); len(found) > 0 {
			return found[len(found)-1], nil
		}
	}
	return "", &MissingError{Program: program, Package: pkg}
}

// freeAddr is an address on loopback that was free a moment ago.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// run starts cmd, which is to answer on addr, and waits until ready says that it does.
func run(ctx context.Context, cmd *exec.Cmd, addr string, stop os.Signal, ready func(ctx context.Context) error) (*Server, error) {
	s := &Server{Addr: addr, cmd: cmd, out: &tail{}, done: make(chan struct{}), stop: stop}
	cmd.Stdout, cmd.Stderr = s.out, s.out
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(s.done)
		_ = cmd.Wait() // how it ended shows in its output
	}()
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	if err := s.await(ctx, ready); err != nil {
		s.Kill()
		return nil, err
	}
	return s, nil
}

func (s *Server) await(ctx context.Context, ready func(ctx context.Context) error) error {
	for {
		probe, cancel := context.WithTimeout(ctx, probeBound)
		err := ready(probe)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-s.done:
			return fmt.Errorf("%s ended while it started: %s", s.cmd.Path, s.out)
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w: %s", s.cmd.Path, err, s.out)
		case <-time.After(askEvery):
		}
	}
}

// Done is closed when the process has ended.
func (s *Server) Done() <-chan struct{} { return s.done }

// Pid is the process's id.
func (s *Server) Pid() int { return s.cmd.Process.Pid }

// Output is the end of what the server has printed.
func (s *Server) Output() string { return s.out.String() }

// Stop asks the server to end, and kills it if it has not within 10 s.
func (s *Server) Stop() {
	_ = s.signal(syscall.SIGCONT) // a frozen one would not hear it
	if err := s.cmd.Process.Signal(s.stop); err == nil {
		select {
		case <-s.done:
		case <-time.After(stopBound):
		}
	}
	s.Kill()
}

// Kill ends the server and its children at once, as the loss of their power would, and waits until it is gone.
func (s *Server) Kill() {
	_ = s.signal(syscall.SIGKILL)
	<-s.done
}

// Freeze stops the server and its children where they are; its connections stay. Thaw lets them go on.
func (s *Server) Freeze() error { return s.signal(syscall.SIGSTOP) }

// Thaw lets a frozen server go on.
func (s *Server) Thaw() error { return s.signal(syscall.SIGCONT) }

// signal goes to the whole group. That its leader has ended is no reason not to: children may live on. PostgreSQL's lead groups of their own and get it too, first and
// while the leader is stopped, so that it starts no more of them.
func (s *Server) signal(sig syscall.Signal) error {
	if sig != syscall.SIGCONT {
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGSTOP)
	}
	for _, pid := range children(s.cmd.Process.Pid) {
		_ = syscall.Kill(pid, sig) // it may have ended
	}
	err := syscall.Kill(-s.cmd.Process.Pid, sig)
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// children are the processes that pid has started, where the system tells (Linux).
func children(pid int) (list []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, stat := range stats {
		text, err := os.ReadFile(stat)
		if err != nil {
			continue // it has ended
		}
		// "id (name) state parent ...", and a name may hold anything
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
		if err == nil && len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			list = append(list, child)
		}
	}
	return list
}

// tail keeps the end of what is written to it.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if extra := len(t.b) - tailBytes; extra > 0 {
		t.b = append(t.b[:0], t.b[extra:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.b))
}
