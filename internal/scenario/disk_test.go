package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/clock"
	"github.com/quorumlock/quorumlock/internal/sim"
	"github.com/quorumlock/quorumlock/internal/store"
	"github.com/quorumlock/quorumlock/quorumlocktest"
	"github.com/quorumlock/quorumlock/transport"
)

const (
	hungBound    = 8 * time.Second // from the hang of a leader's disk to another leader
	leaderHang   = time.Minute
	followerHang = 30 * time.Second
	recoverBound = 10 * time.Second // from the end of a hang to a log that has caught up
)

// S44 (a): the leader's disk hangs for a minute. Another one leads within the bound, locks go on to be granted all the while, no
// session is lost, not even those of the instance whose disk hangs, and that one catches up afterwards.
func TestLeaderDiskHangs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		old := c.Leader()
		alive := sessionsOn(t, c, []int{0, 1, 2})
		h := lockIn(t, c.Node(old), "mine", time.Second)
		r := newTraffic(t, "k")
		for _, i := range others(c, old) {
			r.from(c.Node(i))
		}
		time.Sleep(time.Second)
		r.seen()
		c.Disk(old).Hang(true)
		endsIn(t, "another leader", hungBound, func() { c.LeaderExcept(old) })
		time.Sleep(hungBound)
		if _, gap := r.seen(); gap > hungBound+2*time.Second {
			t.Errorf("no grant for %v", gap)
		}
		time.Sleep(leaderHang - hungBound)
		if _, gap := r.seen(); gap > time.Second {
			t.Errorf("no grant for %v while another instance leads", gap)
		}
		alive()
		if err := h.Err(); err != nil {
			t.Errorf("hold of the node whose disk hangs: %v", err)
		}
		if err := c.Node(old).Err(); err != nil {
			t.Errorf("a hung disk is no failure: %v", err)
		}
		unlock(t, lockIn(t, c.Node(old), "other", 2*time.Second))
		letGo(t, c, old)
		unlock(t, h)
		r.stop()
		c.CheckState()
	})
}

// letGo ends the hang of an instance's disk and waits until it has applied what the leader had by then.
func letGo(t *testing.T, c *quorumlocktest.Cluster, i int) {
	t.Helper()
	target, _ := sim.State(c.Node(c.LeaderExcept(i)))
	if behind, _ := sim.State(c.Node(i)); behind+100 > target {
		t.Errorf("the instance whose disk hangs is at index %d of %d: the fault did not bite", behind, target)
	}
	c.Disk(i).Hang(false)
	caughtUp(t, c.Node(i), target, recoverBound)
}

// S44 (b): the leader's disk fails. It takes no further part and says why; another one leads, and every session lives on through
// that.
func TestLeaderDiskFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		old := c.Leader()
		alive := sessionsOn(t, c, []int{0, 1, 2})
		h := lockIn(t, c.Node(old), "mine", time.Second)
		r := trafficOn(t, c, "k")
		time.Sleep(time.Second)
		r.seen()
		failure := errors.New("no space left on device")
		c.Disk(old).Fail(failure)
		endsIn(t, "another leader", grantBound, func() { c.LeaderExcept(old) })
		<-c.Node(old).Done()
		if err := c.Node(old).Err(); !errors.Is(err, quorumlock.ErrFailed) || !errors.Is(err, failure) {
			t.Errorf("node with a failed disk reports %v", err)
		}
		time.Sleep(quorumTTL + 2*time.Second)
		if _, gap := r.seen(); gap > grantBound {
			t.Errorf("no grant for %v", gap)
		}
		alive()
		unlock(t, h) // through another member
		r.stop()
		c.CheckState()
		c.Disk(old).Fail(nil)
		endsIn(t, "close", 5*time.Second, func() {
			if err := c.Stop(old); err != nil {
				t.Errorf("close of a failed node: %v", err)
			}
		})
		c.Start(old) // a failed write left nothing behind here, so the directory is good
		c.WaitReady()
		c.CheckState()
	})
}

// S44 (c): a follower's disk hangs for half a minute. Nobody notices, and it catches up afterwards.
func TestFollowerDiskHangs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		leader := c.Leader()
		slow := others(c, leader)[0]
		alive := sessionsOn(t, c, []int{0, 1, 2})
		r := trafficOn(t, c, "k")
		time.Sleep(time.Second)
		r.seen()
		c.Disk(slow).Hang(true)
		time.Sleep(followerHang)
		if _, gap := r.seen(); gap > time.Second {
			t.Errorf("a follower's disk held the cluster up for %v", gap)
		}
		if got := c.Leader(); got != leader {
			t.Errorf("leader changed from %d to %d", leader, got)
		}
		alive()
		letGo(t, c, slow)
		r.stop()
		c.CheckState()
	})
}

func TestFollowerDiskFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		leader := c.Leader()
		bad := others(c, leader)[0]
		alive := sessionsOn(t, c, []int{0, 1, 2})
		r := trafficOn(t, c, "k")
		time.Sleep(time.Second)
		r.seen()
		c.Disk(bad).Fail(errors.New("input/output error"))
		<-c.Node(bad).Done()
		time.Sleep(quorumTTL + 2*time.Second)
		if _, gap := r.seen(); gap > time.Second {
			t.Errorf("a follower's failure held the cluster up for %v", gap)
		}
		if got := c.Leader(); got != leader {
			t.Errorf("leader changed from %d to %d", leader, got)
		}
		alive()
		r.stop()
		c.CheckState()
	})
}

// The disk fails while the cluster is being founded: the others cannot go on without it, and it says so instead of hanging.
func TestDiskFailsAtFounding(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3, quorumlocktest.NotReady())
		failure := errors.New("input/output error")
		c.Disk(0).Fail(failure)
		<-c.Node(0).Done()
		if err := c.Node(0).Err(); !errors.Is(err, failure) {
			t.Errorf("node reports %v", err)
		}
	})
}

// aloneOn is the Config of a one-node cluster on a simulated disk.
func aloneOn(disk *store.Disk) quorumlock.Config {
	cfg := quorumlock.Config{
		Cluster: "test", Name: "alone", Addr: "host:7000", Expect: 1, AllowPlaintext: true, Transport: transport.NewMemory(1).Host("host"),
	}
	sim.Attach(&cfg, &sim.Env{Clock: clock.NewFake(), Disk: disk, MemoryGossip: true})
	return cfg
}

// Whichever write of a node's first ones fails: Open says so, or the node does, and Close leaves nothing. Raft itself would
// panic on some of them.
func TestDiskFailsAtAnyWriteOfTheStart(t *testing.T) {
	const write = 100 * time.Millisecond
	for nth := range 14 {
		t.Run(fmt.Sprint(nth), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				disk, failure := store.NewDisk(), errors.New("input/output error")
				disk.SlowWrites(write)
				fault := time.AfterFunc(time.Duration(nth)*write-write/2, func() { disk.FailWrites(failure) })
				defer fault.Stop()
				if nth == 0 {
					disk.FailWrites(failure)
				}
				n, err := quorumlock.Open(context.Background(), aloneOn(disk))
				if err != nil {
					if !errors.Is(err, failure) {
						t.Errorf("open: %v", err)
					}
					return
				}
				time.Sleep(2 * time.Second)
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				defer cancel()
				_ = n.Ready(ctx) // writes an entry, if nothing has failed so far
				select {
				case <-n.Done():
					if err := n.Err(); !errors.Is(err, failure) {
						t.Errorf("node reports %v", err)
					}
				case <-time.After(time.Minute):
					t.Error("the failure is not reported")
				}
				endsIn(t, "close", 5*time.Second, func() { _ = n.Close() })
			})
		})
	}
}
