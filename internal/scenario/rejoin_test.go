package scenario_test

import (
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// A voter that was away for longer than the grace was replaced, and no leader speaks to it any more. Back again, from a crash or a partition, it is
// let in once more, and replicates.
func TestReplacedVoterIsLetInAgain(t *testing.T) {
	for name, absence := range map[string]struct {
		begin, end func(c *quorumlocktest.Cluster, i int)
	}{
		"crashed": {(*quorumlocktest.Cluster).Crash, func(c *quorumlocktest.Cluster, i int) { c.Start(i) }},
		"cut off": {(*quorumlocktest.Cluster).Isolate, func(c *quorumlocktest.Cluster, _ int) { c.Heal() }},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3)
				c.Grow()
				c.WaitReady()
				away := voterThatFollows(c)
				id := c.Node(away).ID()
				absence.begin(c, away)
				awaitVoters(t, c, 40*time.Second, others(c, away)...)
				absence.end(c, away)
				seesMember(t, c.Node(c.LeaderExcept(away)), id, 30*time.Second)
				unlock(t, lockIn(t, c.Node(away), "k", grantBound))
				c.CheckState()
			})
		})
	}
}

// voterThatFollows is one of the first three instances, of a cluster with standbys behind them, that does not lead.
func voterThatFollows(c *quorumlocktest.Cluster) int {
	return (c.Leader() + 1) % 3
}

// seesMember waits until the group, as a node knows it, has a member.
func seesMember(t *testing.T, n *quorumlock.Node, id string, bound time.Duration) {
	t.Helper()
	for end := time.Now().Add(bound); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if slices.ContainsFunc(groupOf(t, n), func(m quorumlock.Member) bool { return m.ServerID == id }) {
			return
		}
	}
	t.Errorf("%s is not in the group after %v: %+v", id, bound, groupOf(t, n))
}
