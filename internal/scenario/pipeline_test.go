package scenario_test

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/sim"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// A follower that was silent under traffic for longer than raft's calls take to fail, and whose leader leads on, catches up within seconds. (That
// raft's pipeline survives it whatever the moment is held by TestPipelineWithoutADecoderTakesRequests in the root package.)
func TestFollowerThatWasSilentCatchesUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const rounds = 3
		c := quorumlocktest.New(t, 3)
		l, f := roles(c)
		r := newTraffic(t, "k")
		for _, i := range []int{l, l, f[1], f[1]} {
			r.from(c.Node(i))
		}
		for round := range rounds {
			c.Isolate(f[0])
			time.Sleep(6 * time.Second) // more than two of raft's calls take to fail
			behind, _ := sim.State(c.Node(f[0]))
			target, _ := sim.State(c.Node(l))
			if behind >= target {
				t.Errorf("round %d: the follower was not cut off", round)
			}
			if c.Leader() != l {
				t.Fatalf("round %d: the leader changed", round)
			}
			c.Heal()
			caughtUp(t, c.Node(f[0]), target, 5*time.Second)
		}
		r.stop()
		c.CheckState()
	})
}

// caughtUp waits until a member has applied the log up to index.
func caughtUp(t *testing.T, n *quorumlock.Node, index uint64, bound time.Duration) {
	t.Helper()
	for deadline := time.Now().Add(bound); ; time.Sleep(10 * time.Millisecond) {
		at, _ := sim.State(n)
		if at >= index {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("at index %d after %v, want %d", at, bound, index)
		}
	}
}
