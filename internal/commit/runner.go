package commit

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

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
	return b.ordinary.n > 0 || b.renewals.n >= b.opt.MaxCommands || b.urgent && b.renewals.n > 0 || b.due()
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
	b.urgent = b.urgent && b.renewals.n > 0
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
			k.tell()
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
