// Package clock is the one hook through which a node reads time that a lease depends on.
//
// Nothing else of a node may judge a lease: Go's own monotonic clock stands still while the machine is suspended, and timers run
// on it, so a timer is only a wake-up after which a Reading is taken. Two rules turn two Readings into a duration, one for each
// side of a lease, and both err on the safe side: who holds counts the clock that ran most, who takes away counts the clock that
// ran least (Longest, Shortest).
package clock

import "time"

// Reading is one look at all clocks of a machine. Values of one kind may only be compared with values of the same kind of the
// same machine and boot.
type Reading struct {
	Raw  time.Duration // CLOCK_MONOTONIC_RAW: not slewed, stands still in suspend
	Boot time.Duration // CLOCK_BOOTTIME: goes on in suspend
	Wall time.Time     // wall clock without monotonic part; steps
}

// Source reads the clocks. Now is safe for concurrent use and costs two system calls at most: take one Reading for one decision and
// pass it on. Raw and Boot never go back from one call to a later one.
type Source interface {
	Now() Reading
}

// Elapsed is the time from one reading to a later one of the same source, by the clock that ran most and by the one that ran least.
//
// The holder of a lease counts the most: a clock that stood still in suspend, or was slewed slow, must not stretch its trust. The
// member that may take the lease away counts the least, for the same reason mirrored.
//
// The wall clock is in neither. It steps: on the holder's side a step is evidence of something else (WallJump); on the member's
// side a step back of an hour would keep a dead session alive for an hour, and assumption A3 promises that steps are harmless. Go's
// monotonic clock is not needed either: where both exist it equals Boot without the time in suspend, so it differs from Raw by
// slewing alone, and that is within A3.
func Elapsed(from, to Reading) (most, least time.Duration) {
	return Longest(from, to), Shortest(from, to)
}

// Longest is the holder's half of Elapsed.
func Longest(from, to Reading) time.Duration { return max(to.Raw-from.Raw, to.Boot-from.Boot) }

// Shortest is the half of Elapsed for a member that may take a lease away.
func Shortest(from, to Reading) time.Duration { return min(to.Raw-from.Raw, to.Boot-from.Boot) }

// WallJump is how far the wall clock was set forward against Boot between two readings; a step back is negative. A forward jump
// can mean that all clocks of a guest stood still in a hypervisor's freeze and that only the wall clock has been put right since.
func WallJump(from, to Reading) time.Duration {
	return to.Wall.Sub(from.Wall) - (to.Boot - from.Boot)
}
