package scenario_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// calledLike gives instance i, when it starts, the Name of instance as.
func calledLike(i, as int) quorumlocktest.Option {
	return quorumlocktest.Configure(func(j int, cfg *quorumlock.Config) {
		if j == i {
			cfg.Name = "node-" + string(rune('0'+as))
		}
	})
}

// A name is used twice: the newcomer is refused while its namesake lives. Ready's error says whose the name is and where, its
// log says so once, and the namesake is not disturbed. When that one is gone the newcomer takes its place.
func TestNameUsedTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, heard := keepDiary()
		c := quorumlocktest.New(t, 3, heard, calledLike(3, 1))
		held := lockIn(t, c.Node(1), "k", grantBound)
		second := c.Node(c.Grow())
		time.Sleep(20 * time.Second)
		for _, words := range []string{"the name node-1 belongs to", c.Node(1).ID(), c.Node(1).Addr()} {
			notReadyBecause(t, second, words)
		}
		if told := d.said("the cluster refuses this node"); told != 1 {
			t.Errorf("told %d times", told)
		}
		if inGroup(t, c.Node(0), second.ID()) {
			t.Error("the second of the name is in the group")
		}
		calm(t, held)
		old := c.Node(1).ID()
		c.Crash(1)
		readyIn(t, second, restartBound)
		seesMember(t, c.Node(0), second.ID(), grantBound)
		for end := time.Now().Add(grantBound); inGroup(t, c.Node(0), old); time.Sleep(100 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the dead namesake keeps its place")
			}
		}
		c.CheckState()
	})
}

// Two founders of one name found nothing: which of the two is meant, only a person can tell. Each says who they are.
func TestNameUsedTwiceAtTheFounding(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3, quorumlocktest.NotReady(), calledLike(2, 1))
		time.Sleep(30 * time.Second)
		for i := range 3 {
			notReadyBecause(t, c.Node(i), "two instances are named node-1")
		}
		if ids := clustersOf(c, 0, 1, 2); len(ids) != 0 {
			t.Errorf("clusters: %v", ids)
		}
	})
}

// A directory is wiped and the instance comes back under its name: it is a new server, which takes the old one's vote over at
// once, well within the grace.
func TestWipedDirectoryIsSupersededAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		_, f := roles(c)
		old := c.Node(f[0]).ID()
		c.Crash(f[0])
		c.Replace(f[0])
		begun := time.Now()
		c.Start(f[0])
		awaitVoters(t, c, 12*time.Second, f[1], f[0], c.Leader())
		if c.Node(f[0]).ID() == old {
			t.Fatal("the fault did not bite: the id is the old one")
		}
		t.Logf("superseded after %v", time.Since(begun))
		unlock(t, lockIn(t, c.Node(f[0]), "k", grantBound))
		c.CheckState()
	})
}

// A founder promised to a proposer that is gone for good, with its name and its address: it waits, and says for whom.
// ResetFounding, on the word of an operator, frees it for the next founding. Where a cluster exists there is nothing to reset.
func TestResetFounding(t *testing.T) {
	ctx := context.Background()
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3, quorumlocktest.NotReady(), expecting(3), quorumlocktest.Latency(50*time.Millisecond))
		proposer, waits := stuckFounding(t, c)
		time.Sleep(time.Minute)
		for _, i := range waits {
			notReadyBecause(t, c.Node(i), "promised to "+"node-"+string(rune('0'+proposer)))
		}
		next := c.Grow()
		time.Sleep(time.Minute)
		if ids := clustersOf(c, waits[0], waits[1], next); len(ids) != 0 {
			t.Fatalf("the fault did not bite: clusters %v", ids)
		}
		for _, i := range append(waits, next) { // the newcomer has promised nothing, which is no error
			if err := c.Node(i).ResetFounding(ctx); err != nil {
				t.Errorf("reset on instance %d: %v", i, err)
			}
		}
		for _, i := range append(waits, next) {
			readyIn(t, c.Node(i), restartBound)
		}
		if ids := clustersOf(c, waits[0], waits[1], next); len(ids) != 1 {
			t.Errorf("clusters: %v", ids)
		}
		if err := c.Node(next).ResetFounding(ctx); !errors.Is(err, quorumlock.ErrFounded) {
			t.Errorf("reset of a member: %v", err)
		}
		n := c.Node(next)
		unlock(t, lockIn(t, n, "k", grantBound))
		c.CheckState()
		_ = c.Stop(next)
		if err := n.ResetFounding(ctx); !errors.Is(err, quorumlock.ErrClosed) {
			t.Errorf("reset of a closed node: %v", err)
		}
	})
}

// stuckFounding crashes the proposer for good after the others have promised, and before it can found.
func stuckFounding(t *testing.T, c *quorumlocktest.Cluster) (proposer int, waits []int) {
	t.Helper()
	proposer = lowestID(c)
	waits = others(c, proposer)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		promised := 0
		for _, i := range waits {
			ctx, cancel := context.WithTimeout(context.Background(), time.Microsecond)
			if err := c.Node(i).Ready(ctx); err != nil && strings.Contains(err.Error(), "promised to") {
				promised++
			}
			cancel()
		}
		if promised == len(waits) {
			c.Crash(proposer)
			return proposer, waits
		}
	}
	t.Fatal("nobody has promised")
	return 0, nil
}

// A founding without data directories says aloud that a former cluster of the name, if there was one, is lost; one with
// directories does not, nor do those who join.
func TestFoundingInMemoryIsToldAloud(t *testing.T) {
	const words = "founding a cluster without data directories"
	for name, c := range map[string]struct {
		opts []quorumlocktest.Option
		want int
	}{
		"in memory": {[]quorumlocktest.Option{quorumlocktest.InMemory()}, 1},
		"disks":     {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, heard := keepDiary()
				cl := quorumlocktest.New(t, 3, append(c.opts, heard)...)
				cl.Grow()
				cl.WaitReady()
				if told := d.said(words); told != c.want {
					t.Errorf("told %d times, want %d", told, c.want)
				}
				for i := range 4 {
					cl.Crash(i)
				}
				for i := range 4 {
					cl.Start(i)
				}
				cl.WaitReady()
				if told := d.said(words); told != 2*c.want {
					t.Errorf("told %d times after a total loss, want %d", told, 2*c.want)
				}
			})
		})
	}
}

// S65: all five instances restart within two seconds, twenty times, on a network that loses a tenth of the datagrams. Each time
// all views are complete and equal within the bound.
func TestS65AllRestartOnALossyNetwork(t *testing.T) {
	const rounds, viewBound, loss = 20, 30 * time.Second, 0.1
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 5)
		c.Network().SetLoss("*", "*", loss)
		var longest time.Duration
		for round := range rounds {
			for i := range c.Size() {
				c.Crash(i)
				time.Sleep(200 * time.Millisecond)
			}
			for i := range c.Size() {
				time.Sleep(200 * time.Millisecond)
				c.Start(i)
			}
			if everybodyAlive(t, c) {
				t.Fatalf("round %d: the fault did not bite: all views are complete already", round)
			}
			begun := time.Now()
			awaitAlive(t, c, viewBound)
			longest = max(longest, time.Since(begun))
			knowAddresses(t, c)
		}
		t.Logf("views were complete after %v at most", longest)
		c.WaitReady()
		unlock(t, lockIn(t, c.Node(0), "k", deadBound))
		c.CheckState()
	})
}
