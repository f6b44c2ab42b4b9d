package router

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/commit"
	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/transport"
)

func renewals(sessions ...locktable.SessionID) []wire.Renewal {
	var list []wire.Renewal
	for _, s := range sessions {
		list = append(list, wire.Renewal{Session: s, Since: locktable.Rev(10 * s)})
	}
	return list
}

func wantRenewed(t *testing.T, got []Renewed, sessions ...locktable.SessionID) {
	t.Helper()
	var of []locktable.SessionID
	for _, v := range got {
		of = append(of, v.Session)
		if v.Result.Session != v.Session || !v.Result.Renewed {
			t.Errorf("session %d has the result of %d", v.Session, v.Result.Session)
		}
	}
	if !slices.Equal(of, sessions) {
		t.Errorf("renewed %v, want %v", of, sessions)
	}
}

// Renewals of many sessions go in one request, wherever the leader is, and each gets its own result.
func TestRenewalsGoTogether(t *testing.T) {
	for _, leader := range []string{self, "n2"} {
		bubble(t, func(t *testing.T, w *world, r *Router) {
			w.setLeader(leader)
			w.local = func(context.Context) (locktable.Result, error) { return locktable.Result{}, nil }
			w.call = func(context.Context, string) (wire.ProposeReply, error) { return done(), nil }
			got, err := r.Renew(t.Context(), func() []wire.Renewal { return renewals(3, 1, 2) }, Options{})
			if err != nil {
				t.Fatal(err)
			}
			wantRenewed(t, got, 3, 1, 2)
			wantTargets(t, w, leader)
			if !slices.Equal(w.renewed[0], renewals(3, 1, 2)) {
				t.Errorf("asked for %v", w.renewed[0])
			}
		})
	}
}

// Each attempt asks anew what is still wanted, and the answer is paired with what its own attempt asked for.
func TestRenewalsAreAskedForByEachAttempt(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, r *Router) {
		w.setLeader("n2")
		w.call = func(ctx context.Context, to string) (wire.ProposeReply, error) {
			if to == "n2" {
				return silence(ctx)
			}
			return done(), nil
		}
		wanted := renewals(1, 2, 3)
		go func() {
			time.Sleep(100 * time.Millisecond)
			w.mu.Lock()
			wanted = renewals(1, 3) // session 2 was lost meanwhile
			w.mu.Unlock()
		}()
		got, err := r.Renew(t.Context(), func() []wire.Renewal {
			w.mu.Lock()
			defer w.mu.Unlock()
			return wanted
		}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		wantRenewed(t, got, 1, 3)
		if d := time.Since(w.start); d != hedgeAfter {
			t.Errorf("done after %v", d)
		}
	})
}

// Nobody is asked for nothing.
func TestNoRenewals(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, r *Router) {
		w.setLeader("n2")
		if got, err := r.Renew(t.Context(), func() []wire.Renewal { return nil }, Options{}); err != nil || len(got) != 0 {
			t.Errorf("%v, %v", got, err)
		}
		wantTargets(t, w)
	})
}

// A reply with another number of results is none.
func TestRenewalsWithTooFewResults(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, r *Router) {
		w.setLeader("n2")
		env := w.env()
		env.CallRenew = func(_ context.Context, p Peer, req wire.RenewRequest) (wire.RenewReply, error) {
			w.noteRenewals(p.ID, req.Renewals)
			n := len(req.Renewals)
			if p.ID == "n2" {
				n--
			}
			return wire.RenewReply{Status: wire.StatusDone, Results: renewedAll(req.Renewals[:n])}, nil
		}
		short := New(env)
		defer short.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		got, err := short.Renew(ctx, func() []wire.Renewal { return renewals(1, 2) }, Options{})
		if err != nil {
			t.Fatal(err)
		}
		wantRenewed(t, got, 1, 2)
		if len(w.asked) != 2 || w.asked[0].to != "n2" || w.asked[1].to == "n2" {
			t.Errorf("asked %v", w.asked)
		}
	})
}

// Serving renewals obeys the rules of Serve: done here, forwarded a few times, or a hint; results only where it was done.
func TestServeRenew(t *testing.T) {
	for _, tc := range []struct {
		name   string
		leader string
		hops   uint8
		local  error
		err    error
		want   wire.Status
		asked  []string
	}{
		{name: "leads", leader: self, want: wire.StatusDone, asked: []string{self}},
		{name: "overloaded", leader: self, local: notDone(commit.ErrOverloaded), want: wire.StatusOverloaded, asked: []string{self}},
		{name: "no leader", local: ErrNotLeader, want: wire.StatusNoQuorum, asked: []string{self}},
		{name: "forwards", leader: "n2", hops: 1, local: ErrNotLeader, want: wire.StatusDone, asked: []string{self, "n2"}},
		{name: "not further", leader: "n2", hops: 2, local: ErrNotLeader, want: wire.StatusNotLeader, asked: []string{self}},
		{name: "leader not reached", leader: "n2", local: ErrNotLeader, err: &transport.DialError{Err: errLog}, want: wire.StatusNotLeader, asked: []string{self, "n2"}},
		{name: "leader silent", leader: "n2", local: ErrNotLeader, err: &transport.UnknownError{Err: errLog}, want: wire.StatusUnknown, asked: []string{self, "n2"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world, r *Router) {
				if tc.leader != "" {
					w.setLeader(tc.leader)
				}
				w.local = func(context.Context) (locktable.Result, error) { return locktable.Result{}, tc.local }
				w.call = func(context.Context, string) (wire.ProposeReply, error) { return done(), tc.err }
				rep := r.ServeRenew(t.Context(), wire.RenewRequest{Hops: tc.hops, Timeout: time.Second, Renewals: renewals(1, 2)})
				if rep.Status != tc.want {
					t.Errorf("%v (%s), want %v", rep.Status, rep.Detail, tc.want)
				}
				if n := len(rep.Results); n != map[bool]int{true: 2}[tc.want == wire.StatusDone] {
					t.Errorf("%d results with %v", n, rep.Status)
				}
				wantTargets(t, w, tc.asked...)
			})
		})
	}
}

// Overload ends no renewal before its time.
func TestRenewalsOutlastOverload(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, r *Router) {
		w.setLeader(self)
		w.local = func(context.Context) (locktable.Result, error) {
			return locktable.Result{}, notDone(commit.ErrOverloaded)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := r.Renew(ctx, func() []wire.Renewal { return renewals(1) }, Options{})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(w.start) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(w.start))
		}
	})
}
