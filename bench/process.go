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

	"github.com/quorumlock/quorumlock/internal/demokit"
)

// process is this program started again, as a worker or as a server, as the driver sees it.
type process struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	log    *demokit.Tail
	exited chan struct{} // closed when it is gone, after the last answer was handed on

	mu      sync.Mutex
	last    int
	waiting map[int]chan answer
}

func startSelf(l *demokit.Launcher, name string, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	p := &process{name: name, log: &demokit.Tail{}, exited: make(chan struct{}), waiting: map[int]chan answer{}}
	p.cmd = exec.Command(self, args...)
	p.cmd.Stderr = p.log
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if err := l.Start(p.cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go p.listen(stdout)
	return p, nil
}

// listen hands on the answers, and waits for the end: a process is waited for when its output is read.
func (p *process) listen(stdout io.Reader) {
	defer close(p.exited)
	for answers := json.NewDecoder(stdout); ; {
		var a answer
		if answers.Decode(&a) != nil {
			break
		}
		p.mu.Lock()
		to := p.waiting[a.ID]
		delete(p.waiting, a.ID)
		p.mu.Unlock()
		if to != nil {
			to <- a // has room for it
		}
	}
	_ = p.cmd.Wait() // how it ended shows in its log
}

// errGone is a process that ended before it answered.
var errGone = errors.New("the process has ended")

// ask has the worker carry out an order, and waits for the answer. After the end of ctx the answer is dropped when it comes.
func (p *process) ask(ctx context.Context, o order) (answer, error) {
	to := make(chan answer, 1)
	if err := p.send(&o, to); err != nil {
		return answer{}, fmt.Errorf("%s %s: %w", p.name, o.Verb, err)
	}
	select {
	case a := <-to:
		return p.judged(o, a)
	case <-p.exited:
		select {
		case a := <-to: // its last words
			return p.judged(o, a)
		default:
			return answer{}, fmt.Errorf("%s %s: %w: %s", p.name, o.Verb, errGone, p.log)
		}
	case <-ctx.Done():
		return answer{}, fmt.Errorf("%s %s: %w", p.name, o.Verb, context.Cause(ctx))
	}
}

// send writes whole lines only.
func (p *process) send(o *order, to chan answer) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	o.ID = p.last
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	p.waiting[o.ID] = to
	if _, err := p.stdin.Write(append(line, '\n')); err != nil {
		delete(p.waiting, o.ID)
		return err
	}
	return nil
}

func (p *process) judged(o order, a answer) (answer, error) {
	if a.Error != "" {
		return a, fmt.Errorf("%s %s: %s", p.name, o.Verb, a.Error)
	}
	return a, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) gone() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// kill ends it whatever state it is in, and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
	_ = p.stdin.Close()
}
