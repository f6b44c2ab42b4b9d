package scenario_test

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// A leader hands over in milliseconds also while other voters are dead, whichever they are: not to those, and without waiting for their answers.
func TestHandOverBesideDeadVoters(t *testing.T) {
	for first := range 4 {
		bubbleIn(t, func(t *testing.T) {
			c := quorumlocktest.New(t, 5, quorumlocktest.Configure(func(_ int, cfg *quorumlock.Config) { cfg.Voters = 5 }))
			old := c.Leader()
			rest := others(c, old)
			dead := []int{rest[first%4], rest[(first+1)%4]}
			for _, i := range dead {
				c.Crash(i)
			}
			endsIn(t, "handing over", 100*time.Millisecond, func() {
				c.HandOver(old)
				c.LeaderExcept(old)
			})
			for _, i := range dead {
				c.Start(i)
			}
			c.WaitReady()
			c.CheckState()
		})
	}
}
