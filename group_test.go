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
