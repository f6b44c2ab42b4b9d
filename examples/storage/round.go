//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/fence"

	"github.com/quorumlock/quorumlock/internal/demokit"
)

const (
	takeoverBound = 25 * time.Second // for the TTL, an election if the leader stood still too, and the jobs
	jobBound      = 15 * time.Second
	successorJobs = 3
)

// round is one holder that stands still past its lease, in the middle of its job, while the other one takes over.
type round struct {
	*demo
	holder, successor *process
}

// variant is how far the successor has come when the holder's late write is sent.
type variant struct {
	takeOver func(r *round, ctx context.Context) (fence.Token, error) // gives the highest token shown to the service
	complete func(r *round, ctx context.Context) error                // what the successor does after the late write
}

// variants take turns.
var variants = []variant{
	{(*round).successorWrites, func(*round, context.Context) error { return nil }},
	{(*round).successorClaims, (*round).successorFinishes},
}

func (r *round) run(ctx context.Context, v variant) error {
	if err := r.whole(ctx); err != nil { // one of the three is to stand still: the other two are needed
		return err
	}
	began, err := r.ask(ctx, r.holder, jobBound, command{Verb: verbBegin})
	if err != nil {
		return err
	}
	r.line.Say(demokit.Plain, r.holder.name, "holds", "token %v; has claimed and read the ledger, is about to write", began.Token)
	highest, err := r.whileStopped(ctx, v)
	if err != nil {
		return err
	}
	if highest <= began.Token {
		return fmt.Errorf("token %v came after token %v", highest, began.Token)
	}
	if err := r.lateWrite(ctx, began.Token, highest); err != nil {
		return err
	}
	if err := v.complete(r, ctx); err != nil {
		return err
	}
	return r.repeatJob(ctx)
}

// whileStopped has the successor take over while the holder stands still.
func (r *round) whileStopped(ctx context.Context, v variant) (highest fence.Token, err error) {
	if err := r.holder.freeze(); err != nil {
		return 0, err
	}
	r.line.Say(demokit.Trouble, r.holder.name, "SIGSTOP", "stands still, past its lease")
	defer func() { err = errors.Join(err, r.holder.thaw()) }()
	return v.takeOver(r, ctx)
}

func (r *round) successorWrites(ctx context.Context) (fence.Token, error) {
	jobs, err := r.jobs(ctx, r.successor, takeoverBound, command{Verb: verbWork, Jobs: successorJobs})
	if err != nil {
		return 0, err
	}
	first, last := jobs[0], jobs[len(jobs)-1]
	r.line.Say(demokit.Good, r.successor.name, "took over", "token %v; %d jobs written", first.Token, len(jobs))
	return last.Token, nil
}

func (r *round) successorClaims(ctx context.Context) (fence.Token, error) {
	began, err := r.ask(ctx, r.successor, takeoverBound, command{Verb: verbBegin})
	if err == nil {
		r.line.Say(demokit.Good, r.successor.name, "took over", "token %v; has claimed and read, nothing written yet", began.Token)
	}
	return began.Token, err
}

func (r *round) successorFinishes(ctx context.Context) error {
	jobs, err := r.jobs(ctx, r.successor, jobBound, command{Verb: verbFinish})
	if err != nil {
		return err
	}
	if jobs[0].Refused != nil {
		return fmt.Errorf("the holder's write was refused: %s", jobs[0].Refused.Text)
	}
	r.line.Say(demokit.Good, r.successor.name, "wrote", "token %v, from what it had read", jobs[0].Token)
	return nil
}

// lateWrite has the holder go on, and fails unless its write came too late: only then has the fault bitten.
func (r *round) lateWrite(ctx context.Context, token, highest fence.Token) error {
	jobs, err := r.jobs(ctx, r.holder, jobBound, command{Verb: verbFinish})
	if err != nil {
		return err
	}
	late := jobs[0]
	if err := late.checkStale(token, highest); err != nil {
		return fmt.Errorf("the late write of %s: %w", r.holder.name, err)
	}
	r.line.Say(demokit.Good, r.holder.name, "refused", "%s", late.Refused.Text)
	return nil
}

// checkStale is an error unless the job lost its lock and was refused for the reason that it was.
func (j jobResult) checkStale(token, highest fence.Token) error {
	switch {
	case j.Refused == nil:
		return fmt.Errorf("accepted, under token %v after %v", token, highest)
	case j.Refused.Token != token || j.Refused.Highest != highest:
		return fmt.Errorf("refused as %v after %v, not as %v after %v", j.Refused.Token, j.Refused.Highest, token, highest)
	case !j.Lost:
		return errors.New("refused, though the lock was never reported lost")
	}
	return nil
}

// repeatJob has the refused holder do what a job does that was refused: all of it again, under a new grant.
func (r *round) repeatJob(ctx context.Context) error {
	jobs, err := r.jobs(ctx, r.holder, takeoverBound, command{Verb: verbWork, Jobs: 1})
	if err != nil {
		return err
	}
	if jobs[0].Refused != nil {
		return fmt.Errorf("the repeated job of %s was refused: %s", r.holder.name, jobs[0].Refused.Text)
	}
	r.line.Say(demokit.Plain, r.holder.name, "did it again", "token %v", jobs[0].Token)
	return nil
}
