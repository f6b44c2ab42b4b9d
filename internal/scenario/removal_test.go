package scenario_test

import (
	"context"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// S69: a voter is cut off, and replaced after its grace, so that no leader speaks to it any more. It comes back by the end of
// the partition, started again with its old data, or with a wiped directory. In no case does its return cost more than one
// election; it learns that it was out by asking the leader, is let in again by the answer, and its log says so. With a wiped
// directory it is a new server of the same name, and the old id is gone at once.
func TestS69RemovedMemberReturns(t *testing.T) {
	for name, back := range map[string]func(c *quorumlocktest.Cluster, i int){
		"healed": func(*quorumlocktest.Cluster, int) {},
		"old data": func(c *quorumlocktest.Cluster, i int) {
			c.Crash(i)
			c.Start(i)
		},
		"wiped": func(c *quorumlocktest.Cluster, i int) {
			c.Crash(i)
			c.Replace(i)
			c.Start(i)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) { returnAfterRemoval(t, back, name == "wiped") })
		})
	}
}

func returnAfterRemoval(t *testing.T, back func(c *quorumlocktest.Cluster, i int), wiped bool) {
	const told = "it asked, and is in it (again)"
	d, heard := keepDiary()
	c := quorumlocktest.New(t, 4, heard)
	awaitVoters3(t, c)
	away := votingFollower(t, c)
	old := c.Node(away).ID()
	c.Isolate(away)
	awaitVoters(t, c, 40*time.Second, others(c, away)...)
	if inGroup(t, c.Node(c.LeaderExcept(away)), old) {
		t.Fatal("the fault did not bite: it was not removed")
	}
	if !inGroup(t, c.Node(away), old) {
		t.Fatal("the fault did not bite: it knows by itself that it was removed")
	}
	held := lockIn(t, c.Node(c.LeaderExcept(away)), "held", grantBound)
	led, said := len(d.leaders(t)), d.said(told)
	c.Heal()
	back(c, away)
	readyIn(t, c.Node(away), restartBound)
	seesMember(t, c.Node(c.LeaderExcept(away)), c.Node(away).ID(), 30*time.Second)
	unlock(t, lockIn(t, c.Node(away), "k", grantBound))
	if now := len(d.leaders(t)); now > led+1 {
		t.Errorf("%d leaders so far, %d before the return", now, led)
	}
	if fresh := c.Node(away).ID() != old; fresh != wiped {
		t.Errorf("a new server id: %v", fresh)
	}
	if wiped && inGroup(t, c.Node(c.LeaderExcept(away)), old) {
		t.Errorf("%s is in the group beside its successor", old)
	}
	if !wiped && d.said(told) == said {
		t.Error("it was not told that it had been taken out")
	}
	calm(t, held)
	c.CheckState()
}

// newcomer is what was seen of a server while it caught up.
type newcomer struct {
	nonVoter   bool   // in the group without a vote
	behind     uint64 // entries behind the one that tells, at most, without a vote
	votesAfter time.Duration
	lag        uint64 // entries behind when it first had a vote
}

// watchNewcomer polls what a member tells of a server, until it votes or the time is over.
func watchNewcomer(t *testing.T, n *quorumlock.Node, id string, bound time.Duration) (seen newcomer) {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < bound; time.Sleep(20 * time.Millisecond) {
		members, err := n.Members(context.Background())
		if err != nil {
			t.Error(err)
			return seen
		}
		var own, its quorumlock.Member
		for _, m := range members {
			if m.Self {
				own = m
			}
			if m.ServerID == id {
				its = m
			}
		}
		lag := own.Applied - min(own.Applied, its.Applied)
		switch {
		case its.Voter:
			seen.votesAfter, seen.lag = time.Since(begun), lag
			return seen
		case its.InGroup && its.Reachable:
			seen.nonVoter, seen.behind = true, max(seen.behind, lag)
		}
	}
	return seen
}

// S71: two empty instances join a cluster of one voter with a long log, on slow disks, and one of them dies at once; two join
// three voters, and an old one dies at once, the leader or another. They are let in without a vote, and the one that lives
// votes only when it has caught up and was stable. Locks are granted all along, without a stop but that of the change of
// leader. Scaled: a few thousand entries stand for 200 MB, on disks so slow that catching up takes many seconds.
func TestS71NewcomersVoteWhenCaughtUp(t *testing.T) {
	bubbleIn(t, func(t *testing.T) {
		growAndLose(t, 1, 200*time.Millisecond+trafficPause, func(_ *quorumlocktest.Cluster, fresh []int) int { return fresh[0] })
	})
	bubbleIn(t, func(t *testing.T) {
		growAndLose(t, 3, time.Second, func(c *quorumlocktest.Cluster, _ []int) int { return votingFollower(t, c) })
	})
	bubbleIn(t, func(t *testing.T) {
		growAndLose(t, 3, grantBound, func(c *quorumlocktest.Cluster, _ []int) int { return c.Leader() })
	})
}

// trafficPause is how long traffic rests between two grants.
const trafficPause = 300 * time.Millisecond

func growAndLose(t *testing.T, voters int, gapBound time.Duration, victimOf func(c *quorumlocktest.Cluster, fresh []int) int) {
	const write, entries, stable = 20 * time.Millisecond, 4000, 2 * time.Second
	c := quorumlocktest.New(t, voters, smallSnapshots(), quorumlocktest.Configure(func(i int, cfg *quorumlock.Config) {
		if cfg.Voters, cfg.Expect = 5, voters; i >= voters {
			cfg.Expect = 0
		}
	}))
	writeEntries(t, c.Node(c.Leader()), entries)
	r := newTraffic(t, "k")
	for i := range voters {
		r.from(c.Node(i))
	}
	r.flows(3, grantBound)
	fresh := []int{c.Grow(), c.Grow()}
	slowDisks(c, write, fresh...)
	lives, victim := fresh[1], victimOf(c, fresh)
	seesMember(t, c.Node((victim+1)%voters), c.Node(fresh[0]).ID(), 10*time.Second)
	r.seen()
	c.Crash(victim)
	witness := c.Node(others(c, victim)[0])
	seen := watchNewcomer(t, witness, c.Node(lives).ID(), 2*time.Minute)
	t.Logf("%+v", seen)
	switch {
	case !seen.nonVoter || seen.behind < 1000:
		t.Errorf("%+v: the fault did not bite", seen)
	case seen.votesAfter < stable:
		t.Errorf("votes after %v", seen.votesAfter)
	case seen.lag > 300:
		t.Errorf("votes %d entries behind", seen.lag)
	}
	slowDisks(c, 0, lives)
	r.flows(3, grantBound)
	if _, gap := r.seen(); gap > gapBound {
		t.Errorf("no lock was granted for %v", gap)
	}
	r.stop()
	unlock(t, lockIn(t, c.Node(lives), "k", deadBound))
	c.CheckState()
}
