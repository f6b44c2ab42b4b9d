package commit

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

func op(op locktable.Op, seq uint64) *locktable.Command {
	return &locktable.Command{Op: op, Session: 1, Seq: seq}
}

// hang fills both slots with writes that end when the test lets them.
func hang(t *testing.T, l *fakeLog, c *caller) (release func()) {
	l.hold = make(chan struct{})
	c.do(t.Context(), claim(1001))
	c.do(t.Context(), claim(1002))
	return func() { close(l.hold) }
}

func TestFullQueueRefuses(t *testing.T) {
	bubble(t, Options{MaxQueue: 4}, 0, func(t *testing.T, l *fakeLog, c *caller) {
		release := hang(t, l, c)
		try := func(cmd *locktable.Command) bool { // tells whether it was let in; it stays queued
			n := len(c.ends)
			c.do(t.Context(), cmd)
			if len(c.ends) == n {
				return true
			}
			wantError(t, c.ends[n].err, NotDone, ErrOverloaded)
			c.ends = c.ends[:n]
			return false
		}
		want := func(cmd *locktable.Command, in bool) {
			t.Helper()
			if try(cmd) != in {
				t.Errorf("op %d let in: %v, want %v", cmd.Op, !in, in)
			}
		}
		for i := range uint64(4) {
			want(claim(i+1), true)
		}
		want(claim(5), false)
		want(op(locktable.OpOpen, 5), false)
		want(op(locktable.OpInspect, 5), false)
		want(renewal(7), true)
		want(op(locktable.OpUnlock, 6), true)
		want(op(locktable.OpCancel, 7), true)
		want(op(locktable.OpClose, 8), true)
		want(op(locktable.OpClose, 9), true)
		want(op(locktable.OpClose, 10), false)
		want(op(locktable.OpExpire, 11), true)
		want(op(locktable.OpDrained, 12), true)
		want(renewal(8), true)
		release()
		wantAllOK(t, c.wait(), 14)
		if _, err := c.b.Do(t.Context(), claim(13)); err != nil {
			t.Errorf("after the queue drained: %v", err)
		}
	})
}

func TestQueueIsBoundedInBytes(t *testing.T) {
	bubble(t, Options{MaxQueueBytes: 3500, MaxBytes: 2000}, 0, func(t *testing.T, l *fakeLog, c *caller) {
		release := hang(t, l, c)
		long := func(seq uint64, n int) *locktable.Command {
			cmd := claim(seq)
			cmd.Note = strings.Repeat("n", n)
			return cmd
		}
		c.do(t.Context(), long(1, 1400))
		c.do(t.Context(), long(2, 1400))
		_, err := c.b.Do(t.Context(), long(3, 1400))
		wantError(t, err, NotDone, ErrOverloaded)
		_, err = c.b.Do(t.Context(), long(4, 2000))
		wantError(t, err, NotDone, ErrTooLarge)
		release()
		wantAllOK(t, c.wait(), 4)
	})
}

func TestRenewalsAreNotRefusedBeforeOthers(t *testing.T) {
	bubble(t, Options{MaxRenewals: 3}, 0, func(t *testing.T, l *fakeLog, c *caller) {
		release := hang(t, l, c)
		for s := range locktable.SessionID(3) {
			c.do(t.Context(), renewal(s+10))
		}
		_, err := c.b.Do(t.Context(), renewal(20))
		wantError(t, err, NotDone, ErrOverloaded)
		_, err = c.b.Do(t.Context(), claim(1))
		wantError(t, err, NotDone, ErrOverloaded)
		release()
		wantAllOK(t, c.wait(), 5)
	})
}

func TestRenewalsGather(t *testing.T) {
	bubble(t, Options{}, time.Millisecond, func(t *testing.T, l *fakeLog, c *caller) {
		for s := range locktable.SessionID(5) {
			c.do(t.Context(), renewal(s+1))
			time.Sleep(15 * time.Millisecond)
		}
		wantAllOK(t, c.wait(), 5)
		c.do(t.Context(), renewal(6)) // and again: the timer is set anew
		c.wait()
		wantEntries(t, l.written(), "100ms [-1 -2 -3 -4 -5]", "201ms [-6]")
	})
}

func TestRenewalsRideAlongInFront(t *testing.T) {
	bubble(t, Options{}, time.Millisecond, func(t *testing.T, l *fakeLog, c *caller) {
		c.do(t.Context(), renewal(1))
		time.Sleep(30 * time.Millisecond)
		c.do(t.Context(), renewal(2))
		c.do(t.Context(), claim(9))
		wantAllOK(t, c.wait(), 3)
		// The timer that was set for the first renewal must not send a later one too early.
		time.Sleep(19 * time.Millisecond) // now 50 ms
		c.do(t.Context(), renewal(3))
		c.wait()
		wantEntries(t, l.written(), "30ms [-1 -2 9]", "150ms [-3]")
	})
}

func TestManyRenewalsFillEntriesOfTheirOwn(t *testing.T) {
	bubble(t, Options{MaxCommands: 4}, time.Millisecond, func(t *testing.T, l *fakeLog, c *caller) {
		for s := range locktable.SessionID(10) {
			c.do(t.Context(), renewal(s+1))
		}
		wantAllOK(t, c.wait(), 10)
		wantEntries(t, l.written(), "0s [-1 -2 -3 -4]", "0s [-5 -6 -7 -8]", "100ms [-9 -10]")
	})
}

// A renewal waits for its gathering time and then for the slots at most, whatever else is queued.
func TestRenewalsGoFirstUnderLoad(t *testing.T) {
	bubble(t, Options{MaxCommands: 8, InFlight: 1}, 10*time.Millisecond, func(t *testing.T, l *fakeLog, c *caller) {
		for i := range uint64(100) {
			c.do(t.Context(), claim(i+1))
		}
		start := time.Now()
		c.do(t.Context(), renewal(7))
		c.wait()
		for _, o := range c.ends {
			if d := o.at.Sub(start); o.key == -7 && d > 20*time.Millisecond {
				t.Errorf("the renewal took %v beside a write of 10 ms", d)
			}
		}
	})
}

func TestRenewalsDoNotStarveOthers(t *testing.T) {
	for _, tc := range []struct {
		name       string
		age        time.Duration // of the renewals when the slot becomes free
		wantRenews int           // in the next entry of 16
	}{
		{"young", 50 * time.Millisecond, 8},
		{"due", 100 * time.Millisecond, 14},
	} {
		t.Run(tc.name, func(t *testing.T) {
			opt := Options{MaxCommands: 16, InFlight: 1}
			bubble(t, opt, tc.age, func(t *testing.T, l *fakeLog, c *caller) {
				c.do(t.Context(), claim(1))
				for i := range uint64(40) {
					c.do(t.Context(), claim(i+2))
					c.do(t.Context(), renewal(locktable.SessionID(i+2)))
				}
				wantAllOK(t, c.wait(), 81)
				next := l.written()[1].keys
				renews := 0
				for i, k := range next {
					if k < 0 {
						renews++
						if i >= tc.wantRenews {
							t.Errorf("renewal behind an ordinary command: %v", next)
						}
					}
				}
				if renews != tc.wantRenews || len(next) != 16 {
					t.Errorf("%d renewals in an entry of %d, want %d of 16: %v", renews, len(next), tc.wantRenews, next)
				}
			})
		})
	}
}

// A command so long that it never fits beside renewals goes all the same.
func TestLongCommandIsNotPassedOver(t *testing.T) {
	bubble(t, Options{MaxBytes: 600, InFlight: 1}, time.Millisecond, func(t *testing.T, l *fakeLog, c *caller) {
		c.do(t.Context(), claim(1))
		for s := range locktable.SessionID(50) {
			c.do(t.Context(), renewal(s+1))
		}
		long := claim(2)
		long.Note = strings.Repeat("n", 300)
		c.do(t.Context(), long)
		c.wait()
		if got := l.written()[1].keys; got[len(got)-1] != 2 {
			t.Errorf("the second entry is %v", got)
		}
	})
}

func TestRenewalPending(t *testing.T) {
	for _, tc := range []struct {
		op   locktable.Op
		want bool
	}{
		{locktable.OpRenew, true}, {locktable.OpClaim, true}, {locktable.OpCancel, true},
		{locktable.OpUnlock, true}, {locktable.OpClose, true}, {locktable.OpDowngrade, true}, {locktable.OpProclaim, true},
		{locktable.OpHandOver, true}, {locktable.OpResize, true}, {locktable.OpOffer, true}, {locktable.OpAccept, true},
		{locktable.OpExpire, false}, // the leader's own word about a session is no sign of its life
		{locktable.OpInspect, false},
	} {
		bubble(t, Options{InFlight: 1}, time.Millisecond, func(t *testing.T, l *fakeLog, c *caller) {
			c.do(t.Context(), &locktable.Command{Op: locktable.OpBarrier, Seq: 1}) // makes the next one queue
			cmd := &locktable.Command{Op: tc.op, Session: 7}
			c.do(t.Context(), cmd)
			if got := c.b.RenewalPending(7); got != tc.want {
				t.Errorf("op %d queued: %v", tc.op, got)
			}
			time.Sleep(time.Millisecond + time.Microsecond)
			if got := c.b.RenewalPending(7); got != tc.want {
				t.Errorf("op %d in flight: %v", tc.op, got)
			}
			c.wait()
			if c.b.RenewalPending(7) || len(c.b.live) != 0 {
				t.Errorf("op %d answered and still pending: %v", tc.op, c.b.live)
			}
		})
	}
}

// The answer wins over a context that ends at the same moment, and exactly one of the two is reported.
func TestAnswerAgainstContext(t *testing.T) {
	answers, unknown := 0, 0
	for range 200 {
		bubble(t, Options{}, 5*time.Millisecond, func(t *testing.T, l *fakeLog, c *caller) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			defer cancel()
			res, err := c.b.Do(ctx, claim(3))
			switch {
			case err == nil && res.Token == 3:
				answers++
			case errors.Is(err, context.DeadlineExceeded):
				wantError(t, err, Unknown, context.DeadlineExceeded)
				unknown++
			default:
				t.Errorf("%+v, %v", res, err)
			}
		})
	}
	t.Logf("%d answers, %d unknown", answers, unknown)
}

// A renewal that is left behind by a full entry, after the timer fired in vain, is sent all the same when its own time comes.
func TestRenewalLeftBehindIsSentInTime(t *testing.T) {
	bubble(t, Options{MaxCommands: 2, InFlight: 1}, time.Millisecond, func(t *testing.T, l *fakeLog, c *caller) {
		l.hold = make(chan struct{})
		c.do(t.Context(), claim(1))
		c.do(t.Context(), renewal(1))
		time.Sleep(101 * time.Millisecond) // the timer has fired, and the slot is taken
		c.do(t.Context(), renewal(2))
		c.do(t.Context(), claim(2))
		close(l.hold)
		wantAllOK(t, c.wait(), 4)
		wantEntries(t, l.written(), "0s [1]", "101ms [-1 2]", "201ms [-2]")
	})
}

// A runner that finds its queue emptied by cancellations between its start and its look leaves the way free for the next one.
func TestRunnerWithNothingLeftGivesUpTheRightToSend(t *testing.T) {
	bubble(t, Options{}, time.Millisecond, func(t *testing.T, l *fakeLog, c *caller) {
		c.b.sending = true
		c.b.runners.Add(1)
		c.b.run(&entry{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.b.Do(ctx, claim(1)); err != nil {
			t.Error(err)
		}
	})
}
