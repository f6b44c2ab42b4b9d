package router

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/wire"
)

const elected = 300 * time.Millisecond // when another leader is known

// slow answers after a time.
func slow(ctx context.Context, d time.Duration) (wire.ProposeReply, error) {
	if !sleep(ctx, d, nil) && ctx.Err() != nil {
		return silence(ctx)
	}
	return done(), nil
}

// A leader that died does not keep its callers for their whole bound: once its successor is known the command goes there.
func TestAttemptAtAFormerLeaderEnds(t *testing.T) {
	for _, opt := range []Options{{}, {Renewal: true}} {
		bubble(t, func(t *testing.T, w *world, r *Router) {
			w.setLeader("n2")
			w.call = func(ctx context.Context, to string) (wire.ProposeReply, error) {
				if to == "n2" {
					return silence(ctx)
				}
				return done(), nil
			}
			time.AfterFunc(elected/2, func() { w.setLeader("") })
			time.AfterFunc(elected, func() { w.setLeader("n3") })
			if _, err := w.do(r, time.Minute, opt); err != nil {
				t.Fatal(err)
			}
			wantTargets(t, w, "n2", "n3")
			if took := time.Since(w.start); took != elected+lastWords {
				t.Errorf("done after %v", took)
			}
		})
	}
}

// Nor does a dead member that was asked while nobody led.
func TestAttemptForWantOfALeaderEnds(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, r *Router) {
		w.call = func(ctx context.Context, to string) (wire.ProposeReply, error) {
			if to == "n2" {
				return silence(ctx)
			}
			return done(), nil
		}
		time.AfterFunc(elected, func() { w.setLeader("n3") })
		if _, err := w.do(r, time.Minute, Options{}); err != nil {
			t.Fatal(err)
		}
		wantTargets(t, w, "n2", "n3")
		if took := time.Since(w.start); took != elected+lastWords {
			t.Errorf("done after %v", took)
		}
	})
}

// A member that could not help before it was elected is asked again, and not avoided: it is the one that can help now.
func TestMemberThatIsElectedMeanwhileIsAskedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, r *Router) {
		w.call = func(ctx context.Context, to string) (wire.ProposeReply, error) {
			switch {
			case to != "n2":
				return silence(ctx)
			case time.Since(w.start) < elected:
				sleep(ctx, elected+lastWords, nil) // it has passed the command on to a leader that is dead
				return status(wire.StatusUnknown), nil
			}
			return done(), nil
		}
		time.AfterFunc(elected, func() { w.setLeader("n2") })
		if _, err := w.do(r, time.Minute, Options{}); err != nil {
			t.Fatal(err)
		}
		wantTargets(t, w, "n2", "n2")
	})
}

// A request that was passed on to a leader ends in the same way, and its outcome is not known.
func TestForwardToAFormerLeaderEnds(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, r *Router) {
		w.setLeader("n2")
		w.call = func(ctx context.Context, _ string) (wire.ProposeReply, error) { return silence(ctx) }
		time.AfterFunc(elected, func() { w.setLeader("n3") })
		rep := r.Serve(t.Context(), wire.ProposeRequest{Timeout: time.Second, Command: locktable.Command{Op: locktable.OpClaim}})
		if took := time.Since(w.start); took != elected+lastWords || rep.Status != wire.StatusUnknown {
			t.Errorf("%v after %v", rep.Status, took)
		}
	})
}

// Answers that are worth waiting for: all come after another leader, or none, is known, and in all cases one attempt suffices.
func TestAttemptsThatAreNotCutShort(t *testing.T) {
	for _, tc := range []struct {
		name          string
		first, second string // leaders
		answer        time.Duration
	}{
		{"the former leader's last words", "n2", "n3", elected + lastWords/2},
		{"nobody else is known", "n2", "", 3 * elected},
		{"the same leader again", "n2", "n2", 3 * elected},
		{"asked for want of a leader, and elected", "", "n2", 3 * elected},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world, r *Router) {
				w.setLeader(tc.first)
				w.call = func(ctx context.Context, _ string) (wire.ProposeReply, error) { return slow(ctx, tc.answer) }
				time.AfterFunc(elected, func() { w.setLeader(tc.second) })
				if _, err := w.do(r, time.Minute, Options{}); err != nil {
					t.Fatal(err)
				}
				wantTargets(t, w, "n2")
				if took := time.Since(w.start); took != tc.answer {
					t.Errorf("done after %v", took)
				}
			})
		})
	}
}

// However many attempts are under way, one goroutine watches over them, and the next change of leaders finds them too.
func TestOneWatchForAllAttempts(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, r *Router) {
		const callers = 100
		w.call = func(ctx context.Context, to string) (wire.ProposeReply, error) {
			if to == "n4" {
				return done(), nil
			}
			return silence(ctx)
		}
		w.setLeader("n2")
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				if _, err := r.Do(t.Context(), &locktable.Command{Op: locktable.OpClaim, Session: 7}, Options{}); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if to := (target{w.leader, w.changed}); r.reigns.reign(to) != r.reigns.reign(to) {
			t.Error("two watches over one leader")
		}
		for _, next := range []string{"n3", "n4"} {
			time.Sleep(elected)
			w.setLeader(next)
		}
		all.Wait()
		if took := time.Since(w.start); took > 2*elected+lastWords+firstPause {
			t.Errorf("done after %v", took)
		}
	})
}
