package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/sim"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// closeBound is the longest that Close may take while no callback works; Leave may take leaveBound longer, which its ctx sets.
const (
	closeBound = 5 * time.Second
	leaveBound = 3 * time.Second
)

// A bubble ends only when every goroutine in it has: these tests also show that nothing is left running.
func TestCloseInEveryState(t *testing.T) {
	states := map[string]struct {
		options []quorumlocktest.Option
		reach   func(c *quorumlocktest.Cluster) (victim int)
		// confirmed: Leave must be answered, and nobody may stay a member
		confirmed bool
	}{
		"just opened": {
			options: []quorumlocktest.Option{quorumlocktest.NotReady()},
			reach:   func(*quorumlocktest.Cluster) int { return 0 },
		},
		"waiting for founders": {
			options: []quorumlocktest.Option{quorumlocktest.NotReady(), quorumlocktest.Configure(func(_ int, cfg *quorumlock.Config) { cfg.Expect = 5 })},
			reach:   func(*quorumlocktest.Cluster) int { time.Sleep(10 * time.Second); return 0 },
		},
		"no quorum": {
			reach: func(c *quorumlocktest.Cluster) int {
				c.Crash(1)
				c.Crash(2)
				time.Sleep(3 * time.Second)
				return 0
			},
		},
		"isolated leader": {
			reach: func(c *quorumlocktest.Cluster) int { i := c.Leader(); c.Isolate(i); return i },
		},
		"leader":   {reach: (*quorumlocktest.Cluster).Leader, confirmed: true},
		"follower": {reach: func(c *quorumlocktest.Cluster) int { return others(c, c.Leader())[0] }, confirmed: true},
	}
	for name, state := range states {
		for _, disks := range []bool{true, false} {
			for way, end := range endings {
				t.Run(fmt.Sprintf("%s/disks=%v/%s", name, disks, way), func(t *testing.T) {
					bubble(t, func(t *testing.T) {
						options := state.options
						if !disks {
							options = append([]quorumlocktest.Option{quorumlocktest.InMemory()}, options...)
						}
						c := quorumlocktest.New(t, 3, options...)
						i := state.reach(c)
						n := c.Node(i)
						var err error
						endsIn(t, way, closeBound+leaveBound, func() { err = end(c, i) })
						if state.confirmed && err != nil {
							t.Errorf("%s: %v", way, err)
						}
						if err := n.Err(); !errors.Is(err, quorumlock.ErrClosed) {
							t.Errorf("a closed node reports %v", err)
						}
						if state.confirmed {
							next := others(c, i)
							unlock(t, lockIn(t, c.Node(next[0]), "k", grantBound))
							if way == "leave" || !disks {
								awaitVoters(t, c, 10*time.Second, next...)
							}
							c.CheckState()
						}
					})
				})
			}
		}
	}
}

var endings = map[string]func(c *quorumlocktest.Cluster, i int) error{
	"close": func(c *quorumlocktest.Cluster, i int) error { return c.Stop(i) },
	"leave": func(c *quorumlocktest.Cluster, i int) error {
		ctx, cancel := context.WithTimeout(context.Background(), leaveBound)
		defer cancel()
		return c.Leave(ctx, i)
	},
	"both at once, many times": func(c *quorumlocktest.Cluster, i int) error {
		n := c.Node(i)
		ctx, cancel := context.WithTimeout(context.Background(), leaveBound)
		defer cancel()
		closes, leaves := make(chan error, 3), make(chan error, 3)
		for range 3 {
			go func() { closes <- n.Close() }()
			go func() { leaves <- n.Leave(ctx) }()
		}
		first, left := c.Stop(i), <-leaves
		for range 3 {
			if err := <-closes; fmt.Sprint(err) != fmt.Sprint(first) {
				return fmt.Errorf("one Close returned %v, another %v", first, err)
			}
		}
		for range 2 {
			if err := <-leaves; fmt.Sprint(err) != fmt.Sprint(left) {
				return fmt.Errorf("one Leave returned %v, another %v", left, err)
			}
		}
		if fmt.Sprint(first) != fmt.Sprint(left) && !(first == nil && errors.Is(left, quorumlock.ErrClosed)) { // a Close came first, and nobody was taken out
			return fmt.Errorf("Close returned %v, Leave %v", first, left)
		}
		return first
	},
}

// A write that hangs does not hold up Close: it says that the directory stays in use, and the rest ends when the disk lets go.
func TestCloseWhileTheDiskHangs(t *testing.T) {
	for name, hangs := range map[string]func(c *quorumlocktest.Cluster) (victims []int){
		"leader": func(c *quorumlocktest.Cluster) []int {
			old := c.Leader()
			c.Disk(old).Hang(true)
			c.LeaderExcept(old)
			return []int{old}
		},
		"follower": func(c *quorumlocktest.Cluster) []int {
			i := others(c, c.Leader())[0]
			c.Disk(i).Hang(true)
			return []int{i}
		},
		"founders": func(c *quorumlocktest.Cluster) []int { return []int{0, 1, 2} },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3, quorumlocktest.NotReady())
				if name == "founders" {
					for i := range 3 {
						c.Disk(i).Hang(true)
					}
				} else {
					lockIn(t, c.Node(0), "mine", grantBound)
				}
				victims := hangs(c)
				time.Sleep(grantBound) // the hang has been noticed, and what can has been tried
				for _, i := range victims {
					endsIn(t, "close", closeBound, func() { _ = c.Stop(i) })
				}
			})
		})
	}
}

func TestCloseFromInsideDo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		n := c.Node(others(c, c.Leader())[0])
		ended := make(chan error, 1)
		err := quorumlock.NewMutex(n, "k").Do(context.Background(), func(ctx context.Context, _ quorumlock.Token) error {
			go func() { ended <- n.Close() }()
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, quorumlock.ErrLost) {
				t.Errorf("the callback's context ended by %v", cause)
			}
			// The lock is not passed on under the callback's hands.
			short, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			if h, err := quorumlock.NewMutex(c.Node(c.Leader()), "k").Lock(short); err == nil {
				t.Errorf("token %v granted while the callback works", h.Token())
			}
			return nil
		})
		if err != nil && !errors.Is(err, quorumlock.ErrLost) {
			t.Errorf("do: %v", err)
		}
		endsIn(t, "close after the callback", closeBound, func() {
			if err := <-ended; err != nil {
				t.Errorf("close: %v", err)
			}
		})
		c.CheckState()
	})
}

// A callback that calls Close itself and waits for it would wait for itself; the lease ends that.
func TestCloseCalledByTheCallbackItself(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		i := others(c, c.Leader())[0]
		endsIn(t, "close inside its own callback", quorumTTL+closeBound, func() {
			_ = quorumlock.NewMutex(c.Node(i), "k").Do(context.Background(), func(context.Context, quorumlock.Token) error {
				_ = c.Stop(i)
				return nil
			})
		})
		unlock(t, lockIn(t, c.Node(c.Leader()), "k", deadBound))
		c.CheckState()
	})
}

// Without a quorum, with locks held and waited for, every call ends in time and says why.
func TestEndingWithoutQuorum(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		i := c.Leader()
		n, ctx := c.Node(i), context.Background()
		session, err := n.NewSession(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		mine, own := lockIn(t, session, "session's", time.Second), lockIn(t, n, "node's", time.Second)
		lockIn(t, c.Node(others(c, i)[0]), "other's", time.Second)
		waiter := make(chan error, 1)
		go func() { _, err := quorumlock.NewMutex(n, "other's").Lock(ctx); waiter <- err }()
		time.Sleep(time.Second)
		for _, j := range others(c, i) {
			c.Crash(j)
		}
		time.Sleep(time.Second)
		endsIn(t, "session close", 3*time.Second, func() {
			if err := session.Close(); err != nil && !errors.Is(err, quorumlock.ErrNoQuorum) {
				t.Errorf("session close without quorum: %v", err)
			}
		})
		if err := mine.Err(); !errors.Is(err, quorumlock.ErrLost) {
			t.Errorf("hold of a closed session: %v", err)
		}
		endsIn(t, "unlock", quorumTTL, func() {
			if err := own.Unlock(); !errors.Is(err, quorumlock.ErrNoQuorum) {
				t.Errorf("unlock without quorum: %v", err)
			}
		})
		endsIn(t, "close", closeBound, func() { _ = c.Stop(i) })
		// By then the node's own deadline may have come before Close: the waiter was told of one of the two.
		if err := <-waiter; !errors.Is(err, quorumlock.ErrClosed) && !errors.Is(err, quorumlock.ErrLost) {
			t.Errorf("waiter: %v", err)
		}
		usedAfterClose(t, n, session)
	})
}

func TestWaitersEndWithTheNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		lockIn(t, c.Node(0), "k", time.Second)
		n := c.Node(1)
		errs := make(chan error, 50)
		for range cap(errs) {
			go func() { _, err := quorumlock.NewMutex(n, "k").Lock(context.Background()); errs <- err }()
		}
		time.Sleep(time.Second)
		if err := c.Stop(1); err != nil {
			t.Errorf("close: %v", err)
		}
		for range cap(errs) {
			if err := <-errs; !errors.Is(err, quorumlock.ErrClosed) {
				t.Errorf("waiter: %v", err)
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if info, err := c.Node(0).Inspect(ctx, "k"); err != nil || info.Waiting != 0 {
			t.Errorf("%d claims of a closed node wait (%v)", info.Waiting, err)
		}
		if err := n.Close(); err != nil {
			t.Errorf("second close: %v", err)
		}
		usedAfterClose(t, n, nil)
		c.CheckState()
	})
}

// usedAfterClose calls everything a closed node has; nothing may hang, panic or forget to say "closed".
func usedAfterClose(t *testing.T, n *quorumlock.Node, s *quorumlock.Session) {
	t.Helper()
	for name, err := range everyCall(context.Background(), n, s) {
		if !errors.Is(err, quorumlock.ErrClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
}

// everyCall makes each call of the API once and gives the errors.
func everyCall(ctx context.Context, n *quorumlock.Node, s *quorumlock.Session) map[string]error {
	errs := make(map[string]error)
	release := func(name string, h *quorumlock.Hold, err error) {
		if errs[name] = err; err == nil {
			errs["unlock after "+name] = h.Unlock()
		}
	}
	h, err := quorumlock.NewMutex(n, "call").Lock(ctx)
	release("Lock", h, err)
	h, err = quorumlock.NewMutex(n, "call").TryLock(ctx)
	release("TryLock", h, err)
	errs["Do"] = quorumlock.NewMutex(n, "call").Do(ctx, func(context.Context, quorumlock.Token) error { return nil })
	errs["Ready"] = n.Ready(ctx)
	_, errs["Inspect"] = n.Inspect(ctx, "call")
	_, errs["Members"] = n.Members(ctx)
	errs["ForceRelease"] = n.ForceRelease(ctx, "call", 1, quorumlock.ForceOptions{Actor: "test", Reason: "test", Now: true})
	opened, err := n.NewSession(ctx, 0)
	if errs["NewSession"] = err; err == nil {
		errs["Session.Close"] = opened.Close()
	}
	if s != nil {
		h, err = quorumlock.NewMutex(s, "call").Lock(ctx)
		release("Lock of a session", h, err)
	}
	return errs
}

// closeRoundsEnv is how many rounds TestS106CloseAtRandomTimes makes, if it is set.
const closeRoundsEnv = "QUORUMLOCK_CLOSE_ROUNDS"

// rounds is what an environment variable says, or the share of it that each run can afford.
func rounds(t *testing.T, env string, share uint64) uint64 {
	t.Helper()
	text := os.Getenv(env)
	if text == "" {
		return share
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == 0 {
		t.Fatalf("%s=%q is no number of rounds", env, text)
	}
	return n
}

// S106: nodes are closed at random times while they found, join, change leaders, take snapshots and are sent one, and are cut
// off or face peers that swallow everything. Each Close ends in time; that no goroutine is left is TestMain's to say. Scaled:
// a share of the thousand, see closeRoundsEnv.
func TestS106CloseAtRandomTimes(t *testing.T) {
	for seed := range rounds(t, closeRoundsEnv, 16) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 1))
				options := []quorumlocktest.Option{quorumlocktest.Seed(seed), quorumlocktest.NotReady(), quorumlocktest.SnapshotBytes(2000)}
				if seed%2 == 1 {
					options = append(options, quorumlocktest.InMemory())
				}
				c := quorumlocktest.New(t, 3, options...)
				r := trafficOn(t, c, "k")
				sleep := func(most time.Duration) { time.Sleep(time.Duration(rng.Int64N(int64(most)))) }
				sleep(3 * time.Second)
				first := 0
				switch rng.IntN(7) {
				case 0:
					c.Crash(0)
					first = 1
				case 1:
					c.Isolate(0)
				case 2:
					c.Grow()
				case 3:
					for i := 1; i < c.Size(); i++ {
						c.Pause(i) // as black holes
					}
				case 4:
					if l, led := leaderWithin(c, -1, 5*time.Second); led {
						n := c.Node(l)
						go sim.HandOver(n) // under way when the first is closed, as a rule
						sleep(20 * time.Millisecond)
						closeOne(t, c, 0)
						first = 1
					}
				case 5: // comes back to what is compacted already, and is sent a snapshot
					c.Isolate(0)
					if l, led := leaderWithin(c, 0, 5*time.Second); led {
						writeEntries(t, c.Node(l), compacted)
					}
					c.Heal()
				}
				sleep(2 * time.Second)
				for i := first; i < c.Size(); i++ {
					closeOne(t, c, i)
					sleep(time.Second)
				}
				close(r.quit)
			})
		})
	}
}

// leaderWithin waits for an instance other than except to lead; there may be none, as before the founding.
func leaderWithin(c *quorumlocktest.Cluster, except int, bound time.Duration) (int, bool) {
	for end := time.Now().Add(bound); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		for i := range c.Size() {
			if i != except && sim.Leading(c.Node(i)) {
				return i, true
			}
		}
	}
	return 0, false
}

// closeOne closes an instance twice at once.
func closeOne(t *testing.T, c *quorumlocktest.Cluster, i int) {
	t.Helper()
	endsIn(t, "close", closeBound, func() {
		var both sync.WaitGroup
		n := c.Node(i)
		both.Go(func() { _ = n.Close() })
		both.Go(func() { _ = c.Stop(i) })
		both.Wait()
	})
}
