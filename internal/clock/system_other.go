//go:build !linux && !darwin && !windows

package clock

// platformCounters: here both clocks are Go's monotonic clock. NOT covered on such a system: time in suspend, where that clock
// may stand still. A holder on a machine that sleeps may then believe for the length of the sleep; the wall clock makes it unsure on wake-up
// (WallJump), and the fence holds as ever. wasip1 has no suspend of its own and serves simulation, where this is exact.
func platformCounters() (raw, boot counter) {
	m := goMonotonic()
	return m, m
}
