package quorumlock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/clock"
	"github.com/quorumlock/quorumlock/internal/locktable"
)

// Hold is one grant of a lock. It is held until Unlock, or until it is lost; a lost hold is never held again. All
// methods are safe for concurrent use.
type Hold struct {
	claim *claim
	token Token // by which the cluster knows the grant
	done  chan struct{}
	limit *lease        // MaxHold, nil without one: a lease that is never extended
	over  chan struct{} // closed when the callback that works under it has returned; nil if none ever did

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

func newHold(c *claim, t Token, now clock.Reading) *Hold {
	h := &Hold{claim: c, token: t, done: make(chan struct{}), warn: make(chan struct{})}
	if h.limit = c.limit; h.limit == nil && c.want.maxHold > 0 {
		h.limit = capLease(c.want.maxHold, c.session.ttl, now)
	}
	if h.limit != nil {
		c.session.node.sessions.notice(c.session)
	}
	return h
}

// Token is the fencing token of this grant: pass it along with every write to a resource that checks it. It is zero,
// which every checker refuses, for the permits of a Semaphore: their holders work at the same time, so no order between
// them could be checked.
func (h *Hold) Token() Token {
	if h.claim.want.mode == locktable.Permits {
		return 0
	}
	return h.token
}

// Name is the lock's name; of a MultiMutex the first one and the number of the others.
func (h *Hold) Name() string { return h.claim.name }

// Names are the names of all locks that are held by it, one except for a MultiMutex.
func (h *Hold) Names() []string { return slices.Clone(h.claim.want.names) }

// Done is closed when the hold ends: by Unlock, by Transfer, by RWMutex.Downgrade, or by loss; Err then tells which.
// After a suspend of the machine it is closed within 250 ms of the wake-up; Err tells at once.
func (h *Hold) Done() <-chan struct{} { return h.done }

// Err is nil while the lock is held. Afterwards it is for good ErrUnlocked (by Unlock or RWMutex.Downgrade),
// ErrTransferred (by Transfer) or a *LostError. It is ErrUnsure while the machine's clocks leave it in doubt; from that
// a hold may recover, so Done stays open. It reads the clocks itself and never trusts a timer: asked right after a
// pause, it tells the truth.
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
	if h.pastLimit(now) {
		h.endByLimitLocked()
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

// Deadline is when the hold is lost unless it is renewed before, on this machine's wall clock and for display: decide
// by Err or Done. It moves on with each renewal, except while a forced release drains the hold, and not beyond MaxHold.
func (h *Hold) Deadline() time.Time {
	s := h.session()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.node.clock.Now()
	return now.Wall.Add(h.leftLocked(now))
}

// Jeopardy is closed when renewals are failing, a forced release has begun, or MaxHold is near: unless that changes the
// hold is lost at Deadline. Forced tells whether it is a forced release. It is closed too by a loss that comes without a
// warning. After a recovery Jeopardy returns a new channel.
func (h *Hold) Jeopardy() <-chan struct{} {
	s := h.session()
	s.mu.Lock()
	defer s.mu.Unlock()
	return h.warn
}

// Forced tells of a forced release that has begun: by whom and why the hold ends at Deadline. Nil if none has, as far
// as this node has heard.
func (h *Hold) Forced() *LostError {
	s := h.session()
	s.mu.Lock()
	defer s.mu.Unlock()
	return h.drain
}

// Context gives a context that ends when the hold does, with the cause Err; or when parent ends. Call cancel when done with it. It carries the grant to
// the checkers of package fence.
func (h *Hold) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(h.granted(parent))
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
	forget := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(h.cancels, &cancel)
	}
	stop := context.AfterFunc(parent, forget)
	return ctx, func() {
		stop()
		forget()
		cancel(context.Canceled)
	}
}

// Unlock releases the lock. It takes no context, because it must run after the caller's has ended: it waits for the
// cluster's answer at most until the hold's deadline, and by then the TTL has the release under way anyway.
//
// Nil means released. ErrUnlocked: an Unlock or a Downgrade came before; ErrTransferred: it was given away. A
// *LostError: the hold had ended before, so the work under it may have overlapped with a successor's. A *WaitError: the
// work was covered to its end, but no answer came before the deadline; the lock becomes free by its TTL at the latest.
// (A ForceRelease with Now is by its nature the exception: word of it may not have come.)
func (h *Hold) Unlock() error { return h.unlockBy(h.release) }

// unlockBy ends the hold here, and then has the cluster release it, which is what release does under the sequence that it is given.
func (h *Hold) unlockBy(release func(seq uint64) error) error {
	s := h.session()
	s.mu.Lock()
	now := s.node.clock.Now()
	h.coverLocked(now)
	err := h.errLocked(now)
	switch {
	case h.released:
		s.mu.Unlock()
		return ErrUnlocked // whatever ended it meanwhile
	case h.covered && s.life.Err() != nil: // Close had no more time
		h.released = true
		s.mu.Unlock()
		return h.unconfirmed()
	case err != nil && !errors.Is(err, ErrUnsure) && !h.covered:
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
	return release(seq)
}

// coverLocked notes that the work under the hold ends now, if it is covered: the lease is trusted, and nobody has asked for the release. Close does that as
// soon as no callback works any more.
func (h *Hold) coverLocked(now clock.Reading) {
	s := h.session()
	if s.life.Err() != nil || h.err != nil && !(h.closing && s.work > 0) {
		return
	}
	if h.err == nil && h.pastLimit(now) {
		return
	}
	if state := h.leaseLocked().state(now); state == leaseHeld || state == leaseJeopardy {
		h.covered = true
	}
}

func (h *Hold) unconfirmed() error {
	return &WaitError{Op: "unlock", Name: h.claim.name, Waiting: "no answer before the lease ended; the TTL frees the lock", Err: ErrNoQuorum}
}

// release repeats the unlock, under one sequence, until it is answered or the session is over.
func (h *Hold) release(seq uint64) error {
	s := h.session()
	cmd := h.unlock(seq)
	res, err := h.releaseInTime(cmd)
	if err != nil {
		if context.Cause(s.life) != nil || errors.Is(err, context.DeadlineExceeded) {
			return h.unconfirmed()
		}
		return err
	}
	s.finish(seq)
	return h.outcome(&res)
}

// outcome is what the answer to a release says.
func (h *Hold) outcome(res *locktable.Result) error {
	if res.Code == locktable.CodeReleased {
		return nil
	}
	if res.Code != locktable.CodeNoSession {
		return h.forcedBy(res)
	}
	return &LostError{Name: h.claim.name, Token: h.Token(), Cause: CauseExpired, Reason: endedBefore}
}

const endedBefore = "the cluster had ended the hold before"

// forcedBy is the loss of a hold that the cluster does not know, or drains, while the session lives: that is somebody's doing. The answer tells whose, unless
// that had been heard before.
func (h *Hold) forcedBy(res *locktable.Result) *LostError {
	lost := &LostError{Name: h.claim.name, Token: h.Token(), Cause: CauseForced, Reason: endedBefore}
	for _, l := range res.Lost {
		if l.Seq == h.claim.seq {
			lost.Actor, lost.Reason = l.Actor, l.Reason
		}
	}
	return lost
}

// inTime is a context for a release: it ends at the deadline that the lease has now. Renewals of a session that lives on move the session's deadline, and must not move
// the end of this wait. The end of MaxHold does not count: the work is over, and the cluster knows of no such end.
func (h *Hold) inTime() (ctx context.Context, cancel context.CancelFunc, now clock.Reading) {
	s := h.session()
	s.mu.Lock()
	now = s.node.clock.Now()
	left := h.leaseLocked().left(now)
	s.mu.Unlock()
	ctx, cancel = context.WithTimeout(s.life, max(left, 0))
	return ctx, cancel, now
}

// releaseInTime waits for the answer as long as inTime says, and leaves the rest to the background.
func (h *Hold) releaseInTime(cmd locktable.Command) (locktable.Result, error) {
	s := h.session()
	ctx, cancel, c0 := h.inTime()
	defer cancel()
	res, err := s.persist(ctx, c0, "unlock", h.claim.name, cmd)
	if err != nil && s.life.Err() == nil {
		s.node.spawn(func() { h.persistUnlock(cmd) })
	}
	return res, err
}

func (h *Hold) unlock(seq uint64) locktable.Command {
	return locktable.Command{Op: locktable.OpUnlock, Seq: seq, Of: h.claim.seq, Token: locktable.Token(h.token)}
}

// forfeit is the unlock of a hold that ended against its holder's will: the work may go on, so the lock delay applies.
func (h *Hold) forfeit(seq uint64) locktable.Command {
	cmd := h.unlock(seq)
	cmd.Barring = true
	return cmd
}

// persistUnlock repeats an unlock until it is answered or the session is over.
func (h *Hold) persistUnlock(cmd locktable.Command) (answered bool) {
	s := h.session()
	if _, err := s.persist(s.life, s.node.clock.Now(), "unlock", h.claim.name, cmd); err != nil {
		return false
	}
	s.finish(cmd.Seq)
	return true
}

// leaseLocked is what the hold lives on: its session's lease, or the copy that a drain has frozen.
func (h *Hold) leaseLocked() *lease {
	if h.frozen != nil {
		return h.frozen
	}
	return &h.session().lease
}

// leftLocked is how long the hold would be trusted from now without another renewal.
func (h *Hold) leftLocked(now clock.Reading) time.Duration {
	left := h.leaseLocked().left(now)
	if h.limit != nil {
		left = min(left, h.limit.left(now))
	}
	return left
}

// forgetLocked takes the hold out of its session.
func (h *Hold) forgetLocked() { delete(h.session().claims, h.claim.seq) }

func (h *Hold) loseLocked(cause *LostError) {
	cause.Token = h.Token()
	if h.err == nil {
		h.warnLocked() // who waits for the warning alone hears of the loss too
	}
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
	h.session().node.sessions.notice(h.session())
	h.warnLocked()
}

func (h *Hold) warnLocked() {
	if !h.warned {
		h.warned, h.session().warned = true, true
		close(h.warn)
	}
}

func (h *Hold) calmLocked() {
	if h.warned && h.frozen == nil && h.err == nil && !h.nearLimit(h.session().node.clock.Now()) {
		h.warned = false
		h.warn = make(chan struct{})
	}
}

func (h *Hold) tickLocked(now clock.Reading) {
	if h.errLocked(now); h.err == nil && (h.session().lease.failing(now) || h.nearLimit(now)) {
		h.warnLocked()
	}
}
