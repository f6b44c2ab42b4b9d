package quorumlock

import (
	"math"
	"time"

	"github.com/quorumlock/quorumlock/internal/clock"
)

// capLease is MaxHold as a lease of its own that nothing extends. It is counted from when the holder learned of the grant. The cluster knows nothing of it: the holder
// stops by itself first and asks for the release afterwards, so exclusion does not depend on whose clock is right, and a process that is not there any more
// to ask has lost its session anyway.
func capLease(most, ttl time.Duration, now clock.Reading) *lease {
	return &lease{ttl: ttl, rawEnd: later(now.Raw, most), bootEnd: later(now.Boot, most), newest: now}
}

// later adds without overflow: a cap of centuries is none.
func later(at, d time.Duration) time.Duration {
	if at > math.MaxInt64-d {
		return math.MaxInt64
	}
	return at + d
}

// nearLimit tells that MaxHold ends within the time that a failing lease warns ahead.
func (h *Hold) nearLimit(now clock.Reading) bool {
	ttl := h.session().ttl
	return h.limit != nil && h.limit.left(now) <= trustWindow(ttl)-jeopardyAge(ttl)
}

func (h *Hold) pastLimit(now clock.Reading) bool {
	return h.limit != nil && h.limit.state(now) == leaseLost
}

// endByLimitLocked loses the hold, and has it released in the background: at once, or when the callback that works under it has returned. A callback that ignores the end of its context
// is waited for as long as at a Close, for no longer than a lease would be trusted. Unless it has returned by then nobody says that the work is over, so the
// lock delay applies.
func (h *Hold) endByLimitLocked() {
	s := h.session()
	h.forgetLocked()
	h.loseLocked(&LostError{Name: h.claim.name, Cause: CauseMaxHold})
	s.parted++
	s.node.spawn(func() {
		if h.awaitWork(trustWindow(s.ttl)) {
			h.giveBack(h.unlock)
			return
		}
		h.giveBack(h.forfeit)
	})
}

// awaitWork waits until the callback that works under the hold has returned, for at most bound, and says whether it has. How far the work under a hold without one is, is
// not known.
func (h *Hold) awaitWork(bound time.Duration) (over bool) {
	if h.over == nil {
		return false
	}
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-h.over:
		return true
	case <-timer.C:
		return false
	case <-h.session().life.Done():
		return false
	}
}
