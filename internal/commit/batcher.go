package commit

import (
	"context"
	"errors"
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
	if err := b.enqueue(k); err != nil {
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
		k.wake <- struct{}{}
	}
}

func (b *Batcher) enqueue(k *call) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.admit(k); err != nil {
		return err
	}
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
	case locktable.OpRenew, locktable.OpClaim, locktable.OpCancel, locktable.OpUnlock, locktable.OpClose:
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

// start starts a runner if there is something to send and nothing in its way. Called with mu held, as are ready, due and arm.
func (b *Batcher) start() {
	if !b.claimSend() {
		return
	}
	b.runners.Add(1)
	go b.run(b.takeIdle())
}

// claimSend takes the right to send, if there is something to send, a slot is free, and nobody else has it.
func (b *Batcher) claimSend() bool {
	if b.sending || b.slots >= b.opt.InFlight || !b.ready() {
		return false
	}
	b.sending = true
	return true
}

func (b *Batcher) ready() bool {
	return b.ordinary.n > 0 || b.renewals.n >= b.opt.MaxCommands || b.due()
}

// due tells whether the oldest renewal has waited long enough.
func (b *Batcher) due() bool {
	return b.renewals.n > 0 && time.Since(b.renewals.head.at) >= b.opt.RenewGather
}

// arm sets the timer to when the oldest renewal is due. One that is due already needs none: a runner will look again.
func (b *Batcher) arm() {
	if b.armed || b.renewals.n == 0 || b.stopped != nil {
		return
	}
	d := b.opt.RenewGather - time.Since(b.renewals.head.at)
	if d <= 0 {
		return
	}
	b.armed = true
	if b.timer == nil {
		b.timer = time.AfterFunc(d, b.gathered)
		return
	}
	b.timer.Reset(d)
}

// gathered is the timer's function. The renewal it was set for may be long gone; then it is set anew for the one that is oldest now.
func (b *Batcher) gathered() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.armed = false
	if b.stopped == nil {
		b.start()
		b.arm()
	}
}

func (b *Batcher) takeIdle() *entry {
	n := len(b.idle)
	if n == 0 {
		return &entry{}
	}
	e := b.idle[n-1]
	b.idle = b.idle[:n-1]
	return e
}

// run is a runner; it begins with the right to send. Env.Propose is called here and not by the caller of Do, since it can block
// where a context does not reach.
func (b *Batcher) run(e *entry) {
	defer b.runners.Done()
	for more := true; more; {
		if !b.fill(e) {
			return
		}
		wait := b.env.Propose(e.cmds)
		b.sent()
		results, err := wait()
		more = b.settle(e, results, err)
	}
}

// fill moves what goes next from the queues to e, and takes a slot. If everything was cancelled meanwhile it gives up the right.
func (b *Batcher) fill(e *entry) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ready() {
		b.sending = false
		b.idle = append(b.idle, e)
		b.arm()
		return false
	}
	b.fillRenewals(e)
	b.fillOrdinary(e)
	b.slots++
	b.arm()
	return true
}

// fillRenewals gives renewals the front of the entry. What they leave to waiting ordinary commands is half of it, and an eighth
// once a renewal is due: enough to keep those moving, little enough that renewals catch up.
func (b *Batcher) fillRenewals(e *entry) {
	limit := b.opt.MaxCommands
	if b.ordinary.n > 0 {
		share := 2
		if b.due() {
			share = 8
		}
		limit -= max(min(b.ordinary.n, limit/share), 1)
	}
	b.move(&b.renewals, e, limit)
}

func (b *Batcher) fillOrdinary(e *entry) {
	// The first one goes whatever the renewals have used of MaxBytes, so that a long command can not be passed over for ever.
	if k := b.ordinary.head; k != nil {
		b.ordinary.remove(k)
		e.add(k)
	}
	b.move(&b.ordinary, e, b.opt.MaxCommands)
}

// move moves calls from q to e until e holds limit commands or the next would exceed MaxBytes.
func (b *Batcher) move(q *queue, e *entry, limit int) {
	for k := q.head; k != nil && len(e.calls) < limit && e.bytes+k.size <= b.opt.MaxBytes; k = q.head {
		q.remove(k)
		e.add(k)
	}
}

// sent gives up the right to send after an entry went out.
func (b *Batcher) sent() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sending = false
	b.start()
}

// settle answers the calls of e and frees its slot. It tells whether the runner goes on, with the right to send.
func (b *Batcher) settle(e *entry, results []locktable.Result, err error) (more bool) {
	if err == nil && len(results) != len(e.calls) {
		err = fmt.Errorf("%w: %d for %d", errResultCount, len(results), len(e.calls))
	}
	answer(e.calls, results, asError(err))
	more = b.release(e)
	// Callers are woken outside mu, because the first thing most of them do is to call Do again.
	for _, k := range e.calls {
		if k != nil {
			k.wake <- struct{}{}
		}
	}
	e.reset()
	if !more {
		b.recycle(e)
	}
	return more
}

func answer(calls []*call, results []locktable.Result, err *Error) {
	for i, k := range calls {
		if err != nil {
			k.err = err
			continue
		}
		k.res = results[i]
	}
}

// release marks the calls of e as answered, frees those whose callers left (leaving nil in their place), and gives the slot back.
func (b *Batcher) release(e *entry) (more bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, k := range e.calls {
		b.forget(k.cmd)
		if k.place == abandoned {
			e.calls[i] = nil
			b.free(k)
			continue
		}
		k.place = answered
	}
	b.slots--
	return b.claimSend()
}

func (b *Batcher) recycle(e *entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.idle = append(b.idle, e)
}

// asError takes an error of Env.Propose for what it says, and for Unknown if it says nothing.
func asError(err error) *Error {
	if err == nil {
		return nil
	}
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	return &Error{Outcome: Unknown, Err: err}
}
