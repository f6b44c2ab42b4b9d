package fence

import (
	"context"
	"fmt"
	"sync"

	"github.com/quorumlock/quorumlock/fence/internal/ended"
)

// Guard is the Checker for resources inside one process: it remembers the highest grant accepted for each resource. It protects what lives and dies with
// the process, since its memory does; a database must keep the highest token itself, in the transaction of the write.
//
// It cannot take back what a write did (see Rollbacker), and runs each once. A Guard holds at most MaxGuarded resources. The zero
// value is ready. All methods are safe for concurrent use.
type Guard struct {
	mu      sync.Mutex
	entries map[string]*guarded
}

// MaxGuarded is the most resources one Guard remembers. Forgetting one would let a stale holder in, so a Guard that is full refuses new
// resources with ErrFull instead.
const MaxGuarded = 1 << 18

type guarded struct {
	turn chan struct{} // holds one element while a write runs: judging and writing are one step

	// These are guarded by Guard.mu. Who has the turn may read last without it, since it changes only within the turn.
	users int // calls that wait for the turn or have it
	last  Grant
}

// take waits for the turn.
func (e *guarded) take(ctx context.Context) error {
	select {
	case e.turn <- struct{}{}:
	case <-ctx.Done():
		return ended.Err(ctx)
	}
	if err := ended.Err(ctx); err != nil { // select picks at random where both are ready
		e.leave()
		return err
	}
	return nil
}

func (e *guarded) leave() { <-e.turn }

var _ Rollbacker = (*Guard)(nil)

// Do is Checker.Do. Writes of one resource run one at a time, so that no write of a lower token can end after one of a higher
// token has begun. The error of write is returned as it is; the grant counts as accepted all the same, because what the write did
// before it failed is not known here. ctx bounds the wait for the turn: its error, its cause and ErrNotWritten are found in the
// one returned, and no write begins under a context that has ended.
//
// A write must not call Do for its own resource. Where writes call Do for other resources, all must nest them in one order: two
// that nest crosswise wait for each other until their contexts end.
func (g *Guard) Do(ctx context.Context, resource string, write func(ctx context.Context) error) error {
	switch {
	case g == nil:
		return &FieldError{Field: "Guard", Problem: "must not be nil"}
	case write == nil:
		return &FieldError{Field: "write", Problem: "must not be nil"}
	}
	grant, err := FromContext(ctx, resource)
	if err != nil {
		return err
	}
	if err := Judge(resource, Grant{}, grant); err != nil {
		return err // before the name takes a place
	}
	if err := ended.Err(ctx); err != nil {
		return notBegun(resource, err) // and takes none
	}
	e, err := g.enter(resource)
	if err != nil {
		return err
	}
	defer g.exit(resource, e)
	if err := e.take(ctx); err != nil {
		return notBegun(resource, err)
	}
	defer e.leave()
	if err := g.accept(resource, e, grant); err != nil {
		return err
	}
	return write(ctx)
}

func notBegun(resource string, err error) error {
	return fmt.Errorf("%s: %w: %w", resource, ErrNotWritten, err)
}

// RollsBack is Rollbacker.RollsBack: false.
func (g *Guard) RollsBack() bool { return false }

// Last is the grant accepted last for resource, which has the highest token; the zero Grant if none was. It waits for nothing: a
// grant is accepted when its write begins.
func (g *Guard) Last(resource string) Grant {
	if g == nil {
		return Grant{}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := g.entries[resource]; e != nil {
		return e.last
	}
	return Grant{}
}

func (g *Guard) enter(resource string) (*guarded, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.entries[resource]
	switch {
	case e != nil:
	case len(g.entries) >= MaxGuarded:
		return nil, fmt.Errorf("%s: %w", resource, ErrFull)
	default:
		if g.entries == nil {
			g.entries = make(map[string]*guarded)
		}
		e = &guarded{turn: make(chan struct{}, 1)}
		g.entries[resource] = e
	}
	e.users++
	return e, nil
}

// exit gives back the place of a resource that has accepted nobody, so that calls whose contexts end do not fill the Guard.
func (g *Guard) exit(resource string, e *guarded) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e.users--; e.users == 0 && e.last == (Grant{}) {
		delete(g.entries, resource)
	}
}

// accept judges within the turn.
func (g *Guard) accept(resource string, e *guarded, grant Grant) error {
	if err := Judge(resource, e.last, grant); err != nil { // read without mu: nobody else changes it now
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	e.last = grant
	return nil
}
