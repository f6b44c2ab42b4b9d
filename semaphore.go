package quorumlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// Semaphore hands out a limited number of permits in the whole cluster. Claims are served in the order in which they
// reached the cluster: a large one that does not fit yet keeps later small ones waiting, so that it is not starved.
//
// The limit is agreed in the cluster's state: the first claim sets it, and it is forgotten with the last one. A claim
// that names another limit gets a *LimitError that tells both, rather than a number of permits that nobody meant.
// Resize changes it, and a limit set by Resize is remembered until Resize has it forgotten.
//
// Holders of a semaphore work at the same time, so there is no order between them for a resource to check: their holds
// have no fencing token (zero, which every checker refuses).
//
// A Semaphore is only a name with options, like a Mutex; while it is in use or its limit is remembered, it cannot share
// its name with a lock (*KindError).
type Semaphore struct{ request request }

// NewSemaphore names a semaphore with limit permits in all, 1 to 1,073,741,824; see NewMutex for names.
func NewSemaphore(o Owner, name string, limit int, opts ...LockOption) *Semaphore {
	r := newRequest(o, locktable.Permits, opts, name)
	r.limit = limit
	return &Semaphore{r}
}

func (m *Semaphore) permits(n int) *request {
	r := m.request
	r.count = n
	return &r
}

// Acquire waits for n permits, which are granted and released together. Errors and ctx as with Mutex.Lock; and a
// *LimitError (matching ErrLimit) if n is more than there are, or if another limit is agreed on.
func (m *Semaphore) Acquire(ctx context.Context, n int) (*Hold, error) {
	return m.permits(n).acquire(ctx, "acquire", false)
}

// TryAcquire takes n permits if they are free and nobody waits, and returns a *LockedError otherwise.
func (m *Semaphore) TryAcquire(ctx context.Context, n int) (*Hold, error) {
	return m.permits(n).acquire(ctx, "try acquire", true)
}

// Do runs fn with n permits, as Mutex.Do does.
func (m *Semaphore) Do(ctx context.Context, n int, fn func(ctx context.Context) error) error {
	if fn == nil {
		return noCallback()
	}
	return m.permits(n).do(ctx, "acquire", func(ctx context.Context, _ Token) error { return fn(ctx) })
}

// Resize sets the limit for everybody, whether the semaphore is in use or not, and from then on it is remembered, also
// while nobody uses the semaphore: the name is not free for locks (*KindError), and Locks lists it. Resize with limit 0
// has it forgotten. At most 100,000 limits are remembered in a cluster; the next one is refused (ErrOverloaded).
//
// Claims that name the limit before are still taken, and served under the new one, so that a deployment with another
// limit can be rolled out: call Resize first. The limit before is the one in force until now, and if there is none the
// one that this Semaphore was made with. It is one limit: a second Resize puts the one between in its place. With a
// higher limit exactly the waiters that now fit are granted. With a lower one nobody loses permits: grants wait until
// enough have been released; waiting claims for more than the new limit end with a *LimitError.
//
// After Resize with 0 the limit is that of the claims again: if nobody uses the semaphore the name is free for every
// kind of lock, and otherwise the limits named so far stay in force until the last claim has gone. Where no limit was
// set it changes nothing.
//
// ctx bounds the round trip. After a *WaitError that is not ErrOverloaded it is not known whether the limit was set, or
// forgotten; doing it again is harmless. (If more than 1,024 waiting claims of one session have to end, they end in parts
// before the limit is set, which takes several round trips.)
func (m *Semaphore) Resize(ctx context.Context, limit int) error {
	const op = "resize"
	r := m.permits(1)
	if err := r.check(); err != nil {
		return err
	}
	if limit < 0 || limit > locktable.MaxPermits {
		return &FieldError{Field: "limit", Value: limit, Problem: fmt.Sprintf("must lie between 0, which forgets it, and %d", locktable.MaxPermits)}
	}
	s, err := sessionFor(ctx, r.owner, op, r.label())
	if err != nil {
		return err
	}
	res, err := s.resize(ctx, op, r.label(), r.resizing(limit))
	switch {
	case err != nil:
		return err
	case res.Code == locktable.CodeOK:
		return nil
	case res.Code == locktable.CodeKind:
		return &KindError{Name: r.label()}
	}
	return refusal(op, r.label(), &res)
}

// resize asks until the limit is set. Where more than 1,024 claims of one session wait for more than the new limit they end in parts, since the session must have room to be told: it
// hears of each part before the next one. Each round is a request of its own.
func (s *Session) resize(ctx context.Context, op, name string, cmd *locktable.Command) (locktable.Result, error) {
	for begun := false; ; begun = true {
		round := *cmd
		res, err := s.once(ctx, op, name, &round)
		if !errors.Is(err, ErrOverloaded) || !(begun || res.More) {
			return res, err
		}
		if pause(ctx, persistPause); ctx.Err() != nil {
			return res, &WaitError{Op: op, Name: name, Waiting: "waiting claims for more ended in part; the limit is not set yet", Err: ended(ctx)}
		}
	}
}

// resizing tells the cluster the limit that this deployment's claims name, which it cannot know while nobody uses the semaphore.
func (r *request) resizing(limit int) *locktable.Command {
	c := &locktable.Command{Op: locktable.OpResize, Names: r.names, Limit: uint32(limit)}
	if limit != 0 && limit != r.limit {
		c.Former = uint32(r.limit)
	}
	return c
}
