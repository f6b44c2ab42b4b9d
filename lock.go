package quorumlock

import (
	"context"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// Mutex is a lock that at most one hold in the whole cluster has at a time. Waiters are served in the order in which
// their claims reached the cluster.
//
// A Mutex is only a name with options: state belongs to the grant. It may be copied and shared freely, two goroutines
// that lock it exclude each other, and it is not re-entrant. It shares its name with an RWMutex and with the names of a
// MultiMutex: each excludes the others.
type Mutex struct{ request request }

// NewMutex names a lock. Names are 1 to 512 bytes of UTF-8 without control characters; they are compared byte by byte,
// and "a" and "a/b" have nothing to do with each other. A bad name is reported by Lock and TryLock, before anything is
// sent.
func NewMutex(o Owner, name string, opts ...LockOption) *Mutex {
	return &Mutex{newRequest(o, locktable.Exclusive, opts, name)}
}

// Lock waits until the lock is granted. ctx bounds the wait, never the hold.
//
// An error means that nothing is held: if the grant raced with the end of ctx, it is given back. The claim is withdrawn
// in the background, within 2 s of reaching a quorum; until then others may see it wait. The error is a *WaitError that
// unwraps to the ctx error and says what the call was waiting for, with ErrNoQuorum if no leader answered; a *LostError
// if the session ended; a *KindError if the name is in use as a semaphore; a *FieldError for a bad name or option.
func (m *Mutex) Lock(ctx context.Context) (*Hold, error) {
	return m.request.acquire(ctx, "lock", false)
}

// TryLock takes the lock if nobody holds it or waits for it, and returns a *LockedError (matching ErrLocked) otherwise.
// ctx bounds the round trip.
func (m *Mutex) TryLock(ctx context.Context) (*Hold, error) {
	return m.request.acquire(ctx, "try lock", true)
}

// Do runs fn under the lock: it waits as Lock does, calls fn with a context that ends when the hold is lost
// (context.Cause tells why) or when ctx ends, and unlocks when fn has returned or panicked. It returns fn's error and
// Unlock's, joined: an ErrLost in it means that fn's work may have overlapped with a successor's. Pass t along with
// every write to a fenced resource.
//
// Closing the node or the session ends fn's context and waits for fn to return before anything is released.
func (m *Mutex) Do(ctx context.Context, fn func(ctx context.Context, t Token) error) error {
	return m.request.do(ctx, "lock", fn)
}
