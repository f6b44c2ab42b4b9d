package quorumlock

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/router"
)

// claim is one request for a lock as its session sees it: waiting until settled is closed, then held (hold set) or over (err set).
// All fields are guarded by the session's mu, except settled, which is only closed under it.
type claim struct {
	session *Session
	seq     uint64
	name    string
	settled chan struct{}
	hold    *Hold
	err     error
}

// newClaim registers a claim before it is proposed: a grant that overtakes the answer finds it.
func (s *Session) newClaim(name string) (*claim, *locktable.Command, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.errLocked(s.node.clock.Now()); err != nil && err != ErrUnsure {
		return nil, nil, err
	}
	c := &claim{session: s, seq: s.beginLocked(), name: name, settled: make(chan struct{})}
	s.claims[c.seq] = c
	return c, &locktable.Command{Op: locktable.OpClaim, Seq: c.seq, Floor: s.floor, Names: []string{name}}, nil
}

// grantedLocked takes in that the cluster granted a claim, from whichever of the three ways told first: the answer, the push, the news in a
// renewal (or this node's own state machine). It is believed only while the claim still waits and the node's own deadline lies ahead.
func (s *Session) grantedLocked(seq uint64, t Token) {
	c := s.claims[seq]
	if c == nil || c.hold != nil || c.err != nil || s.closing != nil {
		return
	}
	if s.judgeLocked(s.node.clock.Now()) == leaseLost {
		return
	}
	c.hold = newHold(c, t)
	close(c.settled)
}

// lostLocked takes in that a hold is lost, or being drained, while the session lives.
func (s *Session) lostLocked(l locktable.Lost) {
	c := s.claims[l.Seq]
	if c == nil {
		return
	}
	cause := &LostError{Name: c.name, Token: Token(l.Token), Cause: CauseForced, Actor: l.Actor, Reason: l.Reason}
	switch {
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
	if c.err == nil {
		c.err = &named
		close(c.settled)
	}
}

// closeLocked is loseLocked at the begin of the session's Close: what is held may still be unlocked by the callback that works under it.
func (c *claim) closeLocked(cause *LostError) {
	c.loseLocked(cause)
	if c.hold != nil {
		c.hold.closing = true
	}
}

// giveUp removes a claim that got no answer. If it certainly never left, there is nothing to remove in the cluster.
func (c *claim) giveUp(err error) {
	var wait *WaitError
	if errors.As(err, &wait) && wait.unsent {
		c.session.drop(c)
		c.session.finish(c.seq)
		return
	}
	c.abandon()
}

// abandon gives a claim up: whatever of it is or will be in the cluster is removed. It returns at once; the cancel is retried until it
// is answered or the session is over, and a copy of the claim that arrives after it creates nothing.
func (c *claim) abandon() {
	s := c.session
	s.mu.Lock()
	if s.claims[c.seq] == c {
		delete(s.claims, c.seq)
	}
	over := s.life.Err() != nil
	s.mu.Unlock()
	if over {
		return
	}
	s.node.spawn(func() {
		cmd := locktable.Command{Op: locktable.OpCancel, Seq: c.seq}
		if _, err := s.persist(s.life, "cancel", c.name, cmd); err == nil {
			s.finish(c.seq)
		}
	})
}

// persist repeats a command until it is answered or ctx ends: neither an overloaded leader nor a session with too many open sequences is a reason to
// leave something behind. Each round is a command of its own with the floor as it is then, under the one sequence.
func (s *Session) persist(ctx context.Context, op, name string, cmd locktable.Command) (locktable.Result, error) {
	for {
		s.mu.Lock()
		cmd.Floor = min(s.floor, cmd.Seq)
		s.mu.Unlock()
		round := cmd
		res, err := s.do(ctx, op, name, &round, router.Options{})
		switch {
		case err != nil && !errors.Is(err, ErrOverloaded):
			return res, err
		case err == nil && res.Code != locktable.CodeOverloaded:
			return res, nil
		}
		if pause(ctx, persistPause); ctx.Err() != nil {
			return res, &WaitError{Op: op, Name: name, Waiting: ErrOverloaded.Error(), Err: ended(ctx)}
		}
	}
}

const persistPause = 200 * time.Millisecond

// during is a context that ends with ctx or when the session takes no claims any more.
func (s *Session) during(ctx context.Context) (context.Context, func()) {
	both, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.taking, cancel)
	return both, func() { stop(); cancel() }
}

func (s *Session) finish(seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finishLocked(seq)
}

// fate is how the claim stands now.
func (c *claim) fate() (*Hold, error) {
	c.session.mu.Lock()
	defer c.session.mu.Unlock()
	return c.hold, c.err
}
