package store

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// stalls records what a Store reports.
type stalls struct {
	mu  sync.Mutex
	got []bool
}

func (r *stalls) report(stalled bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, stalled)
}

func (r *stalls) want(t *testing.T, want ...bool) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.got, want) {
		t.Errorf("stalls %v, want %v", r.got, want)
	}
}

func TestHungWriteIsReported(t *testing.T) {
	for name, write := range writesOf {
		if name == "create" {
			continue // needs a Cancel; snapshots have their own test
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := NewDisk()
				var r stalls
				s := mustOpen(t, Options{Disk: d, OnStall: r.report})
				mustAppend(t, s, 1, 3)
				d.HangWrites(true)
				done := make(chan error)
				go func() { done <- write(s) }()
				time.Sleep(defaultStallAfter)
				r.want(t)
				time.Sleep(defaultStallAfter / 4)
				r.want(t, true)
				time.Sleep(time.Minute)
				r.want(t, true)
				d.HangWrites(false)
				if err := <-done; err != nil {
					t.Errorf("released write: %v", err)
				}
				synctest.Wait()
				r.want(t, true, false)
				d.SlowWrites(defaultStallAfter * 2) // and again
				if err := s.Logs().StoreLog(entry(mustLast(t, s) + 1)); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				r.want(t, true, false, true, false)
				if s.Failed() != nil {
					t.Errorf("slowness felled the latch: %v", s.Failed())
				}
			})
		})
	}
}

func mustLast(t *testing.T, s *Store) uint64 {
	t.Helper()
	last, err := s.Logs().LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	return last
}

// TestSlowIsNotHung: many writes, each just under the limit, are no stall, whatever the phase of the watchdog.
func TestSlowIsNotHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDisk()
		var r stalls
		s := mustOpen(t, Options{Disk: d, OnStall: r.report})
		d.SlowWrites(defaultStallAfter)
		for i := range uint64(20) {
			time.Sleep(time.Duration(i) * 37 * time.Millisecond)
			mustAppend(t, s, i+1, i+1)
		}
		synctest.Wait()
		r.want(t)
	})
}

// TestSnapshotMaySyncLonger: closing a snapshot gets more time, but not for ever.
func TestSnapshotMaySyncLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDisk()
		var r stalls
		s := mustOpen(t, Options{Disk: d, OnStall: r.report})
		sink, err := s.Snapshots().Create(1, 1, 1, someConfiguration, 1, anyTransport)
		if err != nil {
			t.Fatal(err)
		}
		d.HangWrites(true)
		done := make(chan error)
		go func() { done <- sink.Close() }()
		time.Sleep(defaultStallAfter * snapshotPatience)
		r.want(t)
		time.Sleep(defaultStallAfter)
		r.want(t, true)
		d.HangWrites(false)
		if err := <-done; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		r.want(t, true, false)
	})
}

func TestHungWriteThatFailsHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDisk()
		var r stalls
		s := mustOpen(t, Options{Disk: d, OnStall: r.report})
		d.HangWrites(true)
		done := make(chan error)
		go func() { done <- s.Logs().StoreLog(entry(1)) }()
		time.Sleep(2 * defaultStallAfter)
		d.FailWrites(errDisk)
		d.HangWrites(false)
		if err := <-done; !errors.Is(err, errDisk) {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		r.want(t, true) // never false: the latch has fallen
	})
}

// TestOwnPauseIsNoStall drives the watchdog by hand through a pause of the whole process in the middle of a write.
func TestOwnPauseIsNoStall(t *testing.T) {
	now := time.Unix(0, 0)
	w := newWatchdog(3*time.Second, nil, now)
	look := func(after time.Duration) (bool, bool) {
		now = now.Add(after)
		return w.look(now)
	}
	x := w.begin(1)
	for _, gap := range []time.Duration{w.step, time.Hour, w.step, 10 * time.Second, w.step} {
		if stalled, changed := look(gap); stalled || changed {
			t.Fatalf("a gap of %v was taken for a stall", gap)
		}
	}
	looks := 5
	for ; looks < 100; looks++ {
		if stalled, _ := look(w.step); stalled {
			break
		}
	}
	if want := ticksPerLimit + 2; looks+1 != want {
		t.Errorf("stall seen at look %d, want %d", looks+1, want)
	}
	w.end(x, true)
	if stalled, changed := look(w.step); stalled || !changed {
		t.Error("the end was not seen")
	}
}
