package fencetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// Succession is what a real cluster granted for one lock: to a holder that does not know yet, or did not when it was paused, that it is one no more, and to its successor.
type Succession struct {
	How            string
	Stale, Current fence.Grant
}

const (
	eachWay = 260 // successions by each fault
	takes   = 30 * time.Second
)

// Successions has clusters in fake time lose holders in four ways: paused, partitioned, released by force, and by the total loss of a cluster that kept nothing on disk. There are more than
// 1,000.
func Successions(t *testing.T) (list []Succession) {
	for _, way := range []struct {
		name    string
		succeed func(t *testing.T, c *quorumlocktest.Cluster, from, to *holders)
		inMem   bool
	}{
		{"paused", byPause, false},
		{"partitioned", byPartition, false},
		{"force-released", byForce, false},
		{"before the total loss", byLoss, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			opts := []quorumlocktest.Option{}
			if way.inMem {
				opts = append(opts, quorumlocktest.InMemory())
			}
			c := quorumlocktest.New(t, 3, opts...)
			holder := (c.Leader() + 1) % 3
			from, to := &holders{node: holder}, &holders{node: (holder + 1) % 3}
			from.lock(t, c)
			way.succeed(t, c, from, to)
			for i := range eachWay {
				s := Succession{way.name, from.grants[i], to.grants[i]}
				if s.Stale.Lock != s.Current.Lock || s.Stale.Token >= s.Current.Token {
					t.Fatalf("%s: %v is followed by %v", way.name, s.Stale, s.Current)
				}
				list = append(list, s)
			}
		})
	}
	return list
}

// holders are the holds of eachWay locks on one node.
type holders struct {
	node   int
	holds  []*quorumlock.Hold
	grants []fence.Grant
}

// lock takes all the locks, waiting as long as it takes.
func (h *holders) lock(t *testing.T, c *quorumlocktest.Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), takes)
	defer cancel()
	for i := range eachWay {
		hold, err := quorumlock.NewMutex(c.Node(h.node), fmt.Sprintf("lock-%d", i)).Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		held, done := hold.Context(ctx)
		g, err := fence.FromContext(held, hold.Name())
		done()
		if err != nil {
			t.Fatal(err)
		}
		h.holds, h.grants = append(h.holds, hold), append(h.grants, g)
	}
}

// lost fails the test unless all holds were lost: otherwise the fault did not bite.
func (h *holders) lost(t *testing.T) {
	t.Helper()
	for _, hold := range h.holds {
		if err := hold.Err(); !errors.Is(err, quorumlock.ErrLost) {
			t.Fatalf("%s: %v", hold.Name(), err)
		}
	}
}

func byPause(t *testing.T, c *quorumlocktest.Cluster, from, to *holders) {
	c.Pause(from.node)
	to.lock(t, c)
	c.Resume(from.node)
	from.lost(t)
}

func byPartition(t *testing.T, c *quorumlocktest.Cluster, from, to *holders) {
	c.Partition([]int{from.node})
	to.lock(t, c)
	from.lost(t)
	c.Heal()
}

func byForce(t *testing.T, c *quorumlocktest.Cluster, from, to *holders) {
	for i, hold := range from.holds {
		err := c.Node(to.node).ForceRelease(context.Background(), hold.Name(), from.grants[i].Token, quorumlock.ForceOptions{Actor: "operator", Reason: "test", Now: true})
		if err != nil {
			t.Fatal(err)
		}
	}
	to.lock(t, c)
	from.lost(t)
}

func byLoss(t *testing.T, c *quorumlocktest.Cluster, from, to *holders) {
	for i := range 3 {
		c.Crash(i)
	}
	for i := range 3 {
		c.Start(i)
	}
	c.WaitReady()
	to.lock(t, c)
	if from.grants[0].Cluster == to.grants[0].Cluster {
		t.Fatal("the cluster was not lost")
	}
}

// Stale has every stale holder of the successions write, after its successor claimed or wrote, or at the same time. None may be accepted over the successor; without the fence, some must
// be.
func Stale(t *testing.T, b Backend, list []Succession) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*bound)
	defer cancel()
	accepted, lost := 0, 0
	for i, s := range list {
		name := fmt.Sprintf("%s/%d", resourceName(t), i)
		old, current := with(ctx, s.Stale), with(ctx, s.Current)
		if err := b.Write(old, name, "old"); err != nil {
			t.Fatalf("%s: while it held the lock: %v", s.How, err)
		}
		if err := b.WriteUnfenced(ctx, name, "old"); err != nil {
			t.Fatal(err)
		}
		late := make(chan error, 1)
		switch i % 3 {
		case 0: // the successor wrote
			must(t, b.Write(current, name, "current"))
			late <- b.Write(old, name, "stale")
		case 1: // it has only claimed
			must(t, b.Claim(current, name))
			late <- b.Write(old, name, "stale")
			must(t, b.Write(current, name, "current"))
		case 2: // both at once: the stale write may come first, if it is under way already
			go func() { late <- b.Write(old, name, "stale") }()
			must(t, b.Write(current, name, "current"))
		}
		err := <-late
		if err != nil && !errors.Is(err, fence.ErrStaleToken) {
			t.Fatalf("%s: %v", s.How, err)
		}
		if err == nil && i%3 != 2 {
			t.Errorf("%s: %v was accepted after %v", s.How, s.Stale, s.Current)
			accepted++
		}
		if value, err := b.Read(ctx, name); err != nil || value != "current" {
			t.Errorf("%s: the value is %q, %v", s.How, value, err)
			accepted++
		}
		must(t, b.WriteUnfenced(ctx, name, "current"))
		must(t, b.WriteUnfenced(ctx, name, "stale"))
		if value, err := b.ReadUnfenced(ctx, name); err != nil {
			t.Fatal(err)
		} else if value != "current" {
			lost++
		}
	}
	if lost == 0 {
		t.Error("the control without a fence lost nothing: the test shows nothing")
	}
	t.Logf("%d stale attempts, %d accepted; without the fence %d updates were lost", len(list), accepted, lost)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
