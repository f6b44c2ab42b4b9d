package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/quorumlock/quorumlock/internal/clock"
)

// TestCampaignsWorthAnother: what Run does after a campaign that failed. It must neither give up for something that passes nor repeat for ever what is refused for good.
func TestCampaignsWorthAnother(t *testing.T) {
	lost := &LostError{Name: "e", Cause: CauseExpired}
	closed := func() *Session {
		s := &Session{node: &Node{clock: clock.System()}}
		s.life, s.end = context.WithCancelCause(context.Background())
		s.end(lost)
		return s
	}()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for name, c := range map[string]struct {
		ctx   context.Context
		owner Owner
		err   error
		again bool
	}{
		"session of a node lost":   {context.Background(), &Node{}, lost, true},
		"overloaded":               {context.Background(), &Node{}, &WaitError{Op: "campaign", Err: ErrOverloaded}, true},
		"released by force":        {context.Background(), &Node{}, &LostError{Cause: CauseForced}, true},
		"session lost":             {context.Background(), closed, lost, false},
		"session lost, overloaded": {context.Background(), closed, ErrOverloaded, false},
		"session closed":           {context.Background(), &Node{}, &LostError{Cause: CauseSessionClosed}, false},
		"node closed":              {context.Background(), &Node{}, &WaitError{Op: "open session", Err: ErrClosed}, false},
		"ctx ended":                {ended, &Node{}, lost, false},
		"a semaphore":              {context.Background(), &Node{}, &KindError{Name: "e", Semaphore: true}, false},
		"a bad name":               {context.Background(), &Node{}, &FieldError{Field: "name"}, false},
		"an answer from beyond":    {context.Background(), &Node{}, &WaitError{Err: fmt.Errorf("unexpected answer %d", 99)}, false},
	} {
		if again := NewElection(c.owner, "e").worthAnother(c.ctx, c.err); again != c.again {
			t.Errorf("%s: again is %v", name, again)
		}
	}
}

// TestTermTellsWhatCounts: an error of lead that only repeats why its context ended is not told beside that reason, and any other one is.
func TestTermTellsWhatCounts(t *testing.T) {
	own := errors.New("own")
	for _, result := range []error{nil, context.Canceled, fmt.Errorf("step 3: %w", context.Canceled)} {
		if err := (&term{result: result}).beside(context.Canceled); err != nil {
			t.Errorf("%v is told", result)
		}
	}
	if err := (&term{result: own}).beside(context.Canceled, ErrClosed); err != own {
		t.Errorf("%v is told as %v", own, err)
	}
}
