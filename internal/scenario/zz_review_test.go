package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/store"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// T1: opening a session outlasts 0.8 TTL.
func TestZ1OpenLongerThanTrust(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		i := others(c, c.Leader())[0]
		for j := range 3 {
			c.Isolate(j)
		}
		w := wait(context.Background(), t, c.Node(i), "k")
		time.Sleep(20 * time.Second)
		c.Heal()
		time.Sleep(20 * time.Second)
		t.Logf("ended=%v err=%v hold=%v", w.ended(), w.err, w.hold)
		if !w.ended() || w.err != nil {
			t.Errorf("Lock after the quorum is back: %v", w.err)
		}
	})
}

// T3: a callback outlasts the lease while the session closes: Do must say ErrLost.
func TestZ3DoOutlastsLeaseOnClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		i := others(c, c.Leader())[0]
		n := c.Node(i)
		started := make(chan struct{})
		res := make(chan error, 1)
		go func() {
			res <- quorumlock.NewMutex(n, "k").Do(context.Background(), func(context.Context, quorumlock.Token) error {
				close(started)
				time.Sleep(30 * time.Second)
				return nil
			})
		}()
		<-started
		go func() { _ = n.Close() }()
		h := lockIn(t, c.Node(c.Leader()), "k", 25*time.Second)
		t.Logf("successor granted %v while callback works", h.Token())
		err := <-res
		t.Logf("Do: %v", err)
		if !errors.Is(err, quorumlock.ErrLost) {
			t.Errorf("work overlapped, and Do returned %v", err)
		}
		time.Sleep(10 * time.Second)
	})
}

// T5: Leave of the last member.
func TestZ5LastLeave(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 1)
		id, cl := c.Node(0).ID(), c.Node(0).ClusterID()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := c.Leave(ctx, 0); err != nil {
			t.Fatal(err)
		}
		c.Start(0)
		c.WaitReady()
		if c.Node(0).ID() != id || c.Node(0).ClusterID() != cl {
			t.Errorf("last member was %s of %s, is %s of %s", id, cl, c.Node(0).ID(), c.Node(0).ClusterID())
		}
	})
}

// T6: a durable voter that was replaced comes back.
func TestZ6ReplacedVoterReturns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		c.Grow()
		c.WaitReady()
		awaitVoters2(t, c)
		dead := others(c, c.Leader())[0]
		if dead == 3 {
			dead = others(c, c.Leader())[1]
		}
		c.Crash(dead)
		time.Sleep(60 * time.Second)
		c.Start(dead)
		time.Sleep(3 * time.Minute)
		l := c.Leader()
		in := false
		for _, m := range groupOf(t, c.Node(l)) {
			t.Logf("%+v", m)
			if m.ServerID == c.Node(dead).ID() {
				in = true
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		t.Logf("ready: %v, err %v", c.Node(dead).Ready(ctx), c.Node(dead).Err())
		if !in {
			t.Errorf("the returned voter is in the configuration no more")
		}
		// Watch on it
		got := make(chan string, 1)
		go func() {
			for e, err := range c.Node(dead).Watch(ctx, "") {
				got <- fmt.Sprint(e, err)
				return
			}
		}()
		time.Sleep(10 * time.Millisecond)
		unlock(t, lockIn(t, c.Node(l), "kk", time.Second))
		time.Sleep(3 * time.Second)
		select {
		case s := <-got:
			t.Logf("watch: %s", s)
		default:
			t.Errorf("watch on the orphan is silent")
		}
	})
}

func awaitVoters2(t *testing.T, c *quorumlocktest.Cluster) { time.Sleep(10 * time.Second) }

// T7: Close of a leader whose disk hangs.
func TestZ7CloseHungLeader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		old := c.Leader()
		lockIn(t, c.Node(old), "mine", time.Second)
		c.Disk(old).Hang(true)
		c.LeaderExcept(old)
		time.Sleep(10 * time.Second)
		n := c.Node(old)
		done := make(chan struct{})
		go func() { defer close(done); t.Logf("close: %v", n.Close()) }()
		select {
		case <-done:
		case <-time.After(2 * time.Minute):
			t.Errorf("Close hangs with the disk")
			c.Disk(old).Hang(false)
			<-done
		}
		c.Disk(old).Hang(false)
		time.Sleep(time.Minute)
	})
}

// T8: two callers without a quorum and without a session.
func TestZ8SecondOpener(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		i := others(c, c.Leader())[0]
		for j := range 3 {
			c.Isolate(j)
		}
		time.Sleep(5 * time.Second)
		errs := make(chan error, 2)
		for k := range 2 {
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(10-5*k)*time.Second)
				defer cancel()
				_, err := quorumlock.NewMutex(c.Node(i), fmt.Sprint("k", k)).Lock(ctx)
				errs <- err
			}()
			time.Sleep(time.Second)
		}
		for range 2 {
			err := <-errs
			t.Logf("%v", err)
			if !errors.Is(err, quorumlock.ErrNoQuorum) {
				t.Errorf("does not match ErrNoQuorum: %v", err)
			}
		}
	})
}

// T10: a session lost by its deadline, the node reaches the quorum 3 s later.
func TestZ10GhostOfLostSession(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		l, f := roles(c)
		a := lockIn(t, c.Node(l), "k", 5*time.Second)
		_ = a
		s, err := c.Node(f[0]).NewSession(context.Background(), 60*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		b := waitQueued(t, c, s, "k", 1)
		c.Isolate(f[0])
		b.failed(60*time.Second, quorumlock.ErrLost)
		time.Sleep(3 * time.Second)
		c.Heal()
		c.WaitReady()
		time.Sleep(ghostBound)
		if info := lockShown(t, c, "k"); info.Waiting != 0 {
			t.Errorf("claim of a call that returned an error %v ago still waits", time.Since(b.at))
		}
	})
}

// T11: pinned to another cluster, served by this one.
func TestZ11Pinned(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3, quorumlocktest.Configure(func(i int, cfg *quorumlock.Config) {
			if i == 3 {
				cfg.Expect, cfg.ClusterID = 0, "0123456789abcdef0123456789abcdef"
			}
		}))
		i := c.Grow()
		time.Sleep(10 * time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		t.Logf("ready: %v", c.Node(i).Ready(ctx))
		ctx, cancel = context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		h, err := quorumlock.NewMutex(c.Node(i), "k").Lock(ctx)
		if err == nil {
			t.Errorf("pinned to a cluster that does not exist, granted %v by %s", h.Token(), c.Node(0).ClusterID())
		}
		t.Logf("lock: %v", err)
	})
}

// T9: the waiter hears of the drain before it hears of the grant.
func TestZ9DrainBeforeGrant(t *testing.T) {
	for ms := range 12 {
		t.Run(fmt.Sprint(ms), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3)
				l, f := roles(c)
				a := lockIn(t, c.Node(l), "k", 5*time.Second)
				b := waitQueued(t, c, c.Node(f[0]), "k", 1)
				time.Sleep(time.Duration(ms) * 170 * time.Millisecond)
				c.Isolate(f[0])
				unlock(t, a)
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				defer cancel()
				info := lockShown(t, c, "k")
				if len(info.Holders) != 1 {
					t.Fatal(info)
				}
				if err := c.Node(l).ForceRelease(ctx, "k", info.Holders[0].Token, quorumlock.ForceOptions{Actor: "ops", Reason: "test"}); err != nil {
					t.Fatal(err)
				}
				c.Heal()
				time.Sleep(3 * time.Second)
				t.Logf("ended %v err %v hold %v", b.ended(), b.err, b.hold)
				time.Sleep(ghostBound)
				if b.ended() && b.err != nil {
					if info := lockShown(t, c, "k"); len(info.Holders) > 0 {
						t.Errorf("Lock returned %v, and its claim still holds: %v", b.err, info.Holders)
					}
				}
			})
		})
	}
}

// T4: Leave while another voter is dead.
func TestZ4LeaveWhileOneIsDead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		l, f := roles(c)
		c.Crash(f[0])
		time.Sleep(2 * time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), 8*time.Second)
		defer cancel()
		err := c.Leave(ctx, f[1])
		t.Logf("leave: %v", err)
		c.Start(f[1]) // leave failed: it is still a member
		ctx, cancel = context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := c.Node(l).Ready(ctx); err != nil {
			t.Errorf("two of three are up again: %v", err)
		}
	})
}

// T2: crash at any time of the founding, on slow disks; then start again.
func TestZ2CrashWhileFounding(t *testing.T) {
	const write = 100 * time.Millisecond
	for victim := range 3 {
		for step := range 24 {
			t.Run(fmt.Sprintf("%d/%d", victim, step), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := quorumlocktest.New(t, 3, quorumlocktest.NotReady())
					for i := range 3 {
						c.Disk(i).Slow(write)
					}
					time.Sleep(time.Duration(step) * write)
					c.Crash(victim)
					time.Sleep(time.Second)
					c.Start(victim)
					for i := range 3 {
						c.Disk(i).Slow(0)
					}
					ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
					defer cancel()
					for i := range 3 {
						if err := c.Node(i).Ready(ctx); err != nil {
							t.Errorf("instance %d: %v", i, err)
						}
					}
				})
			})
		}
	}
}

// T2a: alone; the process dies at any write of the start; then start again.
func TestZ2AloneCrash(t *testing.T) {
	const write = 100 * time.Millisecond
	for nth := range 14 {
		t.Run(fmt.Sprint(nth), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk, failure := store.NewDisk(), errors.New("input/output error")
				disk.SlowWrites(write)
				fault := time.AfterFunc(time.Duration(nth)*write+write/2, func() { disk.FailWrites(failure) })
				n, err := quorumlock.Open(context.Background(), aloneOn(disk))
				if err == nil {
					time.Sleep(3 * time.Second)
					_ = n.Close()
				}
				fault.Stop()
				disk.FailWrites(nil)
				disk.SlowWrites(0)
				n, err = quorumlock.Open(context.Background(), aloneOn(disk))
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				if err := n.Ready(ctx); err != nil {
					t.Errorf("restarted: %v", err)
				}
				_ = n.Close()
			})
		})
	}
}

// T2b: a joiner dies while it is let in.
func TestZ2JoinerCrash(t *testing.T) {
	const write = 20 * time.Millisecond
	for step := range 60 {
		t.Run(fmt.Sprint(step), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3)
				c.HandOver(c.Leader())
				time.Sleep(2 * time.Second)
				l, f := roles(c)
				for _, j := range f {
					c.Network().SetDelay(c.Host(l), c.Host(j), 60*time.Millisecond, 0)
					c.Network().SetDelay(c.Host(j), c.Host(l), 60*time.Millisecond, 0)
				}
				time.Sleep(2 * time.Second)
				i := c.Grow()
				c.Disk(i).Slow(write)
				time.Sleep(time.Duration(step) * 15 * time.Millisecond)
				c.Crash(i)
				time.Sleep(time.Second)
				c.Start(i)
				c.Disk(i).Slow(0)
				ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
				defer cancel()
				if err := c.Node(i).Ready(ctx); err != nil {
					t.Errorf("joiner: %v", err)
				}
				time.Sleep(10 * time.Second)
				in := false
				for _, m := range groupOf(t, c.Node(i)) {
					in = in || m.ServerID == c.Node(i).ID()
				}
				if !in {
					t.Errorf("the joiner does not see itself in the group (it replicates nothing)")
				}
			})
		})
	}
}

// T12: the leader admits a joiner but cannot commit it, answers Known to the retry, and is deposed.
func TestZ12KnownButNotCommitted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		l, f := roles(c)
		// The leader's entries reach nobody; its lease ends soon, so the window is short: let the joiner ask right in it.
		i := c.Grow()
		_ = i
		c.Isolate(f[0])
		c.Isolate(f[1])
		time.Sleep(20 * time.Second)
		c.Heal()
		time.Sleep(time.Minute)
		_ = l
		for _, m := range groupOf(t, c.Node(c.Leader())) {
			t.Logf("%+v", m)
		}
	})
}

// T13: the disk of a node hangs while its founding promise is written; Close.
func TestZ13CloseHungFounding(t *testing.T) {
	for k := range 3 {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3, quorumlocktest.NotReady())
				for i := range 3 {
					c.Disk(i).Hang(true)
				}
				time.Sleep(10 * time.Second)
				n := c.Node(k)
				done := make(chan struct{})
				start := time.Now()
				go func() { defer close(done); t.Logf("close: %v after %v", n.Close(), time.Since(start)) }()
				select {
				case <-done:
				case <-time.After(time.Minute):
					t.Errorf("Close hangs with the disk")
				}
				for i := range 3 {
					c.Disk(i).Hang(false)
				}
				<-done
				time.Sleep(time.Minute)
			})
		})
	}
}

// T15: a live node cut off for a minute, with a standby there.
func TestZ15IsolatedAndReplaced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		c.Grow()
		c.WaitReady()
		time.Sleep(10 * time.Second)
		cut := others(c, c.Leader())[0]
		if cut == 3 {
			cut = others(c, c.Leader())[1]
		}
		c.Isolate(cut)
		time.Sleep(time.Minute)
		c.Heal()
		time.Sleep(5 * time.Minute)
		in := false
		for _, m := range groupOf(t, c.Node(c.Leader())) {
			in = in || m.ServerID == c.Node(cut).ID()
		}
		if !in {
			t.Errorf("5 minutes after the heal it is not in the group; Err %v", c.Node(cut).Err())
		}
	})
}

// T16: a session closed without a quorum; its waiters' claims after the quorum is back.
func TestZ16GhostOfClosedSession(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		l, f := roles(c)
		lockIn(t, c.Node(l), "k", 5*time.Second)
		s, err := c.Node(f[0]).NewSession(context.Background(), 60*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		b := waitQueued(t, c, s, "k", 1)
		c.Isolate(f[0])
		t.Logf("close: %v", s.Close())
		b.failed(time.Second, quorumlock.ErrClosed)
		time.Sleep(3 * time.Second)
		c.Heal()
		c.WaitReady()
		time.Sleep(ghostBound)
		if info := lockShown(t, c, "k"); info.Waiting != 0 {
			t.Errorf("claim of a call that returned an error %v ago still waits", time.Since(b.at))
		}
		time.Sleep(20 * time.Second)
		t.Logf("20 s later: %d waiting", lockShown(t, c, "k").Waiting)
	})
}

// T17: Unlock under overload: not tested.

// T14: follower with hung disk; Close.
func TestZ14CloseHungFollower(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		i := others(c, c.Leader())[0]
		lockIn(t, c.Node(i), "mine", time.Second)
		c.Disk(i).Hang(true)
		time.Sleep(10 * time.Second)
		n := c.Node(i)
		done := make(chan struct{})
		start := time.Now()
		go func() { defer close(done); t.Logf("close: %v after %v", n.Close(), time.Since(start)) }()
		select {
		case <-done:
		case <-time.After(2 * time.Minute):
			t.Errorf("Close hangs with the disk")
		}
		c.Disk(i).Hang(false)
		<-done
		time.Sleep(time.Minute)
	})
}
