package scenario_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// Nobody leaves at the price of the quorum that is alive: Leave says that the node is still a member, and so it is when it starts again.
func TestLeaveDoesNotCostTheQuorum(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		l, f := roles(c)
		c.Crash(f[0])
		time.Sleep(2 * time.Second) // the leader has noticed
		ctx, cancel := context.WithTimeout(context.Background(), leaveBound)
		defer cancel()
		if err := c.Leave(ctx, f[1]); err == nil {
			t.Error("left, with one of two others dead")
		}
		c.Start(f[1])
		readyIn(t, c.Node(l), 15*time.Second)
		c.CheckState()
	})
}

// The last member of a cluster closes and stays one: with it the cluster would be gone, and its tokens with it.
func TestLastMemberThatLeavesComesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 1)
		first := lockIn(t, c.Node(0), "k", time.Second)
		id, cluster := c.Node(0).ID(), c.Node(0).ClusterID()
		ctx, cancel := context.WithTimeout(context.Background(), leaveBound)
		defer cancel()
		if err := c.Leave(ctx, 0); err != nil {
			t.Fatal(err)
		}
		n := c.Start(0)
		follows(t, first, lockIn(t, n, "k", grantBound))
		if n.ID() != id || n.ClusterID() != cluster {
			t.Errorf("was %s of %s, is %s of %s", id, cluster, n.ID(), n.ClusterID())
		}
	})
}

// leaves takes an instance out within the bound, and returns what Leave said.
func leaves(c *quorumlocktest.Cluster, i int, bound time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	return c.Leave(ctx, i)
}

// inGroup tells whether the group, as a node knows it, has a server.
func inGroup(t *testing.T, n *quorumlock.Node, id string) bool {
	t.Helper()
	return slices.ContainsFunc(groupOf(t, n), func(m quorumlock.Member) bool { return m.ServerID == id })
}

// S68: a follower or the leader leaves. Leave returns when the removal is committed: the rest knows at that moment that it is
// gone, the locks it held are free, and if it led somebody else does.
func TestS68OneLeaves(t *testing.T) {
	for _, leads := range []bool{false, true} {
		t.Run(map[bool]string{false: "follower", true: "leader"}[leads], func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 4)
				awaitVoters3(t, c)
				goer := c.Leader()
				if !leads {
					goer = votingFollower(t, c)
				}
				rest := others(c, goer)
				h, id := lockIn(t, c.Node(goer), "k", grantBound), c.Node(goer).ID()
				if err := leaves(c, goer, leaveBound); err != nil {
					t.Fatal(err)
				}
				if h.Err() == nil {
					t.Error("the hold outlived the leave")
				}
				if l := c.LeaderExcept(goer); inGroup(t, c.Node(l), id) {
					t.Error("Leave returned before the removal was known")
				}
				for _, i := range rest {
					unlock(t, lockIn(t, c.Node(i), "k", 2*time.Second))
				}
				awaitVoters(t, c, 10*time.Second, rest...)
				c.CheckState()
			})
		})
	}
}

// awaitVoters3 waits until three of the instances vote.
func awaitVoters3(t *testing.T, c *quorumlocktest.Cluster) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		voters := 0
		for _, m := range groupOf(t, c.Node(0)) {
			if m.Voter {
				voters++
			}
		}
		if voters == 3 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d voters", voters)
		}
	}
}

// votingFollower is an instance that votes and does not lead.
func votingFollower(t *testing.T, c *quorumlocktest.Cluster) int {
	t.Helper()
	l := c.Leader()
	for _, m := range groupOf(t, c.Node(l)) {
		for i := range c.Size() {
			if i != l && m.Voter && c.Node(i).ID() == m.ServerID {
				return i
			}
		}
	}
	t.Fatal("nobody but the leader votes")
	return -1
}

// S68: two of five leave at the same moment, the leader among them or not. Both are out when Leave returns, and three are left
// that vote.
func TestS68TwoLeaveAtOnce(t *testing.T) {
	for _, withLeader := range []bool{false, true} {
		bubbleIn(t, func(t *testing.T) {
			c := quorumlocktest.New(t, 5)
			l, f := roles(c)
			goers := f[:2]
			if withLeader {
				goers = []int{l, f[0]}
			}
			rest := leaveTogether(t, c, goers)
			awaitVoters(t, c, 20*time.Second, rest...)
			c.CheckState()
		})
	}
}

// leaveTogether has instances leave at the same moment, under load, and returns who is left. All of them are out when their
// Leave returns, in bounded time, and locks are granted all along.
func leaveTogether(t *testing.T, c *quorumlocktest.Cluster, goers []int) (rest []int) {
	t.Helper()
	var ids []string
	for i := range c.Size() {
		if !slices.Contains(goers, i) {
			rest = append(rest, i)
		}
	}
	r := newTraffic(t, "k")
	for _, i := range rest {
		r.from(c.Node(i))
	}
	r.flows(3, grantBound)
	r.seen()
	var all sync.WaitGroup
	for _, i := range goers {
		ids = append(ids, c.Node(i).ID())
		lockIn(t, c.Node(i), fmt.Sprint("held by ", i), grantBound)
		all.Go(func() {
			begun := time.Now()
			if err := leaves(c, i, togetherBound); err != nil {
				t.Errorf("leave of instance %d after %v: %v", i, time.Since(begun), err)
			}
		})
	}
	begun := time.Now()
	all.Wait()
	took := time.Since(begun)
	r.flows(3, grantBound)
	_, gap := r.seen()
	t.Logf("%d of %d left in %v; the longest time between two grants was %v, with pauses of 250 ms", len(goers), c.Size(), took, gap)
	if gap > grantBound {
		t.Errorf("no lock was granted for %v", gap)
	}
	for _, id := range ids {
		if inGroup(t, c.Node(rest[0]), id) {
			t.Errorf("%s has left and is in the group", id)
		}
	}
	for _, i := range goers {
		unlock(t, lockIn(t, c.Node(rest[0]), fmt.Sprint("held by ", i), time.Second))
	}
	r.stop()
	return rest
}

// togetherBound is within what each of several has left that leave at once.
const togetherBound = 20 * time.Second

// A deploy sends SIGTERM to all but one of the instances at once. They leave one after another, each at the price of no quorum,
// and the last one goes on alone; so it does when it is the leader that stays, or not, and without disks. Then others come, and
// the cluster is the same.
func TestAllButOneLeaveAtOnce(t *testing.T) {
	for name, opts := range map[string][]quorumlocktest.Option{"disks": nil, "in memory": {quorumlocktest.InMemory()}} {
		for _, size := range []int{3, 5} {
			for _, leaderStays := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/%d/%v", name, size, leaderStays), func(t *testing.T) {
					bubble(t, func(t *testing.T) {
						five := quorumlocktest.Configure(func(_ int, cfg *quorumlock.Config) { cfg.Voters = size })
						c := quorumlocktest.New(t, size, append(opts, five)...)
						awaitVoters(t, c, 20*time.Second, others(c, -1)...)
						l, f := roles(c)
						stays := l
						if !leaderStays {
							stays = f[0]
						}
						cluster := c.Node(stays).ClusterID()
						leaveTogether(t, c, others(c, stays))
						fresh := c.Node(c.Grow())
						readyIn(t, fresh, restartBound)
						if id := fresh.ClusterID(); id != cluster {
							t.Errorf("cluster %s after %s", id, cluster)
						}
						unlock(t, lockIn(t, fresh, "k", grantBound))
						c.CheckState()
					})
				})
			}
		}
	}
}

// S68: an instance dies while it leaves, at many moments of it, as a follower and as the leader. Whether it is out or not, the
// rest works; and started again it is a member, under its old id or under a new one.
func TestS68CrashDuringLeave(t *testing.T) {
	var stayed, gone atomic.Int64
	t.Run("moments", func(t *testing.T) {
		for _, leads := range []bool{false, true} {
			for _, after := range []time.Duration{0, 1, 10, 50, 100, 150, 200, 300, 500, 700, 1000, 1500} {
				bubbleIn(t, func(t *testing.T) {
					if crashWhileLeaving(t, leads, after*time.Millisecond) {
						stayed.Add(1)
					} else {
						gone.Add(1)
					}
				})
			}
		}
	})
	if stayed.Load() == 0 || gone.Load() == 0 {
		t.Errorf("%d stayed and %d were gone: the moments do not lie on both sides of the removal", stayed.Load(), gone.Load())
	}
}

// crashWhileLeaving tells whether the instance was still in the group when it had died.
func crashWhileLeaving(t *testing.T, leads bool, after time.Duration) (stayed bool) {
	c := quorumlocktest.New(t, 3)
	goer, f := roles(c)
	if !leads {
		goer = f[0]
	}
	rest := others(c, goer)
	unlock(t, lockIn(t, c.Node(goer), "before", grantBound))
	n, id := c.Node(goer), c.Node(goer).ID()
	left := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), leaveBound)
		defer cancel()
		left <- n.Leave(ctx)
	}()
	time.Sleep(after)
	c.Crash(goer)
	<-left
	for _, i := range rest {
		unlock(t, lockIn(t, c.Node(i), fmt.Sprint("after", i), deadBound))
	}
	stayed = inGroup(t, c.Node(rest[0]), id)
	c.Start(goer)
	readyIn(t, c.Node(goer), restartBound)
	unlock(t, lockIn(t, c.Node(goer), "again", grantBound))
	awaitVoters(t, c, restartBound, 0, 1, 2)
	c.CheckState()
	return stayed
}

// Two replicas work, and keep what was acknowledged over the loss of either; but each of them is needed: when one is gone
// nothing is granted, not even after the grace, until it is back or has left. What the documentation of Expect and Voters says
// of two.
func TestTwoReplicas(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 2)
		awaitVoters(t, c, 10*time.Second, 0, 1)
		first := lockIn(t, c.Node(0), "k", grantBound)
		for i := range 2 {
			c.Crash(i)
			grantsNothing(t, c.Node(1-i), "other", grantBound)
			time.Sleep(time.Minute)
			grantsNothing(t, c.Node(1-i), "other", grantBound)
			c.Start(i)
			readyIn(t, c.Node(i), 15*time.Second)
		}
		next := lockIn(t, c.Node(1), "k", deadBound)
		follows(t, first, next)
		if err := leaves(c, 0, leaveBound); err != nil {
			t.Errorf("leave: %v", err)
		}
		calm(t, next)
		unlock(t, lockIn(t, c.Node(1), "other", grantBound))
		c.CheckState()
	})
}
