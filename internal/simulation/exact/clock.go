package main

import "github.com/tetratelabs/wazero/sys"

// step is by how much a reading moves the clocks. It must not be zero, since Go waits for some things by reading the clock in a loop. It is small so
// that time passes by sleeping, not by working: with the millisecond that the runtime used here takes by default, a bound of a minute on a
// computation would be over after 60,000 switches between goroutines.
const step = 1_000 // nanoseconds

// epoch is where the wall clock starts, 2022-01-01 in Unix nanoseconds.
const epoch = 1_640_995_200 * 1_000_000_000

// clock is the guest's clocks: a sleep is over at once and moves them by its length.
type clock struct{ elapsed int64 }

func (c *clock) nanotime() int64 {
	c.elapsed += step
	return c.elapsed
}

func (c *clock) walltime() (sec int64, nsec int32) {
	now := epoch + c.nanotime()
	return now / 1_000_000_000, int32(now % 1_000_000_000)
}

func (c *clock) sleep(ns int64) { c.elapsed += max(ns, 0) }

const resolution = sys.ClockResolution(step)
