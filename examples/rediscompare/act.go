//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/demokit"
)

// row is one line of the table of faults.
type row struct {
	system string
	keeps  string // what outlives the process of a server that granted
	fault  string
	times  int // how often the fault was done
	tally
	must expectation
}

// expectation is what the run fails without. Where the recipe promises nothing that is measured here, nothing is expected.
type expectation struct {
	overlap bool // the fault is known to have the lock granted twice
	stale   bool // the fault has a holder write late, which loses an update where no fence is
	safe    bool // no overlap, and no update lost behind the fence
}

// room is a store that workers can reach.
type room struct {
	*store
	url   string
	close func()
}

func openRoom() (*room, error) {
	s := newStore()
	url, stop, err := s.serve()
	if err != nil {
		return nil, err
	}
	return &room{store: s, url: url, close: stop}, nil
}

// repeat does a fault several times and sums what came of it.
func repeat(ctx context.Context, times int, do func(ctx context.Context, r *room) error) (tally, error) {
	var sum tally
	for range times {
		r, err := openRoom()
		if err != nil {
			return sum, err
		}
		err = do(ctx, r)
		r.close()
		if err != nil {
			return sum, err
		}
		sum = sum.add(r.tally())
	}
	return sum, nil
}

// faultWhileHeld lets a hold and b contend, does the fault, and gives b a while to be granted the lock beside a. In the end
// the lock passes on in order.
func (l *lane) faultWhileHeld(ctx context.Context, r *room, a, b *process, fault func(ctx context.Context) error) error {
	if err := l.work(ctx, r.url, a); err != nil {
		return err
	}
	first, err := l.holding(ctx, r.store, a, 0)
	if err != nil {
		return err
	}
	l.say(demokit.Plain, "granted", "to %s%s", a.name, r.shownToken(first))
	if err := l.work(ctx, r.url, b); err != nil {
		return err
	}
	if err := fault(ctx); err != nil {
		return err
	}
	twice, err := l.grantedBeside(ctx, r, first, b)
	if err != nil {
		return err
	}
	if err := l.rest(ctx, a); err != nil {
		return err
	}
	if !twice {
		if _, err := l.holding(ctx, r.store, b, 0); err != nil {
			return err
		}
		l.say(demokit.Good, "passed on", "to %s, when %s had given it back", b.name, a.name)
	}
	return l.rest(ctx, b)
}

// grantedBeside tells whether b is granted the lock within the window. If so it waits until the first holder has found out.
func (l *lane) grantedBeside(ctx context.Context, r *room, first int, b *process) (bool, error) {
	short, cancel := context.WithTimeout(ctx, window)
	defer cancel()
	err := r.await(short, func(v view) bool { return v.grant(b.name) > 0 })
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case err != nil:
		l.say(demokit.Good, "not granted", "to %s, which asked for %v more", b.name, window)
		return false, nil
	}
	a := r.view().beliefs[first-1].worker
	l.say(demokit.Trouble, "granted twice", "to %s too%s, while %s holds", b.name, r.shownToken(r.view().grant(b.name)), a)
	ending, cancelEnding := demokit.Within(ctx, l.ttl+actBound, a+" did not find out")
	defer cancelEnding()
	if err := r.await(ending, func(v view) bool { return v.beliefs[first-1].ended }); err != nil {
		return false, err
	}
	v := r.view()
	late := r.now() - v.beliefs[v.grant(b.name)-1].begin
	l.say(demokit.Plain, "found out", "%s, %.1f s after %s was granted the lock", a, late.Seconds(), b.name)
	return true, nil
}

// pauseHolder stops the process that holds between its question whether it holds and its write, until its successor has
// written, and lets it go on.
func (l *lane) pauseHolder(ctx context.Context, r *room, a, b *process) error {
	if err := l.work(ctx, r.url, a); err != nil {
		return err
	}
	first, err := l.holding(ctx, r.store, a, 0)
	if err != nil {
		return err
	}
	if err := l.work(ctx, r.url, b); err != nil {
		return err
	}
	if err := l.stopAtRead(ctx, r, a); err != nil {
		return err
	}
	sent := r.view().beliefs[first-1].writes
	l.say(demokit.Trouble, "pause", "%s is stopped (SIGSTOP) between its look and its write, until its lease is over", a.name)
	began := time.Now()
	next, err := l.holding(ctx, r.store, b, 0)
	if err != nil {
		return err
	}
	l.say(demokit.Plain, "granted", "to %s%s, %.1f s later", b.name, r.shownToken(next), time.Since(began).Seconds())
	if n := r.view().beliefs[first-1].writes; n != sent {
		return fmt.Errorf("%s wrote while it was stopped", a.name)
	}
	if err := l.resume(ctx, r, first, a); err != nil {
		return err
	}
	return errors.Join(l.rest(ctx, a), l.rest(ctx, b))
}

// stopAtRead stops a process at its next read.
func (l *lane) stopAtRead(ctx context.Context, r *room, p *process) error {
	stopped := make(chan error, 1)
	r.trap(p.name, func() { stopped <- p.freeze() })
	ctx, cancel := demokit.Within(ctx, actBound, p.name+" did not read")
	defer cancel()
	select {
	case err := <-stopped:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// resume lets a stopped holder go on, and waits for its late write and its end.
func (l *lane) resume(ctx context.Context, r *room, id int, p *process) error {
	before := r.view().beliefs[id-1].writes
	refused := r.tally().refused
	if err := p.thaw(); err != nil {
		return err
	}
	ctx, cancel := demokit.Within(ctx, actBound, p.name+" did not come back")
	defer cancel()
	if err := r.await(ctx, func(v view) bool { return v.beliefs[id-1].ended }); err != nil {
		return err
	}
	if r.view().beliefs[id-1].writes == before {
		return fmt.Errorf("the pause of %s did not bite: there came no late write", p.name)
	}
	switch {
	case r.tally().refused > refused:
		l.say(demokit.Good, "late write", "%s goes on (SIGCONT): the fence refuses its write, the copy without a fence takes it", p.name)
	default:
		l.say(demokit.Trouble, "late write", "%s goes on (SIGCONT): its write is taken", p.name)
	}
	return nil
}
