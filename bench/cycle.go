//go:build unix

package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Of a client's index over all workers the higher digits are the worker's.
const clientsPerWorker = 1 << 16

// cycling is what one client does in a window.
type cycling struct {
	order  order
	index  int
	name   string
	cycles int
	failed int
	waits  histogram
	grants []grant
}

// cycle has all clients lock and unlock without pause. Those that end within the window are counted; who has begun when it ends is
// not left waiting.
func (w *worker) cycle(ctx context.Context, o order) (answer, error) {
	clients := w.present()
	if !until(ctx, o.Start) {
		return answer{}, context.Cause(ctx)
	}
	parts := make([]*cycling, len(clients))
	var all sync.WaitGroup
	errs := make([]error, len(clients))
	for i, c := range clients {
		part := &cycling{order: o, index: o.Part*clientsPerWorker + i, name: o.Name, waits: newHistogram()}
		if o.Own {
			part.name = fmt.Sprintf("%s-%d-%d", o.Name, o.Part, i)
		}
		parts[i] = part
		all.Go(func() { errs[i] = part.run(ctx, c) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return answer{}, err
		}
	}
	return gathered(parts)
}

func (c *cycling) run(ctx context.Context, of client) error {
	for now() < c.order.End {
		g, err := once(ctx, of, c.name)
		if err != nil && c.order.Retry && ctx.Err() == nil {
			c.failed++
			until(ctx, now().add(retryPause))
			continue
		} else if err != nil {
			return err
		}
		g.Client = c.index
		if c.order.Log {
			c.grants = append(c.grants, g)
		}
		if done := now(); done < c.order.Count || done > c.order.End {
			continue
		}
		c.cycles++
		c.waits.record(g.Granted.sub(g.Asked))
	}
	return nil
}

// retryPause is what a caller waits after an error.
const retryPause = 10 * time.Millisecond

func once(ctx context.Context, of client, name string) (grant, error) {
	g := grant{Asked: now()}
	release, err := of.lock(ctx, name)
	if err != nil {
		return g, fmt.Errorf("lock: %w", err)
	}
	g.Granted = now()
	g.Released = g.Granted
	if err := release(ctx); err != nil {
		return g, fmt.Errorf("unlock: %w", err)
	}
	return g, nil
}

func gathered(parts []*cycling) (a answer, err error) {
	waits := newHistogram()
	for _, p := range parts {
		a.Cycles += p.cycles
		a.Failed += p.failed
		waits.h.Merge(p.waits.h)
		a.Grants = append(a.Grants, p.grants...)
	}
	a.Waits, err = waits.encode()
	return a, err
}

// queue has each client that holds nothing lock and unlock one lock once.
func (w *worker) queue(ctx context.Context, o order) (answer, error) {
	clients := w.idle()
	grants := make([]grant, len(clients))
	errs := make([]error, len(clients))
	var all sync.WaitGroup
	for i, c := range clients {
		all.Go(func() {
			grants[i], errs[i] = once(ctx, c, o.Name)
			grants[i].Client = o.Part*clientsPerWorker + i
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return answer{}, err
		}
	}
	return answer{Grants: grants}, nil
}
