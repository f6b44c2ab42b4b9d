package commit

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// renewalsOf are renewals of n sessions from first on.
func renewalsOf(first, n int) []*locktable.Command {
	cmds := make([]*locktable.Command, n)
	for i := range cmds {
		cmds[i] = renewal(locktable.SessionID(first + i))
	}
	return cmds
}

func wantOwnResults(t *testing.T, cmds []*locktable.Command, results []locktable.Result) {
	t.Helper()
	if len(results) != len(cmds) {
		t.Fatalf("%d results for %d", len(results), len(cmds))
	}
	for i, c := range cmds {
		if int64(results[i].Token) != key(c) {
			t.Errorf("session %d got the result of %d", c.Session, -results[i].Token)
		}
	}
}

// A party goes into the log as its renewals would one by one: gathered, in as many entries as it takes; and each session is pending until its entry is answered.
func TestPartyIsWrittenLikeItsParts(t *testing.T) {
	bubble(t, Options{MaxCommands: 4}, time.Millisecond, func(t *testing.T, l *fakeLog, c *caller) {
		cmds := renewalsOf(1, 3)
		var results []locktable.Result
		var err error
		c.wg.Go(func() { results, err = c.b.RenewAll(t.Context(), cmds) })
		synctest.Wait()
		for _, s := range []locktable.SessionID{1, 2, 3} {
			if !c.b.RenewalPending(s) {
				t.Errorf("session %d is not pending while its renewal is queued", s)
			}
		}
		c.wg.Wait()
		if err != nil {
			t.Fatal(err)
		}
		wantOwnResults(t, cmds, results)
		if c.b.RenewalPending(1) {
			t.Error("pending after the answer")
		}
		many := renewalsOf(11, 6)
		if results, err = c.b.RenewAll(t.Context(), many); err != nil {
			t.Fatal(err)
		}
		wantOwnResults(t, many, results)
		wantEntries(t, l.written(), "100ms [-1 -2 -3]", "101ms [-11 -12 -13 -14]", "201ms [-15 -16]")
	})
}

// A party whose session cannot wait takes all along at once.
func TestUrgentParty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(time.Millisecond)
		env := l.env()
		env.Urgent = func(c *locktable.Command) bool { return c.Session == 3 }
		b := New(env, Options{})
		defer b.Stop(nil)
		if _, err := b.RenewAll(t.Context(), renewalsOf(1, 4)); err != nil {
			t.Fatal(err)
		}
		wantEntries(t, l.written(), "0s [-1 -2 -3 -4]")
	})
}

// What is said of a party is true of each of its renewals: not done if none was written, unknown as soon as one may have been.
func TestPartyWithoutAnswer(t *testing.T) {
	for _, tc := range []struct {
		name    string
		options Options
		wait    time.Duration // until the party leaves
		want    Outcome
		entries int
	}{
		{"queued", Options{}, 50 * time.Millisecond, NotDone, 0},
		{"in flight", Options{}, 100*time.Millisecond + time.Microsecond, Unknown, 1},
		{"in part", Options{MaxCommands: 4, InFlight: 1}, time.Microsecond, Unknown, 1},
		{"in part answered", Options{MaxCommands: 4}, 2 * time.Millisecond, Unknown, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, tc.options, time.Millisecond, func(t *testing.T, l *fakeLog, c *caller) {
				ctx, cancel := context.WithTimeout(t.Context(), tc.wait)
				defer cancel()
				_, err := c.b.RenewAll(ctx, renewalsOf(1, 6))
				wantError(t, err, tc.want, context.DeadlineExceeded)
				time.Sleep(time.Second)
				c.b.Stop(nil)
				if n := len(l.written()); n != tc.entries {
					t.Errorf("%d entries, want %d", n, tc.entries)
				}
				if len(c.b.live) != 0 || c.b.renewals.n != 0 || c.b.slots != 0 {
					t.Errorf("left behind: %v %d %d", c.b.live, c.b.renewals.n, c.b.slots)
				}
			})
		})
	}
}

// Of a party in two entries, of which the second was certainly not written, nobody may say that nothing was done.
func TestPartyInPartNotDone(t *testing.T) {
	bubble(t, Options{MaxCommands: 4}, time.Millisecond, func(t *testing.T, l *fakeLog, c *caller) {
		var err error
		c.wg.Go(func() { _, err = c.b.RenewAll(t.Context(), renewalsOf(1, 6)) })
		time.Sleep(50 * time.Millisecond)
		c.b.Stop(errInjected)
		c.wg.Wait()
		wantError(t, err, Unknown, ErrStopped)
		_, err = c.b.RenewAll(t.Context(), renewalsOf(1, 6))
		wantError(t, err, NotDone, ErrStopped)
	})
}

// A party is let in as a whole or not at all.
func TestPartyIsRefusedAsAWhole(t *testing.T) {
	bubble(t, Options{MaxRenewals: 5}, 0, func(t *testing.T, l *fakeLog, c *caller) {
		release := hang(t, l, c)
		var err error
		c.wg.Go(func() { _, err = c.b.RenewAll(t.Context(), renewalsOf(1, 3)) })
		synctest.Wait()
		_, refused := c.b.RenewAll(t.Context(), renewalsOf(11, 3))
		wantError(t, refused, NotDone, ErrOverloaded)
		if c.b.RenewalPending(11) {
			t.Error("pending though refused")
		}
		release()
		c.wg.Wait()
		if err != nil {
			t.Error(err)
		}
	})
}

// Parties against a log that fails, beside single calls, with contexts that end at any moment.
func TestPartyStress(t *testing.T) {
	const callers, rounds, size = 16, 100, 7
	l := &ledger{written: map[int64]int{}, last: map[locktable.SessionID]uint64{}}
	b := New(Env{Propose: l.Propose}, Options{MaxCommands: 8, RenewGather: 100 * time.Microsecond})
	type end struct {
		cmds []*locktable.Command
		err  error
	}
	ends := make([][]end, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for n := range rounds {
				cmds := renewalsOf(1+(i*rounds+n)*size, size)
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(5000))*time.Microsecond)
				results, err := b.RenewAll(ctx, cmds)
				for j := range results {
					if int64(results[j].Token) != id(cmds[j]) {
						t.Errorf("session %d got another's result", cmds[j].Session)
					}
				}
				_, _ = b.Do(ctx, &locktable.Command{Op: locktable.OpClaim, Session: locktable.SessionID(1<<30 + i), Seq: uint64(n + 1)})
				cancel()
				ends[i] = append(ends[i], end{cmds, err})
				if i == 0 && n == rounds*9/10 {
					go b.Stop(errInjected)
				}
			}
		})
	}
	all.Wait()
	b.Stop(nil)
	seen := map[string]int{}
	for _, list := range ends {
		for _, e := range list {
			written := 0
			for _, c := range e.cmds {
				if n := l.written[id(c)]; n > 1 {
					t.Errorf("session %d was written %d times", c.Session, n)
				} else {
					written += n
				}
			}
			var known *Error
			switch {
			case e.err == nil:
				seen["done"]++
				if written != size {
					t.Errorf("answered, and %d of %d written", written, size)
				}
			case !errors.As(e.err, &known):
				t.Errorf("error %T", e.err)
			case known.Outcome == NotDone:
				seen["not done"]++
				if written != 0 {
					t.Errorf("called not done, and %d written: %v", written, e.err)
				}
			default:
				seen["unknown"]++
			}
		}
	}
	for _, how := range []string{"done", "not done", "unknown"} {
		if seen[how] == 0 {
			t.Errorf("no party ended as %s: the test tests nothing", how)
		}
	}
	if len(b.live) != 0 || b.ordinary.n != 0 || b.renewals.n != 0 || b.slots != 0 {
		t.Errorf("left behind: %v %+v %+v %d", b.live, b.ordinary, b.renewals, b.slots)
	}
}
