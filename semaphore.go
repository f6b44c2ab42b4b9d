package quorumlock

import (
	"context"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// Semaphore hands out a limited number of permits in the whole cluster. Claims are served in the order in which they reached the cluster: a large one that does not fit yet keeps later
// small ones waiting, so that it is not starved.
//
// The limit is agreed in the cluster's state: the first claim sets it, and it is forgotten with the last one. A claim that names another limit gets a
// *LimitError that tells both, rather than a number of permits that nobody meant. Resize changes it.
//
// Holders of a semaphore work at the same time, so there is no order between them for a resource to check: their holds have no fencing token (zero, which every
// checker refuses).
//
// A Semaphore is only a name with options, like a Mutex; it cannot share its name with a lock (*KindError).
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

// Acquire waits for n permits, which are granted and released together. Errors and ctx as with Mutex.Lock; and a *LimitError (matching ErrLimit) if n is more than
// there are, or if another limit is agreed on.
func (m *Semaphore) Acquire(ctx context.Context, n int) (*Hold, error) {
	return m.permits(n).acquire(ctx, "acquire", false)
}

// TryAcquire takes n permits if they are free and nobody waits, and returns a *LockedError otherwise.
func (m *Semaphore) TryAcquire(ctx context.Context, n int) (*Hold, error) {
	return m.permits(n).acquire(ctx, "try acquire", true)
}

// Do runs fn with n permits, as Mutex.Do does.
func (m *Semaphore) Do(ctx context.Context, n int, fn func(ctx context.Context) error) error {
	return m.permits(n).do(ctx, "acquire", func(ctx context.Context, _ *Hold) error { return fn(ctx) })
}

// Resize sets the limit for everybody, whether the semaphore is in use or not, and from then on it is remembered. Claims that name the limit before are still taken, and
// served under the new one, so that a deployment with another limit can be rolled out: call Resize first. With a higher limit exactly the waiters
// that now fit are granted. With a lower one nobody loses permits: grants wait until enough have been released; waiting claims for more than the new limit
// end with a *LimitError.
//
// ctx bounds the round trip. After a *WaitError it is not known whether the limit was set; setting it again is harmless.
func (m *Semaphore) Resize(ctx context.Context, limit int) error {
	const op = "resize"
	r := m.permits(1)
	if err := r.check(); err != nil {
		return err
	}
	if r.limit = limit; r.check() != nil {
		return r.check()
	}
	s, err := sessionFor(ctx, r.owner, op, r.label())
	if err != nil {
		return err
	}
	res, err := s.once(ctx, op, r.label(), &locktable.Command{Op: locktable.OpResize, Names: r.names, Limit: uint32(limit)})
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
