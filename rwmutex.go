package quorumlock

import (
	"context"
	"fmt"
	"slices"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// RWMutex is a lock that either one writer holds or any number of readers. Claims are served in the order in which they
// reached the cluster: a writer that waits keeps later readers out, so that writers are not starved, and readers next
// to each other in the queue are granted together.
//
// Readers that hold at the same time share one token, higher than that of the writer before and lower than that of the
// next: a resource that has accepted it goes on to accept it from every reader of that phase, and refuses the writer
// before.
//
// Like a Mutex it is only a name with options, and not re-entrant: a reader that asks for a second read hold while a
// writer waits in between waits for ever. The writer's side is a Mutex of the same name.
type RWMutex struct{ write, read request }

// NewRWMutex names a lock; see NewMutex for names.
func NewRWMutex(o Owner, name string, opts ...LockOption) *RWMutex {
	return &RWMutex{
		write: newRequest(o, locktable.Exclusive, opts, name),
		read:  newRequest(o, locktable.Shared, opts, name),
	}
}

// Lock waits for the write hold. Errors and ctx as with Mutex.Lock.
func (m *RWMutex) Lock(ctx context.Context) (*Hold, error) {
	return m.write.acquire(ctx, "lock", false)
}

// TryLock takes the write hold if nobody holds the lock or waits for it, and returns a *LockedError otherwise.
func (m *RWMutex) TryLock(ctx context.Context) (*Hold, error) {
	return m.write.acquire(ctx, "try lock", true)
}

// Do runs fn under the write hold, as Mutex.Do does.
func (m *RWMutex) Do(ctx context.Context, fn func(ctx context.Context, t Token) error) error {
	return m.write.do(ctx, "lock", fn)
}

// RLock waits for a read hold. Errors and ctx as with Mutex.Lock.
func (m *RWMutex) RLock(ctx context.Context) (*Hold, error) {
	return m.read.acquire(ctx, "read lock", false)
}

// TryRLock takes a read hold if no writer holds the lock and nobody waits for it, and returns a *LockedError otherwise.
func (m *RWMutex) TryRLock(ctx context.Context) (*Hold, error) {
	return m.read.acquire(ctx, "try read lock", true)
}

// RDo runs fn under a read hold, as Mutex.Do does.
func (m *RWMutex) RDo(ctx context.Context, fn func(ctx context.Context, t Token) error) error {
	return m.read.do(ctx, "read lock", fn)
}

// Downgrade turns a write hold of this lock into a read hold, with nothing in between: no other writer is granted the
// lock before the read hold ends. Readers that wait next in line are let in with it. h ends (ErrUnlocked) at once,
// before the read hold, which has a token of its own, begins here. The read hold belongs to h's session, and a Delay
// stays what it was; so does a MaxHold, which goes on from the write hold's grant.
//
// ctx bounds the round trip. A *FieldError means that h is not a write hold of this lock, or that an option is bad, and
// nothing has changed, as with a ctx that had ended before. Any other error means that nothing is held any more: it is
// h's own if h had ended, a *LostError if the session ended or h was being released by force, and otherwise a
// *WaitError, after which both holds are given back in the background. There is no upgrade: two readers that asked for
// it would wait for each other.
func (m *RWMutex) Downgrade(ctx context.Context, h *Hold) (*Hold, error) {
	const op = "downgrade"
	if err := m.read.check(); err != nil {
		return nil, err
	}
	if !m.writes(h) {
		return nil, &FieldError{Field: "hold", Problem: fmt.Sprintf("must be a write hold of %q of the same node", m.write.label())}
	}
	cmd := &locktable.Command{Op: locktable.OpDowngrade, Note: m.read.note}
	return h.succeed(ctx, op, &m.read, cmd)
}

// writes says whether h is a hold of the write side, whichever session of the same node has it.
func (m *RWMutex) writes(h *Hold) bool {
	if h == nil || nodeOf(m.write.owner) != h.session().node {
		return false
	}
	want := h.claim.want
	return want.mode == locktable.Exclusive && slices.Equal(want.names, m.write.names)
}
