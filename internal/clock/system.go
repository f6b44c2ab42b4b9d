package clock

import (
	"sync"
	"sync/atomic"
	"time"
)

// System reads the clocks of this machine. On linux and darwin they are what Reading says; on other systems see platformCounters
// there for what is not covered. Values of two Systems must not be mixed.
//
// Go offers these two clocks by system call only, not by the vDSO that time.Now uses: 0.2 microseconds for a reading on plain hardware, 3
// on a virtual machine where a system call is dear. That is far below one round trip to a quorum.
func System() Source {
	raw, boot := platformCounters()
	return newSystem(time.Now(), raw, boot)
}

// counter reads one clock of the operating system.
type counter func() (time.Duration, error)

// system joins the machine's counters. The order in Now is deliberate: a process that is stopped between two of the reads then sees
// the wall clock too far ahead, which makes a holder unsure for a moment, never too far behind, which could hide a jump.
type system struct {
	start     time.Time // origin of Go's monotonic clock, the stand-in for a counter that fails
	raw, boot guarded
}

func newSystem(start time.Time, raw, boot counter) *system {
	s := &system{start: start}
	s.raw.read, s.boot.read = raw, boot
	// The first reading ties each counter to Go's clock, so that a failure in the very next call is bridged too.
	s.Now()
	return s
}

func (s *system) Now() Reading {
	now := time.Now()
	mono := now.Sub(s.start)
	r := Reading{Raw: s.raw.now(mono), Boot: s.boot.now(mono)}
	r.Wall = time.Now().Round(0)
	return r
}

// guarded goes on counting when the operating system refuses a clock, as a seccomp filter loaded by the host program may do at any
// time. A zero in place of a reading would stretch a lease without end, and a panic is not ours to raise, so the last known
// distance to Go's monotonic clock is counted on. From the first failure on that is for good, suspend is not seen any more, and the clock
// is never asked again: going to and fro between the two would make it jump.
type guarded struct {
	read   counter
	offset atomic.Int64 // counter minus Go's monotonic clock, refreshed when it is off by offsetGrain
	failed atomic.Bool
	settle sync.Once
	bridge int64 // offset in use after a failure; written once by settle
}

// offsetGrain keeps the shared word from being written at each reading; it is far below every margin of a lease.
const offsetGrain = int64(time.Millisecond)

func (g *guarded) now(mono time.Duration) time.Duration {
	if !g.failed.Load() {
		v, err := g.read()
		if err == nil {
			g.note(int64(v - mono))
			return v
		}
		g.failed.Store(true)
	}
	// offsetGrain is added because the stored offset may lag by so much, and a clock must not go back.
	g.settle.Do(func() { g.bridge = g.offset.Load() + offsetGrain })
	return mono + time.Duration(g.bridge)
}

func (g *guarded) note(offset int64) {
	if abs(offset-g.offset.Load()) >= offsetGrain {
		g.offset.Store(offset)
	}
}

func abs(v int64) int64 {
	if v < 0 {
		return -v
	}
	return v
}
