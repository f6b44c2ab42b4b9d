package scenario_test

import (
	"context"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// What two instances cost: either one that goes in order leaves a cluster of one behind, which works; one that crashes
// takes the cluster along until it is back. Without a disk it never comes back as itself, so that only both anew found a
// cluster again, whose tokens are higher.
func TestTwoInstances(t *testing.T) {
	t.Run("one leaves and comes back", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			c := quorumlocktest.New(t, 2, quorumlocktest.InMemory())
			first := lockIn(t, c.Node(1), "k", grantBound)
			unlock(t, first)
			for i := range 2 {
				ctx, cancel := context.WithTimeout(context.Background(), leaveBound)
				if err := c.Leave(ctx, i); err != nil {
					t.Errorf("leave of instance %d: %v", i, err)
				}
				cancel()
				next := lockIn(t, c.Node(1-i), "k", grantBound)
				follows(t, first, next)
				unlock(t, next)
				readyIn(t, c.Start(i), 15*time.Second)
				awaitVoters(t, c, 20*time.Second, 0, 1)
			}
			c.CheckState()
		})
	})
	t.Run("one crashes with its disk", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			c := quorumlocktest.New(t, 2)
			awaitVoters(t, c, 20*time.Second, 0, 1)
			first := lockIn(t, c.Node(0), "k", grantBound)
			unlock(t, first)
			c.Crash(1)
			grantsNothing(t, c.Node(0), "k", time.Minute)
			c.Start(1)
			follows(t, first, lockIn(t, c.Node(0), "k", 15*time.Second))
			c.CheckState()
		})
	})
	t.Run("one crashes without a disk", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			c := quorumlocktest.New(t, 2, quorumlocktest.InMemory())
			awaitVoters(t, c, 20*time.Second, 0, 1)
			first, cluster := lockIn(t, c.Node(0), "k", grantBound), c.Node(0).ClusterID()
			c.Crash(1)
			c.Start(1) // as another member, which nobody can let in
			grantsNothing(t, c.Node(0), "k", time.Minute)
			c.Crash(0)
			c.Start(0)
			readyIn(t, c.Node(0), time.Minute)
			if id := c.Node(0).ClusterID(); id == cluster {
				t.Errorf("the cluster %s is back", id)
			}
			follows(t, first, lockIn(t, c.Node(1), "k", grantBound))
			c.CheckState()
		})
	})
}
