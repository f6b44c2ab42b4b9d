package clock

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const second = time.Second

func TestFake(t *testing.T) {
	type step struct {
		knob            func(*Fake)
		pass            time.Duration
		raw, boot, wall time.Duration // expected since the step before
	}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"true clocks", []step{{nil, 3 * second, 3 * second, 3 * second, 3 * second}}},
		{"fast, then slow", []step{
			{func(f *Fake) { f.SetRate(1.25) }, 4 * second, 5 * second, 5 * second, 5 * second},
			{func(f *Fake) { f.SetRate(0.5) }, 4 * second, 2 * second, 2 * second, 2 * second},
		}},
		{"a rate that is not positive is ignored", []step{
			{func(f *Fake) { f.SetRate(0); f.SetRate(-1) }, second, second, second, second},
		}},
		{"wall stepped both ways", []step{
			{func(f *Fake) { f.StepWall(time.Hour) }, second, second, second, time.Hour + second},
			{func(f *Fake) { f.StepWall(-2 * time.Hour) }, second, second, second, -2*time.Hour + second},
		}},
		{"jump", []step{{func(f *Fake) { f.Jump(second, 2*second, -3*second) }, second, 2 * second, 3 * second, -2 * second}}},
		{"raw and boot never go back", []step{{func(f *Fake) { f.Jump(-second, -second, 0) }, 0, 0, 0, 0}}},
		{"slept", []step{{func(f *Fake) { f.Slept(60 * second) }, second, second, 61 * second, 61 * second}}},
		{"suspend in driving time", []step{
			{func(f *Fake) { f.Suspend(10 * second) }, 4 * second, 0, 4 * second, 4 * second},
			{nil, 8 * second, 2 * second, 8 * second, 8 * second},
		}},
		{"a knob in mid-suspend leaves it as it is", []step{
			{func(f *Fake) { f.Suspend(10 * second) }, 4 * second, 0, 4 * second, 4 * second},
			{func(f *Fake) { f.SetRate(2) }, 8 * second, 4 * second, 16 * second, 16 * second},
		}},
		{"the longer of two suspends counts", []step{
			{func(f *Fake) { f.Suspend(10 * second); f.Suspend(2 * second) }, 11 * second, second, 11 * second, 11 * second},
		}},
		{"freeze", []step{
			{func(f *Fake) { f.Freeze(10 * second) }, 4 * second, 0, 0, 0},
			{func(f *Fake) { f.StepWall(4 * second) }, 0, 0, 0, 4 * second},
			{nil, 8 * second, 2 * second, 2 * second, 2 * second},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := NewFake()
				last := f.Now()
				for i, s := range c.steps {
					if s.knob != nil {
						s.knob(f)
					}
					time.Sleep(s.pass)
					now := f.Now()
					got := [3]time.Duration{now.Raw - last.Raw, now.Boot - last.Boot, now.Wall.Sub(last.Wall)}
					if want := [3]time.Duration{s.raw, s.boot, s.wall}; got != want {
						t.Errorf("step %d: raw, boot, wall went on by %v, want %v", i, got, want)
					}
					last = now
				}
			})
		})
	}
}

// TestFakeNeverGoesBack turns random knobs and checks what Source promises, and that no knob but a jump is seen at its own instant.
func TestFakeNeverGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 2))
		f := NewFake()
		last := f.Now()
		for range 20_000 {
			time.Sleep(time.Duration(rng.Int64N(int64(3 * second))))
			before := f.Now()
			switch rng.IntN(4) {
			case 0:
				f.SetRate(0.5 + rng.Float64())
			case 1:
				f.Suspend(time.Duration(rng.Int64N(int64(5 * second))))
			case 2:
				f.Freeze(time.Duration(rng.Int64N(int64(second))))
			case 3:
				f.StepWall(0)
			}
			if now := f.Now(); now != before {
				t.Fatalf("a knob changed the reading at once: %+v to %+v", before, now)
			}
			if before.Raw < last.Raw || before.Boot < last.Boot {
				t.Fatalf("went back: %+v after %+v", before, last)
			}
			last = before
		}
	})
}

func TestFakeIsSafeForConcurrentUse(t *testing.T) {
	f := NewFake()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range 500 {
				f.SetRate(1 + float64(i%3)/10)
				f.Jump(1, 1, 1)
				f.Now()
			}
		})
	}
	group.Wait()
	if r := f.Now(); r.Raw < time.Hour+2000 {
		t.Errorf("jumps were lost: Raw is %v", r.Raw)
	}
}
