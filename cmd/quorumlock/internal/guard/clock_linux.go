package guard

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now reads the clocks.
func Now() Moment {
	return Moment{Raw: gettime(unix.CLOCK_MONOTONIC_RAW), Boot: gettime(unix.CLOCK_BOOTTIME)}
}

func gettime(id int32) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil { // no such clock: every lease is over
		return never
	}
	return time.Duration(ts.Nano())
}
