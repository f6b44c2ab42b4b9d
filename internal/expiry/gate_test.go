package expiry

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/clock"
)

func TestGate(t *testing.T) {
	type tick struct {
		at   clock.Reading
		open bool
	}
	ticks := func(from, to float64, open bool) (list []tick) {
		for s := from; s < to; s += 0.25 {
			list = append(list, tick{after(s), open})
		}
		return list
	}
	for _, c := range []struct {
		name  string
		ticks [][]tick
	}{
		{"grace after promotion", [][]tick{ticks(0.25, 4, false), ticks(4, 8, true)}},
		{"a gap of exactly StallGap is none", [][]tick{ticks(0.25, 4, false), {{after(4), true}, {after(5), true}, {after(6), true}}}},
		{"a stall starts the grace anew", [][]tick{ticks(0.25, 4, false), ticks(4, 6, true), ticks(7, 11, false), ticks(11, 12, true)}},
		{"a stall within the grace", [][]tick{ticks(0.25, 2, false), ticks(4, 8, false), ticks(8, 9, true)}},
		{"S16: 15 s paused", [][]tick{ticks(0.25, 4, false), ticks(4, 5, true), ticks(20, 24, false), ticks(24, 25, true)}},
		{"stalled before the first tick", [][]tick{ticks(2, 6, false), ticks(6, 7, true)}},
		{"suspend is a stall", [][]tick{ticks(0.25, 4, false), {{split(4, 4), true}, {split(4.1, 64), false}, {split(4.2, 64.1), false}}}},
		{"the slower clock counts the grace", [][]tick{ticks(0.25, 3, false), {{split(3.2, 3.6), false}, {split(3.7, 4.1), false}, {split(4, 4.4), true}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewGate(after(0))
			for _, list := range c.ticks {
				for _, tick := range list {
					if got := g.Open(tick.at); got != tick.open {
						t.Fatalf("at Raw %v Boot %v open is %v", tick.at.Raw-time.Hour, tick.at.Boot-2*time.Hour, got)
					}
				}
			}
		})
	}
}

// TestLeaderChangesDoNotKeepADeadSession: with changes 10 s or more apart, at the worst moments, a session that died at 0 is expired by
// some leader within TTL + 10 s. A member that follows keeps its stamps, so each new leader has the same ones.
func TestLeaderChangesDoNotKeepADeadSession(t *testing.T) {
	const (
		election = 3 * time.Second // the vacancy: three times what was measured
		apart    = 10 * time.Second
		tick     = 250 * time.Millisecond
	)
	for first := time.Duration(0); first < 20*time.Second; first += 100 * time.Millisecond {
		tr := New()
		start := after(0)
		tr.Renewed(1, ttl, 5, start)
		gate := NewGate(start)
		changeAt, expiredAt := first, time.Duration(0)
		for now := tick; expiredAt == 0 && now < time.Minute; now += tick {
			at := clock.Reading{Raw: start.Raw + now, Boot: start.Boot + now}
			if now >= changeAt+election {
				gate, changeAt = NewGate(at), changeAt+apart
			}
			if vacant := now >= changeAt; !vacant && gate.Open(at) && tr.dueSessions(at) != nil {
				expiredAt = now
			}
		}
		if expiredAt < ttl || expiredAt > ttl+10*time.Second {
			t.Errorf("first change at %v: expired at %v", first, expiredAt)
		}
	}
}
