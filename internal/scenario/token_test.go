package scenario_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
	"github.com/quorumlock/quorumlock/watch"
)

// compacted is more entries than raft keeps behind a snapshot: who lacks them all can only be sent the snapshot.
const compacted = 1200

// smallSnapshots makes a second's traffic enough for a snapshot.
func smallSnapshots() quorumlocktest.Option { return quorumlocktest.SnapshotBytes(500) }

// writeEntries makes so many log entries, and waits until the members that are in touch have taken snapshots of them.
func writeEntries(t *testing.T, n *quorumlock.Node, count int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for range count {
		if _, err := n.Inspect(ctx, "entry"); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(3 * time.Second)
}

// missedEvents begins to watch on a node, and returns a channel that is closed when the node's state was replaced by a snapshot.
func missedEvents(t *testing.T, n *quorumlock.Node) <-chan struct{} {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	replaced := make(chan struct{})
	go func() {
		for _, err := range n.Watch(ctx, "") {
			if errors.Is(err, watch.ErrFellBehind) {
				close(replaced)
			}
		}
	}()
	synctest.Wait() // it has subscribed
	return replaced
}

// leadWith hands leadership on until instance i leads.
func leadWith(t *testing.T, c *quorumlocktest.Cluster, i int) {
	t.Helper()
	for range 50 {
		leader := c.Leader()
		if leader == i {
			return
		}
		c.HandOver(leader)
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("instance %d never leads", i)
}

// grantMany takes and releases a lock over and over, and returns the last token.
func grantMany(t *testing.T, n *quorumlock.Node, name string, count int) (last quorumlock.Token) {
	t.Helper()
	for range count {
		h := lockIn(t, n, name, time.Second)
		if h.Token() <= last {
			t.Errorf("token %v after %v", h.Token(), last)
		}
		last = h.Token()
		unlock(t, h)
	}
	return last
}

// S36, as far as no backup is there: a cluster that kept nothing on disk is lost and founded anew. The next token exceeds
// every earlier one, also that of a hold which the old cluster never ended, so a resource that saw the old cluster goes on with
// the new one and refuses the old one's holders.
func TestTokensRiseOverTheTotalLossOfACluster(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3, quorumlocktest.InMemory())
		lost := c.Node(0).ClusterID()
		grantMany(t, c.Node(0), "k", 100)
		held := lockIn(t, c.Node(1), "k", time.Second)
		var resource quorumlock.Guard
		if err := claim(&resource, "k", held.Token()); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			c.Crash(i)
		}
		for i := range 3 {
			c.Start(i)
		}
		c.WaitReady()
		if id := c.Node(0).ClusterID(); id == lost || id == "" {
			t.Fatalf("cluster %q after %q: it was not lost", id, lost)
		}
		next := lockIn(t, c.Node(2), "k", time.Second)
		follows(t, held, next)
		if err := claim(&resource, "k", next.Token()); err != nil {
			t.Errorf("the new cluster's holder: %v", err)
		}
		if err := claim(&resource, "k", held.Token()); !errors.Is(err, quorumlock.ErrStaleToken) {
			t.Errorf("the lost cluster's holder: %v", err)
		}
		unlock(t, next)
		c.CheckState()
	})
}

// S36: a member stays behind at an early token, is sent a snapshot over all that it missed, and leads. Its tokens exceed every
// one that was granted while it was away; so they do when it starts again from that snapshot.
func TestTokensRiseOverAnInstalledSnapshot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3, smallSnapshots())
		l, f := roles(c)
		behind := f[0]
		replaced := missedEvents(t, c.Node(behind))
		grantMany(t, c.Node(l), "k", 5)
		c.Isolate(behind)
		writeEntries(t, c.Node(l), compacted)
		last := grantMany(t, c.Node(l), "k", 20)
		c.Heal()
		c.WaitReady()
		c.CheckState()
		if !closed(replaced) {
			t.Error("no snapshot was installed: the fault did not bite")
		}
		leadWith(t, c, behind)
		if next := grantMany(t, c.Node(behind), "k", 1); next <= last {
			t.Errorf("token %v after %v", next, last)
		} else {
			last = next
		}
		c.Crash(behind)
		c.Start(behind)
		c.WaitReady()
		leadWith(t, c, behind)
		if next := grantMany(t, c.Node(f[1]), "k", 1); next <= last {
			t.Errorf("token %v after %v", next, last)
		}
		c.CheckState()
	})
}
