package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// known are the errors that a caller of the API may meet; whatever else comes out has leaked from below.
var known = []error{
	context.DeadlineExceeded, context.Canceled, quorumlock.ErrLocked, quorumlock.ErrLost, quorumlock.ErrUnlocked, quorumlock.ErrClosed,
	quorumlock.ErrNoQuorum, quorumlock.ErrOverloaded, quorumlock.ErrUnsure, quorumlock.ErrFailed,
}

var raftErrors = []error{
	raft.ErrLeader, raft.ErrNotLeader, raft.ErrNotVoter, raft.ErrLeadershipLost, raft.ErrAbortedByRestore, raft.ErrRaftShutdown,
	raft.ErrEnqueueTimeout, raft.ErrLeadershipTransferInProgress, raft.ErrNothingNewToSnapshot, raft.ErrCantBootstrap,
}

func isOneOf(err error, list []error) bool {
	for _, one := range list {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}

// Every call is made over and over on every node while the group goes through everything that makes raft return errors. Calls then succeed, or end
// in time with an error of this package.
func TestNoRaftErrorLeaksFromAnyCall(t *testing.T) {
	faults := map[string]func(c *quorumlocktest.Cluster){
		"leader leaves":   func(c *quorumlocktest.Cluster) { leaveLeader(c) },
		"leader closes":   func(c *quorumlocktest.Cluster) { _ = c.Stop(c.Leader()) },
		"leader crashes":  func(c *quorumlocktest.Cluster) { c.Crash(c.Leader()) },
		"leader is alone": func(c *quorumlocktest.Cluster) { c.Isolate(c.Leader()) },
		"disk hangs":      func(c *quorumlocktest.Cluster) { c.Disk(c.Leader()).Hang(true) },
		"disk fails":      func(c *quorumlocktest.Cluster) { c.Disk(c.Leader()).Fail(errors.New("input/output error")) },
		"no quorum": func(c *quorumlocktest.Cluster) {
			for _, i := range others(c, c.Leader()) {
				c.Crash(i)
			}
		},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3)
				var calls, failed atomic.Int64
				leader := c.Leader()
				ctx, stop := context.WithCancel(context.Background())
				var callers sync.WaitGroup
				for i := range 3 {
					n := c.Node(i)
					callers.Go(func() {
						for ctx.Err() == nil {
							bad := callAll(t, n)
							calls.Add(1)
							failed.Add(int64(bad))
							time.Sleep(400 * time.Millisecond)
						}
					})
				}
				time.Sleep(time.Second)
				if failed.Load() > 0 {
					t.Errorf("%d calls failed before the fault", failed.Load())
				}
				fault(c)
				time.Sleep(6 * time.Second)
				stop()
				callers.Wait()
				// Either calls failed, or all of them found the way to the next leader.
				if failed.Load() == 0 && c.Leader() == leader {
					t.Errorf("no call of %d rounds failed and the leader is the same: the fault did not bite", calls.Load())
				}
				c.Heal()
				for i := range 3 {
					c.Disk(i).Hang(false)
				}
				time.Sleep(3 * time.Second)
				c.CheckState()
			})
		})
	}
}

func leaveLeader(c *quorumlocktest.Cluster) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = c.Leave(ctx, c.Leader())
}

// callAll makes every call with a deadline of a second and returns how many failed.
func callAll(t *testing.T, n *quorumlock.Node) int {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	bad := 0
	for name, err := range everyCall(ctx, n, nil) {
		if err == nil || isOneOf(err, []error{quorumlock.ErrLocked, quorumlock.ErrUnlocked}) {
			continue
		}
		if wait := (*quorumlock.WaitError)(nil); errors.As(err, &wait) && wait.Holder != nil {
			continue // waited for another node's hold
		}
		bad++
		if !isOneOf(err, known) || isOneOf(err, raftErrors) {
			t.Errorf("%s: %T: %v", name, err, err)
		}
	}
	return bad
}

// S110: 500 locks a second go through the leader while it is taken out of the cluster. No call fails, each takes effect once,
// and the states of the rest are equal.
func TestS110LeaderLeavesUnderLoad(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 4)
		old := c.Leader()
		rest := others(c, old)
		grants := countGrants(t, c.Node(rest[0]), "")
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		var calls sync.WaitGroup
		var done atomic.Int64
		const total = 300
		for k := range total {
			if k == total/3 {
				calls.Go(func() {
					if err := c.Leave(ctx, old); err != nil {
						t.Errorf("leave: %v", err)
					}
				})
			}
			n := c.Node(rest[k%len(rest)])
			calls.Go(func() {
				h, err := quorumlock.NewMutex(n, fmt.Sprint(k)).Lock(ctx)
				if err != nil {
					t.Errorf("lock %d: %v", k, err)
					return
				}
				if err := h.Unlock(); err != nil {
					t.Errorf("unlock %d: %v", k, err)
				}
				done.Add(1)
			})
			time.Sleep(2 * time.Millisecond)
		}
		calls.Wait()
		if now := c.LeaderExcept(old); done.Load() != total {
			t.Errorf("%d of %d calls succeeded; instance %d leads", done.Load(), total, now)
		}
		awaitVoters(t, c, 20*time.Second, rest...)
		c.CheckState()
		if granted := grants.get(); granted != total {
			t.Errorf("%d grants of %d calls", granted, total)
		}
	})
}

// An address that comes back with another server behind it, which even becomes the leader, confuses nobody who lived through it.
func TestAddressReturnsUnderANewID(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3, quorumlocktest.InMemory())
		observer := others(c, c.Leader())[0]
		back := 3 - observer - c.Leader()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		id := c.Node(back).ID()
		if err := c.Leave(ctx, back); err != nil {
			t.Fatal(err)
		}
		c.Start(back)
		c.WaitReady()
		if c.Node(back).ID() == id {
			t.Fatal("the id was used again")
		}
		awaitVoters(t, c, 20*time.Second, 0, 1, 2)
		for c.Leader() != back {
			old := c.Leader()
			c.Isolate(old)
			c.LeaderExcept(old)
			c.Heal()
			time.Sleep(2 * time.Second)
		}
		unlock(t, lockIn(t, c.Node(observer), "k", 2*time.Second))
		c.CheckState()
	})
}

// A waiter that lost its session and comes back with another one waits anew; what its dead session asked for is never granted to it.
func TestReconnectedWaiterWinsWithItsOwnSession(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		a := lockIn(t, c.Node(0), "k", time.Second)
		n := c.Node(1)
		for round := range 5 {
			s := openSession(t, n)
			w := wait(context.Background(), t, s, "k")
			time.Sleep(time.Duration(round) * time.Millisecond) // from before the claim's answer to long after
			_ = s.Close()
			w.failed(time.Second, quorumlock.ErrClosed)
			if _, err := quorumlock.NewMutex(s, "k").Lock(context.Background()); !errors.Is(err, quorumlock.ErrLost) {
				t.Errorf("lock with a dead session: %v", err)
			}
		}
		s := openSession(t, n)
		w := wait(context.Background(), t, s, "k")
		time.Sleep(time.Second)
		if info := lockShown(t, c, "k"); info.Waiting != 1 || info.Queue[0].Session != s.ID() {
			t.Errorf("queue: %+v", info.Queue)
		}
		c.Crash(0)
		h := w.granted(deadBound)
		if info := lockShown(t, c, "k"); len(info.Holders) != 1 || info.Holders[0].Session != s.ID() {
			t.Errorf("holders: %+v", info.Holders)
		}
		follows(t, a, h)
		unlock(t, h)
		c.CheckState()
	})
}
