package router

import (
	"context"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/wire"
)

func TestRenewalGoesThroughAnotherMemberAfterHalfASecond(t *testing.T) {
	for _, leader := range []string{"n2", self} { // n2 is silent; or this node leads and its disk hangs
		bubble(t, func(t *testing.T, w *world, r *Router) {
			w.setLeader(leader)
			w.local = func(ctx context.Context) (locktable.Result, error) {
				<-ctx.Done()
				return locktable.Result{}, unknown(ctx.Err())
			}
			w.call = func(ctx context.Context, to string) (wire.ProposeReply, error) {
				if to == leader {
					return silence(ctx)
				}
				return done(), nil
			}
			if _, err := w.do(r, time.Minute, Options{Renewal: true}); err != nil {
				t.Fatal(err)
			}
			if d := time.Since(w.start); d != hedgeAfter || len(w.asked) != 2 {
				t.Errorf("done after %v: %v", d, w.asked)
			}
		})
	}
}

// With everybody silent a renewal begins an attempt each half second, two at a time, each of one second, and ends with its context.
func TestRenewalAmongSilentMembers(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, r *Router) {
		w.setLeader("n2")
		running, most := 0, 0
		w.call = func(ctx context.Context, to string) (wire.ProposeReply, error) {
			w.mu.Lock()
			running++
			most = max(most, running)
			w.mu.Unlock()
			begin := time.Now()
			rep, err := silence(ctx)
			w.mu.Lock()
			running--
			w.mu.Unlock()
			if d := time.Since(begin); d > time.Second {
				t.Errorf("an attempt took %v", d)
			}
			return rep, err
		}
		_, err := w.do(r, 4200*time.Millisecond, Options{Renewal: true})
		wantErr(t, err, true, true, context.DeadlineExceeded)
		if d := time.Since(w.start); d != 4200*time.Millisecond {
			t.Errorf("ended after %v", d)
		}
		if most != hedgeWidth {
			t.Errorf("%d attempts at once", most)
		}
		for i, a := range w.asked {
			if want := time.Duration(i) * hedgeAfter; a.at != want {
				t.Errorf("attempt %d began at %v, want %v", i, a.at, want)
			}
			if i > 0 && a.to == w.asked[i-1].to {
				t.Errorf("%s was asked twice running", a.to)
			}
		}
	})
}

func TestRenewalFailureBeforeTheHedgeIsRetriedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, r *Router) {
		w.setLeader("n2")
		w.call = func(_ context.Context, to string) (wire.ProposeReply, error) {
			if to == "n2" {
				return refusedDial()
			}
			return done(), nil
		}
		if _, err := w.do(r, time.Minute, Options{Renewal: true}); err != nil {
			t.Fatal(err)
		}
		wantTargets(t, w, "n2", "n3")
		if d := time.Since(w.start); d > firstPause {
			t.Errorf("took %v", d)
		}
	})
}

// The slow first attempt may still win, and one failed answer does not end the race.
func TestFirstAnswerCounts(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, r *Router) {
		w.setLeader("n2")
		w.call = func(ctx context.Context, to string) (wire.ProposeReply, error) {
			if to != "n2" {
				return status(wire.StatusNoQuorum), nil
			}
			time.Sleep(900 * time.Millisecond)
			return done(), nil
		}
		if _, err := w.do(r, time.Minute, Options{Renewal: true}); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(w.start); d != 900*time.Millisecond {
			t.Errorf("took %v", d)
		}
		if n := len(w.asked); n < 2 || n > 10 || w.asked[1].to != "n3" {
			t.Errorf("asked %v", w.asked)
		}
	})
}

// What one member answers while another is silent is used at once.
func TestHintDuringARaceIsFollowed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, r *Router) {
		w.setLeader("n2")
		w.call = func(ctx context.Context, to string) (wire.ProposeReply, error) {
			switch to {
			case "n2":
				return silence(ctx)
			case "n3":
				return hint("n4"), nil
			}
			return done(), nil
		}
		if _, err := w.do(r, time.Minute, Options{Renewal: true}); err != nil {
			t.Fatal(err)
		}
		wantTargets(t, w, "n2", "n3", "n4")
		if d := time.Since(w.start); d != hedgeAfter {
			t.Errorf("took %v", d)
		}
	})
}
