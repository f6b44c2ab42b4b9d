package scenario_test

// How a member that differs comes to its end, whatever its host does, and what comes after it.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/sim"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// flipBy gives the node a state of its own, which no other one has that is flipped by another amount.
func flipBy(t *testing.T, n *quorumlock.Node, by int) {
	t.Helper()
	if !sim.Flip(n, nil, func(r *locktable.ClaimRecord) bool { r.Created += int64(by); return true }) {
		t.Fatal("the flip did not bite")
	}
}

// untilWithin is a stop that comes when done says so, and fails the test if that takes longer than bound.
func untilWithin(t *testing.T, what string, bound time.Duration, done func() bool) func() bool {
	end := time.Now().Add(bound)
	return func() bool {
		if !done() && time.Now().Before(end) {
			return false
		}
		if !done() {
			t.Errorf("%s: not within %v", what, bound)
		}
		return true
	}
}

// One of three differs, has stopped, and its host keeps it open; then one of the two that are right leaves. The last one must not take what it has in
// common with the one that is wrong, an old point, for a split: those who voted at that point agreed with it.
func TestLeaverDoesNotTakeTheMajorityAlong(t *testing.T) {
	for wait := range 6 {
		t.Run(fmt.Sprint(10*wait, " ms"), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3, quorumlocktest.HashEvery(4))
				awaitVoters(t, c, 20*time.Second, others(c, -1)...)
				right := c.Leader()
				rest := others(c, right)
				n, wrong := c.Node(right), c.Node(rest[0])
				lockIn(t, n, "held", time.Second)
				time.Sleep(time.Second)
				flipBy(t, wrong, 1)
				use(n, "k", untilWithin(t, "the stop", 30*time.Second, failed(wrong)))
				time.Sleep(time.Duration(10*wait) * time.Millisecond)
				ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
				defer cancel()
				var work sync.WaitGroup
				for k := range 4 {
					work.Go(func() {
						for ctx.Err() == nil && n.Err() == nil {
							if h, err := quorumlock.NewMutex(n, fmt.Sprint("k", k)).Lock(ctx); err == nil {
								_ = h.Unlock()
							}
						}
					})
				}
				leave, cancelLeave := context.WithTimeout(ctx, 3*time.Second)
				defer cancelLeave()
				_ = c.Leave(leave, rest[1]) // too few are left to answer; what counts is that it is gone
				work.Wait()
				if err := n.Err(); err != nil {
					t.Errorf("the member that is right has stopped: %v", err)
				}
			})
		})
	}
}

// The voters are known after a restart too, when the configuration stands in snapshots only: a flip is found.
func TestFlipIsFoundAfterRestartFromSnapshots(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3, quorumlocktest.HashEvery(hashEvery), quorumlocktest.SnapshotBytes(500))
		awaitVoters(t, c, 20*time.Second, others(c, -1)...)
		busy := c.Node(0)
		var work sync.WaitGroup
		for k := range 4 {
			work.Go(func() { use(busy, fmt.Sprint("k", k), after(busy, 1400)) })
		}
		work.Wait()
		time.Sleep(2 * time.Second)
		for i := range 3 {
			c.Crash(i)
		}
		for i := range 3 {
			c.Start(i)
		}
		c.WaitReady()
		bad := others(c, c.Leader())[0]
		other := c.Node(others(c, bad)[0])
		lockIn(t, other, "held", grantBound)
		c.CheckState()
		flipBy(t, c.Node(bad), 1)
		use(other, "k", untilWithin(t, "the stop", 30*time.Second, failed(c.Node(bad))))
		if err := c.Node(bad).Err(); !errors.Is(err, quorumlock.ErrDiverged) {
			t.Errorf("the flipped member reports %v", err)
		}
	})
}

// A host may end its process as soon as it hears of anything: by then the directory is marked, however slow its disk is.
func TestHostThatExitsOnLossLeavesAMark(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3, quorumlocktest.HashEvery(hashEvery))
		awaitVoters(t, c, 20*time.Second, others(c, -1)...)
		bad := others(c, c.Leader())[0]
		node, other := c.Node(bad), c.Node(others(c, bad)[0])
		mine := lockIn(t, node, "mine", time.Second)
		use(other, "k", after(other, 2*hashEvery))
		flipBy(t, node, 1)
		c.Disk(bad).Slow(20 * time.Millisecond)
		gone := make(chan struct{})
		go func() {
			select {
			case <-mine.Done():
			case <-node.Done():
			}
			c.Crash(bad)
			close(gone)
		}()
		use(other, "k", untilWithin(t, "the stop", 30*time.Second, func() bool { return closed(gone) }))
		if !closed(gone) {
			return
		}
		if err := mine.Err(); !errors.Is(err, quorumlock.ErrDiverged) {
			t.Errorf("the hold reports %v", err)
		}
		if err := c.TryStart(bad); !errors.Is(err, quorumlock.ErrDiverged) {
			t.Errorf("start after the exit: %v", err)
		}
	})
}

// All three differ, and every host ends its process as soon as its hold is lost: none of them goes on with its state.
func TestSplitIsFoundThoughHostsExit(t *testing.T) {
	for round := range 4 {
		t.Run(fmt.Sprint(round), func(t *testing.T) { bubble(t, splitWithHostsThatExit) })
	}
}

func splitWithHostsThatExit(t *testing.T) {
	c := quorumlocktest.New(t, 3, quorumlocktest.HashEvery(hashEvery))
	awaitVoters(t, c, 20*time.Second, others(c, -1)...)
	nodes := []*quorumlock.Node{c.Node(0), c.Node(1), c.Node(2)}
	use(nodes[0], "k", after(nodes[0], hashEvery))
	var exits sync.WaitGroup
	over := make(chan struct{})
	for i, n := range nodes {
		h := lockIn(t, n, fmt.Sprint("h", i), time.Second)
		exits.Go(func() {
			select {
			case <-h.Done():
			case <-over:
				return
			}
			if !errors.Is(h.Err(), quorumlock.ErrDiverged) {
				t.Errorf("instance %d: its hold reports %v", i, h.Err())
			}
			c.Crash(i)
		})
	}
	time.Sleep(time.Second)
	for i, n := range nodes {
		flipBy(t, n, 1+i)
	}
	all := func() bool {
		return !slices.ContainsFunc(nodes, func(n *quorumlock.Node) bool { return n.Err() == nil })
	}
	var work sync.WaitGroup
	for _, n := range nodes {
		work.Go(func() { use(n, "k", untilWithin(t, "the end of all", 30*time.Second, all)) })
	}
	work.Wait()
	if close(over); !all() {
		return
	}
	exits.Wait()
	for i := range nodes {
		if err := c.TryStart(i); !errors.Is(err, quorumlock.ErrDiverged) {
			t.Errorf("start of instance %d: %v", i, err)
		}
	}
}

// After a split there is no state to go on with. Emptied, the directories found a cluster of the same name with another id, and tokens go on rising.
func TestAfterASplitANewClusterIsFounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3, quorumlocktest.HashEvery(hashEvery))
		awaitVoters(t, c, 20*time.Second, others(c, -1)...)
		old := c.Node(0).ClusterID()
		held := lockIn(t, c.Node(0), "held", time.Second)
		use(c.Node(1), "k", after(c.Node(1), hashEvery))
		for i := range 2 {
			flipBy(t, c.Node(i), 1+i)
		}
		all := func() bool {
			return !slices.ContainsFunc(others(c, -1), func(i int) bool { return c.Node(i).Err() == nil })
		}
		use(c.Node(1), "k", untilWithin(t, "the end of all", 30*time.Second, all))
		for i := range 3 {
			if err := c.Stop(i); err != nil {
				t.Error(err)
			}
		}
		for i := range 3 {
			if err := c.TryStart(i); !errors.Is(err, quorumlock.ErrDiverged) {
				t.Errorf("start with the old directory: %v", err)
			}
			c.Replace(i)
		}
		for i := range 3 {
			c.Start(i)
		}
		c.WaitReady()
		if id := c.Node(0).ClusterID(); id == old || id == "" {
			t.Errorf("cluster %q after %q", id, old)
		}
		if h := lockIn(t, c.Node(1), "held", grantBound); h.Token() <= held.Token() {
			t.Errorf("token %v after %v", h.Token(), held.Token())
		}
		c.CheckState()
	})
}

// A mark that cannot be written does not hide why the member has stopped.
func TestMarkThatFailsDoesNotHideTheReason(t *testing.T) {
	bubble(t, func(t *testing.T) {
		full := errors.New("no space left on device")
		c := quorumlocktest.New(t, 3, quorumlocktest.HashEvery(hashEvery))
		awaitVoters(t, c, 20*time.Second, others(c, -1)...)
		bad := others(c, c.Leader())[0]
		node, other := c.Node(bad), c.Node(others(c, bad)[0])
		lockIn(t, other, "held", time.Second)
		use(other, "k", after(other, hashEvery))
		c.Disk(bad).FailMark(full)
		flipBy(t, node, 1)
		use(other, "k", untilWithin(t, "the stop", 30*time.Second, failed(node)))
		var d *quorumlock.DivergedError
		if err := node.Err(); !errors.As(err, &d) || d.Split {
			t.Errorf("the host is told %v", err)
		}
		if c.Disk(bad).Refused() == 0 {
			t.Error("no mark was refused")
		}
	})
}
