package quorumlock

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/clock"
	"github.com/quorumlock/quorumlock/internal/expiry"
)

// The tests below show I3 for the arithmetic: with the real lease on one side and the real expiry.Tracker on the other, over clocks that are
// exact functions of true time, the last instant at which the holder may believe lies before the first at which any leader
// proposes to expire. All is integer arithmetic in nanoseconds, so "before" is meant to the nanosecond.

// oscillator is a machine's clocks: they run num/den as fast as true time, with one suspend.
type oscillator struct {
	num, den             int64
	suspendAt, suspended time.Duration // true time; Raw stands still
}

func (o oscillator) at(t time.Duration) clock.Reading {
	asleep := min(max(t-o.suspendAt, 0), o.suspended)
	count := func(d time.Duration) time.Duration {
		return d/time.Duration(o.den)*time.Duration(o.num) +
			d%time.Duration(o.den)*time.Duration(o.num)/time.Duration(o.den)
	}
	return clock.Reading{Raw: time.Hour + count(t-asleep), Boot: 2*time.Hour + count(t), Wall: time.Unix(0, int64(count(t)))}
}

// round is one renewal in true time: begun at asked, committed and stamped by the future leader at stamped, answered at answered, or never.
type round struct{ asked, stamped, answered time.Duration }

const never = time.Duration(1) << 50

// horizon is true time by which everything here is over.
const horizon = 30 * time.Minute

// firstInstant is the first true time for which a condition holds that, once it holds, holds for ever.
func firstInstant(from time.Duration, holds func(time.Duration) bool) time.Duration {
	lo, hi := from, horizon
	for lo < hi {
		if mid := lo + (hi-lo)/2; holds(mid) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// expiryProposed is when a leader with this clock first proposes to expire the session, and how many rounds were committed by then; a renewal
// that would commit later finds no session.
func expiryProposed(o oscillator, ttl time.Duration, rounds []round) (at time.Duration, committed int) {
	for i, r := range rounds {
		at = firstInstant(r.stamped, func(t time.Duration) bool {
			tracker := expiry.New() // its time must not go back, so each probe has its own
			tracker.Renewed(1, ttl, uint64(i), o.at(r.stamped))
			due, _, _ := tracker.Due(o.at(t), 1)
			return due != nil
		})
		if i+1 == len(rounds) || at <= rounds[i+1].stamped {
			return at, i + 1
		}
	}
	return at, len(rounds)
}

// lostAt is the first true time at which the holder no longer believes, if it got these answers as soon as it could: the latest of its
// deadlines, which no real belief outlasts.
func lostAt(o oscillator, ttl time.Duration, rounds []round) time.Duration {
	l := newLease(ttl, o.at(rounds[0].asked))
	for _, r := range rounds[1:] {
		if r.answered < never {
			l.extend(o.at(r.asked))
		}
	}
	return firstInstant(rounds[0].asked, func(t time.Duration) bool {
		look := l // a look sticks; each probe is a look of its own
		return look.state(o.at(t)) == leaseLost
	})
}

func randomRounds(rng *rand.Rand, ttl time.Duration) []round {
	rounds := make([]round, 1+rng.IntN(8))
	now := time.Duration(rng.Int64N(int64(ttl)))
	for i := range rounds {
		delay := func() time.Duration { return time.Duration(rng.Int64N(int64(ttl) / int64(1+rng.IntN(20)))) }
		r := round{asked: now}
		r.stamped = r.asked + delay()
		r.answered = r.stamped + delay()
		if i > 0 && rng.IntN(3) == 0 {
			r.answered = never
		}
		rounds[i] = r
		now += ttl/5 + delay()/4
	}
	// The log has an order: what was asked first may commit last, but stamps rise.
	slices.SortFunc(rounds[1:], func(a, b round) int { return int(a.stamped - b.stamped) })
	for i := 1; i < len(rounds); i++ {
		rounds[i].stamped = max(rounds[i].stamped, rounds[i-1].stamped)
		rounds[i].answered = max(rounds[i].answered, rounds[i].stamped)
	}
	return rounds
}

func randomOscillator(rng *rand.Rand, num int64) oscillator {
	o := oscillator{num: num, den: 1000}
	if rng.IntN(3) == 0 {
		o.suspendAt, o.suspended = time.Duration(rng.Int64N(int64(time.Minute))), time.Duration(rng.Int64N(int64(time.Minute)))
	}
	return o
}

func TestExclusionUnderA3(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 5))
	for i := range 1000 {
		holder := randomOscillator(rng, 800+rng.Int64N(450))
		// Any rate of the member below 1.25 times the holder's.
		member := randomOscillator(rng, 640+rng.Int64N((holder.num*5-1)/4-640+1))
		ttl := time.Duration(100+rng.IntN(59_900)) * time.Millisecond
		rounds := randomRounds(rng, ttl)
		expire, committed := expiryProposed(member, ttl, rounds)
		if lost := lostAt(holder, ttl, rounds[:committed]); lost > expire {
			t.Fatalf("run %d: holder %+v, member %+v, TTL %v, rounds %v: believed until %v, expired at %v",
				i, holder, member, ttl, rounds, lost, expire)
		}
	}
}

// TestExclusionIsTight takes the worst case apart: no delay at all, the member's clock faster than the holder's by exactly the ratio. At
// 1.25 the last belief and the first expiry meet to the nanosecond without overlap, so nothing is wasted; beyond it they overlap, so the
// test above can fail.
func TestExclusionIsTight(t *testing.T) {
	const ttl = 10 * time.Second
	for _, c := range []struct {
		name           string
		holder, member oscillator
		gap            time.Duration // from the last instant of belief to the expiry
	}{
		{"1.25 with a slow holder", oscillator{num: 4, den: 5}, oscillator{num: 1, den: 1}, 1},
		{"1.25 with a fast member", oscillator{num: 1, den: 1}, oscillator{num: 5, den: 4}, 1},
		{"1.2499", oscillator{num: 10000, den: 12499}, oscillator{num: 1, den: 1}, 800_001},
		{"equal rates", oscillator{num: 1, den: 1}, oscillator{num: 1, den: 1}, 2*time.Second + 1},
		{"1.30", oscillator{num: 10, den: 13}, oscillator{num: 1, den: 1}, -400*time.Millisecond + 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			rounds := []round{{}}
			expire, _ := expiryProposed(c.member, ttl, rounds)
			lastBelief := lostAt(c.holder, ttl, rounds) - 1
			if gap := expire - lastBelief; gap != c.gap {
				t.Errorf("believed until %v, expired at %v: gap %v, want %v", lastBelief, expire, gap, c.gap)
			}
		})
	}
}

// TestBeliefFromTheReplyWouldOverlap is why c0 is read before the question: counted from the answer, a delay eats the margin even
// between perfect clocks.
func TestBeliefFromTheReplyWouldOverlap(t *testing.T) {
	const ttl = 10 * time.Second
	perfect := oscillator{num: 1, den: 1}
	r := round{asked: 0, stamped: time.Second, answered: 4 * time.Second}
	expire, _ := expiryProposed(perfect, ttl, []round{r})
	if lost := lostAt(perfect, ttl, []round{r}); lost >= expire {
		t.Errorf("counted from the question: believed until %v, expired at %v", lost, expire)
	}
	wrong := r
	wrong.asked = r.answered
	if lost := lostAt(perfect, ttl, []round{wrong}); lost <= expire {
		t.Errorf("counted from the answer there is no overlap: the test above shows nothing")
	}
}

// TestDrainKeepsExclusion: a drained hold ends by its own copy of the deadline, and its release is timed like an expiry.
func TestDrainKeepsExclusion(t *testing.T) {
	const ttl = 10 * time.Second
	holder, member := oscillator{num: 4, den: 5}, oscillator{num: 1, den: 1}
	l := newLease(ttl, holder.at(0))
	drained := l
	for t := time.Second; t < 30*time.Second; t += time.Second {
		l.extend(holder.at(t))
	}
	lost := firstInstant(0, func(t time.Duration) bool {
		look := drained
		return look.state(holder.at(t)) == leaseLost
	})
	released := firstInstant(0, func(t time.Duration) bool {
		tracker := expiry.New()
		tracker.DrainBegan(7, ttl, 3, member.at(0))
		_, due, _ := tracker.Due(member.at(t), 1)
		return due != nil
	})
	if lost != released {
		t.Errorf("drained hold believed until %v, released at %v; at the ratio of 1.25 the two meet", lost, released)
	}
}
