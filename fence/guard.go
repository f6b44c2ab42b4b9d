package fence

import (
	"context"
	"fmt"
	"sync"
)

// Guard is the Checker for resources inside one process: it remembers the highest grant accepted for each resource. It protects what lives and dies with
// the process, since its memory does; a database must keep the highest token itself, in the transaction of the write.
//
// A Guard holds at most MaxGuarded resources. The zero value is ready. All methods are safe for concurrent use.
type Guard struct {
	mu      sync.Mutex
	entries map[string]*guarded
}

// MaxGuarded is the most resources one Guard remembers. Forgetting one would let a stale holder in, so a Guard that is full refuses new
// resources with ErrFull instead.
const MaxGuarded = 1 << 18

type guarded struct {
	turn chan struct{} // holds one element while a write runs: judging and writing are one step
	last Grant         // guarded by turn
}

// take waits for the turn. The error is that of ctx, with its cause if there is one.
func (e *guarded) take(ctx context.Context) error {
	if ctx.Err() == nil { // select picks at random
		select {
		case e.turn <- struct{}{}:
			return nil
		case <-ctx.Done():
		}
	}
	if cause := context.Cause(ctx); cause != ctx.Err() {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return ctx.Err()
}

func (e *guarded) leave() { <-e.turn }

var _ Checker = (*Guard)(nil)

// Do is Checker.Do. Writes of one resource run one at a time, so that no write of a lower token can end after one of a higher token has begun; a
// write must not call Do for its own resource. The error of write is returned as it is; the grant counts as accepted all the same, because what the write did
// before it failed is not known here. ctx bounds the wait for the turn: its error, and its cause, are
// found in the one returned.
func (g *Guard) Do(ctx context.Context, resource string, write func(ctx context.Context) error) error {
	if write == nil {
		return &FieldError{Field: "write", Problem: "must not be nil"}
	}
	grant, err := FromContext(ctx, resource)
	if err != nil {
		return err
	}
	if err := Judge(resource, Grant{}, grant); err != nil {
		return err // before the name takes a place
	}
	e, err := g.entry(resource)
	if err != nil {
		return err
	}
	if err := e.take(ctx); err != nil {
		return fmt.Errorf("%s: nothing was written: %w", resource, err)
	}
	defer e.leave()
	if err := Judge(resource, e.last, grant); err != nil {
		return err
	}
	e.last = grant
	return write(ctx)
}

// Last is the grant accepted last for resource, which has the highest token; the zero Grant if none was. It waits for a write that runs.
func (g *Guard) Last(resource string) Grant {
	g.mu.Lock()
	e := g.entries[resource]
	g.mu.Unlock()
	if e == nil {
		return Grant{}
	}
	e.turn <- struct{}{}
	defer e.leave()
	return e.last
}

func (g *Guard) entry(resource string) (*guarded, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := g.entries[resource]; e != nil {
		return e, nil
	}
	if len(g.entries) >= MaxGuarded {
		return nil, fmt.Errorf("%s: %w", resource, ErrFull)
	}
	if g.entries == nil {
		g.entries = make(map[string]*guarded)
	}
	e := &guarded{turn: make(chan struct{}, 1)}
	g.entries[resource] = e
	return e, nil
}
