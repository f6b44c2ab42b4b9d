//go:build unix

package main

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// instant is a reading of the machine's monotonic clock, which all processes on it share: what one worker began and another one finished is compared directly.
type instant int64

func now() instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return instant(time.Now().UnixNano()) // a system without that clock
	}
	return instant(ts.Nano())
}

func (i instant) add(d time.Duration) instant { return i + instant(d) }

func (i instant) sub(j instant) time.Duration { return time.Duration(i - j) }

// until waits for an instant; false if ctx ended first.
func until(ctx context.Context, i instant) bool {
	timer := time.NewTimer(i.sub(now()))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
