package quorumlock

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// What LostError's documentation says of its sentinels: ErrLost, and exactly those that fit the cause.
func TestSentinelsOfALoss(t *testing.T) {
	fits := map[Cause][]error{
		CauseExpired: nil, CauseForced: nil, CauseMaxHold: nil,
		CauseSessionClosed: {ErrClosed}, CauseNodeClosed: {ErrClosed}, CauseNoQuorum: {ErrNoQuorum},
		CauseClusterChanged: {ErrNoQuorum, ErrClusterChanged}, CauseDiverged: {ErrDiverged}, CauseCopied: {ErrFailed},
	}
	sentinels := []error{
		ErrLocked, ErrUnlocked, ErrTransferred, ErrTicket, ErrLimit, ErrKind, ErrClosed, ErrNoQuorum, ErrOverloaded, ErrClusterChanged,
		ErrUnsure, ErrStaleToken, ErrInvalid, ErrFailed, ErrDiverged, ErrNoLeader, ErrResigned, ErrNoCandidate,
	}
	known := 0
	for cause := Cause(1); !strings.HasPrefix(cause.String(), "cause "); cause++ {
		known++
		fit, listed := fits[cause]
		if !listed {
			t.Errorf("%v is not in this test, nor in the documentation of LostError", cause)
		}
		err := &LostError{Name: "x", Token: 1, Cause: cause}
		if !errors.Is(err, ErrLost) {
			t.Errorf("%v is not ErrLost", err)
		}
		for _, s := range sentinels {
			if errors.Is(err, s) != slices.Contains(fit, s) {
				t.Errorf("%v: is %q: %v", err, s, errors.Is(err, s))
			}
		}
	}
	if known != len(fits) {
		t.Errorf("%d causes, %d in the test", known, len(fits))
	}
}
