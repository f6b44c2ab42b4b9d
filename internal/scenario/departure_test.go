package scenario_test

import (
	"context"
	"testing"
	"time"

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
