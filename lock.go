package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/router"
)

// Mutex is a lock that at most one hold in the whole cluster has at a time. Waiters are served in the order in which their claims
// reached the cluster.
//
// A Mutex is only a name with options: state belongs to the grant. It may be copied and shared freely, two goroutines that
// lock it exclude each other, and it is not re-entrant.
type Mutex struct {
	owner Owner
	name  string
	note  string
}

// LockOption sets something about the claims of one Mutex.
type LockOption func(*Mutex)

// Note attaches words for people to each claim; inspections and errors show them. At most 1 KiB.
func Note(text string) LockOption { return func(m *Mutex) { m.note = text } }

// NewMutex names a lock. Names are 1 to 512 bytes of UTF-8 without control characters; they are compared byte by byte, and "a" and "a/b" have
// nothing to do with each other. A bad name is reported by Lock and TryLock, before anything is sent.
func NewMutex(o Owner, name string, opts ...LockOption) *Mutex {
	m := &Mutex{owner: o, name: name}
	for _, opt := range opts {
		opt(m)
	}
	return m
}

// Lock waits until the lock is granted. ctx bounds the wait, never the hold.
//
// An error means that nothing is held: if the grant raced with the end of ctx, it is given back. The claim is withdrawn in the background, within 2 s of
// reaching a quorum; until then others may see it wait. The error is a *WaitError that unwraps to the ctx error and says what the call was waiting for, with ErrNoQuorum if no leader answered; a *LostError if the
// session ended; a *FieldError for a bad name or note.
func (m *Mutex) Lock(ctx context.Context) (*Hold, error) { return m.acquire(ctx, false) }

// TryLock takes the lock if nobody holds it or waits for it, and returns a *LockedError (matching ErrLocked) otherwise. ctx bounds the round trip.
func (m *Mutex) TryLock(ctx context.Context) (*Hold, error) { return m.acquire(ctx, true) }

// Do runs fn under the lock: it waits as Lock does, calls fn with a context that ends when the hold is lost (context.Cause tells why) or when ctx
// ends, and unlocks when fn has returned or panicked. It returns fn's error and Unlock's, joined: an ErrLost in it means that fn's work may have
// overlapped with a successor's. Pass t along with every write to a fenced resource.
//
// Closing the node or the session ends fn's context and waits for fn to return before anything is released.
func (m *Mutex) Do(ctx context.Context, fn func(ctx context.Context, t Token) error) (err error) {
	h, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	s := h.session()
	if !s.beginWork() {
		return errors.Join(h.Err(), unlockQuietly(h))
	}
	held, cancel := h.Context(ctx)
	// Deferred, so that a panic of fn releases the lock on its way up.
	defer func() {
		cancel()
		s.endWork(h)
		defer s.endUnlock()
		err = errors.Join(err, h.Unlock())
	}()
	return fn(held, h.Token())
}

// unlockQuietly gives a hold back that nobody has worked under.
func unlockQuietly(h *Hold) error {
	if err := h.Unlock(); err != nil && !errors.Is(err, ErrLost) {
		return err
	}
	return nil
}

func (m *Mutex) check() error {
	switch o := m.owner.(type) {
	case nil:
		return &FieldError{Field: "owner", Problem: "must not be nil"}
	case *Node:
		if o == nil {
			return &FieldError{Field: "owner", Problem: "must not be a nil *Node"}
		}
	case *Session:
		if o == nil {
			return &FieldError{Field: "owner", Problem: "must not be a nil *Session"}
		}
	}
	err := locktable.CheckName(m.name)
	if err == nil && len(m.note) > locktable.MaxNoteLen {
		return &FieldError{Field: "note", Value: m.note, Problem: fmt.Sprintf("has %d bytes; %d is the most", len(m.note), locktable.MaxNoteLen)}
	}
	return fieldError(err, m.name)
}

// fieldError gives a rule of the lock table that was broken as this package's typed error.
func fieldError(err error, value any) error {
	var broken *locktable.CommandError
	if errors.As(err, &broken) {
		return &FieldError{Field: strings.ToLower(strings.TrimSuffix(broken.Field, "s")), Value: value, Problem: broken.Reason}
	}
	return err
}

func (m *Mutex) acquire(ctx context.Context, try bool) (*Hold, error) {
	op := "lock"
	if try {
		op = "try lock"
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, &WaitError{Op: op, Name: m.name, Err: ended(ctx)}
	}
	s, err := m.owner.current(ctx)
	if wait := (*WaitError)(nil); errors.As(err, &wait) {
		return nil, &WaitError{Op: op, Name: m.name, Waiting: wait.Op, Err: err}
	}
	if err != nil {
		return nil, err
	}
	c, cmd, err := s.newClaim(m.name)
	if err != nil {
		return nil, err
	}
	cmd.Try, cmd.Note = try, m.note
	if err := locktable.Check(withSession(cmd, s)); err != nil {
		s.finish(c.seq) // nothing was sent
		s.drop(c)
		return nil, fieldError(err, nil)
	}
	return c.acquire(ctx, op, cmd)
}

func withSession(cmd *locktable.Command, s *Session) *locktable.Command {
	cmd.Session = s.id
	return cmd
}

// acquire sends the claim and waits for its grant.
func (c *claim) acquire(ctx context.Context, op string, cmd *locktable.Command) (*Hold, error) {
	s := c.session
	both, stop := s.during(ctx)
	res, err := s.do(both, op, c.name, cmd, router.Options{})
	stop()
	if err != nil {
		c.giveUp(err)
		return nil, c.why(ctx, err)
	}
	switch res.Code {
	case locktable.CodeGranted:
		s.finish(c.seq)
		s.mu.Lock()
		s.grantedLocked(c.seq, Token(res.Token))
		s.mu.Unlock()
	case locktable.CodeWaiting:
		s.finish(c.seq)
	case locktable.CodeLocked:
		s.finish(c.seq)
		s.drop(c)
		return nil, refusal(op, c.name, &res)
	default:
		// The cluster may have kept nothing of the sequence, and then a late copy of the claim would be taken for a new one.
		c.abandon()
		if hold, lost := c.fate(); hold == nil && lost != nil {
			return nil, lost
		}
		return nil, refusal(op, c.name, &res)
	}
	return c.wait(ctx, op, &res)
}

// wait parks until the claim is settled or ctx ends. If both are true at once, ctx wins and the grant is given back: a caller whose deadline
// has passed is not told that it holds a lock.
func (c *claim) wait(ctx context.Context, op string, res *locktable.Result) (*Hold, error) {
	select {
	case <-c.settled:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		c.abandon()
		return nil, waiting(ctx, op, c.name, res)
	}
	hold, err := c.fate()
	if err != nil {
		// The session may live on for a while: it is being closed and a callback still works, or the grant was drained before it was known.
		c.abandon()
	}
	return hold, err
}

// waiting says what a call that ended was waiting for.
func waiting(ctx context.Context, op, name string, res *locktable.Result) error {
	e := &WaitError{Op: op, Name: name, Ahead: res.Ahead, Err: ended(ctx)}
	if res.Blocker != nil {
		h := holderOf(res.Blocker)
		e.Holder = &h
		e.Waiting = fmt.Sprintf("%v, %d ahead in the queue", h, res.Ahead)
	}
	return e
}

// why prefers the session's end over the ctx error that it caused.
func (c *claim) why(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	if _, lost := c.fate(); lost != nil {
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
