package expiry

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/clock"
)

const (
	// Grace is how long a leader does not expire anything after its promotion, and after each stall: the time in which live sessions
	// whose renewals failed or waited meanwhile find it and renew. It holds an attempt (1 s), the hedge to the next member, and a renewal
	// interval of the default TTL. It guards nobody's exclusion, which rests on the stamps alone.
	Grace = 4 * time.Second
	// StallGap is the longest time between two ticks that does not count as a stall. A leader that did not run for longer may have sessions'
	// renewals in its sockets that it has not read, and may have been replaced without knowing.
	StallGap = time.Second
)

// Gate is what keeps a leader from expiring sessions that only look silent. It belongs to one leadership and one goroutine: make a
// new one at each promotion, drop it at step-down, and call Open at each tick, several times within StallGap whatever else the loop
// waits for.
//
// A stall starts the grace anew in full, however long the stall was: after it the leader is where it was at its promotion, it
// cannot know what it missed. Liveness pays little for that. A stall of a leader by more than StallGap is longer than an
// election timeout, so as a rule another one leads already. With promotions (or stalls) ten or more seconds apart each leaves at least
// 10 s - election - Grace of open gate, so a dead session is gone by TTL + election + Grace plus a tick, within TTL + 10 s. Rejected: a
// grace of the length of the stall, for a stall of 1.1 s leaves less than one attempt of a client.
type Gate struct {
	armed clock.Reading // promotion or the end of the newest stall
	tick  clock.Reading
}

// NewGate is a Gate for a leadership that began at promoted, which counts as its first tick.
func NewGate(promoted clock.Reading) *Gate {
	return &Gate{armed: promoted, tick: promoted}
}

// Open is one tick of the expiry loop; it tells whether sessions may be expired at now. The gap since the last tick is judged by the
// clock that ran most, as suspend is a stall too; the grace by the one that ran least.
func (g *Gate) Open(now clock.Reading) bool {
	stalled := clock.Longest(g.tick, now) > StallGap
	g.tick = now
	if stalled {
		g.armed = now
	}
	return clock.Shortest(g.armed, now) >= Grace
}
