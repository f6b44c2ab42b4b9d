package quorumlock

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// This file decides which session TTLs below MinSessionTTL a cluster can carry, and holds what a short session needs from the rest of the node: a pacer
// that looks often enough, and renewals that do not wait for company.

// checkTTL is the part of the rule that needs no cluster.
func checkTTL(ttl time.Duration) error {
	if ttl < ShortestSessionTTL || ttl > MaxSessionTTL || ttl%time.Millisecond != 0 {
		return &FieldError{Field: "ttl", Value: ttl,
			Problem: fmt.Sprintf("must lie between %v and %v in whole milliseconds", ShortestSessionTTL, MaxSessionTTL)}
	}
	return nil
}

// paceFor is how often a session must be looked at: four times in each renewal interval, so that a renewal begins at most a quarter late.
func paceFor(ttl time.Duration) time.Duration { return min(pace, renewalInterval(ttl)/4) }

// timings are what a TTL is judged by.
type timings struct {
	heartbeat time.Duration // Timing.Heartbeat
	voters    int
	slowest   time.Duration // round trip in the last minute
	trips     int           // measured in that time
}

// failoverHeartbeats is within how many heartbeat timeouts another leader is there, unless votes are split: a follower's timer of one to two of them may
// fire just before the dead leader's last word is one old, and then needs another two. In 34 kills with four timings it never took more than 2.7, from
// the kill to the first entry of the new leader.
const failoverHeartbeats = 3

// failover is how long a change of leader may take; a single voter has no successor to wait for.
func (m timings) failover() time.Duration {
	if m.voters == 1 {
		return 0
	}
	return failoverHeartbeats * m.heartbeat
}

// spare is what a session with this TTL has left for a change of leader at the worst moment: right before a renewal is committed, that began as late as
// one may. Of the trust window, which counts from before the renewal before it, that takes an interval and a look of the pacer. Another look goes by
// until an attempt begins that finds the new leader.
func spare(ttl time.Duration) time.Duration {
	return trustWindow(ttl) - renewalInterval(ttl) - 2*paceFor(ttl)
}

// allow tells whether a session with this TTL lives through a change of leader: the renewal that is lost with the old one and the renewal by the new one take
// a round trip each. And in order, an answer must come before the next member is asked too, else each renewal would go out twice.
func (m timings) allow(ttl time.Duration) bool {
	return spare(ttl) > m.failover()+2*m.slowest && hedgeDelay(ttl) >= m.slowest
}

// least is the shortest TTL, in steps of ttlStep, that is accepted.
func (m timings) least() time.Duration {
	for ttl := ShortestSessionTTL; ttl < MinSessionTTL; ttl += ttlStep {
		if m.allow(ttl) {
			return ttl
		}
	}
	return MinSessionTTL
}

const ttlStep = 50 * time.Millisecond

// judge is the rule for a TTL below MinSessionTTL.
func (m timings) judge(ttl time.Duration) error {
	if m.allow(ttl) {
		return nil
	}
	change := "the only voter has no successor"
	if m.voters != 1 {
		change = fmt.Sprintf("a change of leader takes up to %v (%d heartbeat timeouts of %v)", m.failover(), failoverHeartbeats, m.heartbeat)
	}
	return &FieldError{Field: "ttl", Value: ttl, Problem: fmt.Sprintf(
		"the least is %v in this cluster now. %v leaves %v, and %s. "+
			"A round trip takes up to %v (the slowest of %d in the last minute); two must fit in as well, and one into a tenth of the TTL",
		m.least(), ttl, spare(ttl), change, m.slowest.Round(10*time.Microsecond), m.trips)}
}

// leastTrips is how many round trips of the last minute are wanted for a judgement.
const leastTrips = 8

// affords judges a short TTL by what was measured lately. One round trip is made in any case, so that nobody is judged by a network that was; more if there
// was little traffic.
func (n *Node) affords(ctx context.Context, ttl time.Duration) error {
	const op = "open session"
	if err := n.usable(ctx, op); err != nil {
		return err
	}
	for {
		if _, err := n.ask(ctx, op, "", &locktable.Command{Op: locktable.OpBarrier}); err != nil {
			return err
		}
		slowest, trips := n.trips.lately(time.Now())
		if trips >= leastTrips {
			m := timings{heartbeat: n.cfg.Timing.Heartbeat, voters: n.voters(), slowest: slowest, trips: trips}
			return m.judge(ttl)
		}
	}
}

func (n *Node) voters() int {
	voters := 0
	for _, s := range n.servers() {
		if s.Voter {
			voters++
		}
	}
	return voters
}

// urgent tells the leader that a renewal must not wait for others, as those of longer sessions do for up to 100 ms.
func (f *fsm) urgent(c *locktable.Command) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	ttl, ok := f.table.TTL(c.Session)
	return ok && ttl < MinSessionTTL
}

// roundTrips remembers how long this node's commands have taken: the slowest of each ten seconds of the last minute, and how many there were. A
// command counts from the attempt that was answered, so the time without a leader is not in it, which the rule adds by itself. The zero value is ready.
type roundTrips struct {
	mu    sync.Mutex
	parts [6]tripPart // a ring
	now   int         // the part that is being filled
}

type tripPart struct {
	since   time.Time
	slowest time.Duration
	n       int
}

const (
	tripSpan   = 10 * time.Second // of a part
	tripMemory = time.Minute
)

// took notes an answered attempt. Renewals do not count: most of them wait for others on purpose.
func (r *roundTrips) took(op locktable.Op, begun time.Time, err error) {
	if err != nil || op == locktable.OpRenew {
		return
	}
	now := time.Now()
	r.note(now, now.Sub(begun))
}

func (r *roundTrips) note(now time.Time, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.parts[r.now].since) >= tripSpan {
		r.now = (r.now + 1) % len(r.parts)
		r.parts[r.now] = tripPart{since: now}
	}
	p := &r.parts[r.now]
	p.slowest = max(p.slowest, d)
	p.n++
}

// lately is the slowest round trip of the last minute, and how many there were.
func (r *roundTrips) lately(now time.Time) (slowest time.Duration, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.parts {
		if now.Sub(p.since) < tripMemory {
			slowest, n = max(slowest, p.slowest), n+p.n
		}
	}
	return slowest, n
}
