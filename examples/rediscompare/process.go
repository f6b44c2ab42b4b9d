//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"

	"github.com/quorumlock/quorumlock/internal/demokit"
)

// process is one worker as the parent sees it. It takes one command at a time.
type process struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	log    *demokit.Tail
	asked  sync.Mutex
	answer chan reply    // closed when the worker's output ends
	exited chan struct{} // closed when it is gone
}

// startWorker starts this very program again, as one worker.
func startWorker(l *demokit.Launcher, o workerOptions) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	p := &process{name: o.name, log: &demokit.Tail{}, answer: make(chan reply), exited: make(chan struct{})}
	p.cmd = exec.Command(self, "-worker", o.kind, "-name", o.name, "-ttl", o.ttl.String(), "-servers", strings.Join(o.servers, ","),
		"-primary", o.primary, "-addr", o.addr, "-dir", o.dir)
	p.cmd.Stderr = p.log
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", o.name, err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", o.name, err)
	}
	if err := l.Start(p.cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", o.name, err)
	}
	go p.listen(stdout)
	return p, nil
}

// listen hands on the answers, and waits for the end: a process is waited for when its output is read.
func (p *process) listen(stdout io.Reader) {
	defer close(p.exited)
	answers := json.NewDecoder(stdout)
	for {
		var r reply
		if answers.Decode(&r) != nil {
			break
		}
		p.answer <- r
	}
	close(p.answer)
	_ = p.cmd.Wait() // how it ended shows in its log
}

// errGone is a worker that ended before it answered.
var errGone = errors.New("the worker has ended")

// ask has the worker obey a command. An answer that did not come before the end of ctx would be taken for that of the next
// command, so after an error the worker is of no use any more.
func (p *process) ask(ctx context.Context, c command) (reply, error) {
	p.asked.Lock()
	defer p.asked.Unlock()
	line, err := json.Marshal(c)
	if err != nil {
		return reply{}, err
	}
	if _, err := p.stdin.Write(append(line, '\n')); err != nil {
		return reply{}, fmt.Errorf("%s %s: %w", p.name, c.Verb, err)
	}
	select {
	case r, ok := <-p.answer:
		switch {
		case !ok:
			return reply{}, fmt.Errorf("%s %s: %w: %s", p.name, c.Verb, errGone, p.log)
		case r.Error != "":
			return reply{}, fmt.Errorf("%s %s: %s", p.name, c.Verb, r.Error)
		}
		return r, nil
	case <-ctx.Done():
		return reply{}, fmt.Errorf("%s %s: %w", p.name, c.Verb, context.Cause(ctx))
	}
}

func (p *process) freeze() error { return p.signal(syscall.SIGSTOP) }
func (p *process) thaw() error   { return p.signal(syscall.SIGCONT) }

func (p *process) signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("send %v to %s: %w", sig, p.name, err)
	}
	return nil
}

// kill ends the worker whatever state it is in, and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	for range p.answer { // nobody else may be there to take one
	}
	<-p.exited
}

// leftBehind tells whether any process of the worker's group still exists after the worker itself is gone.
func (p *process) leftBehind() bool {
	return !errors.Is(syscall.Kill(-p.cmd.Process.Pid, 0), syscall.ESRCH)
}
