package quorumlock

import (
	"errors"
	"fmt"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/quorumlock/quorumlock/internal/commit"
)

// The two doors of a raft future: its error tells nothing of the command unless the table says so, and raft's own errors end here.
func TestOutcomeOfRaftErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		want commit.Outcome
	}{
		{raft.ErrNotLeader, commit.NotDone},
		{raft.ErrLeadershipTransferInProgress, commit.NotDone},
		{raft.ErrEnqueueTimeout, commit.NotDone},
		{raft.ErrLeadershipLost, commit.Unknown},
		{raft.ErrAbortedByRestore, commit.Unknown},
		{raft.ErrRaftShutdown, commit.Unknown},
		{errors.New("any other"), commit.Unknown},
	} {
		for _, err := range []error{c.err, fmt.Errorf("wrapped: %w", c.err)} {
			got := outcome(err)
			var known *commit.Error
			if !errors.As(got, &known) || known.Outcome != c.want {
				t.Errorf("%v: %v, want outcome %v", err, got, c.want)
			}
			if errors.Is(got, c.err) {
				t.Errorf("%v leaks", c.err)
			}
		}
	}
}

// Leadership is offered to a voter once, and again only in another term or after its log has grown.
func TestOffers(t *testing.T) {
	var o offers
	for i, step := range []struct {
		term      uint64
		id        string
		last, own uint64
		want      bool
	}{
		{5, "a", 90, 100, true}, {5, "a", 90, 101, false}, {5, "a", 100, 101, false}, {5, "b", 90, 101, true}, {5, "a", 101, 102, true},
		{5, "a", 101, 103, false}, {5, "b", 101, 103, false}, {5, "b", 103, 103, true}, {6, "a", 0, 110, true}, {6, "b", 0, 110, true}, {6, "a", 110, 111, false},
		{7, "a", 500, 400, true}, {7, "a", 500, 401, false}, {7, "a", 501, 401, true},
	} {
		if got := o.allow(step.term, step.id, step.last, step.own); got != step.want {
			t.Errorf("step %d: %+v gives %v", i, step, got)
		}
	}
}
