package store

import (
	"math"
	"testing"
	"time"
)

func TestAStartIsLaterThanTheLast(t *testing.T) {
	now := time.Now()
	for name, last := range map[string]time.Time{"earlier": now.Add(-time.Hour), "none": {}, "long ago": time.Unix(0, 0)} {
		if got := currentHolder(Holder{Started: last}).Started; got.Before(now.Add(-holderStep)) || got.After(time.Now()) {
			t.Errorf("%s: started %v, it is %v", name, got, now)
		}
	}
	ahead := now.Add(24 * time.Hour)
	if got := currentHolder(Holder{Started: ahead}).Started; !got.After(ahead) || got.Sub(ahead) > holderStep {
		t.Errorf("after %v comes %v", ahead, got)
	}
	for _, damaged := range []time.Time{now.Add(2 * maxClockError), time.Unix(math.MaxInt32<<8, 0)} {
		if got := currentHolder(Holder{Started: damaged}).Started; got.After(time.Now()) {
			t.Errorf("after %v comes %v", damaged, got)
		}
	}
}

// TestACopyStartsLater: the copy of a live member's directory never looks older than the original, whatever the clock says, here because none of the two takes any time.
func TestACopyStartsLater(t *testing.T) {
	later := func(t *testing.T, first, second *Store) {
		t.Helper()
		if !second.Started().After(first.Started()) {
			t.Errorf("%v comes after %v", second.Started(), first.Started())
		}
	}
	ahead := time.Now().Add(time.Hour).UTC().Truncate(holderStep)
	t.Run("disk", func(t *testing.T) {
		opt := onDisk()
		opt.Disk.last.Started = ahead
		s := mustOpen(t, opt)
		copied := mustOpen(t, Options{Disk: opt.Disk.Copy(), Cluster: "c"})
		later(t, s, copied)
		opt.Disk.Crash()
		later(t, s, mustOpen(t, opt))
		if s.Started().Before(ahead) {
			t.Errorf("the former start was forgotten: %v", s.Started())
		}
	})
	t.Run("directory", func(t *testing.T) { copiedDirStartsLater(t, ahead, later) })
}
