package quorumlock

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/internal/clock"
	"github.com/quorumlock/quorumlock/internal/locktable"
)

// Hold is one grant of a lock. It is held until Unlock, or until it is lost; a lost hold is never held again. All methods are safe for
// concurrent use.
type Hold struct {
	claim *claim
	token Token
	done  chan struct{}

	// Guarded by the session's mu.
	err      error         // why it is not held any more
	released bool          // Unlock has been called
	closing  bool          // the session is being closed
	covered  bool          // the work was over, and trusted, before anything was released
	warn     chan struct{} // Jeopardy
	warned   bool
	frozen   *lease // set by a drain: the deadline does not move any more
	drain    *LostError
	cancels  map[*context.CancelCauseFunc]struct{}
}

func newHold(c *claim, t Token) *Hold {
	return &Hold{claim: c, token: t, done: make(chan struct{}), warn: make(chan struct{})}
}

// Token is the fencing token of this grant: pass it along with every write to a resource that checks it.
func (h *Hold) Token() Token { return h.token }

// Name is the lock's name.
func (h *Hold) Name() string { return h.claim.name }

// Done is closed when the hold ends, by Unlock or by loss; Err then tells which. After a suspend of the machine it is closed within
// 250 ms of the wake-up; Err tells at once.
func (h *Hold) Done() <-chan struct{} { return h.done }

// Err is nil while the lock is held. Afterwards it is ErrUnlocked or a *LostError. It is ErrUnsure while the machine's clocks leave it in doubt; from that
// a hold may recover, so Done stays open. It reads the clocks itself and never trusts a timer: asked right after a pause, it tells the truth.
func (h *Hold) Err() error {
	s := h.session()
	s.mu.Lock()
	defer s.mu.Unlock()
	return h.errLocked(s.node.clock.Now())
}

func (h *Hold) session() *Session { return h.claim.session }

func (h *Hold) errLocked(now clock.Reading) error {
	if h.err != nil {
		return h.err
	}
	state := h.session().judgeLocked(now) // a loss of the session ends the hold with it
	if h.err != nil {
		return h.err
	}
	if h.frozen != nil {
		// An answer of the cluster cures the session's doubt, not that of a copy that is never extended.
		state = h.frozen.state(now)
	}
	switch state {
	case leaseLost:
		h.forgetLocked()
		h.loseLocked(h.drain)
		return h.err
	case leaseUnsure:
		return ErrUnsure
	}
	return nil
}

// Deadline is when the hold is lost unless it is renewed before, on this machine's wall clock and for display: decide by Err or Done. It
// moves on with each renewal, except while a forced release drains the hold.
func (h *Hold) Deadline() time.Time {
	s := h.session()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.node.clock.Now()
	if h.frozen != nil {
		return h.frozen.deadline(now)
	}
	return s.lease.deadline(now)
}

// Jeopardy is closed when renewals are failing, or a forced release has begun: unless that changes the hold is lost at Deadline. After a recovery Jeopardy returns a
// new channel.
func (h *Hold) Jeopardy() <-chan struct{} {
	s := h.session()
	s.mu.Lock()
	defer s.mu.Unlock()
	return h.warn
}

// Context gives a context that ends when the hold does, with the cause Err; or when parent ends. Call cancel when done with it.
func (h *Hold) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	s := h.session()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := h.errLocked(s.node.clock.Now()); err != nil && !errors.Is(err, ErrUnsure) {
		cancel(err)
		return ctx, func() {}
	}
	if h.cancels == nil {
		h.cancels = make(map[*context.CancelCauseFunc]struct{})
	}
	h.cancels[&cancel] = struct{}{}
	return ctx, func() {
		s.mu.Lock()
		delete(h.cancels, &cancel)
		s.mu.Unlock()
		cancel(context.Canceled)
	}
}

// Unlock releases the lock. It takes no context, because it must run after the caller's has ended: it waits for the cluster's answer at most
// until the hold's deadline, and by then the TTL has the release under way anyway.
//
// Nil means released. ErrUnlocked: it was released before. A *LostError: the hold had ended before, so the work under it may have overlapped with a
// successor's. A *WaitError: the work was covered to its end, but no answer came before the deadline; the lock becomes free by its TTL at the latest. (A
// ForceRelease with Now is by its nature the exception: word of it may not have come.)
func (h *Hold) Unlock() error {
	s := h.session()
	s.mu.Lock()
	h.coverLocked()
	err := h.errLocked(s.node.clock.Now())
	switch {
	case h.released:
		s.mu.Unlock()
		return ErrUnlocked
	case h.covered && s.life.Err() != nil: // Close had no more time
		h.released = true
		s.mu.Unlock()
		return h.unconfirmed()
	case err != nil && !errors.Is(err, ErrUnsure) && !h.covered:
		h.released = true
		s.mu.Unlock()
		return err
	}
	h.released = true
	h.forgetLocked()
	h.endLocked(ErrUnlocked)
	seq := s.beginLocked()
	s.unlocks++
	s.mu.Unlock()
	defer s.endUnlock()
	return h.release(seq)
}

// coverLocked notes that the work under the hold ends now, if it is covered: the lease is trusted, and nobody has asked for the release. Close does that as
// soon as no callback works any more.
func (h *Hold) coverLocked() {
	s := h.session()
	if s.life.Err() != nil || h.err != nil && !(h.closing && s.work > 0) {
		return
	}
	lease := &s.lease
	if h.frozen != nil {
		lease = h.frozen
	}
	if state := lease.state(s.node.clock.Now()); state == leaseHeld || state == leaseJeopardy {
		h.covered = true
	}
}

func (h *Hold) unconfirmed() error {
	return &WaitError{Op: "unlock", Name: h.claim.name, Waiting: "no answer before the lease ended; the TTL frees the lock", Err: ErrNoQuorum}
}

// release repeats the unlock, under one sequence, until it is answered or the session is over.
func (h *Hold) release(seq uint64) error {
	s := h.session()
	cmd := locktable.Command{Op: locktable.OpUnlock, Seq: seq, Token: locktable.Token(h.token)}
	res, err := h.releaseInTime(cmd)
	if err != nil {
		if context.Cause(s.life) != nil || errors.Is(err, context.DeadlineExceeded) {
			return h.unconfirmed()
		}
		return err
	}
	s.finish(seq)
	if res.Code == locktable.CodeReleased {
		return nil
	}
	lost := &LostError{Name: h.claim.name, Token: h.token, Cause: CauseExpired, Reason: "the cluster had ended the hold before"}
	if res.Code != locktable.CodeNoSession {
		lost.Cause = CauseForced
	}
	return lost
}

// releaseInTime waits until the deadline that the hold has now, and leaves the rest to the background: renewals of a session that lives on move the
// session's deadline, and must not move the end of this wait.
func (h *Hold) releaseInTime(cmd locktable.Command) (locktable.Result, error) {
	s := h.session()
	ctx, cancel := context.WithTimeout(s.life, max(h.left(), 0))
	defer cancel()
	res, err := s.persist(ctx, "unlock", h.claim.name, cmd)
	if err != nil && s.life.Err() == nil {
		s.node.spawn(func() {
			if _, err := s.persist(s.life, "unlock", h.claim.name, cmd); err == nil {
				s.finish(cmd.Seq)
			}
		})
	}
	return res, err
}

// left is how long the hold would be trusted from now without another renewal.
func (h *Hold) left() time.Duration {
	s := h.session()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.node.clock.Now()
	if h.frozen != nil {
		return h.frozen.left(now)
	}
	return s.lease.left(now)
}

// forgetLocked takes the hold out of its session.
func (h *Hold) forgetLocked() { delete(h.session().claims, h.claim.seq) }

func (h *Hold) loseLocked(cause *LostError) {
	cause.Token = h.token
	h.endLocked(cause)
}

func (h *Hold) endLocked(err error) {
	if h.err != nil {
		return
	}
	h.err = err
	close(h.done)
	for cancel := range h.cancels {
		(*cancel)(err)
	}
	h.cancels = nil
}

// freezeLocked begins a drain: the deadline of this hold stays where it is, while the session's other holds live on.
func (h *Hold) freezeLocked(cause *LostError) {
	if h.frozen != nil || h.err != nil {
		return
	}
	frozen := h.session().lease
	h.frozen, h.drain = &frozen, cause
	h.warnLocked()
}

func (h *Hold) warnLocked() {
	if !h.warned {
		h.warned, h.session().warned = true, true
		close(h.warn)
	}
}

func (h *Hold) calmLocked() {
	if h.warned && h.frozen == nil && h.err == nil {
		h.warned = false
		h.warn = make(chan struct{})
	}
}

func (h *Hold) tickLocked(now clock.Reading) {
	if h.errLocked(now); h.err == nil && h.session().lease.failing(now) {
		h.warnLocked()
	}
}
