package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// S06: waiters give up, by deadline and by hand, in the very moment in which the lock becomes free. Each call returns a hold or its ctx
// error; no two holds overlap, and of the calls that failed nothing is left a second later.
func TestGrantThatRacesWithGivingUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const rounds, waiters = 12, 20
		c := quorumlocktest.New(t, 3)
		rng := rand.New(rand.NewPCG(6, 6))
		granted, gaveUp := 0, 0
		for range rounds {
			a := lockIn(t, c.Node(rng.IntN(3)), "k", time.Second)
			var one exclusion
			var calls []*waiter
			var byHand []*waiter
			for i := range waiters {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(50+rng.IntN(450))*time.Millisecond)
				defer cancel()
				w := wait(ctx, t, c.Node(rng.IntN(3)), "k")
				calls = append(calls, w)
				if i%3 == 0 {
					byHand = append(byHand, w)
				}
				hold := time.Duration(rng.IntN(30)) * time.Millisecond
				go func() {
					if <-w.done; w.err == nil {
						one.hold(t, w.hold, hold)
					}
				}()
			}
			time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
			go func() { _ = a.Unlock() }()
			for _, w := range byHand {
				go w.cancel()
			}
			for _, w := range calls {
				w.in(time.Second)
				if w.err == nil {
					granted++
				} else if gaveUp++; !errors.Is(w.err, context.DeadlineExceeded) && !errors.Is(w.err, context.Canceled) {
					t.Errorf("error %v", w.err)
				}
			}
			becomesFree(t, c, "k", time.Second)
		}
		if granted < rounds || gaveUp < rounds {
			t.Errorf("%d granted, %d gave up: nothing raced", granted, gaveUp)
		}
		c.CheckState()
	})
}

// exclusion sees to it that at most one hold is used at a time.
type exclusion struct {
	mu     sync.Mutex
	holder *quorumlock.Hold
}

// hold works under h for a while, and unlocks it.
func (x *exclusion) hold(t *testing.T, h *quorumlock.Hold, d time.Duration) {
	x.mu.Lock()
	if x.holder != nil {
		t.Errorf("token %v granted beside %v", h.Token(), x.holder.Token())
	}
	x.holder = h
	x.mu.Unlock()
	time.Sleep(d)
	x.mu.Lock()
	x.holder = nil
	x.mu.Unlock()
	if err := h.Unlock(); err != nil {
		t.Errorf("unlock: %v", err)
	}
}

// S07: a waiter gives up, and its session lives on. Its claim does not stand in anybody's way.
func TestClaimOfWhoGaveUpIsGone(t *testing.T) {
	ways := map[string]func(t *testing.T, c *quorumlocktest.Cluster, b int){
		"timeout": func(t *testing.T, c *quorumlocktest.Cluster, b int) {
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			wait(ctx, t, c.Node(b), "k").failed(101*time.Millisecond, context.DeadlineExceeded)
		},
		"cancel": func(t *testing.T, c *quorumlocktest.Cluster, b int) {
			w := waitQueued(t, c, c.Node(b), "k", 1)
			w.cancel()
			w.failed(time.Millisecond, context.Canceled)
		},
		"connection breaks": func(t *testing.T, c *quorumlocktest.Cluster, b int) {
			w := waitQueued(t, c, c.Node(b), "k", 1)
			c.Network().DropConns(c.Host(b), c.Host(c.Leader()))
			w.cancel()
			w.failed(time.Millisecond, context.Canceled)
		},
	}
	for name, giveUp := range ways {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3)
				l, f := roles(c)
				a := lockIn(t, c.Node(l), "k", 5*time.Second)
				s := lockIn(t, c.Node(f[0]), "other", time.Second) // B's session is busy with something else
				giveUp(t, c, f[0])
				unlock(t, a)
				unlock(t, lockIn(t, c.Node(f[1]), "k", time.Second))
				becomesFree(t, c, "k", time.Second)
				unlock(t, s)
				c.CheckState()
			})
		})
	}
}

// S07: the same while nobody leads. C is granted within a second of the next leader, while B's session lives.
func TestClaimOfWhoGaveUpWithoutALeaderIsGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		l, f := roles(c)
		a := lockIn(t, c.Node(f[1]), "k", 5*time.Second)
		other := lockIn(t, c.Node(f[0]), "other", time.Second)
		b := waitQueued(t, c, c.Node(f[0]), "k", 1)

		c.Crash(l)
		time.Sleep(100 * time.Millisecond) // nobody has been elected yet
		b.cancel()
		b.failed(time.Millisecond, context.Canceled)
		behind := wait(context.Background(), t, c.Node(f[1]), "k")
		go func() { _ = a.Unlock() }()
		c.LeaderExcept(l)
		h := behind.granted(time.Second)
		follows(t, a, h)
		unlock(t, h)
		if err := other.Err(); err != nil {
			t.Errorf("the session of who gave up: %v", err)
		}
		unlock(t, other)
		becomesFree(t, c, "k", time.Second)
		c.Start(l)
		c.WaitReady()
		c.CheckState()
	})
}

// ghostBound is how long a claim may outlive its call, from when its node reaches a quorum (I4).
const ghostBound = 2 * time.Second

// I4, for a node that lost its session meanwhile: the cluster could not be reached when the call gave up, nor for longer than
// the lease. The claim is gone 2 s after a quorum is back, and with it whatever else the session had.
func TestClaimOfALostSessionIsGoneWhenTheQuorumIsBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		l, f := roles(c)
		a := lockIn(t, c.Node(l), "k", 5*time.Second)
		b := waitQueued(t, c, c.Node(f[0]), "k", 1)
		for i := range 3 {
			c.Isolate(i)
		}
		b.failed(9*time.Second, quorumlock.ErrLost)
		if !errors.Is(a.Err(), quorumlock.ErrLost) {
			t.Errorf("the holder without a quorum: %v", a.Err())
		}
		time.Sleep(5 * time.Second)
		c.Heal()
		c.WaitReady()
		becomesFree(t, c, "k", ghostBound)
		c.CheckState()
	})
}

// I4, for a session with a long TTL that is closed while its node is cut off: its claims do not wait for the TTL when the node is back.
func TestClaimOfASessionClosedInAPartitionIsGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		l, f := roles(c)
		a := lockIn(t, c.Node(l), "k", 5*time.Second)
		s, err := c.Node(f[0]).NewSession(context.Background(), quorumlock.MaxSessionTTL)
		if err != nil {
			t.Fatal(err)
		}
		b := waitQueued(t, c, s, "k", 1)
		c.Isolate(f[0])
		if err := s.Close(); !errors.Is(err, quorumlock.ErrNoQuorum) {
			t.Errorf("close: %v", err)
		}
		b.failed(time.Millisecond, quorumlock.ErrClosed)
		time.Sleep(3 * time.Second)
		if n := lockShown(t, c, "k").Waiting; n != 1 {
			t.Errorf("%d claims wait: the fault did not bite", n)
		}
		c.Heal()
		c.WaitReady()
		queueBecomes(t, c, "k", 0, ghostBound)
		unlock(t, a)
		c.CheckState()
	})
}

// S09: the leader is cut off at a random moment around the commit of a claim. Retried, it makes one entry and one hold; given up, it is
// gone in time after the next leader's election. (The scenario's 200 rounds are scaled to the time of a test run.)
func TestClaimWhoseAnswerWasCutOff(t *testing.T) {
	for _, giveUp := range []bool{false, true} {
		t.Run(fmt.Sprintf("giveUp=%v", giveUp), func(t *testing.T) {
			bubble(t, func(t *testing.T) { testAnswerCutOff(t, giveUp) })
		})
	}
}

func testAnswerCutOff(t *testing.T, giveUp bool) {
	const rounds = 20
	c := quorumlocktest.New(t, 3)
	rng := rand.New(rand.NewPCG(9, 9))
	cut := 0
	for round := range rounds {
		l, f := roles(c)
		name := fmt.Sprintf("k%d", round)
		unlock(t, lockIn(t, c.Node(f[0]), name, 5*time.Second)) // its session is open
		b := wait(context.Background(), t, c.Node(f[0]), name)
		time.Sleep(time.Duration(rng.IntN(1800)) * time.Microsecond) // an answer takes half of that
		c.Isolate(l)
		time.Sleep(300 * time.Millisecond)
		if !b.ended() {
			cut++
		}
		if giveUp {
			b.cancel()
			b.in(time.Millisecond)
		}
		next := c.LeaderExcept(l)
		if b.in(2 * time.Second); b.err == nil {
			onlyHold(t, c.Node(next), b.hold)
			unlock(t, b.hold)
		} else if !giveUp {
			t.Errorf("round %d: %v", round, b.err)
		}
		becomesFree(t, c, name, ghostBound)
		c.Heal()
		c.WaitReady()
		becomesFree(t, c, name, time.Second)
	}
	if cut < rounds/10 || cut == rounds {
		t.Errorf("the answer was cut off in %d of %d rounds", cut, rounds)
	}
	c.CheckState()
}

// onlyHold checks that the cluster knows h as the holder, and nothing else of the lock.
func onlyHold(t *testing.T, via *quorumlock.Node, h *quorumlock.Hold) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	info, err := via.Inspect(ctx, h.Name())
	if err != nil {
		t.Errorf("inspect %q: %v", h.Name(), err)
	} else if len(info.Holders) != 1 || info.Holders[0].Token != h.Token() || info.Waiting != 0 {
		t.Errorf("%q: held by %v, %d waiting; want token %v alone", h.Name(), info.Holders, info.Waiting, h.Token())
	}
}

// I4: very many calls end by deadlines of 1 to 50 ms, on held locks and on free ones, from all nodes. 2 s later the cluster knows no claim of
// them. (100,000 calls in the contract; scaled to the time of a test run.)
func TestCancelledClaimsLeaveNoGhost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const calls, callers, names = 600, 30, 5
		c := quorumlocktest.New(t, 3)
		for i := range names {
			if i%2 == 0 {
				defer unlock(t, lockIn(t, c.Node(i%3), fmt.Sprint("k", i), 5*time.Second))
			}
		}
		var done sync.WaitGroup
		var mu sync.Mutex
		ended := 0
		for caller := range callers {
			done.Add(1)
			go func() {
				defer done.Done()
				rng := rand.New(rand.NewPCG(4, uint64(caller)))
				for range calls / callers {
					if briefLock(t, c.Node(caller%3), fmt.Sprint("k", rng.IntN(names)), rng) {
						mu.Lock()
						ended++
						mu.Unlock()
					}
				}
			}()
		}
		done.Wait()
		if ended < calls/2 {
			t.Errorf("only %d of %d calls ended by their deadline", ended, calls)
		}
		time.Sleep(ghostBound)
		for i := range names {
			info := lockShown(t, c, fmt.Sprint("k", i))
			if info.Waiting != 0 || (len(info.Holders) > 0) != (i%2 == 0) {
				t.Errorf("%q: held by %v, %d waiting", info.Name, info.Holders, info.Waiting)
			}
		}
		c.CheckState()
	})
}

// briefLock waits for a lock for 1 to 50 ms and tells whether that was too short.
func briefLock(t *testing.T, o quorumlock.Owner, name string, rng *rand.Rand) (ended bool) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1000+rng.IntN(49000))*time.Microsecond)
	defer cancel()
	h, err := quorumlock.NewMutex(o, name).Lock(ctx)
	if err != nil {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("lock: %v", err)
		}
		return true
	}
	time.Sleep(time.Duration(rng.IntN(10)) * time.Millisecond)
	if err := h.Unlock(); err != nil {
		t.Errorf("unlock: %v", err)
	}
	return false
}

// More requests of one session at a time than the cluster remembers answers for: none is lost, none is left.
func TestThousandsOfHoldsOfOneSessionAreAllReleased(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds under the race detector")
	}
	bubble(t, func(t *testing.T) {
		const holds = 4200            // above locktable.MaxFinished
		c := quorumlocktest.New(t, 1) // the way to a leader plays no part in it
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		held := make([]*quorumlock.Hold, holds)
		each := func(f func(i int)) {
			var done sync.WaitGroup
			for i := range holds {
				done.Add(1)
				go func() { defer done.Done(); f(i) }()
			}
			done.Wait()
		}
		each(func(i int) {
			var err error
			for held[i], err = quorumlock.NewMutex(c.Node(0), fmt.Sprint("k", i)).Lock(ctx); errors.Is(err, quorumlock.ErrOverloaded); {
				time.Sleep(time.Second)
				held[i], err = quorumlock.NewMutex(c.Node(0), fmt.Sprint("k", i)).Lock(ctx)
			}
			if err != nil {
				t.Errorf("lock %d: %v", i, err)
			}
		})
		if t.Failed() {
			return
		}
		each(func(i int) {
			if err := held[i].Unlock(); err != nil {
				t.Errorf("unlock %d: %v", i, err)
			}
		})
		for i := 0; i < holds; i += 100 {
			becomesFree(t, c, fmt.Sprint("k", i), time.Second)
		}
		c.CheckState()
	})
}
