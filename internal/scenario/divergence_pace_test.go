package scenario_test

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// A voter that does not answer does not hold comparisons up: the other two agree on each point as they come to it.
func TestSilentVoterDoesNotHoldComparisonsUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h, log := listen(comparedWords)
		c := quorumlocktest.New(t, 3, quorumlocktest.HashEvery(hashEvery), log)
		awaitVoters(t, c, 20*time.Second, others(c, -1)...)
		silent := others(c, c.Leader())[0]
		c.Isolate(silent)
		n := c.Node(c.LeaderExcept(silent))
		lockIn(t, n, "held", grantBound)
		const span = 5 * time.Second
		end := time.Now().Add(span)
		before := h.times(comparedWords)
		usePaced(n, "k", 0, func() bool { return time.Now().After(end) })
		got := h.times(comparedWords) - before
		t.Logf("%d comparisons in %v", got, span)
		if got < 5*int(span/probeTime) {
			t.Errorf("%d comparisons came to an end in %v", got, span)
		}
	})
}

const probeTime = time.Second // for an answer
