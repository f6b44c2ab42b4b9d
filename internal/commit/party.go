package commit

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// party is the calls of one RenewAll: each goes its own way through queues and entries, and one wake-up tells that the last has its answer. Its calls are not from
// the pool: an entry may still know one when the party has left.
type party struct {
	calls []call
	left  atomic.Int32  // without an answer
	wake  chan struct{} // one slot
}

// RenewAll is Do for many renewals at once, with one wake-up for all; results are in their order. An error concerns them all, though some may have been written: NotDone
// means that none was. ctx bounds the whole.
func (b *Batcher) RenewAll(ctx context.Context, cmds []*locktable.Command) ([]locktable.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, &Error{Outcome: NotDone, Err: err}
	}
	if len(cmds) == 0 {
		return nil, nil
	}
	p := newParty(cmds)
	if err := b.enqueueAll(p, b.anyUrgent(cmds)); err != nil {
		return nil, err
	}
	select {
	case <-p.wake:
	case <-ctx.Done():
		if outcome, left := b.leaveAll(p); left {
			return nil, &Error{Outcome: outcome, Err: fmt.Errorf("write commands: %w", ctx.Err())}
		}
		<-p.wake
	}
	return p.results()
}

func newParty(cmds []*locktable.Command) *party {
	p := &party{calls: make([]call, len(cmds)), wake: make(chan struct{}, 1)}
	p.left.Store(int32(len(cmds)))
	for i, c := range cmds {
		p.calls[i] = call{cmd: c, size: Size(c), party: p}
	}
	return p
}

// told takes in that one more has its answer.
func (p *party) told() {
	if p.left.Add(-1) == 0 {
		p.wake <- struct{}{}
	}
}

// results are for after the wake-up. Of several errors the one counts that leaves most open.
func (p *party) results() ([]locktable.Result, error) {
	results := make([]locktable.Result, len(p.calls))
	var failed *Error
	done := false
	for i := range p.calls {
		k := &p.calls[i]
		results[i] = k.res
		done = done || k.err == nil
		if k.err != nil && (failed == nil || k.err.Outcome == Unknown) {
			failed = k.err
		}
	}
	switch {
	case failed == nil:
		return results, nil
	case done && failed.Outcome == NotDone:
		failed = &Error{Outcome: Unknown, Err: failed.Err}
	}
	return nil, failed
}

func (b *Batcher) anyUrgent(cmds []*locktable.Command) bool {
	if b.env.Urgent == nil {
		return false
	}
	for _, c := range cmds {
		if b.env.Urgent(c) {
			return true
		}
	}
	return false
}

func (b *Batcher) enqueueAll(p *party, urgent bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.stopped != nil:
		return b.stopped
	case b.renewals.n+len(p.calls) > b.opt.MaxRenewals:
		return &Error{Outcome: NotDone, Err: ErrOverloaded}
	}
	b.urgent = b.urgent || urgent
	now := time.Now()
	for i := range p.calls {
		k := &p.calls[i]
		k.at = now
		b.renewals.push(k)
		b.live[k.cmd.Session]++
	}
	b.start()
	b.arm()
	return nil
}

// leaveAll takes the caller of p away, if one of its calls has no answer yet.
func (b *Batcher) leaveAll(p *party) (outcome Outcome, left bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	outcome = NotDone
	for i := range p.calls {
		switch k := &p.calls[i]; k.place {
		case queued:
			b.renewals.remove(k)
			b.forget(k.cmd)
			k.place, left = abandoned, true
		case inFlight:
			k.place, outcome, left = abandoned, Unknown, true
		case answered:
			if k.err == nil || k.err.Outcome == Unknown {
				outcome = Unknown
			}
		}
	}
	return outcome, left
}
