package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
	"github.com/quorumlock/quorumlock/watch"
)

// S34: from the kill of a holder to the next grant it takes no less than the TTL after the last renewal, and no more than the bound after the kill, with and without
// a change of leader. 8 kills stand for 200.
func TestKillToFree(t *testing.T) {
	for _, leads := range []bool{false, true} {
		t.Run(fmt.Sprintf("leads=%v", leads), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				const rounds = 4
				rng := rand.New(rand.NewPCG(34, 0))
				c := quorumlocktest.New(t, 3)
				w := newWitness(t, c)
				least, most := time.Hour, time.Duration(0)
				for range rounds {
					a := c.Leader()
					if !leads {
						a = others(c, a)[rng.IntN(2)]
					}
					took := killHolder(t, c, a, time.Duration(rng.Int64N(int64(3*time.Second))))
					least, most = min(least, took), max(most, took)
				}
				w.quit()
				t.Logf("free %v to %v after the kill", least, most)
				c.CheckState()
			})
		})
	}
}

// killHolder gives the time from the kill of a holder on instance a to the grant to somebody who waits elsewhere.
func killHolder(t *testing.T, c *quorumlocktest.Cluster, a int, phase time.Duration) time.Duration {
	t.Helper()
	h := lockIn(t, c.Node(a), "k", grantBound)
	next := lockLater(t, c.Node(others(c, a)[0]), "k", 2*quorumTTL)
	time.Sleep(phase)
	renewed := h.Deadline().Add(-quorumTTL / 5 * 4) // when the last renewal that was answered began
	killed := time.Now()
	c.Crash(a)
	second := next.get()
	if silent := time.Since(renewed); silent < quorumTTL {
		t.Errorf("free %v after a renewal began, TTL %v", silent, quorumTTL)
	}
	took := time.Since(killed)
	if took > deadBound {
		t.Errorf("free %v after the kill, bound %v", took, deadBound)
	}
	unlock(t, second)
	c.Start(a)
	c.WaitReady()
	return took
}

// Leader changes 10 s apart do not keep a dead session alive: each new leader goes by its own old stamps.
func TestLeaderChangesDoNotKeepTheDead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		dead := others(c, c.Leader())[0]
		s, err := c.Node(dead).NewSession(context.Background(), 30*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		lockIn(t, s, "k", time.Second)
		c.Crash(dead)
		killed := time.Now()
		next := lockLater(t, c.Node(others(c, dead)[0]), "k", time.Minute)
		free := make(chan *quorumlock.Hold, 1)
		go func() { free <- next.get() }()
		changes := 0
		for done := false; !done; {
			select {
			case h := <-free:
				unlock(t, h)
				done = true
			case <-time.After(10 * time.Second):
				old := c.Leader()
				c.HandOver(old)
				if c.LeaderExcept(old) != old {
					changes++
				}
			}
		}
		if took := time.Since(killed); took > s.TTL()+10*time.Second || changes < 2 {
			t.Errorf("free after %v and %d leader changes, bound %v", took, changes, s.TTL()+10*time.Second)
		}
		c.Start(dead)
		c.WaitReady()
		c.CheckState()
	})
}

// S32: a process with many sessions is killed, which also led: everything it held is free within TTL + 5 s, once each, and the renewals of all other sessions stay in time.
// 300 sessions with 3 locks each stand for 5 000.
func TestManySessionsDieAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const sessions, locks = 300, 3
		c := quorumlocktest.New(t, 3)
		dead := c.Leader()
		openMany(t, c.Node(dead), sessions, locks)
		var rest []*quorumlock.Hold
		for _, i := range others(c, dead) {
			for k := range 20 {
				s, err := c.Node(i).NewSession(context.Background(), 0)
				if err != nil {
					t.Fatal(err)
				}
				rest = append(rest, lockIn(t, s, fmt.Sprintf("rest/%d/%d", i, k), grantBound))
			}
		}
		ends := countEnds(t, c.Node(others(c, dead)[0]), "bulk/")
		killed := time.Now()
		c.Crash(dead)
		freed, sorts := ends(sessions*locks, quorumTTL+5*time.Second)
		t.Logf("%d locks free after %v", sorts[watch.Expired], freed.Sub(killed))
		if sorts[watch.Expired] != sessions*locks || len(sorts) != 1 {
			t.Errorf("locks ended as %v, want %d expired", sorts, sessions*locks)
		}
		for _, h := range rest {
			calm(t, h)
		}
		c.Start(dead)
		c.WaitReady()
		for k := range sessions * locks / 100 {
			h := lockIn(t, c.Node(dead), fmt.Sprintf("bulk/%d/%d", k*100/locks, k*100%locks), time.Second)
			unlock(t, h)
		}
		c.CheckState()
	})
}

// openMany opens sessions on a node and takes locks with each.
func openMany(t *testing.T, n *quorumlock.Node, sessions, locks int) {
	t.Helper()
	var all sync.WaitGroup
	for i := range sessions {
		all.Go(func() {
			s, err := n.NewSession(context.Background(), 0)
			for k := 0; err == nil && k < locks; k++ {
				_, err = quorumlock.NewMutex(s, fmt.Sprintf("bulk/%d/%d", i, k)).TryLock(context.Background())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// countEnds counts how holds with a prefix end, as n sees it, until there are want or bound has passed.
func countEnds(t *testing.T, n *quorumlock.Node, prefix string) func(want int, bound time.Duration) (last time.Time, sorts map[watch.Kind]int) {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	kinds := make(chan watch.Kind, 100_000)
	go func() {
		defer close(kinds)
		for e, err := range n.Watch(ctx, prefix) {
			if err != nil {
				if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				return
			}
			kinds <- e.Kind
		}
	}()
	synctest.Wait()
	return func(want int, bound time.Duration) (last time.Time, sorts map[watch.Kind]int) {
		defer cancel()
		sorts = make(map[watch.Kind]int)
		over := time.After(bound)
		for range want {
			select {
			case k := <-kinds:
				sorts[k]++
				last = time.Now()
			case <-over:
				return last, sorts
			}
		}
		return last, sorts
	}
}

// S31: a panic under Do releases the lock on its way up. A lock that is taken by hand and forgotten stays held with its session, visible with its age, until the
// session is closed.
func TestPanicAndForgottenHold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		ctx := context.Background()
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic did not come through")
				}
			}()
			_ = quorumlock.NewMutex(c.Node(1), "k").Do(ctx, func(context.Context, quorumlock.Token) error { panic("worker") })
		}()
		h, err := quorumlock.NewMutex(c.Node(2), "k").TryLock(ctx)
		if err != nil {
			t.Fatalf("after a panic under Do: %v", err)
		}
		unlock(t, h)

		s, err := c.Node(1).NewSession(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		taken := time.Now()
		if _, err := quorumlock.NewMutex(s, "forgotten", quorumlock.Note("batch 7")).Lock(ctx); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * quorumTTL)
		var locked *quorumlock.LockedError
		if _, err := quorumlock.NewMutex(c.Node(2), "forgotten").TryLock(ctx); !errors.As(err, &locked) {
			t.Fatalf("forgotten lock: %v, want locked", err)
		}
		if age := time.Since(locked.Since); (age-2*quorumTTL).Abs() > time.Second || locked.Since.Before(taken.Add(-time.Second)) {
			t.Errorf("shown to be held for %v", age)
		}
		if text := locked.Error(); !strings.Contains(text, "node-1") || !strings.Contains(text, "batch 7") {
			t.Errorf("%q names neither the holder nor its note", text)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		unlock(t, lockIn(t, c.Node(2), "forgotten", time.Second))
		c.CheckState()
	})
}
