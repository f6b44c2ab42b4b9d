package clock

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestSystemCounts reads the machine's clocks until a few milliseconds of wall time have gone by. Nothing is asserted about how fast:
// the machine is shared.
func TestSystemCounts(t *testing.T) {
	src := System()
	first := src.Now()
	if first.Wall.IsZero() || strings.Contains(first.Wall.String(), "m=") {
		t.Fatalf("wall %v is unset or has a monotonic part", first.Wall)
	}
	last := first
	for time.Since(first.Wall) < 20*time.Millisecond {
		now := src.Now()
		if now.Raw < last.Raw || now.Boot < last.Boot {
			t.Fatalf("went back: %+v after %+v", now, last)
		}
		last = now
	}
	if runtime.GOOS == "windows" {
		return // the tick count may not have moved yet
	}
	if _, least := Elapsed(first, last); least < 10*time.Millisecond {
		t.Errorf("20 ms of wall time were %v by the slower clock", least)
	}
}

func TestSystemIsSafeForConcurrentUse(t *testing.T) {
	src := System()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			last := src.Now()
			for range 2000 {
				now := src.Now()
				if now.Raw < last.Raw || now.Boot < last.Boot {
					t.Errorf("went back: %+v after %+v", now, last)
					return
				}
				last = now
			}
		})
	}
	group.Wait()
}

// machine is an operating system whose clocks can be refused from some moment on.
type machine struct {
	fake    *Fake
	refused bool
}

func (m *machine) raw() (time.Duration, error)  { return m.read(m.fake.Now().Raw) }
func (m *machine) boot() (time.Duration, error) { return m.read(m.fake.Now().Boot) }

func (m *machine) read(v time.Duration) (time.Duration, error) {
	if m.refused {
		return 0, errors.New("operation not permitted")
	}
	return v, nil
}

func TestRefusedClocksGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{fake: NewFake()}
		src := newSystem(time.Now(), m.raw, m.boot)
		m.fake.Slept(time.Minute)
		time.Sleep(10 * time.Second)
		before := src.Now()
		if want := m.fake.Now(); before.Raw != want.Raw || before.Boot != want.Boot {
			t.Fatalf("read %+v, the machine shows %+v", before, want)
		}
		m.refused = true
		time.Sleep(7 * time.Second)
		during := src.Now()
		if most, least := Elapsed(before, during); least < 7*time.Second || most > 7*time.Second+2*time.Millisecond {
			t.Errorf("7 s without the machine's clocks were %v to %v", least, most)
		}
		m.refused = false
		m.fake.Slept(time.Minute)
		time.Sleep(time.Second)
		after := src.Now()
		if most, least := Elapsed(during, after); most != time.Second || least != time.Second {
			t.Errorf("went back to a clock that failed: 1 s was %v to %v", least, most)
		}
	})
}

func TestClockRefusedFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{fake: NewFake(), refused: true}
		src := newSystem(time.Now(), m.raw, m.boot)
		before := src.Now()
		time.Sleep(3 * time.Second)
		if most, least := Elapsed(before, src.Now()); most != 3*time.Second || least != 3*time.Second {
			t.Errorf("3 s were %v to %v", least, most)
		}
	})
}

func BenchmarkSystemNow(b *testing.B) {
	src := System()
	b.ReportAllocs()
	for b.Loop() {
		src.Now()
	}
}
