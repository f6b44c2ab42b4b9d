package simulation

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/simulation/history"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// The negative controls. Where an assumption is broken, what it stands for must be seen to break, and what does not need it must hold; else the bench is blind.

// Clocks that run 25 % too slowly for the holder and 25 % too fast for the rest break A3: two holders at once. The resource without a fence loses updates by
// it, the one behind the fence loses none (I15 needs no clocks). With clocks a hair within A3 nothing of it happens.
func TestClocksApart(t *testing.T) {
	for _, k := range []struct {
		holder, rest float64
		overlap      bool
	}{{1 / 1.25, 1.25, true}, {1 / 1.24, 1, false}, {1, 1.24, false}} {
		t.Run(fmt.Sprintf("holder %.2f, others %.2f", k.holder, k.rest), func(t *testing.T) {
			var o Outcome
			var h *history.History
			synctest.Test(t, func(t *testing.T) {
				h = twoHolders(t, &o, k.holder, k.rest, quorumlock.Exclusive, quorumlock.Exclusive)
			})
			report := h.Check(decideBound)
			overlaps := 0
			for _, v := range report.Violations {
				if v.Check != history.HoldInterval {
					t.Errorf("%s: %s", v.Check, v.Text)
					continue
				}
				overlaps++
			}
			if got := overlaps > 0; got != k.overlap {
				t.Errorf("holds overlap: %v, want %v: %v", got, k.overlap, report.Violations)
			}
			if got := o.Bites.LostUpdates > 0; got != k.overlap {
				t.Errorf("%d updates lost without a fence", o.Bites.LostUpdates)
			}
			if k.overlap && o.Bites.Refused == 0 {
				t.Error("the fence refused nothing")
			}
			t.Logf("%+v, gaps %v", o.Bites, report.SmallestGap)
		})
	}
}

// The same for what others share: a reader meets a writer, and more permits are believed in than there are.
func TestClocksApartForOtherKinds(t *testing.T) {
	for _, k := range []struct {
		name          string
		first, second quorumlock.Mode
	}{{"a reader before a writer", quorumlock.Shared, quorumlock.Exclusive}, {"a writer before a reader", quorumlock.Exclusive, quorumlock.Shared},
		{"permits", quorumlock.Permits, quorumlock.Permits}} {
		for _, apart := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, beyond A3 %v", k.name, apart), func(t *testing.T) {
				var o Outcome
				var h *history.History
				holder, rest := 1.0, 1.0
				if apart {
					holder, rest = 1/1.25, 1.25
				}
				synctest.Test(t, func(t *testing.T) { h = twoHolders(t, &o, holder, rest, k.first, k.second) })
				report := h.Check(decideBound)
				if got := report.Found[history.HoldInterval] > 0; got != apart || len(report.Found) > 1 || len(report.Found) == 1 && !apart {
					t.Errorf("holds overlap: %v, want %v: %v", got, apart, report.Violations)
				}
			})
		}
	}
}

// twoHolders lets two instances work under one lock; the first is cut off while it holds. Its own clocks run at one rate, those of all others at another.
func twoHolders(t *testing.T, o *Outcome, holder, rest float64, one, other quorumlock.Mode) *history.History {
	s := begin(t, o)
	s.Wild = true // the fence may refuse who is held
	s.c = quorumlocktest.New(t, 3)
	lead := s.c.Leader()
	first, second := &instance{index: (lead + 1) % 3}, &instance{index: lead}
	for i := range 3 {
		go s.follow(s.c.Node(i), fmt.Sprint(i))
		s.c.Clock(i).SetRate(rest)
	}
	s.c.Clock(first.index).SetRate(holder)
	var both sync.WaitGroup
	both.Go(func() { s.holdAndWork(first, one, 3*defaultTTL) })
	time.Sleep(defaultTTL)
	s.c.Isolate(first.index)
	both.Go(func() { s.holdAndWork(second, other, 2*defaultTTL) })
	both.Wait()
	s.c.Heal()
	s.c.WaitReady()
	s.c.CheckState()
	o.Bites.Refused, o.Bites.LostUpdates = s.store.counts()
	return s.history
}

func (s *schedule) lockAndWrite(in *instance, length time.Duration) {
	s.holdAndWork(in, quorumlock.Exclusive, length)
}

// holdAndWork holds a lock, or most of the permits that there are.
func (s *schedule) holdAndWork(in *instance, mode quorumlock.Mode, length time.Duration) {
	a := s.claim(fmt.Sprint(in.index), in, mode, "k")
	a.bound = time.Minute
	n := s.c.Node(in.index)
	by := quorumlock.NewMutex(n, "k", a.options()...).Lock
	switch mode {
	case quorumlock.Shared:
		by = quorumlock.NewRWMutex(n, "k", a.options()...).RLock
	case quorumlock.Permits:
		a.Permits, a.Limit = 2, 3
		by = func(ctx context.Context) (*quorumlock.Hold, error) {
			return quorumlock.NewSemaphore(n, "k", a.Limit, a.options()...).Acquire(ctx, a.Permits)
		}
	}
	h, err := s.ask(a, by)
	if err != nil {
		s.t.Errorf("lock: %v", err)
		return
	}
	s.use(h, length)
}

// A lock that somebody takes by force at once, from a holder that is alive and can not be told: the same without any clock.
func TestForceNowOverlapsOnlyWithoutAFence(t *testing.T) {
	var o Outcome
	var h *history.History
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, &o)
		s.ForceNow = true
		s.c = quorumlocktest.New(t, 3)
		lead := s.c.Leader()
		first, second := &instance{index: (lead + 1) % 3}, &instance{index: lead}
		for i := range 3 {
			go s.follow(s.c.Node(i), fmt.Sprint(i))
		}
		var both sync.WaitGroup
		both.Go(func() { s.lockAndWrite(first, defaultTTL) })
		time.Sleep(time.Second)
		s.c.Isolate(first.index)
		info, err := s.inspect(s.c.Node(lead), "ops", "k", time.Second)
		if err != nil || len(info.Holders) != 1 {
			t.Fatalf("%+v, %v", info, err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		opt := quorumlock.ForceOptions{Actor: "ops", Reason: "test", Now: true}
		s.history.ForcedNow(int64(info.Holders[0].Token))
		if err := s.c.Node(lead).ForceRelease(ctx, "k", info.Holders[0].Token, opt); err != nil {
			t.Fatal(err)
		}
		both.Go(func() { s.lockAndWrite(second, defaultTTL) })
		both.Wait()
		s.c.Heal()
		s.c.WaitReady()
		s.c.CheckState()
		o.Bites.Refused, o.Bites.LostUpdates = s.store.counts()
		h = s.history
	})
	o.judge(t, h)
	if o.Bites.LostUpdates == 0 || o.Bites.Refused == 0 {
		t.Errorf("%d updates lost without a fence, %d writes refused by it: the fault did not bite", o.Bites.LostUpdates, o.Bites.Refused)
	}
}

// I3 at its narrowest: the holder's clocks are as slow as A3 allows, the leader's as fast, and the answer to the last renewal was almost a second on its way when the holder
// is cut off. A lease that counted from the answer would outlive the session.
func TestLateLastWordAtTheEdgeOfA3(t *testing.T) {
	least := time.Duration(1 << 62)
	for phase := range 10 {
		var o Outcome
		var h *history.History
		synctest.Test(t, func(t *testing.T) {
			s := begin(t, &o)
			s.c = quorumlocktest.New(t, 3)
			lead := s.c.Leader()
			for i := range 3 {
				go s.follow(s.c.Node(i), fmt.Sprint(i))
			}
			first, second := &instance{index: (lead + 1) % 3}, &instance{index: lead}
			s.c.Clock(first.index).SetRate(1 / 1.11) // 1.23 from the leader's
			s.c.Clock(lead).SetRate(1.11)
			var both sync.WaitGroup
			both.Go(func() { s.lockAndWrite(first, 3*defaultTTL) })
			time.Sleep(3*time.Second + time.Duration(phase)*200*time.Millisecond)
			both.Go(func() { s.lockAndWrite(second, time.Second) })
			s.c.Network().HoldReplies(s.c.Host(lead), true)
			time.Sleep(900 * time.Millisecond)
			s.c.Network().HoldReplies(s.c.Host(lead), false)
			time.Sleep(5 * time.Millisecond)
			s.c.Isolate(first.index)
			both.Wait()
			if s.c.Leader() != lead {
				t.Error("another instance leads: it gave the session its whole TTL anew")
			}
			s.c.Heal()
			s.c.WaitReady()
			s.c.CheckState()
			h = s.history
		})
		o.judge(t, h)
		least = min(least, o.Report.SmallestGap[history.Expired])
	}
	if least > 500*time.Millisecond {
		t.Errorf("the smallest gap is %v: the fault did not bite", least)
	}
	t.Logf("smallest gap: %v", least)
}
