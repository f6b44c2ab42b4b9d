package clock

import (
	"sync"
	"time"
)

// Fake is a machine's clocks for tests and simulation: driven by time.Now, so by the bubble's time inside testing/synctest, with knobs for
// what real clocks do. Safe for concurrent use. The zero value is not ready; see NewFake.
type Fake struct {
	mu     sync.Mutex
	rate   float64
	anchor time.Time // driving time at which the clocks stood at base
	base   Reading
	still  time.Time // Raw stands still until then
	frozen time.Time // all clocks stand still until then
}

// NewFake starts true clocks (rate 1, right wall time). Raw and Boot begin an hour apart, as on a machine that has slept, so that
// code which mixes the two up is off by an hour and not by nothing.
func NewFake() *Fake {
	now := time.Now()
	return &Fake{
		rate:   1,
		anchor: now,
		base:   Reading{Raw: time.Hour, Boot: 2 * time.Hour, Wall: now.Round(0)},
		still:  now,
		frozen: now,
	}
}

// Now implements Source.
func (f *Fake) Now() Reading {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at(time.Now())
}

// SetRate changes how fast the clocks run against driving time from now on; what they show does not jump. One oscillator drives all
// three, as on a machine without time synchronisation (A3 asks for none); a wall clock that is disciplined besides is told by StepWall.
// Rates that are not positive are ignored: these clocks never go back, and to stop them there is Freeze.
func (f *Fake) SetRate(rate float64) {
	f.change(func(time.Time) {
		if rate > 0 {
			f.rate = rate
		}
	})
}

// StepWall sets the wall clock forward by d, or back if d is negative.
func (f *Fake) StepWall(d time.Duration) {
	f.change(func(time.Time) { f.base.Wall = f.base.Wall.Add(d) })
}

// Jump moves the clocks at once. Raw and Boot never go back on a real machine: negative values for them are ignored.
func (f *Fake) Jump(raw, boot, wall time.Duration) {
	f.change(func(time.Time) {
		f.base.Raw += max(raw, 0)
		f.base.Boot += max(boot, 0)
		f.base.Wall = f.base.Wall.Add(wall)
	})
}

// Slept is the machine's view on waking from a suspend of length d that driving time did not see: Boot and wall have gone on,
// Raw has not.
func (f *Fake) Slept(d time.Duration) { f.Jump(0, d, d) }

// Suspend begins a suspend of length d in driving time: Raw stands still for the next d while Boot and wall go on. The caller
// keeps the node's goroutines from running meanwhile if its test is about that.
func (f *Fake) Suspend(d time.Duration) {
	f.change(func(now time.Time) { f.still = later(f.still, now.Add(d)) })
}

// Freeze stops all clocks for the next d of driving time, as a hypervisor that halts a guest may: what A4 excludes.
func (f *Fake) Freeze(d time.Duration) {
	f.change(func(now time.Time) { f.frozen = later(f.frozen, now.Add(d)) })
}

// change moves the anchor to now, so that a knob never alters what the clocks have shown already.
func (f *Fake) change(knob func(now time.Time)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	f.base, f.anchor = f.at(now), now
	knob(now)
}

// at is the reading for an instant at or after the anchor. Whatever stops a clock stops it from the anchor on, so the clock has run
// since the later of the two.
func (f *Fake) at(now time.Time) Reading {
	running := f.ran(now, f.frozen)
	return Reading{
		Raw:  f.base.Raw + f.ran(now, later(f.still, f.frozen)),
		Boot: f.base.Boot + running,
		Wall: f.base.Wall.Add(running),
	}
}

func (f *Fake) ran(now, stoppedUntil time.Time) time.Duration {
	d := max(now.Sub(later(f.anchor, stoppedUntil)), 0)
	return time.Duration(float64(d) * f.rate)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
