//go:build unix && !linux

package guard

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now reads the clock that both processes see alike. Whether it goes on in suspend depends on the system.
func Now() Moment {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return Moment{Raw: never, Boot: never}
	}
	return Moment{Raw: time.Duration(ts.Nano()), Boot: time.Duration(ts.Nano())}
}
