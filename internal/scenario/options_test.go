package scenario_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// MaxWait ends the wait, and the work is not cut short by it as by a deadline of Do's context.
func TestMaxWaitBoundsTheWaitAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const most = time.Second
		c := quorumlocktest.New(t, 3)
		m := quorumlock.NewMutex(c.Node(0), "k", quorumlock.MaxWait(most))
		err := m.Do(context.Background(), func(ctx context.Context, _ quorumlock.Token) error {
			begun := time.Now()
			err := quorumlock.NewMutex(c.Node(1), "k", quorumlock.MaxWait(most)).Do(ctx, func(context.Context, quorumlock.Token) error {
				t.Error("granted twice")
				return nil
			})
			var wait *quorumlock.WaitError
			if !errors.As(err, &wait) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "MaxWait") || time.Since(begun) != most {
				t.Errorf("after %v: %v", time.Since(begun), err)
			}
			time.Sleep(3 * most)
			return ctx.Err()
		})
		if err != nil {
			t.Error(err)
		}
		if _, err := quorumlock.NewMutex(c.Node(0), "k", quorumlock.MaxWait(-1)).Lock(context.Background()); !errors.Is(err, quorumlock.ErrInvalid) {
			t.Errorf("a negative bound: %v", err)
		}
		becomesFree(t, c, "k", time.Second)
	})
}

// A cap counts from the write hold's grant, whatever it is turned into.
func TestDowngradeKeepsTheCap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		m := quorumlock.NewRWMutex(c.Node(0), "k", quorumlock.MaxHold(10*time.Second))
		h, err := m.Lock(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		granted := time.Now()
		time.Sleep(9 * time.Second)
		r, err := m.Downgrade(context.Background(), h)
		if err != nil {
			t.Fatal(err)
		}
		<-r.Done()
		if held := time.Since(granted); held > 10*time.Second+reportBound || held < 10*time.Second-time.Millisecond {
			t.Errorf("held for %v", held)
		}
		capped(t, r, r.Err())
		becomesFree(t, c, "k", time.Second)
	})
}

// A session of which nothing is left in the cluster is closed as fast as one that never had anything, whatever its holds went through.
func TestCloseOfASessionWhoseHoldsHaveMoved(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		s := openSession(t, c.Node(0))
		rw := quorumlock.NewRWMutex(s, "rw")
		h, err := rw.Lock(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if h, err = rw.Downgrade(context.Background(), h); err != nil {
			t.Fatal(err)
		}
		unlock(t, h)
		short, err := quorumlock.NewMutex(s, "short", quorumlock.MaxHold(time.Second)).Lock(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		<-short.Done()
		becomesFree(t, c, "short", time.Second)
		time.Sleep(time.Second)
		isolateAll(c)
		endsIn(t, "close", 600*time.Millisecond, func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		c.Heal()
	})
}

// Who locks twice in one session is told why that cannot end.
func TestReentranceIsNamed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		h := lockIn(t, c.Node(0), "k", time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := quorumlock.NewMutex(c.Node(0), "k").Lock(ctx); err == nil || !strings.Contains(err.Error(), "re-entrant") {
			t.Error(err)
		}
		unlock(t, h)
	})
}

// What the callback returns is returned as it is, and a loss that it tells of is not told twice.
func TestDoTellsALossOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		own := errors.New("own")
		if err := quorumlock.NewMutex(c.Node(0), "k").Do(context.Background(), func(context.Context, quorumlock.Token) error { return own }); err != own {
			t.Error(err)
		}
		err := quorumlock.NewMutex(c.Node(0), "k").Do(context.Background(), func(ctx context.Context, _ quorumlock.Token) error {
			c.Expire(0)
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if !errors.Is(err, quorumlock.ErrLost) || strings.Count(err.Error(), "lost") != 1 {
			t.Error(err)
		}
	})
}
