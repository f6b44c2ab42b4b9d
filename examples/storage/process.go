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
	"sync"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock/internal/demokit"
)

// process is one child as the parent sees it. It takes one command at a time.
type process struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	log    *demokit.Tail
	asked  sync.Mutex
	answer chan reply    // closed when the child's output ends
	exited chan struct{} // closed when it is gone
}

// startChild starts this very program again, and waits for its first answer.
func startChild(ctx context.Context, l *demokit.Launcher, o childOptions) (*process, reply, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, reply{}, fmt.Errorf("find this program: %w", err)
	}
	p := &process{name: o.Name, log: &demokit.Tail{}, answer: make(chan reply), exited: make(chan struct{})}
	p.cmd = exec.Command(self, childArg)
	p.cmd.Stderr = p.log
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, reply{}, fmt.Errorf("start %s: %w", o.Name, err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, reply{}, fmt.Errorf("start %s: %w", o.Name, err)
	}
	if err := l.Start(p.cmd); err != nil {
		return nil, reply{}, fmt.Errorf("start %s: %w", o.Name, err)
	}
	go p.listen(stdout)
	hello, err := p.send(ctx, "start", o)
	if err != nil {
		p.kill()
		return nil, reply{}, err
	}
	return p, hello, nil
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

// errGone is a child that ended before it answered.
var errGone = errors.New("the process has ended")

// ask has the child obey a command. An answer that did not come before the end of ctx would be taken for that of the next
// command, so after an error the child is of no use any more.
func (p *process) ask(ctx context.Context, c command) (reply, error) { return p.send(ctx, c.Verb, c) }

func (p *process) send(ctx context.Context, what string, message any) (reply, error) {
	p.asked.Lock()
	defer p.asked.Unlock()
	line, err := json.Marshal(message)
	if err != nil {
		return reply{}, err
	}
	if _, err := p.stdin.Write(append(line, '\n')); err != nil {
		return reply{}, fmt.Errorf("%s %s: %w: %s", p.name, what, err, p.log)
	}
	select {
	case r, ok := <-p.answer:
		switch {
		case !ok:
			return reply{}, fmt.Errorf("%s %s: %w: %s", p.name, what, errGone, p.log)
		case r.Error != "":
			return r, fmt.Errorf("%s %s: %s", p.name, what, r.Error)
		}
		return r, nil
	case <-ctx.Done():
		return reply{}, fmt.Errorf("%s %s: %w", p.name, what, context.Cause(ctx))
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

const endBound = 8 * time.Second // from the end of its input to the kill

// end lets the child end in order, and kills it if it has not in time.
func (p *process) end() {
	_ = p.thaw()                  // one that stands still would not see it
	_ = p.signal(syscall.SIGTERM) // calls off what it waits for
	_ = p.stdin.Close()
	go p.drain()
	timer := time.NewTimer(endBound)
	defer timer.Stop()
	select {
	case <-p.exited:
	case <-timer.C:
		p.kill()
	}
}

// kill ends the child whatever state it is in, and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	p.drain()
	<-p.exited
}

// drain takes answers for which nobody waits any more.
func (p *process) drain() {
	for range p.answer {
	}
}
