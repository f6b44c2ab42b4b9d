package commit

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// An urgent renewal does not wait for company, and takes along those that do. Afterwards they wait again.
func TestUrgentRenewalGoesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(time.Millisecond)
		env := l.env()
		env.Urgent = func(c *locktable.Command) bool { return c.Session == 99 }
		b := New(env, Options{RenewGather: 100 * time.Millisecond})
		defer b.Stop(nil)
		renew := func(s locktable.SessionID) (took func() time.Duration) {
			start, end := time.Now(), make(chan time.Duration, 1)
			go func() {
				if _, err := b.Do(t.Context(), renewal(s)); err != nil {
					t.Errorf("session %d: %v", s, err)
				}
				end <- time.Since(start)
			}()
			synctest.Wait()
			return func() time.Duration { return <-end }
		}
		first := renew(1)
		time.Sleep(30 * time.Millisecond)
		urgent := renew(99)
		if d := urgent(); d != time.Millisecond {
			t.Errorf("urgent renewal took %v", d)
		}
		if d := first(); d != 31*time.Millisecond {
			t.Errorf("the one beside it took %v", d)
		}
		if d := renew(2)(); d != 101*time.Millisecond {
			t.Errorf("the next one took %v", d)
		}
	})
}

// While both slots are taken, an urgent renewal goes with the first that is free.
func TestUrgentRenewalTakesTheNextSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(20 * time.Millisecond)
		env := l.env()
		env.Urgent = func(*locktable.Command) bool { return true }
		b := New(env, Options{RenewGather: time.Minute})
		defer b.Stop(nil)
		for seq := range uint64(2) {
			go b.Do(t.Context(), claim(seq+1)) //nolint:errcheck // only takes a slot
			synctest.Wait()
		}
		start := time.Now()
		if _, err := b.Do(t.Context(), renewal(1)); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d != 40*time.Millisecond {
			t.Errorf("took %v", d)
		}
	})
}
