package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/guard"
	"github.com/quorumlock/quorumlock/fence"
)

// work is a command that runs only while something is held.
type work struct {
	path  string
	args  []string
	ttl   time.Duration
	grace time.Duration
	warn  string

	warnSignal syscall.Signal // 0: none
}

func (w *work) flags(flags *pflag.FlagSet) {
	flags.DurationVar(&w.ttl, "ttl", 10*time.Second, "TTL of the session: how soon another gets the lock if this host dies")
	flags.DurationVar(&w.grace, "grace", 0, "how long before the lease can end the command gets SIGTERM (default a fifth of --ttl)")
	flags.StringVar(&w.warn, "warn-signal", "CONT", "signal that warns the command when renewals fail: CONT is harmless to who does not listen; none is no warning")
}

const (
	killShare = 20 // of the TTL: when the command is killed, before the lease ends
	minKill   = 100 * time.Millisecond
	mostGrace = 0.4 // of the TTL: right after a renewal six tenths are left at least
)

func (w *work) killMargin() time.Duration { return max(w.ttl/killShare, minKill) }

// prepare checks all that can be checked before there is a lock.
func (w *work) prepare(args []string) error {
	if w.ttl < quorumlock.ShortestSessionTTL || w.ttl > quorumlock.MaxSessionTTL {
		return usage("--ttl must be between %v and %v", quorumlock.ShortestSessionTTL, quorumlock.MaxSessionTTL)
	}
	if w.grace == 0 {
		w.grace = max(w.ttl/5, w.killMargin())
	}
	if most := time.Duration(mostGrace * float64(w.ttl)); w.grace < w.killMargin() || w.grace > most {
		return usage("--grace must be between %v and %v with a TTL of %v", w.killMargin(), most, w.ttl)
	}
	var err error
	if w.warnSignal, err = signalNamed(w.warn); err != nil {
		return usage("--warn-signal: %w", err)
	}
	w.args = args
	w.path, err = exec.LookPath(args[0])
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, exec.ErrNotFound):
		return &codedError{code: codeRunNotFound, err: err}
	}
	return &codedError{code: codeRunCannot, err: err}
}

// grant is what a Hold and a Leadership have in common.
type grant interface {
	Token() quorumlock.Token
	Deadline() time.Time
	Done() <-chan struct{}
	Err() error
	Jeopardy() <-chan struct{}
	Forced() *quorumlock.LostError
}

// leaseEnd is when g ends unless it is renewed, by the clocks that the guard reads. They are read first, so that whatever delays this process makes the lease
// seem shorter. The deadline is on the wall clock: asked twice, and bounded, so that a step between two instructions cannot stretch it.
func leaseEnd(g grant, ttl time.Duration) guard.Moment {
	now := guard.Now()
	left := min(time.Until(g.Deadline()), time.Until(g.Deadline()), ttl)
	return now.Add(left)
}

const extendShare = 20 // of the TTL: how often the guard is told of renewals

// under runs the command under g, and returns when nothing of it is left.
func (w *work) under(g grant, told fence.Grant, signals <-chan os.Signal, remark func(string)) (guard.Result, error) {
	running, err := guard.Start(guard.Spec{
		Path: w.path, Args: w.args, Env: append(os.Environ(), told.Environ(g.Deadline())...),
		Files: [3]*os.File{os.Stdin, os.Stdout, os.Stderr}, Term: w.grace, Kill: w.killMargin(),
	}, leaseEnd(g, w.ttl))
	if err != nil {
		return guard.Result{}, err
	}
	ticker := time.NewTicker(w.ttl / extendShare)
	defer ticker.Stop()
	lost, jeopardy := g.Done(), g.Jeopardy()
	var warned <-chan struct{}
	for {
		select {
		case <-running.Done():
			return running.Result(), nil
		case <-ticker.C:
			if g.Err() == nil {
				running.Extend(leaseEnd(g, w.ttl))
			}
			if next := g.Jeopardy(); next != warned {
				jeopardy = next
			}
		case <-jeopardy:
			if w.warnSignal > 0 {
				running.Signal(w.warnSignal)
			}
			if forced := g.Forced(); forced != nil {
				remark(fmt.Sprintf("%v; the command is ended before %s", forced, g.Deadline().Local().Format(time.TimeOnly)))
			}
			warned, jeopardy = jeopardy, nil
		case <-lost:
			running.Kill()
			lost = nil
		case s := <-signals:
			if n, ok := s.(syscall.Signal); ok {
				running.Signal(n)
			}
		}
	}
}

// ended makes the error, or nil, of how the command ended and of how the lock was given back.
func (inv *invocation) ended(res guard.Result, err, release error, forced *quorumlock.LostError) error {
	if forced != nil && (res.Killed || res.Stopped) {
		release = forced // known before the cluster says so
	}
	var start *guard.StartError
	switch {
	case errors.As(res.Err, &start) && start.NotFound:
		return &codedError{code: codeRunNotFound, err: start}
	case start != nil:
		return &codedError{code: codeRunCannot, err: start}
	case errors.Is(release, quorumlock.ErrLost):
		return &codedError{code: codeRunLost, err: fmt.Errorf("the command was ended: %w", release)}
	case res.Err != nil || err != nil:
		return &codedError{code: codeRunFailed, err: errors.Join(err, res.Err)}
	case res.Killed || res.Stopped:
		return &codedError{code: codeRunLost, err: errors.New("the command was ended, since the lease was about to end without an answer of the cluster")}
	}
	if res.Left > 0 {
		inv.remark(fmt.Sprintf("killed %d processes that the command left behind", res.Left))
	}
	if release != nil {
		inv.remark("not released, so its TTL frees the lock: " + oneLine(release.Error()))
	}
	if res.Code == 0 {
		return nil
	}
	return &codedError{code: res.Code, err: errSaid}
}

// remark says something beside the result.
func (inv *invocation) remark(text string) {
	if inv.json {
		_ = json.NewEncoder(inv.errs).Encode(map[string]string{"remark": text})
		return
	}
	fmt.Fprintln(inv.errs, "quorumlock: "+text)
}
