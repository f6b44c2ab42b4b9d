package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// request is what a claim asks the cluster for. Every lock of this package is a request with a face: state belongs to the grant, so a request is
// only read, and may be copied and shared.
type request struct {
	owner   Owner
	names   []string
	mode    locktable.Mode
	count   int // permits
	limit   int // of the semaphore
	note    string
	value   string // published by the leader of an election
	delay   time.Duration
	maxHold time.Duration
	maxWait time.Duration

	nilOption bool // one of the options was nil
}

// LockOption sets something about the claims of one lock.
type LockOption func(*request)

// Note attaches words for people to each claim: inspections, events and errors show them. At most 1 KiB of UTF-8
// without control characters.
func Note(text string) LockOption { return func(r *request) { r.note = text } }

// MaxHold caps how long a hold may last. At its end the hold is lost (CauseMaxHold) however well renewals go, and its
// lock is released; Jeopardy warns 0.4 TTL before, so with a cap that short from the beginning. A callback of Do that
// ignores the end of its context keeps the lock for 0.8 TTL longer at most. Then a Delay begins, and at once for a hold
// without a callback; none does if the callback has returned by then. Counted by the holder from when it learned
// of the grant; a ticket of Hold.Transfer carries it along, to be counted anew. Default 0: no cap.
func MaxHold(d time.Duration) LockOption { return func(r *request) { r.maxHold = d } }

// MaxWait bounds how long each claim waits, as a deadline of ctx would, and leaves the work under the lock alone: a
// deadline of the ctx given to Do or Run ends that too. The error is then a *WaitError that matches
// context.DeadlineExceeded. Default 0: only ctx bounds the wait.
func MaxWait(d time.Duration) LockOption { return func(r *request) { r.maxWait = d } }

// Delay keeps the lock from the next claim for a while when a hold ends against its holder's will: by expiry, by a
// forced release that drains, in a crash, or by MaxHold unless the callback that worked under it has returned. It is for resources that cannot check tokens, where a request of the
// former holder may still be under way; it makes such a collision rarer, and only a token excludes it. Unlock, Close
// and a forced release with Now do not wait for it. Whole milliseconds, at most 10 minutes. Default 0.
func Delay(d time.Duration) LockOption { return func(r *request) { r.delay = d } }

func newRequest(o Owner, mode locktable.Mode, opts []LockOption, names ...string) request {
	r := request{owner: o, mode: mode, names: names}
	r.apply(opts)
	return r
}

func (r *request) apply(opts []LockOption) {
	for _, opt := range opts {
		if opt == nil {
			r.nilOption = true // check tells, since constructors do not
			continue
		}
		opt(r)
	}
}

// label is the name, or the names, for people.
func (r *request) label() string {
	switch len(r.names) {
	case 0:
		return ""
	case 1:
		return r.names[0]
	}
	return fmt.Sprintf("%s and %d more", r.names[0], len(r.names)-1)
}

// check finds every problem that needs no state, before anything is sent.
func (r *request) check() error {
	if err := checkOwner(r.owner); err != nil {
		return err
	}
	if len(r.names) == 0 {
		return &FieldError{Field: "names", Problem: "must not be empty"}
	}
	if len(r.names) > locktable.MaxNames {
		return &FieldError{Field: "names", Problem: fmt.Sprintf("has %d names; %d is the most", len(r.names), locktable.MaxNames)}
	}
	for i, name := range r.names {
		if err := locktable.CheckName(name); err != nil {
			return fieldError(err, name)
		}
		if slices.Contains(r.names[:i], name) {
			return &FieldError{Field: "name", Value: name, Problem: "is given twice"}
		}
	}
	if err := r.checkOptions(); err != nil {
		return err
	}
	if err := r.checkPermits(); err != nil {
		return err
	}
	// The lock table's own rules, of which some are not told above. They are asked here and not only of the command itself, before which a session is opened.
	trial := r.command()
	trial.Session, trial.Seq = 1, 1
	return fieldError(locktable.Check(trial), nil)
}

func (r *request) checkOptions() error {
	switch {
	case r.nilOption:
		return &FieldError{Field: "option", Problem: "must not be nil"}
	case len(r.note) > locktable.MaxNoteLen:
		return &FieldError{Field: "note", Value: r.note, Problem: fmt.Sprintf("has %d bytes; %d is the most", len(r.note), locktable.MaxNoteLen)}
	case r.maxHold < 0:
		return &FieldError{Field: "MaxHold", Value: r.maxHold, Problem: "must not be negative"}
	case r.maxHold > 0 && r.maxHold < time.Millisecond:
		return &FieldError{Field: "MaxHold", Value: r.maxHold, Problem: "must be 0 or at least 1ms"}
	case r.maxWait < 0:
		return &FieldError{Field: "MaxWait", Value: r.maxWait, Problem: "must not be negative"}
	case r.delay < 0 || r.delay > locktable.MaxDelay || r.delay%time.Millisecond != 0:
		return &FieldError{Field: "Delay", Value: r.delay,
			Problem: fmt.Sprintf("must lie between 0 and %v in whole milliseconds", locktable.MaxDelay)}
	}
	return nil
}

func (r *request) checkPermits() error {
	if r.mode != locktable.Permits {
		return nil
	}
	switch {
	case r.limit < 1 || r.limit > locktable.MaxPermits:
		return &FieldError{Field: "limit", Value: r.limit, Problem: fmt.Sprintf("must lie between 1 and %d", locktable.MaxPermits)}
	case r.count < 1:
		return &FieldError{Field: "permits", Value: r.count, Problem: "must be positive"}
	case r.count > r.limit:
		return &LimitError{Name: r.label(), Permits: r.count, Limit: r.limit, Agreed: r.limit}
	}
	return nil
}

func checkOwner(o Owner) error {
	switch o := o.(type) {
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
	default: // a type that embeds one of them has its methods, and would pass for an owner of its own
		return &FieldError{Field: "owner", Value: fmt.Sprintf("%T", o), Problem: "must be a *Node or a *Session itself"}
	}
	return nil
}

// nodeOf is the node of an owner that checkOwner has passed, nil of any other.
func nodeOf(o Owner) *Node {
	switch o := o.(type) {
	case *Node:
		return o
	case *Session:
		if o != nil {
			return o.node
		}
	}
	return nil
}

// fieldError gives a rule of the lock table that was broken as this package's typed error.
func fieldError(err error, value any) error {
	if err == nil {
		return nil
	}
	var broken *locktable.CommandError
	if errors.As(err, &broken) {
		return &FieldError{Field: strings.ToLower(strings.TrimSuffix(broken.Field, "s")), Value: value, Problem: broken.Reason}
	}
	return err
}

func (r *request) command() *locktable.Command {
	return &locktable.Command{
		Op: locktable.OpClaim, Names: r.names, Mode: r.mode, Count: uint32(r.count), Limit: uint32(r.limit),
		Note: r.note, Value: r.value, Delay: r.delay,
	}
}

// acquire claims what the request asks for and waits for the grant; with try it does not wait.
func (r *request) acquire(ctx context.Context, op string, try bool) (*Hold, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	if r.maxWait > 0 {
		bounded, cancel := context.WithTimeoutCause(ctx, r.maxWait, fmt.Errorf("waited for as long as MaxWait allows, %v", r.maxWait))
		defer cancel()
		ctx = bounded
	}
	s, err := sessionFor(ctx, r.owner, op, r.label())
	if err != nil {
		return nil, err
	}
	cmd := r.command()
	cmd.Try = try
	c, err := s.newClaim(ctx, op, r, cmd)
	if err != nil {
		return nil, err
	}
	return c.acquire(ctx, op, cmd)
}

// noCallback refuses a callback that is missing, before anything is locked for it.
func noCallback() error { return &FieldError{Field: "callback", Problem: "must not be nil"} }

// sessionFor is the owner's live session; ctx bounds opening one.
func sessionFor(ctx context.Context, o Owner, op, name string) (*Session, error) {
	if ctx.Err() != nil {
		return nil, &WaitError{Op: op, Name: name, Err: ended(ctx)}
	}
	s, err := o.current(ctx)
	if err == nil {
		return s, nil
	}
	if wait := (*WaitError)(nil); errors.As(err, &wait) {
		return nil, &WaitError{Op: op, Name: name, Waiting: strings.TrimSuffix(wait.Op+": "+wait.Waiting, ": "), Err: wait.Err, unsent: wait.unsent}
	}
	return nil, err
}

// do runs fn under a hold, with a context that ends when the hold does. The release is deferred, so that a panic of fn releases on its way up.
func (r *request) do(ctx context.Context, op string, fn func(ctx context.Context, t Token) error) error {
	if fn == nil {
		return noCallback()
	}
	h, err := r.acquire(ctx, op, false)
	if err != nil {
		return err
	}
	return h.work(ctx, h.Unlock, func(ctx context.Context) error { return fn(ctx, h.Token()) })
}

// work runs fn under the hold and has it unlocked. Nothing that the session or the node does releases the hold while fn works, except the end of the lease.
func (h *Hold) work(ctx context.Context, unlock func() error, fn func(ctx context.Context) error) (err error) {
	s := h.session()
	if !s.beginWork(h) {
		return errors.Join(h.Err(), unlockQuietly(h))
	}
	held, cancel := h.Context(ctx)
	defer func() {
		cancel()
		s.endWork(h)
		defer s.endUnlock()
		if released := unlock(); released != nil && !errors.Is(err, released) { // fn may have returned its context's cause
			err = errors.Join(err, released)
		}
	}()
	return fn(held)
}

// unlockQuietly gives a hold back that nobody has worked under.
func unlockQuietly(h *Hold) error {
	if err := h.Unlock(); err != nil && !errors.Is(err, ErrLost) {
		return err
	}
	return nil
}
