package simulation

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/fence"
)

// resource is what the locks protect: for each a counter that is read, and written back one higher a while later. One copy stands behind the fence; the other
// is written by whoever thinks that it holds the lock.
type resource struct {
	fence fence.Guard

	mu       sync.Mutex
	fenced   map[string]int
	unfenced map[string]int
	refusals int
	lost     int // updates of the unfenced copies that another one overwrote
}

// snapshot is what was read of both copies.
type snapshot struct {
	fenced, unfenced int
	refusal          error // of the fence
}

func newResource() *resource {
	return &resource{fenced: make(map[string]int), unfenced: make(map[string]int)}
}

// read claims the fenced copy for a token before it reads: from then on no lower token writes, so that nothing comes between this and the write.
func (r *resource) read(name string, token quorumlock.Token) (seen snapshot) {
	seen.refusal = r.guarded(name, token, func() error {
		seen.fenced = r.fenced[name]
		return nil
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	seen.unfenced = r.unfenced[name]
	return seen
}

// write moves both copies on from what was read. The error is ErrStaleToken if the fence refused, and a lostUpdateError if it should have.
func (r *resource) write(name string, token quorumlock.Token, seen snapshot) error {
	err := seen.refusal
	if err == nil {
		err = r.guarded(name, token, func() error {
			now := r.fenced[name]
			r.fenced[name] = seen.fenced + 1
			if now != seen.fenced {
				return &lostUpdateError{name, token, now - seen.fenced}
			}
			return nil
		})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unfenced[name] != seen.unfenced {
		r.lost++
	}
	r.unfenced[name] = seen.unfenced + 1
	return err
}

// guarded runs f behind the fence.
func (r *resource) guarded(name string, token quorumlock.Token, f func() error) error {
	ctx := fence.NewContext(context.Background(), fence.Grant{Cluster: "simulated", Lock: name, Token: token})
	err := r.fence.Do(ctx, name, func(context.Context) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		return f()
	})
	if errors.Is(err, quorumlock.ErrStaleToken) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.refusals++
	}
	return err
}

// counts are the refusals of the fence, and the updates that were lost without it.
func (r *resource) counts() (refused, lost int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refusals, r.lost
}

// lostUpdateError is a write that the fence let through although others had written since its read.
type lostUpdateError struct {
	name  string
	token quorumlock.Token
	by    int
}

func (e *lostUpdateError) Error() string {
	return fmt.Sprintf("%q: a write under %v went through the fence and overwrote %d others", e.name, e.token, e.by)
}
