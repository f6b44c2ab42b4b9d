package scenario_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// stir counts what happened in TestEverythingAtOnce.
type stir struct {
	grants, losses, cancels, closes, events, asks atomic.Int64
}

// S55: for a minute everything goes on at once on every instance: locks are taken and lost, waits are cancelled, sessions
// closed, holds asked about from several goroutines, locks inspected, watched and released by force, while one instance after
// the other is cut off for longer than its leases. Nothing but the race detector and the common checks judges it.
func TestEverythingAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		var s stir
		quit := make(chan struct{})
		var all sync.WaitGroup
		for i := range c.Size() {
			n := c.Node(i)
			for k := range 2 {
				all.Go(func() { s.work(n, rand.New(rand.NewPCG(uint64(i), uint64(k))), quit) })
			}
			all.Go(func() { s.ask(n, quit) })
			all.Go(func() { s.watch(n, quit) })
		}
		for round := range 4 {
			time.Sleep(5 * time.Second)
			c.Isolate(round % 3)
			time.Sleep(10 * time.Second)
			c.Heal()
		}
		close(quit)
		all.Wait()
		c.WaitReady()
		for what, seen := range map[string]struct {
			count *atomic.Int64
			least int64
		}{
			"grants": {&s.grants, 300}, "losses": {&s.losses, 4}, "cancels": {&s.cancels, 50},
			"closes": {&s.closes, 50}, "events": {&s.events, 1000}, "asks": {&s.asks, 300},
		} {
			if got := seen.count.Load(); got < seen.least {
				t.Errorf("%d %s, want %d: too little went on", got, what, seen.least)
			}
		}
		for k := range stirNames {
			becomesFree(t, c, fmt.Sprint("k", k), deadBound)
		}
		c.CheckState()
	})
}

const stirNames = 3

// work opens sessions and, with each, takes a few locks, some of which are released by the session's end.
func (s *stir) work(n *quorumlock.Node, rng *rand.Rand, quit <-chan struct{}) {
	for !closed(quit) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		session, err := n.NewSession(ctx, 5*time.Second)
		cancel()
		if err != nil {
			continue
		}
		for range 1 + rng.IntN(3) {
			s.lock(n, session, rng)
		}
		_ = session.Close()
		s.closes.Add(1)
	}
}

func (s *stir) lock(n *quorumlock.Node, session *quorumlock.Session, rng *rand.Rand) {
	name := fmt.Sprint("k", rng.IntN(stirNames))
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(50+rng.IntN(500))*time.Millisecond)
	defer cancel()
	if rng.IntN(4) == 0 {
		time.AfterFunc(time.Duration(rng.IntN(50))*time.Millisecond, cancel)
	}
	h, err := quorumlock.NewMutex(session, name).Lock(ctx)
	if err != nil {
		s.cancels.Add(1)
		return
	}
	s.grants.Add(1)
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			select {
			case <-h.Done():
				s.losses.Add(1)
			case <-h.Jeopardy():
				<-h.Done()
				s.losses.Add(1)
			case <-time.After(time.Duration(20+h.Token()%50) * time.Millisecond):
			}
			_, _ = h.Err(), h.Deadline()
		})
	}
	if rng.IntN(10) == 0 {
		_ = n.ForceRelease(ctx, name, h.Token(), quorumlock.ForceOptions{Actor: "a", Reason: "r", Now: rng.IntN(2) == 0})
	}
	held, done := h.Context(ctx)
	both.Wait()
	_ = held.Err()
	done()
	if rng.IntN(4) > 0 {
		both.Go(func() { _ = h.Unlock() })
		_ = h.Unlock()
		both.Wait()
	}
}

// ask reads everything that can be asked about.
func (s *stir) ask(n *quorumlock.Node, quit <-chan struct{}) {
	for !closed(quit) {
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		_, _ = n.Inspect(ctx, "k0")
		_, _ = n.Members(ctx)
		_, _, _ = n.ClusterID(), n.Addr(), n.Err()
		cancel()
		s.asks.Add(1)
		time.Sleep(100 * time.Millisecond)
	}
}

// watch begins to watch over and over.
func (s *stir) watch(n *quorumlock.Node, quit <-chan struct{}) {
	for !closed(quit) {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		for _, err := range n.Watch(ctx, "k") {
			if err == nil {
				s.events.Add(1)
			}
		}
		cancel()
	}
}
