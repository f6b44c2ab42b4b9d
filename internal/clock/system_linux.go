package clock

// Fully covered: RAW is the unslewed oscillator, BOOTTIME goes on in suspend. Inside containers both are the host kernel's.

import "golang.org/x/sys/unix"

func platformCounters() (raw, boot counter) {
	return gettime(unix.CLOCK_MONOTONIC_RAW), gettime(unix.CLOCK_BOOTTIME)
}
