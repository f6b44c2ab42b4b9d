package router

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/commit"
	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/transport"
)

func wantTargets(t *testing.T, w *world, want ...string) {
	t.Helper()
	if got := w.targets(); !slices.Equal(got, want) {
		t.Errorf("asked %v, want %v", w.asked, want)
	}
}

func wantErr(t *testing.T, err error, sent, noLeader bool, target error) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("%T %v", err, err)
	}
	if e.Sent != sent || e.NoLeader != noLeader || !errors.Is(err, target) || errors.Is(err, ErrNoQuorum) != noLeader {
		t.Errorf("%v: sent %v, no leader %v; want %v, %v, %v", err, e.Sent, e.NoLeader, target, sent, noLeader)
	}
	return e
}

func TestLocalLeaderNeedsNobodyElse(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, r *Router) {
		w.setLeader(self)
		w.local = func(context.Context) (locktable.Result, error) { return locktable.Result{Token: 9}, nil }
		res, err := w.do(r, time.Second, Options{})
		if err != nil || res.Token != 9 {
			t.Errorf("%+v, %v", res, err)
		}
		wantTargets(t, w, self)
	})
}

// S104: each way an attempt can fail, once, then a leader that answers: who is asked next, how soon, and is it final.
func TestEveryFailureOnce(t *testing.T) {
	fails := func(err error) func(context.Context) (locktable.Result, error) {
		return func(context.Context) (locktable.Result, error) { return locktable.Result{}, err }
	}
	replies := func(rep wire.ProposeReply, err error) func(context.Context, string) (wire.ProposeReply, error) {
		return func(context.Context, string) (wire.ProposeReply, error) { return rep, err }
	}
	type first struct {
		name   string
		leader string // as believed at first: this node (local fails) or n2 (call fails)
		local  func(context.Context) (locktable.Result, error)
		call   func(context.Context, string) (wire.ProposeReply, error)
		final  error
		next   string
		paused bool
	}
	for _, tc := range []first{
		{name: "local not leader", leader: self, local: fails(ErrNotLeader), next: "n2", paused: true},
		{name: "local not done", leader: self, local: fails(notDone(errLog)), next: "n2", paused: true},
		{name: "local stopped", leader: self, local: fails(notDone(commit.ErrStopped)), next: "n2", paused: true},
		{name: "local unknown", leader: self, local: fails(unknown(errLog)), next: "n2", paused: true},
		{name: "local other error", leader: self, local: fails(errLog), next: "n2", paused: true},
		{name: "local overloaded", leader: self, local: fails(notDone(commit.ErrOverloaded)), next: self, paused: true},
		{name: "local too large", leader: self, local: fails(notDone(commit.ErrTooLarge)), final: ErrRefused},
		{name: "not leader", leader: "n2", call: replies(status(wire.StatusNotLeader), nil), next: "n3", paused: true},
		{name: "not leader, with a new hint", leader: "n2", call: replies(hint("n4"), nil), next: "n4"},
		{name: "not leader, it is you", leader: "n2", call: replies(hint(self), nil), next: self},
		{name: "not leader, with its own name", leader: "n2", call: replies(hint("n2"), nil), next: "n3", paused: true},
		{name: "stopping", leader: "n2", call: replies(status(wire.StatusStopping), nil), next: "n3", paused: true},
		{name: "no quorum", leader: "n2", call: replies(status(wire.StatusNoQuorum), nil), next: "n3", paused: true},
		{name: "unknown", leader: "n2", call: replies(status(wire.StatusUnknown), nil), next: "n3", paused: true},
		{name: "newer status", leader: "n2", call: replies(status(77), nil), next: "n3", paused: true},
		{name: "overloaded", leader: "n2", call: replies(status(wire.StatusOverloaded), nil), next: "n2", paused: true},
		{name: "refused", leader: "n2", call: replies(status(wire.StatusRefused), nil), final: ErrRefused},
		{name: "dial", leader: "n2", call: replies(refusedDial()), next: "n3", paused: true},
		{name: "cut", leader: "n2", call: replies(wire.ProposeReply{}, &transport.UnknownError{Err: errLog}), next: "n3", paused: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world, r *Router) {
				w.setLeader(tc.leader)
				w.local = func(ctx context.Context) (locktable.Result, error) {
					if tc.local != nil && len(w.asked) == 1 {
						return tc.local(ctx)
					}
					return locktable.Result{Code: locktable.CodeOK}, nil
				}
				w.call = func(ctx context.Context, to string) (wire.ProposeReply, error) {
					if tc.call != nil && len(w.asked) == 1 {
						return tc.call(ctx, to)
					}
					return done(), nil
				}
				_, err := w.do(r, time.Minute, Options{})
				if tc.final != nil {
					wantErr(t, err, false, false, tc.final)
					wantTargets(t, w, tc.leader)
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				wantTargets(t, w, tc.leader, tc.next)
				if pause := w.asked[1].at; pause > overloadPause || (pause > 0) != tc.paused {
					t.Errorf("asked again after %v", pause)
				}
			})
		})
	}
}

// At the end of its time a call tells whether a copy may have an effect, and whether the cluster was the reason.
func TestErrorAtTheEnd(t *testing.T) {
	const limit = 3 * time.Second
	slowLocal := func(err error) func(context.Context) (locktable.Result, error) {
		return func(ctx context.Context) (locktable.Result, error) {
			<-ctx.Done()
			return locktable.Result{}, err
		}
	}
	for _, tc := range []struct {
		name           string
		leader         string
		alone          bool
		local          func(context.Context) (locktable.Result, error)
		call           func(context.Context, string) (wire.ProposeReply, error)
		sent, noLeader bool
	}{
		{name: "alone without a leader", alone: true, noLeader: true},
		{name: "nobody knows a leader", noLeader: true},
		{name: "nobody reached", leader: "n2", noLeader: true,
			call: func(context.Context, string) (wire.ProposeReply, error) { return refusedDial() }},
		{name: "all silent", leader: "n2", sent: true, noLeader: true,
			call: func(ctx context.Context, _ string) (wire.ProposeReply, error) { return silence(ctx) }},
		{name: "the leader never knows", leader: "n2", sent: true,
			call: func(context.Context, string) (wire.ProposeReply, error) { return status(wire.StatusUnknown), nil }},
		{name: "its own queue stands still", leader: self, alone: true, local: slowLocal(notDone(context.DeadlineExceeded)), noLeader: true},
		{name: "its own log hangs", leader: self, alone: true, local: slowLocal(unknown(context.DeadlineExceeded)), sent: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world, r *Router) {
				if tc.alone {
					w.others = nil
				}
				if tc.local != nil {
					w.local = tc.local
				}
				if tc.call != nil {
					w.call = tc.call
				}
				w.setLeader(tc.leader)
				_, err := w.do(r, limit, Options{})
				e := wantErr(t, err, tc.sent, tc.noLeader, context.DeadlineExceeded)
				if d := time.Since(w.start); d != limit {
					t.Errorf("ended after %v", d)
				}
				if tc.noLeader && e.Why != w.why {
					t.Errorf("why: %q", e.Why)
				}
			})
		})
	}
}

// A context that ends within the first attempt is no word about the leader.
func TestShortContextDoesNotBlameTheCluster(t *testing.T) {
	for _, renewal := range []bool{false, true} {
		bubble(t, func(t *testing.T, w *world, r *Router) {
			w.setLeader("n2")
			w.call = func(ctx context.Context, _ string) (wire.ProposeReply, error) { return silence(ctx) }
			_, err := w.do(r, 20*time.Millisecond, Options{Renewal: renewal})
			wantErr(t, err, true, false, context.DeadlineExceeded)
		})
	}
}

func TestEndedContextSendsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, r *Router) {
		w.setLeader("n2")
		_, err := w.do(r, 0, Options{})
		wantErr(t, err, false, false, context.DeadlineExceeded)
		wantTargets(t, w)
	})
}

func TestInternalCommandsAreNotRouted(t *testing.T) {
	for _, op := range []locktable.Op{locktable.OpFound, locktable.OpExpire, locktable.OpDrained, locktable.OpLevel} {
		bubble(t, func(t *testing.T, w *world, r *Router) {
			w.setLeader("n2")
			_, err := r.Do(t.Context(), &locktable.Command{Op: op}, Options{})
			wantErr(t, err, false, false, ErrRefused)
			rep := r.Serve(t.Context(), wire.ProposeRequest{Command: locktable.Command{Op: op}})
			if rep.Status != wire.StatusRefused {
				t.Errorf("op %d served: %v", op, rep.Status)
			}
			wantTargets(t, w)
		})
	}
}

func TestAttemptIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, r *Router) {
		w.setLeader("n2")
		w.call = func(ctx context.Context, to string) (wire.ProposeReply, error) {
			if to == "n3" {
				return done(), nil
			}
			return silence(ctx)
		}
		if _, err := w.do(r, time.Minute, Options{}); err != nil {
			t.Fatal(err)
		}
		wantTargets(t, w, "n2", "n3")
		if at := w.asked[1].at; at < time.Second || at > time.Second+firstPause {
			t.Errorf("the second attempt began at %v", at)
		}
	})
}

func TestPauseEndsWhenTheLeaderChanges(t *testing.T) {
	for _, opt := range []Options{{}, {Renewal: true}} {
		bubble(t, func(t *testing.T, w *world, r *Router) {
			w.call = func(_ context.Context, to string) (wire.ProposeReply, error) {
				if to == "n9" {
					return done(), nil
				}
				return status(wire.StatusNoQuorum), nil
			}
			const elected = 2*time.Second + 3*time.Millisecond
			time.AfterFunc(elected, func() { w.setLeader("n9") })
			if _, err := w.do(r, time.Minute, opt); err != nil {
				t.Fatal(err)
			}
			if d := time.Since(w.start); d != elected {
				t.Errorf("done at %v, elected at %v", d, elected)
			}
			if n := len(w.asked); n > 20 {
				t.Errorf("%d attempts in two seconds", n)
			}
		})
	}
}

// However the members mislead, tries stay apart.
func TestNeverLoopsWithoutPause(t *testing.T) {
	for name, mislead := range map[string]func(w *world, to string) wire.ProposeReply{
		"two name each other": func(_ *world, to string) wire.ProposeReply {
			return hint(map[string]string{"n2": "n3", "n3": "n2"}[to])
		},
		"ever new names":   func(w *world, _ string) wire.ProposeReply { return hint(fmt.Sprint("x", len(w.asked))) },
		"it is you":        func(*world, string) wire.ProposeReply { return hint(self) },
		"leadership flaps": func(w *world, to string) wire.ProposeReply { w.setLeader("n2"); return status(wire.StatusNotLeader) },
		"flaps, with hints": func(w *world, to string) wire.ProposeReply {
			w.setLeader("n2")
			return hint(fmt.Sprint("x", len(w.asked)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world, r *Router) {
				w.setLeader("n2")
				w.call = func(_ context.Context, to string) (wire.ProposeReply, error) { return mislead(w, to), nil }
				_, err := w.do(r, 10*time.Second, Options{})
				wantErr(t, err, false, true, context.DeadlineExceeded)
				// At most maxSkips+1 tries for each pause of at least half of firstPause.
				if n, most := len(w.asked), int(10*time.Second/(firstPause/2))*(maxSkips+1); n > most {
					t.Errorf("%d attempts in 10 s, at most %d expected", n, most)
				}
			})
		})
	}
}

func TestHintIsBelievedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, r *Router) {
		w.setLeader("n2")
		n := 0
		w.call = func(_ context.Context, to string) (wire.ProposeReply, error) {
			n++
			switch {
			case to == "n2" && n == 1:
				return hint("n4"), nil
			case to == "n4":
				return refusedDial()
			}
			return done(), nil
		}
		if _, err := w.do(r, time.Minute, Options{}); err != nil {
			t.Fatal(err)
		}
		wantTargets(t, w, "n2", "n4", "n2")
	})
}

func TestOverloadIsToldAfterAFewTries(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, r *Router) {
		w.setLeader("n2")
		w.call = func(context.Context, string) (wire.ProposeReply, error) { return status(wire.StatusOverloaded), nil }
		_, err := w.do(r, time.Minute, Options{})
		wantErr(t, err, false, false, commit.ErrOverloaded)
		wantTargets(t, w, "n2", "n2", "n2")
		if d := time.Since(w.start); d > time.Second {
			t.Errorf("told after %v", d)
		}
	})
}

func TestOverloadAfterAnUnknownCopyIsNotCalledUnsent(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, r *Router) {
		w.setLeader("n2")
		w.call = func(context.Context, string) (wire.ProposeReply, error) {
			if len(w.asked) == 1 {
				return status(wire.StatusUnknown), nil
			}
			return status(wire.StatusOverloaded), nil
		}
		_, err := w.do(r, time.Minute, Options{})
		wantErr(t, err, true, false, commit.ErrOverloaded)
	})
}

func TestRenewalIsNotGivenUpForOverload(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, r *Router) {
		w.setLeader("n2")
		w.call = func(context.Context, string) (wire.ProposeReply, error) {
			if time.Since(w.start) < 5*time.Second {
				return status(wire.StatusOverloaded), nil
			}
			return done(), nil
		}
		if _, err := w.do(r, time.Minute, Options{Renewal: true}); err != nil {
			t.Error(err)
		}
	})
}
