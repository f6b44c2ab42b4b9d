//go:build !linux && !darwin

package clock

import "time"

// goMonotonic counts on Go's own monotonic clock, which cannot fail.
func goMonotonic() counter {
	start := time.Now()
	return func() (time.Duration, error) { return time.Since(start), nil }
}
