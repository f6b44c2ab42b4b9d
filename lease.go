package quorumlock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/clock"
	"github.com/quorumlock/quorumlock/internal/expiry"
)

// The margins of a lease. They are constants and not options: together they are the proof of exclusion (docs/design/lease.md),
// and a member that used others would break it for all.
const (
	// promotionGrace and stallGap hold back a leader's expiry; they live with the gate that applies them.
	promotionGrace = expiry.Grace
	stallGap       = expiry.StallGap
	// wallJumpLimit is how far the wall clock may be set forward against Boot before a holder asks the cluster again.
	wallJumpLimit = time.Second
	// reportSlack is within what a loss is reported after the deadline, or after the process wakes up. Timers stand still in suspend, so
	// the lease is looked at more often than that all the time (pace), not by one long timer for the deadline.
	reportSlack = 250 * time.Millisecond
	// attemptLimit and hedgeLimit bound one attempt of a renewal, and the wait before the next member is asked too.
	attemptLimit = time.Second
	hedgeLimit   = 500 * time.Millisecond
)

// trustWindow is how long a holder trusts one committed renewal, counted from before it was sent: 4/5 of the TTL, rounded down. The
// other fifth pays for clocks that run at different rates: 1 / 0.8 is the 1.25 of assumption A3. Divided first, so no TTL overflows.
func trustWindow(ttl time.Duration) time.Duration { return ttl/5*4 + ttl%5*4/5 }

// renewalInterval is a quarter of the trust window: three renewals begin before it ends, and one of them has to succeed.
func renewalInterval(ttl time.Duration) time.Duration { return ttl / 5 }

// renewalAttempt is how long one attempt of a renewal may take. With a TTL below 5 s it shrinks to the renewal interval, so that an attempt
// never outlives the interval and the number of attempts that fit into the trust window stays.
func renewalAttempt(ttl time.Duration) time.Duration { return min(attemptLimit, renewalInterval(ttl)) }

// hedgeDelay is how long an unanswered attempt keeps the next member from being asked too: half an attempt.
func hedgeDelay(ttl time.Duration) time.Duration { return min(hedgeLimit, renewalInterval(ttl)/2) }

// jeopardyAge is the age of the newest success at which renewals count as failing: two intervals, half of the trust window. In
// order it stays below one interval plus a round trip; a change of leader (about 1 s) adds less than an interval with the
// default TTL, so it does not alarm; and the holder still has as much time again to stop its work.
func jeopardyAge(ttl time.Duration) time.Duration { return 2 * renewalInterval(ttl) }

// leaseState is what a holder may believe.
type leaseState uint8

const (
	leaseHeld     leaseState = iota
	leaseJeopardy            // held, but renewals are failing
	leaseUnsure              // the clocks cannot be trusted until the cluster has answered; not to be treated as held
	leaseLost                // for good
)

func (s leaseState) String() string {
	switch s {
	case leaseHeld:
		return "held"
	case leaseJeopardy:
		return "jeopardy"
	case leaseUnsure:
		return "unsure"
	case leaseLost:
		return "lost"
	}
	return "invalid"
}

// lease is a session's trust in what the cluster said, as its own node counts it. It is a pure value: readings come in, nothing runs. A
// copy goes its own way, which is how a hold that is being drained keeps its deadline: it takes a copy that is never extended.
//
// Both clocks have their own deadline and the lease is lost when either is passed, which is to count the larger of the two times
// elapsed, from whichever renewal each has its deadline from.
type lease struct {
	ttl      time.Duration
	rawEnd   time.Duration // lost when Raw reaches this
	bootEnd  time.Duration // or Boot this
	newest   clock.Reading // c0 of the youngest committed round trip
	jumpSeen clock.Reading // where the newest jump was first seen, while unsure
	unsure   bool
	lost     bool
}

// newLease is the lease of a session whose opening was committed; c0 was read before that command was queued.
func newLease(ttl time.Duration, c0 clock.Reading) lease {
	window := trustWindow(ttl)
	return lease{ttl: ttl, rawEnd: c0.Raw + window, bootEnd: c0.Boot + window, newest: c0}
}

// extend takes a committed answer that says the session was renewed, to a command before whose first attempt c0 was read. Answers
// may come in any order; an old one never takes back what a younger one gave. A lease that was lost when the command was queued
// stays lost: the commit proves that the session lived, but the loss may have been reported by then.
func (l *lease) extend(c0 clock.Reading) {
	l.observe(c0)
	if l.lost {
		return
	}
	window := trustWindow(l.ttl)
	l.rawEnd = max(l.rawEnd, c0.Raw+window)
	l.bootEnd = max(l.bootEnd, c0.Boot+window)
	if c0.Boot >= l.newest.Boot {
		l.newest = c0
	}
	if l.unsure && l.beganAfterJump(c0) {
		l.unsure = false
	}
}

// left is how much of the lease is left by the clock that leaves less. Zero or less is lost, and once that has been seen it stays.
func (l *lease) left(now clock.Reading) time.Duration {
	l.observe(now)
	left := min(l.rawEnd-now.Raw, l.bootEnd-now.Boot)
	if l.lost {
		return min(left, 0)
	}
	return left
}

// state is what the holder may believe at now. What is worse hides what is less bad; failing tells of jeopardy under unsure.
func (l *lease) state(now clock.Reading) leaseState {
	l.observe(now)
	switch {
	case l.lost:
		return leaseLost
	case l.unsure:
		return leaseUnsure
	case l.failing(now):
		return leaseJeopardy
	}
	return leaseHeld
}

// failing tells that no round trip that began within jeopardyAge has succeeded.
func (l *lease) failing(now clock.Reading) bool {
	return clock.Longest(l.newest, now) >= jeopardyAge(l.ttl)
}

// deadline is left put on the wall clock, for people and for contexts; it moves when the wall clock is stepped.
func (l *lease) deadline(now clock.Reading) time.Time { return now.Wall.Add(l.left(now)) }

// observe makes what a reading shows stick: a deadline that is passed, and a jump of the wall clock. A jump is not forgotten when the
// wall clock is set back, since that does not bring back the time which may have been lost.
func (l *lease) observe(now clock.Reading) {
	if now.Raw >= l.rawEnd || now.Boot >= l.bootEnd {
		l.lost = true
	}
	since := l.newest
	if l.unsure {
		since = l.jumpSeen
	}
	// A command's c0 may be older than what was seen since; it says nothing new about jumps.
	if now.Boot >= since.Boot && clock.WallJump(since, now) > wallJumpLimit {
		l.unsure, l.jumpSeen = true, now
	}
}

// beganAfterJump tells whether a round trip with this c0 began after the newest jump was seen. At the very same instant of Boot the wall
// clock decides which came first.
func (l *lease) beganAfterJump(c0 clock.Reading) bool {
	if c0.Boot == l.jumpSeen.Boot {
		return !c0.Wall.Before(l.jumpSeen.Wall)
	}
	return c0.Boot > l.jumpSeen.Boot
}
