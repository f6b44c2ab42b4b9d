package quorumlocktest

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/internal/sim"
)

// readyBound is fake time in which a healthy cluster must have formed.
const readyBound = time.Minute

// Leader waits until an instance leads and returns its number.
func (c *Cluster) Leader() int {
	c.t.Helper()
	i, ok := c.leader(readyBound, -1)
	if !ok {
		c.t.Fatalf("no leader within %v", readyBound)
	}
	return i
}

// LeaderExcept waits until an instance other than i leads and returns its number.
func (c *Cluster) LeaderExcept(i int) int {
	c.t.Helper()
	j, ok := c.leader(readyBound, i)
	if !ok {
		c.t.Fatalf("no other leader than instance %d within %v", i, readyBound)
	}
	return j
}

func (c *Cluster) leader(bound time.Duration, except int) (int, bool) {
	for deadline := time.Now().Add(bound); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		for i, in := range c.all() {
			if node := c.running(in); i != except && node != nil && sim.Leading(node) {
				return i, true
			}
		}
	}
	return 0, false
}

// WaitReady waits until every instance that is up has been answered by a leader.
func (c *Cluster) WaitReady() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), readyBound)
	defer cancel()
	for i, in := range c.all() {
		node := c.running(in)
		if node == nil {
			continue
		}
		if err := node.Ready(ctx); err != nil {
			c.t.Fatalf("instance %d: %v", i, err)
		}
	}
}

// CheckState fails the test if two members that have applied the same log index differ in their state, and waits (in
// fake time) until all that are up have applied the same. Call it while no commands run.
func (c *Cluster) CheckState() {
	c.t.Helper()
	var indexes []uint64
	for deadline := time.Now().Add(readyBound); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		byIndex := make(map[uint64][32]byte)
		indexes = indexes[:0]
		for i, in := range c.all() {
			node := c.running(in)
			if node == nil || node.Err() != nil || !sim.Replicates(node) {
				continue
			}
			index, hash := sim.State(node)
			if other, seen := byIndex[index]; seen && other != hash {
				c.t.Fatalf("instance %d differs from another one at index %d", i, index)
			}
			byIndex[index] = hash
			indexes = append(indexes, index)
		}
		if len(byIndex) <= 1 {
			return
		}
	}
	c.t.Fatalf("members stay at different indexes: %v", indexes)
}
