// Package clock is the one hook through which a node reads time that a lease depends on.
package clock

import "time"

// Reading is one look at all clocks of a machine. Values of one kind may only be compared with values of the same kind of the
// same machine and boot.
type Reading struct {
	Raw  time.Duration // CLOCK_MONOTONIC_RAW: not slewed, stands still in suspend
	Boot time.Duration // CLOCK_BOOTTIME: goes on in suspend
	Wall time.Time     // wall clock without monotonic part; steps
}

// Source reads the clocks. Now must be cheap (tens of nanoseconds) and safe for concurrent use.
type Source interface {
	Now() Reading
}
