package commit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// bubble runs a test of one Batcher in fake time and stops it at the end.
func bubble(t *testing.T, opt Options, write time.Duration, test func(t *testing.T, l *fakeLog, c *caller)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(write)
		c := &caller{b: New(l.env(), opt)}
		test(t, l, c)
		c.b.Stop(nil)
	})
}

func TestIdleCallerIsSentAtOnce(t *testing.T) {
	bubble(t, Options{}, time.Millisecond, func(t *testing.T, l *fakeLog, c *caller) {
		for i := range uint64(3) {
			start := time.Now()
			if _, err := c.b.Do(t.Context(), claim(i+1)); err != nil {
				t.Fatal(err)
			}
			if d := time.Since(start); d != time.Millisecond {
				t.Errorf("took %v, want the time of one write", d)
			}
		}
		wantEntries(t, l.written(), "0s [1]", "1ms [2]", "2ms [3]")
	})
}

func TestCommandsDuringWritesShareTheNextEntry(t *testing.T) {
	bubble(t, Options{}, 10*time.Millisecond, func(t *testing.T, l *fakeLog, c *caller) {
		c.do(t.Context(), claim(1))
		time.Sleep(5 * time.Millisecond)
		c.do(t.Context(), claim(2))
		for i := range uint64(5) {
			c.do(t.Context(), claim(3+i))
		}
		wantAllOK(t, c.wait(), 7)
		wantEntries(t, l.written(), "0s [1]", "5ms [2]", "10ms [3 4 5 6 7]")
	})
}

func TestEntryBounds(t *testing.T) {
	big := claim(9)
	big.Note = strings.Repeat("n", 1000)
	for _, tc := range []struct {
		name string
		opt  Options
		want []string
	}{
		{"commands", Options{MaxCommands: 3, InFlight: 1}, []string{"0s [1]", "1ms [2 3 9]", "2ms [4 5 6]", "3ms [7]"}},
		{"bytes", Options{MaxBytes: 1300, InFlight: 1}, []string{"0s [1]", "1ms [2 3]", "2ms [9]", "3ms [4 5 6 7]"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, tc.opt, time.Millisecond, func(t *testing.T, l *fakeLog, c *caller) {
				for _, cmd := range []*locktable.Command{claim(1), claim(2), claim(3), big, claim(4), claim(5), claim(6), claim(7)} {
					c.do(t.Context(), cmd)
				}
				wantAllOK(t, c.wait(), 8)
				wantEntries(t, l.written(), tc.want...)
			})
		})
	}
}

func TestInFlightBoundAndOrder(t *testing.T) {
	for _, slots := range []int{1, 2, 4} {
		t.Run(fmt.Sprint(slots), func(t *testing.T) {
			opt := Options{InFlight: slots, MaxCommands: 4}
			bubble(t, opt, 10*time.Millisecond, func(t *testing.T, l *fakeLog, c *caller) {
				l.propose = time.Millisecond // Propose is slow too: entries must still go out in the order they were filled
				const n = 60
				for i := range uint64(n) {
					c.do(t.Context(), claim(i+1))
				}
				wantAllOK(t, c.wait(), n)
				if l.most != slots {
					t.Errorf("%d entries in flight at most, want %d", l.most, slots)
				}
				next := int64(1)
				for _, e := range l.written() {
					for _, k := range e.keys {
						if k != next {
							t.Fatalf("command %d written where %d was due", k, next)
						}
						next++
					}
				}
			})
		})
	}
}

func TestCancelWhileQueued(t *testing.T) {
	bubble(t, Options{InFlight: 1}, 10*time.Millisecond, func(t *testing.T, l *fakeLog, c *caller) {
		c.do(t.Context(), claim(1))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		c.do(t.Context(), claim(2))
		c.do(ctx, claim(3)) // from the middle of the queue
		c.do(t.Context(), claim(4))
		start := time.Now()
		for _, o := range c.wait() {
			if o.key != 3 {
				continue
			}
			wantError(t, o.err, NotDone, context.DeadlineExceeded)
			if d := o.at.Sub(start); d != 5*time.Millisecond {
				t.Errorf("ended after %v", d)
			}
		}
		wantEntries(t, l.written(), "0s [1]", "10ms [2 4]")
	})
}

func TestCancelEverythingQueued(t *testing.T) {
	bubble(t, Options{InFlight: 1}, 10*time.Millisecond, func(t *testing.T, l *fakeLog, c *caller) {
		c.do(t.Context(), claim(1))
		ctx, cancel := context.WithCancel(t.Context())
		c.do(ctx, claim(2))
		c.do(ctx, renewal(7))
		cancel()
		c.wait()
		time.Sleep(time.Second)
		wantEntries(t, l.written(), "0s [1]")
		if c.b.RenewalPending(7) || c.b.RenewalPending(1) {
			t.Error("cancelled commands are still pending")
		}
		if _, err := c.b.Do(t.Context(), claim(5)); err != nil { // nothing is stuck
			t.Error(err)
		}
	})
}

func TestCancelInFlight(t *testing.T) {
	bubble(t, Options{}, 10*time.Millisecond, func(t *testing.T, l *fakeLog, c *caller) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		_, err := c.b.Do(ctx, word(7))
		wantError(t, err, Unknown, context.DeadlineExceeded)
		if !c.b.RenewalPending(7) {
			t.Error("a command whose caller left is still in flight")
		}
		time.Sleep(5 * time.Millisecond)
		synctest.Wait()
		if c.b.RenewalPending(7) {
			t.Error("its entry was applied")
		}
	})
}

// word is a command of session s that is sent at once.
func word(s locktable.SessionID) *locktable.Command {
	return &locktable.Command{Op: locktable.OpUnlock, Session: s, Seq: 1, Token: 5}
}

func TestEndedContext(t *testing.T) {
	bubble(t, Options{}, 0, func(t *testing.T, l *fakeLog, c *caller) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := c.b.Do(ctx, claim(1))
		wantError(t, err, NotDone, context.Canceled)
		wantEntries(t, l.written())
	})
}

// A hung log holds up nobody beyond its context, not even when Propose itself blocks.
func TestHungLog(t *testing.T) {
	for _, where := range []string{"propose", "wait"} {
		t.Run(where, func(t *testing.T) {
			bubble(t, Options{}, 0, func(t *testing.T, l *fakeLog, c *caller) {
				if where == "propose" {
					l.propose = time.Minute
				} else {
					l.write = time.Minute
				}
				for i := range uint64(10) {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					c.do(ctx, claim(i+1))
				}
				start := time.Now()
				for _, o := range c.wait() {
					if d := o.at.Sub(start); !errors.Is(o.err, context.DeadlineExceeded) || d != time.Second {
						t.Errorf("call %d: %v after %v", o.key, o.err, d)
					}
				}
			})
		})
	}
}

func TestErrorsOfPropose(t *testing.T) {
	cause := errors.New("log closed")
	for _, tc := range []struct {
		name string
		err  error
		want Outcome
	}{
		{"not done", &Error{NotDone, cause}, NotDone},
		{"unknown", &Error{Unknown, cause}, Unknown},
		{"wrapped", fmt.Errorf("apply: %w", &Error{NotDone, cause}), NotDone},
		{"of no kind", cause, Unknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, Options{InFlight: 1}, time.Millisecond, func(t *testing.T, l *fakeLog, c *caller) {
				l.err = tc.err
				for i := range uint64(3) {
					c.do(t.Context(), claim(i+1))
				}
				for _, o := range c.wait() {
					wantError(t, o.err, tc.want, cause)
				}
			})
		})
	}
}

func TestWrongNumberOfResults(t *testing.T) {
	for _, change := range []int{-1, +1, -3} {
		bubble(t, Options{InFlight: 1}, time.Millisecond, func(t *testing.T, l *fakeLog, c *caller) {
			wrong := true
			l.results = func(n int) int {
				if !wrong {
					return n
				}
				return max(n+change, 0)
			}
			c.do(t.Context(), claim(1))
			for i := range uint64(3) {
				c.do(t.Context(), claim(i+2))
			}
			for _, o := range c.wait() {
				wantError(t, o.err, Unknown, errResultCount)
			}
			wrong = false
			if _, err := c.b.Do(t.Context(), claim(9)); err != nil {
				t.Errorf("the next entry: %v", err)
			}
		})
	}
}

func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(10 * time.Millisecond)
		c := &caller{b: New(l.env(), Options{InFlight: 1})}
		c.do(t.Context(), claim(1))
		c.do(t.Context(), claim(2))
		c.do(t.Context(), renewal(3))
		cause := errors.New("leadership lost")
		start := time.Now()
		c.b.Stop(cause)
		c.b.Stop(errors.New("again"))
		if d := time.Since(start); d != 10*time.Millisecond {
			t.Errorf("Stop took %v, want until the entry in flight was written", d)
		}
		for _, o := range c.wait() {
			if o.key == 1 {
				wantAllOK(t, []outcome{o}, 1)
				continue
			}
			wantError(t, o.err, NotDone, ErrStopped)
			wantError(t, o.err, NotDone, cause)
			if !o.at.Equal(start) {
				t.Errorf("call %d ended %v after Stop", o.key, o.at.Sub(start))
			}
		}
		_, err := c.b.Do(t.Context(), claim(4))
		wantError(t, err, NotDone, ErrStopped)
		wantError(t, err, NotDone, cause)
		for s := range locktable.SessionID(5) {
			if c.b.RenewalPending(s) {
				t.Errorf("session %d still pending", s)
			}
		}
	})
}
