package clock

import (
	"time"

	"golang.org/x/sys/windows"
)

// platformCounters: Boot is the tick count, which goes on in sleep and hibernation in steps of 10 to 16 ms, so a reading may be that
// much behind. Raw is Go's monotonic clock: fine-grained, and whether it counts sleep does not matter to a holder, who takes the larger of
// the two. A member takes the smaller, so expiry may come a step late, never early. Not covered: an unslewed clock. Built and vetted only.
func platformCounters() (raw, boot counter) {
	return goMonotonic(), func() (time.Duration, error) { return windows.DurationSinceBoot(), nil }
}
