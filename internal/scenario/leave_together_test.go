package scenario_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// All instances leave at once, as when a deployment is scaled to nothing: each is taken out by those that are left, and
// the last one only closes. It may have begun to leave while there were others to hand over to, and must not wait for them
// until its bound.
func TestAllLeaveAtOnce(t *testing.T) {
	for name, opts := range map[string][]quorumlocktest.Option{"in memory": {quorumlocktest.InMemory()}, "with disks": nil} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				for _, size := range []int{2, 3, 5} {
					c := quorumlocktest.New(t, size, opts...)
					lockIn(t, c.Node(size-1), "k", 10*time.Second)
					leaveTogether(t, c, upTo(size)...)
				}
			})
		})
	}
}

// Four of five leave at once, as when a deployment is scaled in: the fifth goes on alone, with what it holds, and four new
// ones join it.
func TestAllButOneLeaveAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 5, quorumlocktest.InMemory())
		kept := lockIn(t, c.Node(0), "k", 10*time.Second)
		leaveTogether(t, c, 1, 2, 3, 4)
		unlock(t, lockIn(t, c.Node(0), "other", grantBound))
		if err := kept.Err(); err != nil {
			t.Errorf("the hold of who stayed: %v", err)
		}
		awaitVoters(t, c, time.Second, 0) // and nobody else is waited for
		for i := 1; i < 5; i++ {
			c.Start(i)
		}
		c.WaitReady()
		unlock(t, kept)
		c.CheckState()
	})
}

// togetherBound is what each may take: it waits for a leader that has got to know its members, at most once for each that
// leads before it.
const togetherBound = 20 * time.Second

func upTo(n int) (list []int) {
	for i := range n {
		list = append(list, i)
	}
	return list
}

func leaveTogether(t *testing.T, c *quorumlocktest.Cluster, leaving ...int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*togetherBound)
	defer cancel()
	var all sync.WaitGroup
	for _, i := range leaving {
		all.Go(func() {
			endsIn(t, "leave", togetherBound, func() {
				if err := c.Leave(ctx, i); err != nil {
					t.Errorf("instance %d of %d: %v", i, c.Size(), err)
				}
			})
		})
	}
	all.Wait()
}
