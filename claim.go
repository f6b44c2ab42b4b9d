package quorumlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock/internal/clock"
	"github.com/quorumlock/quorumlock/internal/locktable"
)

// claim is one request for a lock as its session sees it: waiting until settled is closed, then held (hold set) or over (err set).
// What follows limit is guarded by the session's mu, under which settle is called; the others do not change.
type claim struct {
	session *Session
	seq     uint64
	want    *request // a copy: the caller's Mutex may be overwritten by another
	name    string
	begun   clock.Reading // before anything was sent
	settled chan struct{}
	limit   *lease // of the hold that this one follows, nil without a cap
	hold    *Hold
	err     error
	asking  context.CancelCauseFunc // ends the question that is under way, nil if none is
}

// errGranted ends a question whose answer has come another way. As a rule it does, since the news of a grant is on its way before the answer; so it is told apart from the errors that
// somebody will read, which cost more than the rest of the call.
var errGranted = errors.New("the grant has been heard of")

// settle wakes whoever waits for the claim. It is called once, when hold or err has been set.
func (c *claim) settle() {
	close(c.settled)
	if c.asking != nil {
		c.asking(c.endOfQuestion())
	}
}

func (c *claim) endOfQuestion() error {
	if c.hold != nil {
		return errGranted
	}
	return context.Canceled
}

// newClaim registers a claim before it is proposed: a grant that overtakes the answer finds it. cmd is completed and checked.
// ctx bounds the wait for its turn.
func (s *Session) newClaim(ctx context.Context, op string, r *request, cmd *locktable.Command) (*claim, error) {
	want := *r
	name := want.label()
	seq, at, err := s.begin(ctx, op, name)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	cmd.Session, cmd.Seq, cmd.Floor = s.id, seq, s.floor
	if err := locktable.Check(cmd); err != nil {
		s.finishLocked(seq) // nothing was sent
		return nil, fieldError(err, nil)
	}
	c := &claim{session: s, seq: seq, want: &want, name: name, begun: at, settled: make(chan struct{})}
	s.claims[seq] = c
	return c, nil
}

// acquire sends the claim and waits for its grant.
func (c *claim) acquire(ctx context.Context, op string, cmd *locktable.Command) (*Hold, error) {
	s := c.session
	res, err := c.ask(ctx, op, cmd)
	if err != nil {
		c.giveUp(err)
		return nil, c.why(ctx, err)
	}
	switch res.Code {
	case locktable.CodeGranted, locktable.CodeWaiting:
	case locktable.CodeLocked, locktable.CodeKind, locktable.CodeLimit, locktable.CodeNotHeld:
		s.finish(c.seq) // the cluster remembers the refusal, so a late copy gets it too
		s.drop(c)
		return nil, c.refused(op, &res)
	default:
		// The cluster may have kept nothing of the sequence, and then a late copy of the claim would be taken for a new one.
		c.abandon()
		if err := c.over(); err != nil {
			return nil, err
		}
		if cmd.Op == locktable.OpAccept && res.Code == locktable.CodeDraining {
			return nil, fmt.Errorf("%s %q: %w: the hold is being released by force", op, c.name, ErrTicket)
		}
		return nil, refusal(op, c.name, &res)
	}
	return c.wait(ctx, op, &res)
}

// askOnce sends the claim until it is answered, or its grant is heard of otherwise: the answer may hang, or be lost with a leader, while the news is here. A grant is taken in. The end
// of the session, or of its taking claims, settles the claim and so ends this too.
func (c *claim) askOnce(ctx context.Context, c0 clock.Reading, op string, cmd *locktable.Command) (locktable.Result, error) {
	s := c.session
	both, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c.endWith(cancel)
	res, err := s.do(both, c0, op, c.name, cmd)
	s.mu.Lock()
	defer s.mu.Unlock()
	c.asking = nil
	if err != nil && c.hold != nil {
		res, err = locktable.Result{Code: locktable.CodeGranted, Token: locktable.Token(c.hold.token)}, nil
	}
	if err != nil {
		return res, err
	}
	switch res.Code {
	case locktable.CodeGranted:
		if c.hold == nil {
			s.grantedLocked(c.seq, Token(res.Token), s.node.clock.Now())
		}
		fallthrough
	case locktable.CodeWaiting:
		s.finishLocked(c.seq)
	}
	return res, nil
}

// endWith has cancel called when the claim is settled, or now if it is.
func (c *claim) endWith(cancel context.CancelCauseFunc) {
	c.session.mu.Lock()
	defer c.session.mu.Unlock()
	if c.asking = cancel; c.hold != nil || c.err != nil {
		cancel(c.endOfQuestion())
	}
}

// wait parks until the claim is settled or ctx ends. If both are true at once, ctx wins and the grant is given back: a caller whose deadline
// has passed is not told that it holds a lock.
func (c *claim) wait(ctx context.Context, op string, res *locktable.Result) (*Hold, error) {
	select {
	case <-c.settled:
		c.awaitCertainty(ctx)
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		c.abandon()
		return nil, c.session.withQuorum(c.waiting(ctx, op, res))
	}
	if err := c.over(); err != nil {
		// The session may live on for a while: it is being closed and a callback still works, or the grant was drained before it was known.
		c.abandon()
		return nil, err
	}
	return c.hold, nil
}

// awaitCertainty waits while the machine's clocks leave in doubt whether what was granted is still held, so that nobody begins to work under such a hold.
func (c *claim) awaitCertainty(ctx context.Context) {
	s := c.session
	for {
		s.mu.Lock()
		if c.hold == nil || c.hold.errLocked(s.node.clock.Now()) != ErrUnsure {
			s.mu.Unlock()
			return
		}
		if s.extended == nil {
			s.extended = make(chan struct{})
		}
		extended, ended := s.extended, c.hold.done
		s.mu.Unlock()
		select {
		case <-extended:
		case <-ended:
		case <-ctx.Done():
			return
		}
	}
}

// waiting says what a call that ended was waiting for.
func (c *claim) waiting(ctx context.Context, op string, res *locktable.Result) *WaitError {
	e := &WaitError{Op: op, Name: c.name, Ahead: res.Ahead, Queue: res.Waiters, Err: ended(ctx)}
	if res.Blocker != nil {
		h := holderOf(res.Blocker)
		e.Holder = &h
		e.Waiting = fmt.Sprintf("%v, %d ahead in the queue", h, res.Ahead)
		if h.Session == c.session.ID() {
			e.Waiting = fmt.Sprintf("%v, by the very session that waits: locks are not re-entrant", h)
		}
	} else if res.Code == locktable.CodeWaiting {
		e.Waiting = fmt.Sprintf("%d ahead in the queue", res.Ahead)
	}
	return e
}

// withQuorum adds to what a claim in a queue waited for that the quorum was missing when its time was over: nobody who holds the lock could release it either.
func (s *Session) withQuorum(e *WaitError) error {
	s.mu.Lock()
	missing := s.noQuorum
	s.mu.Unlock()
	if !missing {
		return e
	}
	if e.Err = joined(e.Err, true); e.Waiting != "" {
		e.Waiting += "; "
	}
	e.Waiting += s.node.why()
	return s.node.explain(e)
}

// refused turns a refusal of the claim as such into an error.
func (c *claim) refused(op string, res *locktable.Result) error {
	switch res.Code {
	case locktable.CodeNotHeld:
		return fmt.Errorf("%s %q: %w", op, c.name, ErrTicket)
	case locktable.CodeKind:
		return &KindError{Name: res.Detail, Semaphore: c.want.mode != locktable.Permits}
	case locktable.CodeLimit:
		return &LimitError{Name: c.name, Permits: c.want.count, Limit: c.want.limit, Agreed: int(res.Limit)}
	}
	return refusal(op, c.name, res)
}

// why prefers the session's end over the ctx error that it caused.
func (c *claim) why(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	if lost := c.over(); lost != nil {
		return lost
	}
	return err
}

// drop takes a claim out of its session of which the cluster keeps nothing.
func (s *Session) drop(c *claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.hold == nil && s.claims[c.seq] == c {
		delete(s.claims, c.seq)
	}
}

// grantedLocked takes in that the cluster granted a claim, from whichever of the three ways told first: the answer, the push, the news in a
// renewal (or this node's own state machine). It is believed only while the claim still waits and the node's own deadline lies ahead.
func (s *Session) grantedLocked(seq uint64, t Token, now clock.Reading) {
	c := s.claims[seq]
	if c == nil || c.hold != nil || c.err != nil || s.closing != nil {
		return
	}
	if s.judgeLocked(now) == leaseLost {
		return
	}
	c.hold = newHold(c, t, now)
	c.settle()
}

// lostLocked takes in that a hold is lost, or being drained, or that a waiting claim was ended, while the session lives.
func (s *Session) lostLocked(l locktable.Lost) {
	c := s.claims[l.Seq]
	if c == nil {
		return
	}
	cause := &LostError{Name: c.name, Token: Token(l.Token), Cause: CauseForced, Actor: l.Actor, Reason: l.Reason}
	switch {
	case l.Cause == locktable.LostLimit:
		delete(s.claims, l.Seq)
		c.endLocked(&LimitError{Name: c.name, Permits: c.want.count, Limit: c.want.limit, Agreed: int(l.Limit)})
	case l.Cause == locktable.LostDrained && c.hold != nil:
		c.hold.freezeLocked(cause)
	case l.Cause == locktable.LostDrained:
		// The grant is not known here yet; it comes with the same news, and is not worth having.
		fallthrough
	default:
		delete(s.claims, l.Seq)
		c.loseLocked(cause)
	}
}

// loseLocked ends the claim without the owner's wish.
func (c *claim) loseLocked(cause *LostError) {
	named := *cause
	named.Name = c.name
	if c.hold != nil {
		c.hold.loseLocked(&named)
		return
	}
	c.endLocked(&named)
}

// endLocked ends a claim that waits.
func (c *claim) endLocked(err error) {
	if c.hold == nil && c.err == nil {
		c.err = err
		c.settle()
	}
}

// closeLocked is loseLocked at the begin of the session's Close: what is held may still be unlocked by the callback that works under it.
func (c *claim) closeLocked(cause *LostError) {
	c.loseLocked(cause)
	if c.hold != nil {
		c.hold.closing = true
	}
}

// giveUp removes a claim that got no answer.
func (c *claim) giveUp(err error) {
	s := c.session
	s.mu.Lock()
	if s.claims[c.seq] == c {
		delete(s.claims, c.seq)
	}
	s.mu.Unlock()
	s.withdraw(c.seq, c.name, err)
}

// abandon gives a claim up of which something is or may be in the cluster. It returns at once.
func (c *claim) abandon() { c.giveUp(nil) }

// over is why the claim, or the hold that it became, has ended here; nil if it has not.
func (c *claim) over() error {
	c.session.mu.Lock()
	defer c.session.mu.Unlock()
	if c.hold != nil {
		return c.hold.err
	}
	return c.err
}
