package expiry

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/clock"
	"github.com/quorumlock/quorumlock/internal/locktable"
)

const ttl = 10 * time.Second

// after is a reading a number of seconds after the origin by both clocks.
func after(seconds float64) clock.Reading { return split(seconds, seconds) }

func split(raw, boot float64) clock.Reading {
	d := func(s float64) time.Duration { return time.Hour + time.Duration(s*float64(time.Second)) }
	return clock.Reading{Raw: d(raw), Boot: d(boot) + time.Hour}
}

func (t *Tracker) dueSessions(now clock.Reading) []Expiry {
	expire, _, _ := t.Due(now, 100)
	return expire
}

func TestDueToTheNanosecond(t *testing.T) {
	tr := New()
	tr.Renewed(1, ttl, 5, after(0))
	last := after(10)
	last.Raw--
	if due := tr.dueSessions(last); due != nil {
		t.Errorf("due 1 ns early: %v", due)
	}
	if due := tr.dueSessions(after(10)); !slices.Equal(due, []Expiry{{1, 5}}) {
		t.Errorf("after exactly the TTL due are %v", due)
	}
}

func TestTheSlowerClockCounts(t *testing.T) {
	for _, c := range []struct {
		name      string
		raw, boot float64
		due       bool
	}{
		{"suspended through the TTL", 1, 61, false},
		{"boot slewed slow", 10.5, 9.9, false},
		{"both past", 10, 61, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := New()
			tr.Renewed(1, ttl, 5, after(0))
			if due := tr.dueSessions(split(c.raw, c.boot)); (due != nil) != c.due {
				t.Errorf("due %v, want %v", due, c.due)
			}
		})
	}
}

func TestWallClockDoesNotCount(t *testing.T) {
	for _, wall := range []time.Duration{time.Hour, -time.Hour} {
		tr := New()
		tr.Renewed(1, ttl, 5, after(0))
		early, late := after(9.9), after(10)
		early.Wall, late.Wall = time.Unix(1e9, 0).Add(wall), time.Unix(1e9, 0).Add(wall)
		if tr.dueSessions(early) != nil || tr.dueSessions(late) == nil {
			t.Errorf("a wall clock %v off changed an expiry", wall)
		}
	}
}

func TestDueNamesTheNewestRenewal(t *testing.T) {
	tr := New()
	tr.Renewed(1, ttl, 5, after(0))
	tr.Renewed(1, ttl, 9, after(4))
	if due := tr.dueSessions(after(13)); due != nil {
		t.Errorf("due %v although renewed", due)
	}
	if due := tr.dueSessions(after(14)); !slices.Equal(due, []Expiry{{1, 9}}) {
		t.Errorf("due %v, want the index of the newest renewal", due)
	}
	tr.Renewed(1, ttl, 12, after(14.5))
	if due := tr.dueSessions(after(15)); due != nil {
		t.Errorf("due %v although renewed after it was due", due)
	}
}

func TestShorterTTLCountsAtOnce(t *testing.T) {
	tr := New()
	tr.Renewed(1, 60*time.Second, 5, after(0))
	tr.Due(after(1), 10)
	tr.Renewed(1, 5*time.Second, 6, after(2))
	if due := tr.dueSessions(after(7)); !slices.Equal(due, []Expiry{{1, 6}}) {
		t.Errorf("due %v", due)
	}
}

func TestDrainIsDueAFullTTLLater(t *testing.T) {
	tr := New()
	tr.DrainBegan(42, ttl, 7, after(3))
	if _, drained, next := tr.Due(after(12.5), 10); drained != nil || next != 500*time.Millisecond {
		t.Errorf("drained %v, next %v", drained, next)
	}
	if _, drained, _ := tr.Due(after(13), 10); !slices.Equal(drained, []DrainDue{{42, 7}}) {
		t.Errorf("drained %v", drained)
	}
	tr.DrainEnded(42)
	if _, drained, next := tr.Due(after(13), 10); drained != nil || next != Never {
		t.Errorf("drained %v, next %v after its end", drained, next)
	}
}

func TestLimitAndNext(t *testing.T) {
	tr := New()
	if _, _, next := tr.Due(after(0), 10); next != Never {
		t.Errorf("next %v with nothing timed", next)
	}
	for id := range locktable.SessionID(5) {
		tr.Renewed(id+1, ttl, uint64(id), after(float64(id)/10))
	}
	expire, _, next := tr.Due(after(20), 3)
	if len(expire) != 3 || expire[0].Session != 1 || next != 0 {
		t.Errorf("first three of five: %v, next %v", expire, next)
	}
	for _, e := range expire {
		tr.Ended(e.Session)
	}
	tr.Renewed(9, ttl, 9, after(19))
	expire, _, next = tr.Due(after(20), 3)
	if len(expire) != 2 || next != 9*time.Second {
		t.Errorf("the rest: %v, next %v; what has been told does not count for next", expire, next)
	}
	if expire, _, _ := tr.Due(after(20), 0); expire != nil {
		t.Errorf("limit 0 gave %v", expire)
	}
	if expire, _, _ := tr.Due(after(20), -1); expire != nil {
		t.Errorf("limit -1 gave %v", expire)
	}
}

func TestResetGivesAFullTTL(t *testing.T) {
	tr := New()
	tr.Renewed(1, ttl, 5, after(0))
	tr.Renewed(2, ttl, 5, after(0))
	tr.DrainBegan(42, ttl, 5, after(0))
	tr.Reset(slices.Values([]locktable.Renewal{{Session: 2, TTL: ttl, Index: 8}}), after(9))
	if expire, drained, next := tr.Due(after(18.5), 10); expire != nil || drained != nil || next != 500*time.Millisecond {
		t.Errorf("due %v %v, next %v", expire, drained, next)
	}
	if due := tr.dueSessions(after(19)); !slices.Equal(due, []Expiry{{2, 8}}) {
		t.Errorf("due %v", due)
	}
}

// TestBudget: a member that was never asked for long has to correct every key, in bounded portions, and says when it is not through.
func TestBudget(t *testing.T) {
	tr := New()
	const sessions = 3*budget + 10
	for id := range locktable.SessionID(sessions) {
		tr.Renewed(id+1, ttl, 1, after(0))
		tr.Renewed(id+1, ttl, 2, after(9.5))
	}
	dead := locktable.SessionID(sessions + 1)
	tr.Renewed(dead, ttl, 1, after(0.5))
	for rounds := 1; ; rounds++ {
		expire, _, next := tr.Due(after(11), 10)
		if next == 0 {
			if rounds > 4 {
				t.Fatal("more rounds than keys to correct")
			}
			continue
		}
		if rounds < 4 || !slices.Equal(expire, []Expiry{{dead, 1}}) || next != 8500*time.Millisecond {
			t.Errorf("after %d rounds: due %v, next %v", rounds, expire, next)
		}
		return
	}
}

func TestRenewalAllocatesNothing(t *testing.T) {
	tr := New()
	tr.Renewed(1, ttl, 5, after(0))
	now := after(0)
	if n := testing.AllocsPerRun(100, func() {
		now.Raw += time.Second
		now.Boot += time.Second
		tr.Renewed(1, ttl, 6, now)
		tr.Due(now, 10)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestTrackerIsSafeForConcurrentUse(t *testing.T) {
	tr := New()
	var group sync.WaitGroup
	group.Go(func() {
		for i := range 3000 {
			tr.Renewed(locktable.SessionID(i%50), ttl, uint64(i), after(float64(i)/100))
			tr.Ended(locktable.SessionID(i % 70))
		}
	})
	group.Go(func() {
		for i := range 3000 {
			tr.Due(after(float64(i)/100), 10)
		}
	})
	group.Wait()
}

// BenchmarkRenewed: 100,000 sessions that all renew each TTL/5, with a question 10 times a second as a leader asks.
func BenchmarkRenewed(b *testing.B) {
	const sessions = 100_000
	tr := New()
	for id := range locktable.SessionID(sessions) {
		tr.Renewed(id, ttl, 1, after(0))
	}
	now := after(0)
	step := ttl / 5 / sessions
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		now.Raw += step
		now.Boot += step
		tr.Renewed(locktable.SessionID(i%sessions), ttl, uint64(i), now)
		if i%(sessions/20) == 0 {
			tr.Due(now, 256)
		}
		i++
	}
}

// BenchmarkDueIdle: the question alone with 100,000 sessions of which none is near its end.
func BenchmarkDueIdle(b *testing.B) {
	tr := New()
	for id := range locktable.SessionID(100_000) {
		tr.Renewed(id, ttl, 1, after(0))
	}
	b.ReportAllocs()
	for b.Loop() {
		tr.Due(after(1), 256)
	}
}

// BenchmarkMassExpiry: 100,000 sessions that end together, in portions of 256; the figure is for one session.
func BenchmarkMassExpiry(b *testing.B) {
	const sessions = 100_000
	b.ReportAllocs()
	for n := 0; n < b.N; {
		b.StopTimer()
		tr := New()
		for id := range locktable.SessionID(sessions) {
			tr.Renewed(id, ttl, 1, after(0))
		}
		b.StartTimer()
		for tr.Sessions() > 0 && n < b.N {
			expire, _, _ := tr.Due(after(10), 256)
			for _, e := range expire {
				tr.Ended(e.Session)
			}
			n += len(expire)
		}
	}
}
