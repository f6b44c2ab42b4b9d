package scenario_test

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/sim"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// S77: everything that a cluster knows goes through snapshots, and its log is compacted behind them: holds, queues with their
// order and notes, TTLs, finished requests, a forced release under way. All voters are killed at once and start from their
// snapshots: each has, at the snapshot's index, the very state that was there before (the hash covers every field), a client
// that lived on goes on where it was, and sessions end by their own TTLs.
func TestStateGoesThroughSnapshots(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3, smallSnapshots())
		client := c.Grow()
		c.WaitReady()
		r := newRichState(t, c, client)
		seen := recordStates(t, c, c.Leader(), compacted)
		before := r.shown()
		for i := range 3 {
			c.Crash(i)
		}
		for i := range 3 {
			index, hash := sim.State(c.Start(i))
			if before, known := seen[index]; !known || before != hash {
				t.Errorf("instance %d starts at index %d with another state than it had there (known: %v)", i, index, known)
			}
		}
		c.WaitReady()
		if after := r.shown(); !reflect.DeepEqual(after, before) {
			t.Errorf("after the restart\n%+v\nwas\n%+v", after, before)
		}
		r.goesOn()
		c.CheckState()
		r.endsByItsTTLs()
		c.CheckState()
	})
}

// recordStates writes entries one by one and gives the state's hash at each index of the instance that leads.
func recordStates(t *testing.T, c *quorumlocktest.Cluster, leader, entries int) map[uint64][32]byte {
	t.Helper()
	seen := make(map[uint64][32]byte)
	note := func() {
		index, hash := sim.State(c.Node(leader))
		seen[index] = hash
	}
	for range entries {
		lockShown(t, c, "entry")
		note()
	}
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		note() // until the snapshots are taken
	}
	return seen
}

// richState is a state with everything in it, which one client has made.
type richState struct {
	t      *testing.T
	c      *quorumlocktest.Cluster
	client int
	holds  map[time.Duration]*quorumlock.Hold // of one session each, by TTL
	queue  []*waiter                          // for the lock of the session with the shortest TTL
}

func newRichState(t *testing.T, c *quorumlocktest.Cluster, client int) *richState {
	t.Helper()
	r := &richState{t: t, c: c, client: client, holds: make(map[time.Duration]*quorumlock.Hold)}
	n := c.Node(client)
	for k, ttl := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second} {
		s, err := n.NewSession(context.Background(), ttl)
		if err != nil {
			t.Fatal(err)
		}
		for range 5 { // finished requests, and a floor
			unlock(t, lockIn(t, s, "finished", time.Second))
		}
		r.holds[ttl] = lockIn(t, s, fmt.Sprint(ttl), time.Second)
		m := quorumlock.NewMutex(s, "10s", quorumlock.Note(fmt.Sprint("note ", k)))
		r.queue = append(r.queue, waitFor(t, m))
		queueBecomes(t, c, "10s", k+1, time.Second)
	}
	return r
}

// waitFor is wait with the caller's options.
func waitFor(t *testing.T, m *quorumlock.Mutex) *waiter {
	w := &waiter{t: t, done: make(chan struct{}), cancel: func() {}}
	go func() {
		defer close(w.done)
		w.hold, w.err = m.Lock(context.Background())
		w.at = time.Now()
	}()
	return w
}

// shown is what the cluster shows of the client's locks.
func (r *richState) shown() map[string]quorumlock.LockInfo {
	r.t.Helper()
	shown := make(map[string]quorumlock.LockInfo)
	for ttl := range r.holds {
		info := lockShown(r.t, r.c, fmt.Sprint(ttl))
		if len(info.Holders) != 1 {
			r.t.Fatalf("%v: %+v", ttl, info)
		}
		info.Index, info.Rev = 0, 0
		shown[fmt.Sprint(ttl)] = info
	}
	return shown
}

// goesOn releases the lock that others wait for: they are served in their order, each once.
func (r *richState) goesOn() {
	r.t.Helper()
	last := r.holds[10*time.Second]
	calm(r.t, last)
	for _, w := range r.queue {
		unlock(r.t, last)
		h := w.granted(time.Second)
		follows(r.t, last, h)
		last = h
	}
	unlock(r.t, last)
}

// endsByItsTTLs kills the client: each of the locks that it still holds becomes free by the TTL of its session.
func (r *richState) endsByItsTTLs() {
	r.t.Helper()
	delete(r.holds, 10*time.Second)
	r.c.Crash(r.client)
	died := time.Now()
	for _, ttl := range []time.Duration{20 * time.Second, 40 * time.Second} {
		becomesFree(r.t, r.c, fmt.Sprint(ttl), ttl+1500*time.Millisecond)
		if took := time.Since(died); took < ttl-ttl/5 {
			r.t.Errorf("the lock of a session with TTL %v was free after %v", ttl, took)
		}
	}
}
