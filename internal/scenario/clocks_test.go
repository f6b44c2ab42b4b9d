package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// S21: the holder's machine sleeps for a minute; another instance takes the lock. Asked on waking, before a packet moves, the old hold says that it is lost,
// and the fence refuses its write.
func TestSuspendedHolderKnowsOnWaking(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const sleep = time.Minute
		var guard quorumlock.Guard
		write := func(h *quorumlock.Hold) error { return claim(&guard, "row", h.Token()) }
		c := quorumlocktest.New(t, 3)
		a := others(c, c.Leader())[0]
		old := lockIn(t, c.Node(a), "k", time.Second)
		if err := write(old); err != nil {
			t.Fatal(err)
		}
		// Nothing of a sleeping machine runs: its clocks stand still for its own code, and no packet goes in or out.
		c.Pause(a)
		c.Clock(a).SetRate(1e-9)
		next := lockIn(t, c.Node(others(c, a)[0]), "k", sleep)
		if err := write(next); err != nil {
			t.Fatal(err)
		}
		time.Sleep(sleep - deadBound)
		if old.Err() != nil {
			t.Fatal("the sleeper noticed: the fault did not bite")
		}
		c.Clock(a).SetRate(1)
		c.Clock(a).Slept(sleep)
		expired(t, old)
		if err := write(old); !errors.Is(err, quorumlock.ErrStaleToken) {
			t.Errorf("late write: %v, want %v", err, quorumlock.ErrStaleToken)
		}
		c.Resume(a)
		unlock(t, next)
		third := lockIn(t, c.Node(a), "k", grantBound) // with a session of its own again
		if third.Token() <= next.Token() {
			t.Errorf("token %v after %v", third.Token(), next.Token())
		}
		unlock(t, third)
		c.WaitReady()
		c.CheckState()
	})
}

// A loss that is found on waking is reported in time too, although nobody asks.
func TestLossOnWakingIsReportedInTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		h := lockIn(t, c.Node(1), "k", time.Second)
		c.Clock(1).Slept(quorumTTL)
		woke := time.Now()
		<-h.Done()
		if late := time.Since(woke); late > reportBound {
			t.Errorf("reported %v after waking", late)
		}
		expired(t, h)
		c.CheckState()
	})
}

// S22: steps of any wall clock, the leader's, the holder's or a third's, cost no hold, and do not keep a dead one.
func TestWallClockSteps(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		for _, who := range []string{"leader", "holder", "follower"} {
			t.Run(fmt.Sprintf("%s %v", who, step), func(t *testing.T) {
				bubble(t, func(t *testing.T) { stepWall(t, who, step) })
			})
		}
	}
}

func stepWall(t *testing.T, who string, step time.Duration) {
	c := quorumlocktest.New(t, 3)
	w := newWitness(t, c)
	lead := c.Leader()
	at := map[string]int{"leader": lead, "holder": others(c, lead)[0], "follower": others(c, lead)[1]}
	h := lockIn(t, c.Node(at["holder"]), "k", time.Second)
	w.see(h)
	next := lockLater(t, c.Node(lead), "k", 5*quorumTTL)
	time.Sleep(time.Second)
	c.Clock(at[who]).StepWall(step)
	if err := h.Err(); who == "holder" && step > 0 {
		if !errors.Is(err, quorumlock.ErrUnsure) || closed(h.Done()) {
			t.Errorf("after a jump: %v, want unsure", err)
		}
	} else if err != nil {
		t.Errorf("after a step: %v", err)
	}
	time.Sleep(time.Second) // room for one round trip
	calm(t, h)
	time.Sleep(deadBound)
	calm(t, h)
	start := time.Now()
	c.Isolate(at["holder"])
	got := next.get()
	if took := time.Since(start); took > deadBound {
		t.Errorf("dead holder replaced after %v, bound %v", took, deadBound)
	}
	unlock(t, got)
	w.exclusive(1)
	expired(t, h)
	c.Heal()
	c.WaitReady()
	c.CheckState()
}

// A jump of the wall clock leaves a hold in doubt until one round trip has begun and ended after it; without one the doubt ends with the deadline.
func TestUnsureUntilARoundTrip(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		a := others(c, c.Leader())[0]
		h := lockIn(t, c.Node(a), "k", time.Second)
		jump := func(stays time.Duration) {
			c.Isolate(a)
			c.Clock(a).StepWall(2 * time.Second)
			for end := time.Now().Add(stays); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				if err := h.Err(); !errors.Is(err, quorumlock.ErrUnsure) || closed(h.Done()) {
					t.Fatalf("without an answer: %v, want unsure", err)
				}
			}
		}
		jump(3 * time.Second)
		c.Heal()
		time.Sleep(3 * time.Second)
		calm(t, h)
		jump(quorumTTL / 2)
		<-h.Done()
		expired(t, h)
		c.Heal()
		c.WaitReady()
		c.CheckState()
	})
}

// A3 at work: rates of 1.2x apart, whichever side is fast, break nothing, with the holder in touch for three TTLs and cut off after them.
func TestClockRatesWithinA3(t *testing.T) {
	for _, holder := range []float64{1 / 1.2, 1.2} {
		t.Run(fmt.Sprintf("holder at %.2f", holder), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				least := driftingHolder(t, holder, 3*quorumTTL).exclusive(1)
				t.Logf("margin %v", least)
			})
		})
	}
}

// The negative control: 1.5x apart breaks A3, and the overlap must show; if it does not, the witness is blind.
func TestClockRatesBeyondA3Overlap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := driftingHolder(t, 1/1.5, 0)
		for _, margin := range w.margins() {
			if margin > 0 {
				t.Errorf("no overlap: %v", margin)
			}
			t.Logf("overlap of %v", -margin)
		}
		if len(w.margins()) != 1 {
			t.Errorf("%d holds had a successor, want 1", len(w.margins()))
		}
	})
}

// driftingHolder gives one instance clocks that run at rate, holds a lock there for calmly, and cuts the instance off until another has got the lock and the
// old hold has ended. Each phase of the renewals' rhythm would do; it begins right after a renewal.
func driftingHolder(t *testing.T, rate float64, calmly time.Duration) *witness {
	c := quorumlocktest.New(t, 3)
	w := newWitness(t, c)
	a := others(c, c.Leader())[0]
	c.Clock(a).SetRate(rate)
	h := lockIn(t, c.Node(a), "k", time.Second)
	w.see(h)
	next := lockLater(t, c.Node(others(c, a)[0]), "k", calmly+2*quorumTTL)
	time.Sleep(calmly + 100*time.Millisecond)
	calm(t, h)
	c.Isolate(a)
	second := next.get()
	<-h.Done()
	expired(t, h)
	c.Heal()
	unlock(t, second)
	c.WaitReady()
	c.CheckState()
	return w
}

// S16: the leader's process is stopped for longer than every TTL and goes on: all sessions look silent to it at once. It must not expire the live ones, whether it still leads or has
// been replaced meanwhile.
func TestStoppedLeaderExpiresNobody(t *testing.T) {
	const stop = 15 * time.Second
	t.Run("still leads", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			c := quorumlocktest.New(t, 3)
			lead := c.Leader()
			own := lockIn(t, c.Node(lead), "own", time.Second)
			alive := sessionsOn(t, c, others(c, lead))
			time.Sleep(grantBound) // past the grace of its promotion
			c.Clock(lead).Stopped(stop)
			expired(t, own)
			if c.Leader() != lead {
				t.Fatal("leadership has moved")
			}
			time.Sleep(deadBound)
			alive()
			c.CheckState()
		})
	})
	t.Run("replaced", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			c := quorumlocktest.New(t, 3)
			lead := c.Leader()
			own := lockIn(t, c.Node(lead), "own", time.Second)
			alive := sessionsOn(t, c, others(c, lead))
			time.Sleep(grantBound)
			c.Pause(lead)
			c.LeaderExcept(lead)
			time.Sleep(stop)
			c.Resume(lead)
			expired(t, own)
			time.Sleep(deadBound)
			alive()
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			if info, err := c.Node(lead).Inspect(ctx, "own"); err != nil || len(info.Holders) != 0 {
				t.Errorf("the dead session's lock: %+v, %v", info, err)
			}
			c.CheckState()
		})
	})
}
