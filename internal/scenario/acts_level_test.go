package scenario_test

import (
	"errors"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// actAll tries each act, and each listing that rides the log, through a node; the acts name nobody that is there.
func actAll(t *testing.T, n *quorumlock.Node) map[string]error {
	t.Helper()
	errs := map[string]error{
		"end":      n.EndSession(t.Context(), 12345, endOpt),
		"transfer": n.TransferLeadership(t.Context(), "somebody", transferOpt),
		"remove":   n.RemoveMember(t.Context(), "somebody", removeOpt),
		"drain":    n.Drain(t.Context(), "somebody", drainOpt),
		"undrain":  n.Undrain(t.Context(), "somebody", drainOpt),
	}
	errs["sessions"], errs["audit"] = nil, nil
	for _, err := range n.Sessions(t.Context()) {
		errs["sessions"] = err
	}
	for _, err := range n.Audit(t.Context()) {
		errs["audit"] = err
	}
	return errs
}

// S103 for the acts: in a rolling upgrade each is refused, with the reason, on every node and under every leader until the last member is new, and works from then on. The states are equal all the
// time, forced releases are recorded all the time, and what is shown by Local needs no level.
func TestActsWaitForTheUpgrade(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, v := mixed(t, [3]uint32{1, 1, 1}, quorumlocktest.HashEvery(8))
		released := 0
		for _, i := range []int{0, 1, 2} {
			for leader := range 3 {
				leads(t, c, leader)
				h := lockIn(t, c.Node(leader), "k", grantBound)
				force(t, c.Node((leader+1)%3), h, true)
				released++
				for node := range 3 {
					for what, err := range actAll(t, c.Node(node)) {
						if !errors.Is(err, quorumlock.ErrLevel) {
							t.Fatalf("before %d is upgraded, %s through %d: %v", i, what, node, err)
						}
					}
					time.Sleep(100 * time.Millisecond) // a follower applies later
					if rec := auditOf(t, c.Node(node), quorumlock.Local()); len(rec) != released {
						t.Fatalf("%d records on %d, want %d", len(rec), node, released)
					}
					if list := sessionsOf(t, c.Node(node), quorumlock.Local()); len(list) == 0 || !list[0].Since.IsZero() {
						t.Fatalf("sessions: %+v", list)
					}
				}
			}
			v.restartAs(t, c, i, 2)
		}
		awaitLevel(t, c, 2, 0, 1, 2)
		for leader := range 3 {
			leads(t, c, leader)
			for node := range 3 {
				for what, err := range actAll(t, c.Node(node)) {
					if errors.Is(err, quorumlock.ErrLevel) {
						t.Errorf("after the upgrade, %s through %d: %v", what, node, err)
					}
				}
			}
		}
		if err := c.Node(0).TransferLeadership(t.Context(), c.Node(1).ID(), transferOpt); err != nil {
			t.Error(err)
		}
		allGoOn(t, c)
		time.Sleep(5 * time.Second)
		c.CheckState()
	})
}
