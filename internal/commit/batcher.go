package commit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// Batcher gathers commands into entries. It is made for one term of leadership: New at the promotion, Stop at the end.
//
// It has no goroutine while nothing is in flight. A runner is started when there is something to send and a slot is free; it
// proposes an entry, waits for it, answers its callers, and goes on as long as it finds more.
//
// Invariant, whenever mu is free: if something is ready to be sent, then either a runner holds the right to send, or all
// slots are taken; in both cases a runner will look again. And if renewals are queued that are not yet due, the timer is armed.
type Batcher struct {
	env Env
	opt Options

	runners sync.WaitGroup
	calls   sync.Pool // of *call

	mu       sync.Mutex
	stopped  *Error // why Do is refused; nil while running
	ordinary queue
	renewals queue
	urgent   bool                        // an urgent renewal may be queued: all go at once
	live     map[locktable.SessionID]int // calls by session, queued or in flight, that show the session's life
	sending  bool                        // a runner holds the right to send. One at a time, so entries go out in the order they were filled
	slots    int                         // entries in flight
	idle     []*entry                    // for reuse
	timer    *time.Timer                 // fires when the oldest renewal is due; nil until the first one
	armed    bool
}

// New makes a Batcher.
func New(env Env, opt Options) *Batcher {
	return &Batcher{env: env, opt: opt.withDefaults(), live: make(map[locktable.SessionID]int)}
}

// Do has c written and returns its result. ctx bounds the whole call: if it ends while c still waits, c is taken out and the outcome
// is NotDone; if c is in flight already, the outcome is Unknown. An answer that is there when ctx ends is returned. Every error is
// an *Error. Commands of one caller are written in the order of its calls. c must not be changed any more, whatever Do returned.
func (b *Batcher) Do(ctx context.Context, c *locktable.Command) (locktable.Result, error) {
	if err := ctx.Err(); err != nil {
		return locktable.Result{}, &Error{Outcome: NotDone, Err: err}
	}
	k := b.newCall(c)
	urgent := c.Op == locktable.OpRenew && b.env.Urgent != nil && b.env.Urgent(c)
	if err := b.enqueue(k, urgent); err != nil {
		b.free(k)
		return locktable.Result{}, err
	}
	select {
	case <-k.wake:
	case <-ctx.Done():
		if outcome, left := b.leave(k); left {
			return locktable.Result{}, &Error{Outcome: outcome, Err: fmt.Errorf("write command: %w", ctx.Err())}
		}
		<-k.wake
	}
	res, err := k.res, k.err
	b.free(k)
	if err != nil {
		return locktable.Result{}, err
	}
	return res, nil
}

// RenewalPending tells whether a command of s that shows its life is queued or in flight: a renewal, or any other request of the
// session. Nobody may be declared dead whose letter lies in the out-tray. The leader's own commands about s do not count.
func (b *Batcher) RenewalPending(s locktable.SessionID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.live[s] > 0
}

// Stop refuses new commands, ends the queued ones as NotDone with ErrStopped and cause, and returns when the entries in flight have
// come to their end and every goroutine is gone. It is as slow as Env.Propose's wait; callers of Do are bounded by their contexts
// meanwhile. Stopping twice is fine; the first cause counts.
func (b *Batcher) Stop(cause error) {
	b.mu.Lock()
	if b.stopped == nil {
		b.stopped = stopError(cause)
		if b.timer != nil {
			b.timer.Stop()
		}
		b.refuseAll(&b.ordinary)
		b.refuseAll(&b.renewals)
	}
	b.mu.Unlock()
	b.runners.Wait()
}

func stopError(cause error) *Error {
	if cause == nil {
		return &Error{Outcome: NotDone, Err: ErrStopped}
	}
	return &Error{Outcome: NotDone, Err: fmt.Errorf("%w: %w", ErrStopped, cause)}
}

// refuseAll answers a whole queue with b.stopped. It wakes under mu, which is fine: wake never blocks and this happens once.
func (b *Batcher) refuseAll(q *queue) {
	for q.head != nil {
		k := q.head
		q.remove(k)
		k.err = b.stopped
		k.place = answered
		b.forget(k.cmd)
		k.tell()
	}
}

func (b *Batcher) enqueue(k *call, urgent bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.admit(k); err != nil {
		return err
	}
	b.urgent = b.urgent || urgent
	if k.cmd.Op == locktable.OpRenew {
		k.at = time.Now()
		b.renewals.push(k)
	} else {
		b.ordinary.push(k)
	}
	if showsLife(k.cmd) {
		b.live[k.cmd.Session]++
	}
	b.start()
	b.arm()
	return nil
}

// admit decides whether a call may queue.
func (b *Batcher) admit(k *call) error {
	if b.stopped != nil {
		return b.stopped
	}
	if k.size > b.opt.MaxBytes {
		return &Error{Outcome: NotDone, Err: fmt.Errorf("%w: %d bytes", ErrTooLarge, k.size)}
	}
	if b.full(k) {
		return &Error{Outcome: NotDone, Err: ErrOverloaded}
	}
	return nil
}

func (b *Batcher) full(k *call) bool {
	factor := 1
	switch k.cmd.Op {
	case locktable.OpRenew:
		return b.renewals.n >= b.opt.MaxRenewals
	case locktable.OpFound, locktable.OpExpire, locktable.OpDrained, locktable.OpLevel:
		return false
	case locktable.OpUnlock, locktable.OpCancel, locktable.OpClose:
		factor = 2
	}
	return b.ordinary.n >= factor*b.opt.MaxQueue ||
		b.ordinary.bytes+k.size > factor*b.opt.MaxQueueBytes ||
		b.renewals.n >= b.opt.MaxRenewals
}

// showsLife tells whether a command is word from its session, so that it must not be expired over it.
func showsLife(c *locktable.Command) bool {
	switch c.Op {
	case locktable.OpCancel:
		return !c.Now
	case locktable.OpRenew, locktable.OpClaim, locktable.OpUnlock, locktable.OpClose, locktable.OpDowngrade,
		locktable.OpProclaim, locktable.OpHandOver, locktable.OpResize, locktable.OpOffer, locktable.OpAccept:
		return true
	}
	return false
}

func (b *Batcher) forget(c *locktable.Command) {
	if !showsLife(c) {
		return
	}
	if b.live[c.Session]--; b.live[c.Session] <= 0 {
		delete(b.live, c.Session)
	}
}

// leave takes the caller of k away, if it has no answer yet.
func (b *Batcher) leave(k *call) (outcome Outcome, left bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch k.place {
	case queued:
		b.queueOf(k).remove(k)
		b.forget(k.cmd)
		b.free(k)
		return NotDone, true
	case inFlight:
		k.place = abandoned
		return Unknown, true
	}
	return 0, false
}

func (b *Batcher) queueOf(k *call) *queue {
	if k.cmd.Op == locktable.OpRenew {
		return &b.renewals
	}
	return &b.ordinary
}
