package scenario_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// capped fails the test unless the hold was lost to its own MaxHold.
func capped(t *testing.T, h *quorumlock.Hold, err error) {
	t.Helper()
	var lost *quorumlock.LostError
	if !errors.As(err, &lost) || lost.Cause != quorumlock.CauseMaxHold || lost.Token != h.Token() || lost.Name != h.Name() {
		t.Errorf("hold %v: %v, want lost to MaxHold", h.Token(), err)
	}
}

// The cap ends a hold however well renewals go: jeopardy warns, the loss is reported, the lock passes on, and the session's other holds live on.
func TestMaxHold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const most = 30 * time.Second
		c := quorumlocktest.New(t, 3)
		_, f := roles(c)
		s := openSession(t, c.Node(f[0]))
		other := lockIn(t, s, "other", time.Second)
		h := asked(t, quorumlock.NewMutex(s, "k", quorumlock.MaxHold(most)).Lock).granted(time.Second)
		granted := time.Now()
		next := waitQueued(t, c, c.Node(f[1]), "k", 1)
		ctx, cancel := h.Context(context.Background())
		defer cancel()

		time.Sleep(most / 2)
		calm(t, h)
		<-h.Jeopardy()
		if at := time.Since(granted); at < most/2 || at > most-quorumTTL/5 {
			t.Errorf("warned after %v of %v", at, most)
		}
		if left := time.Until(h.Deadline()); h.Err() != nil || time.Since(granted)+left > most+time.Second {
			t.Errorf("in jeopardy: %v, deadline in %v", h.Err(), left)
		}
		time.Sleep(time.Until(granted.Add(most - time.Millisecond)))
		if err := h.Err(); err != nil || next.ended() {
			t.Errorf("just before the cap: %v", err)
		}
		time.Sleep(2 * time.Millisecond)
		capped(t, h, h.Err())
		if !closed(h.Done()) || ctx.Err() == nil {
			t.Error("Done is open")
		}
		capped(t, h, context.Cause(ctx))
		follows(t, h, next.granted(atOnce))
		for range 2 {
			capped(t, h, h.Unlock())
		}
		unlock(t, next.hold)
		calm(t, other)
		unlock(t, other)
		becomesFree(t, c, "k", time.Second)
		c.CheckState()
	})
}

// Nobody has to ask for the loss to be found, nor for the lock to pass on.
func TestMaxHoldOfWhoDoesNotLook(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		for _, most := range []time.Duration{time.Millisecond, 50 * time.Millisecond, time.Second} {
			start := time.Now()
			h := asked(t, quorumlock.NewMutex(c.Node(0), "k", quorumlock.MaxHold(most)).Lock).granted(time.Second)
			next := asked(t, quorumlock.NewMutex(c.Node(1), "k").Lock)
			select {
			case <-h.Done():
			case <-time.After(most + reportBound):
				t.Fatalf("MaxHold %v: not reported", most)
			}
			unlock(t, next.granted(atOnce))
			if took := time.Since(start); took < most {
				t.Errorf("MaxHold %v: passed on after %v", most, took)
			}
			capped(t, h, h.Err())
		}
		// A cap that no clock can count to is none.
		h := asked(t, quorumlock.NewMutex(c.Node(0), "k", quorumlock.MaxHold(math.MaxInt64)).Lock).granted(time.Second)
		time.Sleep(time.Minute)
		calm(t, h)
		unlock(t, h)
		c.CheckState()
	})
}

// A callback of Do is told by its context; while it works on the lock is kept, for no longer than a lease is trusted. Do says that the work may have overlapped.
func TestMaxHoldOfACallback(t *testing.T) {
	const most = 5 * time.Second
	for name, workOn := range map[string]time.Duration{"stops at once": 0, "stops late": 3 * time.Second, "is stuck": time.Minute} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3)
				_, f := roles(c)
				s := openSession(t, c.Node(f[0]))
				var cause error
				var over time.Time
				start := time.Now()
				result := make(chan error, 1)
				go func() {
					result <- quorumlock.NewMutex(s, "k", quorumlock.MaxHold(most)).Do(context.Background(), func(ctx context.Context, _ quorumlock.Token) error {
						<-ctx.Done()
						cause = context.Cause(ctx)
						time.Sleep(workOn)
						over = time.Now()
						return errWork
					})
				}()
				time.Sleep(100 * time.Millisecond)
				next := asked(t, quorumlock.NewMutex(c.Node(f[1]), "k").Lock)
				h := next.granted(time.Minute)
				took := next.at.Sub(start)
				least := most + min(workOn, quorumTTL*4/5)
				if took < least || took > least+reportBound+atOnce {
					t.Errorf("passed on after %v, want %v", took, least)
				}
				err := <-result
				if !errors.Is(err, errWork) || !errors.Is(err, quorumlock.ErrLost) || errors.Is(err, quorumlock.ErrUnlocked) {
					t.Errorf("Do: %v", err)
				}
				var lost *quorumlock.LostError
				if !errors.As(cause, &lost) || lost.Cause != quorumlock.CauseMaxHold {
					t.Errorf("the callback was told %v", cause)
				}
				if workOn < quorumTTL*4/5 && next.at.Before(over) {
					t.Error("granted beside the callback")
				}
				if err := s.Err(); err != nil {
					t.Errorf("the session: %v", err)
				}
				unlock(t, h)
				c.CheckState()
			})
		})
	}
}

// The cap may be over before the callback begins: here the node has heard of the grant while its clocks are in doubt, and no answer comes that would clear that up. The callback
// never begins, since the release waits for nobody any more.
func TestMaxHoldThatIsOverBeforeTheWork(t *testing.T) {
	for _, late := range []time.Duration{600 * time.Millisecond, 1500 * time.Millisecond} {
		t.Run(late.String(), func(t *testing.T) { bubble(t, func(t *testing.T) { testOverBeforeTheWork(t, late) }) })
	}
}

func testOverBeforeTheWork(t *testing.T, late time.Duration) {
	s := newStage(t)
	owner := openSession(t, s.c.Node(s.caller))
	s.c.Network().HoldReplies(s.c.Host(s.leader), true)
	s.c.Clock(s.caller).StepWall(5 * time.Second)
	result := make(chan error, 1)
	go func() {
		m := quorumlock.NewMutex(owner, "k", quorumlock.MaxHold(100*time.Millisecond))
		result <- m.Do(context.Background(), func(context.Context, quorumlock.Token) error {
			t.Error("worked under a hold that had ended")
			return nil
		})
	}()
	time.Sleep(late)
	if info := lockShown(t, s.c, "k"); len(info.Holders) != 0 {
		t.Fatalf("%+v: the cap is not over", info.Holders)
	}
	s.c.Network().HoldReplies(s.c.Host(s.leader), false)
	var lost *quorumlock.LostError
	if err := <-result; !errors.As(err, &lost) || lost.Cause != quorumlock.CauseMaxHold {
		t.Errorf("Do: %v", err)
	}
	becomesFree(t, s.c, "k", ghostBound)
	s.c.CheckState()
}

// The session or the node is closed, or the session is lost, while a callback ignores the end of its cap: nothing is released under its hands before its time, and closing ends.
func TestClosingBesideAStuckCallback(t *testing.T) {
	for name, closeOwner := range closers {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				const most, workOn = 2 * time.Second, 4 * time.Second
				c := quorumlocktest.New(t, 3)
				_, f := roles(c)
				s := openSession(t, c.Node(f[0]))
				var over time.Time
				result := make(chan error, 1)
				go func() {
					result <- quorumlock.NewMutex(s, "k", quorumlock.MaxHold(most)).Do(context.Background(), func(context.Context, quorumlock.Token) error {
						time.Sleep(most + workOn)
						over = time.Now()
						return nil
					})
				}()
				time.Sleep(most + time.Second)
				next := asked(t, quorumlock.NewMutex(c.Node(f[1]), "k").Lock)
				time.Sleep(atOnce)
				endsIn(t, "close", workOn+time.Second, func() {
					if err := closeOwner(c, s, f[0]); err != nil {
						t.Errorf("close: %v", err)
					}
				})
				if err := <-result; !errors.Is(err, quorumlock.ErrLost) {
					t.Errorf("Do: %v", err)
				}
				if h := next.granted(time.Second); next.at.Before(over) {
					t.Error("granted beside the callback")
				} else {
					unlock(t, h)
				}
				c.CheckState()
			})
		})
	}
}

// Unlock just before the cap releases; at the cap it says that the hold was lost. Nothing is released twice, so a successor's hold goes on.
func TestUnlockAtTheCap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const most = 100 * time.Millisecond
		c := quorumlocktest.New(t, 3)
		released, lost := 0, 0
		for i := range 20 {
			h := asked(t, quorumlock.NewMutex(c.Node(0), "k", quorumlock.MaxHold(most)).Lock).granted(time.Second)
			granted := time.Now()
			next := asked(t, quorumlock.NewMutex(c.Node(1), "k").Lock)
			time.Sleep(time.Until(granted.Add(most + time.Duration(i-10)*300*time.Microsecond)))
			switch err := h.Unlock(); {
			case err == nil:
				released++
			case errors.Is(err, quorumlock.ErrLost):
				capped(t, h, err)
				lost++
			case !errors.Is(err, quorumlock.ErrNoQuorum): // the release was under way when the cap came
				t.Errorf("unlock: %v", err)
			}
			n := next.granted(time.Second)
			time.Sleep(most)
			calm(t, n)
			unlock(t, n)
		}
		if released == 0 || lost == 0 {
			t.Errorf("%d released, %d lost: the moments miss the cap", released, lost)
		}
		becomesFree(t, c, "k", time.Second)
		c.CheckState()
	})
}
