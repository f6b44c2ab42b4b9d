package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
	"github.com/quorumlock/quorumlock/snapshots/snaptest"
)

// granted notes each token of one lock, over the end of a cluster, and writes with it to a fenced resource.
type granted struct {
	t     *testing.T
	guard quorumlock.Guard

	mu     sync.Mutex
	tokens map[quorumlock.Token]bool
	last   quorumlock.Token
}

func (g *granted) note(token quorumlock.Token) {
	g.t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tokens[token] || token <= g.last {
		g.t.Errorf("token %v after %v", token, g.last)
	}
	g.tokens[token], g.last = true, max(token, g.last)
	if err := g.guard.Do(under(token), "r", func(context.Context) error { return nil }); err != nil {
		g.t.Errorf("write under a new token: %v", err)
	}
}

// work locks again and again from a node until stop is closed.
func (g *granted) work(n *quorumlock.Node, stop <-chan struct{}) {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		h, err := quorumlock.NewMutex(n, "k").Lock(ctx)
		if err == nil {
			g.note(h.Token())
			time.Sleep(20 * time.Millisecond)
			_ = h.Unlock()
		}
		cancel()
		select {
		case <-stop:
			return
		case <-time.After(400 * time.Millisecond):
		}
	}
}

// underLoad lets members work, of which one is stopped or cut off for a while.
func (g *granted) underLoad(c *quorumlocktest.Cluster, rng *rand.Rand) {
	stop := make(chan struct{})
	var workers sync.WaitGroup
	for i := range 3 {
		workers.Go(func() { g.work(c.Node(i), stop) })
	}
	time.Sleep(time.Duration(1000+rng.IntN(4000)) * time.Millisecond)
	victim := rng.IntN(3)
	if rng.IntN(2) == 0 {
		c.Isolate(victim)
	} else {
		c.Pause(victim)
	}
	time.Sleep(time.Duration(1000+rng.IntN(12000)) * time.Millisecond)
	c.Heal()
	c.Resume(victim)
	time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
	close(stop)
	workers.Wait()
}

// newestSaved gives the newest snapshot in the store.
func newestSaved(t *testing.T, store *snaptest.Memory) quorumlock.RestoreOptions {
	t.Helper()
	list := saved(t, store)
	if len(list) == 0 {
		t.Fatal("nothing was saved")
	}
	return quorumlock.RestoreOptions{From: contentOf(t, store, list[len(list)-1].Name)}
}

// S36, S81, I2, I3, I14, thirty times: a cluster works, loses sight of a member, writes snapshots, and is destroyed with all disks; one who holds a lock, outside of it, goes
// on. It is restored from the newest snapshot, which is older than the last grants. No token comes twice, the old holder has stopped believing before anybody else
// is granted its lock, what it writes afterwards is refused, and the old cluster's client is not served.
func TestRestoreRounds(t *testing.T) {
	for round := range 30 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			bubble(t, func(t *testing.T) { restoreRound(t, rand.New(rand.NewPCG(uint64(round), 36)), round%3 == 0) })
		})
	}
}

// restoreRound is one; with early all members are there in the quarantine, otherwise the restored one alone.
func restoreRound(t *testing.T, rng *rand.Rand, early bool) {
	store := &snaptest.Memory{}
	pinned := "" // the restored cluster: who has nothing and sees two does not guess
	c := quorumlocktest.New(t, 4, quorumlocktest.Configure(func(i int, cfg *quorumlock.Config) {
		cfg.Expect, cfg.Snapshots, cfg.SnapshotEvery = 3, store, backupEvery
		if i == 3 || pinned != "" {
			cfg.Expect, cfg.ClusterID = 0, pinned
		}
		if i == 3 {
			cfg.Role = quorumlock.RoleClient
		}
	}))
	g := &granted{t: t, tokens: make(map[quorumlock.Token]bool)}
	g.underLoad(c, rng)
	held := lockIn(t, c.Node(3), "k", 20*time.Second)
	g.note(held.Token())
	if rng.IntN(2) == 0 {
		time.Sleep(2 * backupEvery) // it is in the snapshot
	}
	for i := range 3 {
		c.Crash(i)
	}
	lost := time.Now()
	clockPassesTokens()
	for i := range 3 {
		c.Replace(i)
	}
	r, err := c.Restore(0, newestSaved(t, store))
	if err != nil {
		t.Fatal(err)
	}
	pinned = r.ClusterID
	start := time.Now()
	up := 1
	if early {
		up = 3
	}
	for i := range up {
		c.Start(i)
		readyIn(t, c.Node(i), time.Minute)
	}
	if held.Err() != nil {
		t.Errorf("the old holder stopped after %v: the case did not bite", time.Since(lost))
	}
	inQuarantine(t, c.Node(rng.IntN(up)), "k")
	next := lockAfter(t, c.Node(rng.IntN(up)), "k", start, r.Quarantine)
	if !errors.Is(held.Err(), quorumlock.ErrLost) {
		t.Errorf("the old holder believes in token %v while %v was granted: %v", held.Token(), next.Token(), held.Err())
	}
	if next.Token() <= r.TokensAbove || next.Token() <= r.Snapshot.TokensUpTo {
		t.Errorf("token %v, all were to be above %v", next.Token(), r.TokensAbove)
	}
	g.note(next.Token())
	for range 3 {
		if err := g.guard.Do(under(held.Token()), "r", func(context.Context) error { return nil }); !errors.Is(err, quorumlock.ErrStaleToken) {
			t.Errorf("the old holder writes: %v", err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if _, err := quorumlock.NewMutex(c.Node(3), "other").Lock(ctx); !errors.Is(err, quorumlock.ErrClusterChanged) {
		t.Errorf("the old cluster's client: %v", err)
	}
	unlock(t, next)
	c.Crash(3)
	for i := range 3 {
		if i >= up {
			c.Start(i)
			readyIn(t, c.Node(i), time.Minute)
		}
		h := lockIn(t, c.Node(i), "k", 5*time.Second)
		g.note(h.Token())
		unlock(t, h)
	}
	c.CheckState()
}
