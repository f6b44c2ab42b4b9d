package quorumlock

import (
	"context"
	"slices"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// MultiMutex locks several names at once: all of them or none, in one step. Callers need no order between names, and
// sets that overlap cannot deadlock. A set that waits stands in the queue of each of its names, and later claims on
// them wait behind it, so it is not starved by locks of single names; in turn a name of the set may stand idle until
// the others are free.
//
// Each name is the same lock as a Mutex or the write side of an RWMutex of that name.
type MultiMutex struct{ request request }

// NewMultiMutex names 1 to 64 locks, each once; see NewMutex for names.
func NewMultiMutex(o Owner, names ...string) *MultiMutex {
	return &MultiMutex{newRequest(o, locktable.Exclusive, nil, slices.Clone(names)...)}
}

// With is the same set of names with options, beside those that it has.
func (m *MultiMutex) With(opts ...LockOption) *MultiMutex {
	r := m.request
	r.apply(opts)
	return &MultiMutex{r}
}

// Lock waits until all names are granted together. The hold has one token, which is higher than any token before it on
// each of the names. Errors and ctx as with Mutex.Lock.
func (m *MultiMutex) Lock(ctx context.Context) (*Hold, error) {
	return m.request.acquire(ctx, "lock", false)
}

// TryLock takes all names if nobody holds or awaits any of them, and returns a *LockedError about the first that is
// taken otherwise.
func (m *MultiMutex) TryLock(ctx context.Context) (*Hold, error) {
	return m.request.acquire(ctx, "try lock", true)
}

// Do runs fn under all the names, as Mutex.Do does.
func (m *MultiMutex) Do(ctx context.Context, fn func(ctx context.Context, t Token) error) error {
	return m.request.do(ctx, "lock", fn)
}
