package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/sim"
	"github.com/quorumlock/quorumlock/quorumlocktest"
	"github.com/quorumlock/quorumlock/watch"
)

// S01: the session of a waiter ends while it waits. It is never granted, and who stood behind it is.
func TestWaiterOfAnExpiredSessionIsNeverGranted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		l, f := roles(c)
		a := lockIn(t, c.Node(l), "k", 5*time.Second)
		b := waitQueued(t, c, c.Node(f[0]), "k", 1)
		behind := waitQueued(t, c, c.Node(f[1]), "k", 2)

		c.Isolate(f[0])
		b.failed(8*time.Second+250*time.Millisecond, quorumlock.ErrLost)
		queueBecomes(t, c, "k", 1, expiryBound)
		unlock(t, a)
		h := behind.granted(time.Second)
		follows(t, a, h)
		c.Heal()
		time.Sleep(3 * time.Second)
		if err := h.Err(); err != nil {
			t.Error(err)
		}
		unlock(t, h)
		c.CheckState()
	})
}

// S01, S02: the cluster ends the session while its node, whose clocks are far slower than allowed, still believes in it. The waiter is
// told within a second of hearing of the cluster again, whether the lock is held all the while or has been released to another.
func TestWaiterLearnsThatTheClusterEndedItsSession(t *testing.T) {
	for _, released := range []bool{false, true} {
		t.Run(fmt.Sprintf("released=%v", released), func(t *testing.T) {
			bubble(t, func(t *testing.T) { testEndedByTheCluster(t, released) })
		})
	}
}

// S02: the same while the node is in touch, only too slow to renew: it need not ask in order to be told.
func TestWaiterInTouchIsToldThatItsSessionEnded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		l, f := roles(c)
		a := lockIn(t, c.Node(l), "k", 5*time.Second)
		b := waitQueued(t, c, c.Node(f[0]), "k", 1)
		c.Clock(f[0]).SetRate(0.05)
		queueBecomes(t, c, "k", 0, 13*time.Second)
		b.failed(time.Second, quorumlock.ErrLost)
		c.Clock(f[0]).SetRate(1)
		unlock(t, a)
		unlock(t, lockIn(t, c.Node(f[0]), "k", time.Second)) // with a new session
		c.CheckState()
	})
}

func testEndedByTheCluster(t *testing.T, released bool) {
	c := quorumlocktest.New(t, 3)
	l, f := roles(c)
	a := lockIn(t, c.Node(l), "k", 5*time.Second)
	b := waitQueued(t, c, c.Node(f[0]), "k", 1)
	behind := waitQueued(t, c, c.Node(f[1]), "k", 2)

	c.Clock(f[0]).SetRate(0.5)
	c.Isolate(f[0])
	queueBecomes(t, c, "k", 1, 13*time.Second)
	if b.ended() {
		t.Fatalf("the waiter's own deadline came first: %v", b.err)
	}
	if released {
		unlock(t, a)
		follows(t, a, behind.granted(time.Second))
	}
	c.Heal()
	b.failed(time.Second, quorumlock.ErrLost)
	if !released {
		if behind.ended() || a.Err() != nil {
			t.Errorf("the holder: %v; the waiter behind has ended: %v", a.Err(), behind.ended())
		}
		unlock(t, a)
	}
	unlock(t, behind.granted(time.Second))
	c.CheckState()
}

// S02: A holds for long (the scenario's ten minutes are two TTLs here), B's session is closed by its owner, or cut off; A's hold has no part in it.
func TestWaiterEndsWithItsSessionWhileTheLockIsHeld(t *testing.T) {
	ends := map[string]struct {
		end   func(c *quorumlocktest.Cluster, i int, s *quorumlock.Session)
		bound time.Duration
		want  error
	}{
		"closed": {func(_ *quorumlocktest.Cluster, _ int, s *quorumlock.Session) { _ = s.Close() }, time.Millisecond, quorumlock.ErrClosed},
		"cut":    {func(c *quorumlocktest.Cluster, i int, _ *quorumlock.Session) { c.Isolate(i) }, 8*time.Second + 250*time.Millisecond, quorumlock.ErrLost},
	}
	for name, how := range ends {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3)
				l, f := roles(c)
				a := lockIn(t, c.Node(l), "k", 5*time.Second)
				s := openSession(t, c.Node(f[0]))
				b := waitQueued(t, c, s, "k", 1)
				time.Sleep(2 * quorumTTL)
				how.end(c, f[0], s)
				b.failed(how.bound, how.want)
				queueBecomes(t, c, "k", 0, expiryBound)
				c.Heal()
				time.Sleep(3 * time.Second)
				unlock(t, a)
				becomesFree(t, c, "k", time.Second)
				c.CheckState()
			})
		})
	}
}

// S03: the claim between a holder and a waiter vanishes. The waiter keeps its place and is granted when the holder lets go, not before.
func TestWaiterWhosePredecessorVanishesKeepsWaiting(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		l, f := roles(c)
		a := lockIn(t, c.Node(l), "k", 5*time.Second)
		s := openSession(t, c.Node(f[0]))
		waitQueued(t, c, s, "k", 1)
		behind := waitQueued(t, c, c.Node(f[1]), "k", 2)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		queueBecomes(t, c, "k", 1, time.Second)
		time.Sleep(5 * time.Second)
		if behind.ended() {
			t.Fatalf("beside the holder: %v, %v", behind.hold, behind.err)
		}
		unlock(t, a)
		h := behind.granted(time.Second)
		follows(t, a, h)
		unlock(t, h)
		c.CheckState()
	})
}

// S03: of 60 waiters many vanish, by cancel, by close and by expiry. The others keep their order, and each release grants exactly one.
func TestOrderOfWaitersOutlivesThoseThatVanish(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const waiters = 60
		c := quorumlocktest.New(t, 3)
		l, f := roles(c)
		grants := countGrants(t, c.Node(l), "k")
		a := lockIn(t, c.Node(l), "k", 5*time.Second)

		rng := rand.New(rand.NewPCG(3, 3))
		nodes := []int{l, f[0], f[1]}
		var queue, stay []*waiter
		var ends []func()
		for i := range waiters {
			on := nodes[rng.IntN(3)]
			s := openSession(t, c.Node(on))
			w := waitQueued(t, c, s, "k", i+1)
			queue = append(queue, w)
			switch fate := rng.IntN(3); {
			case on == f[0]: // will be cut off
			case fate == 0:
				ends = append(ends, w.cancel)
			case fate == 1:
				ends = append(ends, func() { _ = s.Close() })
			default:
				stay = append(stay, w)
			}
		}
		c.Isolate(f[0])
		rng.Shuffle(len(ends), func(i, j int) { ends[i], ends[j] = ends[j], ends[i] })
		for _, end := range ends {
			go end()
			time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
		}
		queueBecomes(t, c, "k", len(stay), 15*time.Second)
		c.Heal()
		if len(stay) < waiters/10 || len(stay) > waiters/2 {
			t.Fatalf("%d of %d waiters stay: the test is not what it says", len(stay), waiters)
		}
		for _, w := range queue {
			if !slices.Contains(stay, w) {
				w.in(time.Second)
			}
		}

		last := a
		for i, w := range stay {
			before := grants.get()
			unlock(t, last)
			h := w.granted(time.Second)
			follows(t, last, h)
			time.Sleep(100 * time.Millisecond)
			if n := grants.get() - before; n != 1 {
				t.Errorf("release %d granted %d claims", i, n)
			}
			last = h
		}
		unlock(t, last)
		for _, w := range queue {
			if w.err == nil && !slices.Contains(stay, w) {
				t.Errorf("a waiter that vanished was granted token %v", w.hold.Token())
			}
		}
		becomesFree(t, c, "k", time.Second)
		c.CheckState()
	})
}

// S04: an unlock that races with a claim on its way into the queue, over and over, on all pairs of nodes: no grant is missed. (The
// scenario's 10,000 rounds are scaled to the time of a test run.)
func TestUnlockThatRacesWithEnqueueIsNotMissed(t *testing.T) {
	for name, lag := range map[string]time.Duration{"even": 0, "lagging follower": 200 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) { testUnlockRacesEnqueue(t, lag) })
		})
	}
}

func testUnlockRacesEnqueue(t *testing.T, lag time.Duration) {
	const rounds = 100
	c := quorumlocktest.New(t, 3)
	_, f := roles(c)
	c.Disk(f[0]).Slow(lag) // its state machine is behind by that much; the leader's word is not
	rng := rand.New(rand.NewPCG(4, uint64(lag)))
	queued := 0
	for round := range rounds {
		from, to := rng.IntN(3), rng.IntN(3)
		if lag > 0 {
			to = f[0]
		}
		a := lockIn(t, c.Node(from), "k", time.Second)
		start := time.Now()
		b := wait(context.Background(), t, c.Node(to), "k")
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Microsecond)
		if !b.ended() && round%10 == 0 {
			queued += lockShown(t, c, "k").Waiting
		}
		unlock(t, a)
		h := b.granted(time.Second)
		if took := h.Token(); time.Since(start) > 50*time.Millisecond && lag == 0 {
			t.Errorf("round %d: token %v came after %v", round, took, time.Since(start))
		}
		follows(t, a, h)
		unlock(t, h)
	}
	if queued == 0 {
		t.Error("no claim was ever seen waiting")
	}
	c.CheckState()
}

// S13: what a release costs does not grow with the number of those who wait.
func TestReleaseCostsOneEntryAndWakesOneWaiter(t *testing.T) {
	const releases = 30
	for _, waiters := range []int{releases, 300} {
		t.Run(fmt.Sprint(waiters), func(t *testing.T) {
			bubble(t, func(t *testing.T) { testReleases(t, waiters, releases) })
		})
	}
}

func testReleases(t *testing.T, waiters, releases int) {
	c := quorumlocktest.New(t, 5)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	held := lockIn(t, c.Node(0), "k", 5*time.Second)
	granted := make(chan *quorumlock.Hold, waiters)
	for i := range waiters {
		go func() {
			h, err := quorumlock.NewMutex(c.Node(i%5), "k").Lock(ctx)
			if err == nil {
				granted <- h
			} else if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}()
	}
	queueBecomes(t, c, "k", waiters, 10*time.Second)

	index := func() uint64 { i, _ := sim.State(c.Node(c.Leader())); return i }
	start, first := time.Now(), index()
	for range releases {
		unlock(t, held)
		next := <-granted
		follows(t, held, next)
		held = next
	}
	took, entries := time.Since(start), index()-first
	// Renewals of five nodes' sessions share an entry each 100 ms at most; all else is the releases.
	if most := uint64(releases) + uint64(took/(100*time.Millisecond)) + 2; entries > most {
		t.Errorf("%d releases took %d log entries", releases, entries)
	}
	if took > time.Duration(releases)*20*time.Millisecond {
		t.Errorf("%d releases took %v", releases, took)
	}
	time.Sleep(100 * time.Millisecond)
	if n := len(granted); n != 0 {
		t.Errorf("%d more waiters believe that they hold the lock", n)
	}
	cancel()
	queueBecomes(t, c, "k", 0, 2*time.Second)
	unlock(t, held)
	c.CheckState()
}

// grantCount counts the grants of one lock as a node's state machine tells them.
type grantCount struct {
	events chan watch.Event
	n      int
}

func countGrants(t *testing.T, n *quorumlock.Node, name string) *grantCount {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	g := &grantCount{events: make(chan watch.Event, 10000)}
	go func() {
		for e, err := range n.Watch(ctx, name) {
			if err != nil {
				return
			}
			if e.Kind == watch.Granted {
				g.events <- e
			}
		}
	}()
	return g
}

// get is the number of grants so far.
func (g *grantCount) get() int {
	for {
		select {
		case <-g.events:
			g.n++
		default:
			return g.n
		}
	}
}
