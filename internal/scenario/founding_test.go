package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/store"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// restartBound is within what a cluster must work again whose member was killed in the middle of the founding or of a join.
const restartBound = time.Minute

// slowDisks makes each write of the given instances take d.
func slowDisks(c *quorumlocktest.Cluster, d time.Duration, instances ...int) {
	for _, i := range instances {
		c.Disk(i).Slow(d)
	}
}

// A founder that is killed at any moment of the founding, on a slow disk, finds out from what it had kept how far it had come: the cluster is founded.
// The proposer, whose id is the lowest, has more to keep than the others.
func TestCrashAtAnyMomentOfTheFounding(t *testing.T) {
	const write, steps = 100 * time.Millisecond, 20 // the founding takes so many writes
	for step := range steps {
		if step <= 10 || step%3 == 0 { // by then the promises are kept
			crashWhileFounding(t, write, step, true)
		}
		if step%3 == 0 {
			crashWhileFounding(t, write, step, false)
		}
	}
}

func crashWhileFounding(t *testing.T, write time.Duration, step int, proposes bool) {
	t.Run(fmt.Sprintf("proposer=%v/%d", proposes, step), func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			c := quorumlocktest.New(t, 3, quorumlocktest.NotReady())
			slowDisks(c, write, 0, 1, 2)
			victim := lowestID(c)
			if !proposes {
				victim = others(c, victim)[0]
			}
			time.Sleep(time.Duration(step) * write)
			c.Crash(victim)
			time.Sleep(time.Second)
			c.Start(victim)
			slowDisks(c, 0, 0, 1, 2)
			for i := range 3 {
				readyIn(t, c.Node(i), restartBound)
			}
			c.CheckState()
		})
	})
}

func lowestID(c *quorumlocktest.Cluster) int {
	least := 0
	for i := range c.Size() {
		if c.Node(i).ID() < c.Node(least).ID() {
			least = i
		}
	}
	return least
}

// readyIn fails the test unless the node is ready within bound.
func readyIn(t *testing.T, n *quorumlock.Node, bound time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	if err := n.Ready(ctx); err != nil {
		t.Fatalf("within %v: %v", bound, err)
	}
}

// The same for a node that founds alone: after any of its writes the next start goes on from there.
func TestCrashAtAnyWriteOfALoneFounding(t *testing.T) {
	const write = 100 * time.Millisecond
	for nth := range 14 {
		t.Run(fmt.Sprint(nth), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				disk, failure := store.NewDisk(), errors.New("input/output error")
				disk.SlowWrites(write)
				fault := time.AfterFunc(time.Duration(nth)*write+write/2, func() { disk.FailWrites(failure) })
				if n, err := quorumlock.Open(context.Background(), aloneOn(disk)); err == nil {
					time.Sleep(3 * time.Second)
					_ = n.Close()
				}
				fault.Stop()
				disk.FailWrites(nil)
				disk.SlowWrites(0)
				n, err := quorumlock.Open(context.Background(), aloneOn(disk))
				if err != nil {
					t.Fatal(err)
				}
				defer n.Close()
				readyIn(t, n, restartBound)
			})
		})
	}
}

// A joiner is killed while it is let in. Entries of the log may have reached it before the answer did, and the cluster's id comes with neither: it must
// know at its next start whose they are. Far from the leader, there is a while between the two.
func TestCrashAtAnyMomentOfAJoin(t *testing.T) {
	const write, far = 20 * time.Millisecond, 60 * time.Millisecond
	for step := range 12 {
		t.Run(fmt.Sprint(step), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3)
				l, f := roles(c)
				for _, i := range f {
					c.Network().SetDelay(c.Host(l), c.Host(i), far, 0)
					c.Network().SetDelay(c.Host(i), c.Host(l), far, 0)
				}
				time.Sleep(time.Second)
				i := c.Grow()
				slowDisks(c, write, i)
				time.Sleep(time.Duration(step) * write)
				c.Crash(i)
				time.Sleep(time.Second)
				c.Start(i)
				slowDisks(c, 0, i)
				readyIn(t, c.Node(i), restartBound)
				seesMember(t, c.Node(i), c.Node(i).ID(), 10*time.Second) // in its own log, so it replicates
				c.CheckState()
			})
		})
	}
}

// A node that is pinned to another cluster than the one it meets joins nothing, and asks nothing of it either.
func TestPinnedNodeTakesNoLockOfAnotherCluster(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3, quorumlocktest.Configure(func(i int, cfg *quorumlock.Config) {
			if i == 3 {
				cfg.Expect, cfg.ClusterID = 0, "0123456789abcdef0123456789abcdef"
			}
		}))
		n := c.Node(c.Grow())
		time.Sleep(5 * time.Second)
		for _, call := range []func(context.Context) error{
			n.Ready,
			func(ctx context.Context) error { _, err := quorumlock.NewMutex(n, "k").Lock(ctx); return err },
		} {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			if err := call(ctx); !errors.Is(err, quorumlock.ErrNoQuorum) {
				t.Errorf("pinned to a cluster that is not there: %v", err)
			}
		}
		if id := n.ClusterID(); id != "" {
			t.Errorf("member of %s", id)
		}
	})
}
