package roundtrip

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/fence"
)

// holder is one grant, in a process that survives its cluster.
type holder struct {
	hold   *quorumlock.Hold
	grant  fence.Grant
	writer string // of this grant alone

	accepted, refused atomic.Int64 // writes after the loss
}

// take locks, and notes the grant.
func (r *round) take(ctx context.Context, n *quorumlock.Node, lock string) (*holder, error) {
	h, err := quorumlock.NewMutex(n, lock).Lock(ctx)
	if err != nil {
		return nil, err
	}
	return r.holderOf(h)
}

func (r *round) holderOf(hold *quorumlock.Hold) (*holder, error) {
	ctx, cancel := hold.Context(context.Background())
	defer cancel()
	g, err := fence.FromContext(ctx, hold.Name())
	if err != nil {
		return nil, err
	}
	r.ledger.note(g)
	return &holder{hold: hold, grant: g, writer: fmt.Sprint(r.writers.Add(1))}, nil
}

// write is one as a good holder does it.
func (r *round) write(h *holder) error {
	ctx, cancel := h.hold.Context(context.Background())
	defer cancel()
	return r.db.write(ctx, h.grant.Lock, h.writer)
}

// work locks again and again, and writes, until quit is closed. The hold that it has then it keeps, for haunt, if the cluster is lost; else it is released.
func (r *round) work(n *quorumlock.Node, locks []string, quit <-chan struct{}, lost bool) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { <-quit; cancel() }()
	for i := 0; ctx.Err() == nil; i++ {
		h, err := r.take(ctx, n, locks[i%len(locks)])
		if err != nil {
			if ctx.Err() == nil {
				r.t.Errorf("under load: %v", err)
			}
			return
		}
		for range 3 {
			err := r.write(h)
			if lost && ctx.Err() != nil {
				r.haunt(h)
				return
			}
			if err != nil {
				r.t.Errorf("write under token %v: %v", h.grant.Token, err)
			}
		}
		if err := h.hold.Unlock(); err != nil && ctx.Err() == nil {
			r.t.Errorf("unlock: %v", err)
		}
	}
}

const hauntEvery = 200 * time.Millisecond

// haunt goes on writing with a grant, whatever has become of it, until the round is over: the process of a holder that does not look.
func (r *round) haunt(h *holder) {
	r.mu.Lock()
	r.haunting = append(r.haunting, h)
	r.mu.Unlock()
	ctx := fence.NewContext(context.Background(), h.grant)
	for {
		switch err := r.db.write(ctx, h.grant.Lock, h.writer); {
		case err == nil && h.refused.Load() > 0:
			r.t.Errorf("%s: token %v was accepted after it had been refused", h.grant.Lock, h.grant.Token)
		case err == nil:
			h.accepted.Add(1)
		case errors.Is(err, fence.ErrStaleToken):
			h.refused.Add(1)
		default:
			r.t.Errorf("%s: old token %v: %v", h.grant.Lock, h.grant.Token, err)
			return
		}
		select {
		case <-r.over:
			return
		case <-time.After(hauntEvery):
		}
	}
}
