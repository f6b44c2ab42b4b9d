package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

const (
	grantBound = 5 * time.Second // from a leader's death to the next grant
	deadBound  = quorumTTL + 1500*time.Millisecond
	quorumTTL  = 10 * time.Second

	// expiryBound is from a session's own deadline to its end by the cluster, which may have taken in one renewal more than the session has an answer to.
	expiryBound = deadBound - quorumTTL/5*3
)

// others are the instances without i.
func others(c *quorumlocktest.Cluster, i int) []int {
	var list []int
	for j := range c.Size() {
		if j != i {
			list = append(list, j)
		}
	}
	return list
}

// sessionsOn opens a session on each of the instances; alive fails the test for those that were lost.
func sessionsOn(t *testing.T, c *quorumlocktest.Cluster, instances []int) (alive func()) {
	t.Helper()
	var open []*quorumlock.Session
	for _, i := range instances {
		s, err := c.Node(i).NewSession(context.Background(), 0)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, s)
	}
	return func() {
		t.Helper()
		for k, s := range open {
			if err := s.Err(); err != nil {
				t.Errorf("session of instance %d: %v", instances[k], err)
			}
		}
	}
}

func TestLeaderCrashCostsNoSession(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3, quorumlocktest.Seed(seed))
				old := c.Leader()
				rest := others(c, old)
				alive := sessionsOn(t, c, rest)
				r := newTraffic(t, "k")
				for _, i := range rest {
					r.from(c.Node(i))
				}
				time.Sleep(time.Duration(1000+137*seed) * time.Millisecond)
				before, _ := r.seen()
				c.Crash(old)
				c.LeaderExcept(old)
				time.Sleep(quorumTTL + 2*time.Second)
				grants, gap := r.seen()
				if gap > grantBound || grants <= before {
					t.Errorf("%d grants before the crash, %d in all, longest gap %v", before, grants, gap)
				}
				alive()
				r.stop()
				c.Start(old)
				c.WaitReady()
				c.CheckState()
			})
		})
	}
}

func TestDeadHolderIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		dead := others(c, c.Leader())[0]
		h := lockIn(t, c.Node(dead), "k", time.Second)
		time.Sleep(3 * time.Second)
		c.Crash(dead)
		next := lockIn(t, c.Node(c.Leader()), "k", deadBound)
		if next.Token() <= h.Token() {
			t.Errorf("token %v after %v", next.Token(), h.Token())
		}
		c.Start(dead)
		c.WaitReady()
		c.CheckState()
	})
}

// Each instance in turn is killed and started again on its disk, the leader of the day among them.
func TestCrashAndRestartUnderTraffic(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		r := trafficOn(t, c, "k")
		for round := range 4 {
			i := round % 3
			if round == 3 {
				i = c.Leader()
			}
			time.Sleep(time.Second)
			id := c.Node(i).ID()
			c.Crash(i)
			time.Sleep(time.Duration(round) * 700 * time.Millisecond)
			r.from(c.Start(i))
			if got := c.Node(i).ID(); got != id {
				t.Errorf("instance %d came back as %s, was %s", i, got, id)
			}
			c.WaitReady()
			r.flows(10, deadBound+2*time.Second)
		}
		r.stop()
		c.CheckState()
	})
}

func TestWholeClusterRestartKeepsTheOrderOfTokens(t *testing.T) {
	for name, stop := range map[string]func(*quorumlocktest.Cluster, int){
		"crash": func(c *quorumlocktest.Cluster, i int) { c.Crash(i) },
		"close": func(c *quorumlocktest.Cluster, i int) { _ = c.Stop(i) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3)
				held := lockIn(t, c.Node(0), "k", time.Second)
				id := c.Node(0).ClusterID()
				for i := range 3 {
					stop(c, i)
				}
				if err := held.Err(); !errors.Is(err, quorumlock.ErrLost) {
					t.Errorf("hold of a node that is gone: %v", err)
				}
				time.Sleep(time.Second)
				for i := range 3 {
					c.Start(i)
				}
				c.WaitReady()
				if got := c.Node(1).ClusterID(); got != id {
					t.Errorf("cluster %s came back as %s", id, got)
				}
				// Nobody holds for longer than a dead session lives: its TTL counts from the restart, since stamps are not kept.
				next := lockIn(t, c.Node(1), "k", deadBound+grantBound)
				if next.Token() <= held.Token() {
					t.Errorf("token %v after %v", next.Token(), held.Token())
				}
				unlock(t, next)
				c.CheckState()
			})
		})
	}
}

// voters waits until exactly the given instances vote.
func awaitVoters(t *testing.T, c *quorumlocktest.Cluster, bound time.Duration, instances ...int) {
	t.Helper()
	want := make(map[string]bool)
	for _, i := range instances {
		want[c.Node(i).ID()] = true
	}
	var got []quorumlock.Member
	for end := time.Now().Add(bound); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		got = groupOf(t, c.Node(instances[0]))
		if len(got) == len(want) && allVote(got, want) {
			return
		}
	}
	t.Fatalf("after %v the group is %+v, want %v to vote", bound, got, want)
}

func groupOf(t *testing.T, n *quorumlock.Node) []quorumlock.Member {
	t.Helper()
	all, err := n.Members(context.Background(), quorumlock.Local())
	if err != nil {
		t.Fatal(err)
	}
	var in []quorumlock.Member
	for _, m := range all {
		if m.InGroup {
			in = append(in, m)
		}
	}
	return in
}

func allVote(group []quorumlock.Member, want map[string]bool) bool {
	for _, m := range group {
		if !m.Voter || !want[m.ServerID] {
			return false
		}
	}
	return true
}

// In memory a server id dies with its process: the successor is another member, and takes its vote over without waiting for the grace.
func TestInMemoryNodeComesBackAsNewMember(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3, quorumlocktest.InMemory())
		awaitVoters(t, c, 10*time.Second, 0, 1, 2)
		r := trafficOn(t, c, "k")
		for i := range 3 {
			id := c.Node(i).ID()
			c.Crash(i)
			time.Sleep(2 * time.Second)
			r.from(c.Start(i))
			c.WaitReady()
			if c.Node(i).ID() == id {
				t.Errorf("instance %d has come back under its old id", i)
			}
			awaitVoters(t, c, 20*time.Second, 0, 1, 2)
		}
		r.stop()
		c.CheckState()
	})
}

func TestDeadVoterIsReplacedAfterTheGrace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3, quorumlocktest.InMemory())
		c.Grow()
		c.WaitReady()
		dead := voterThatFollows(c)
		c.Crash(dead)
		start := time.Now()
		awaitVoters(t, c, 40*time.Second, others(c, dead)...)
		if took := time.Since(start); took < 14*time.Second {
			t.Errorf("replaced after %v, within the grace", took)
		}
		c.CheckState()
	})
}

// A voter whose node has failed is as good as dead, although its process goes on and answers: it does not keep the place of one that can vote.
func TestVoterThatFailedIsReplacedAfterTheGrace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		c.Grow()
		c.WaitReady()
		failed := voterThatFollows(c)
		c.Disk(failed).Fail(errors.New("input/output error"))
		unlock(t, lockIn(t, c.Node(c.Leader()), "k", time.Second)) // something to write
		select {
		case <-c.Node(failed).Done():
		case <-time.After(10 * time.Second):
			t.Fatal("the node has not failed")
		}
		start := time.Now()
		awaitVoters(t, c, 40*time.Second, others(c, failed)...)
		if took := time.Since(start); took < 14*time.Second {
			t.Errorf("replaced after %v, within the grace", took)
		}
		if err := c.Node(failed).Err(); !errors.Is(err, quorumlock.ErrFailed) {
			t.Errorf("the node's end: %v", err)
		}
		c.CheckState()
	})
}

// awaitAlive waits until every instance sees every other one alive.
func awaitAlive(t *testing.T, c *quorumlocktest.Cluster, bound time.Duration) {
	t.Helper()
	for end := time.Now().Add(bound); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if everybodyAlive(t, c) {
			return
		}
	}
	t.Errorf("after %v not every instance sees every other one", bound)
}

func everybodyAlive(t *testing.T, c *quorumlocktest.Cluster) bool {
	t.Helper()
	for i := range c.Size() {
		alive := 0
		for _, m := range groupOf(t, c.Node(i)) {
			if m.Alive {
				alive++
			}
		}
		if alive < c.Size() {
			return false
		}
	}
	return true
}
