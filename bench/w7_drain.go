//go:build unix

package main

import (
	"context"
	"fmt"

	"github.com/quorumlock/quorumlock/internal/demokit"
)

// W7: many wait for one lock, and each has it once.
var drainWork = &workload{key: "W7", breaks: true, run: runDrain,
	fits: func(s *system, e extent) bool { return e.queue > 0 && (s.most == 0 || s.most >= e.queue) }}

var drained = &measure{title: "W7 many waiters on one lock: until the last one had it", unit: "s"}

func runDrain(ctx context.Context, r *rig, e extent, note noting) error {
	// One more than wait, in a session of its own.
	if err := r.clients(ctx, e.queue+1, usualTTL); err != nil {
		return err
	}
	ctx, cancel := demokit.Within(ctx, orderBound, "the queue is not drained")
	defer cancel()
	name := r.lockName()
	if _, err := r.procs[0].ask(ctx, order{Verb: verbLock, Name: name}); err != nil {
		return err
	}
	type result struct {
		answers []answer
		err     error
	}
	done := make(chan result, 1)
	go func() {
		answers, err := r.all(ctx, func(int) order { return order{Verb: verbQueue, Name: name} })
		done <- result{answers, err}
	}()
	if err := demokit.Sleep(ctx, e.queued); err != nil {
		return err
	}
	stop, err := r.profiled(ctx, true, "w7")
	if err != nil {
		return err
	}
	freed, err := r.procs[0].ask(ctx, order{Verb: verbUnlock})
	if err != nil {
		return err
	}
	res := <-done
	if err := stop(); err != nil {
		return err
	}
	if res.err != nil {
		return res.err
	}
	c, err := joined(res.answers)
	if err != nil {
		return err
	}
	order, err := inTurn(c.grants)
	if err != nil {
		return err
	}
	if len(order) != e.queue {
		return fmt.Errorf("%d of %d had the lock", len(order), e.queue)
	}
	if order[0].Granted < freed.At {
		return errOverlap
	}
	note(drained, "", order[len(order)-1].Granted.sub(freed.At).Seconds())
	return nil
}
