package router

import (
	"context"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/commit"
	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/transport"
)

func TestServe(t *testing.T) {
	fails := func(err error) func(context.Context) (locktable.Result, error) {
		return func(context.Context) (locktable.Result, error) { return locktable.Result{}, err }
	}
	for _, tc := range []struct {
		name    string
		leader  string
		hops    uint8
		local   func(context.Context) (locktable.Result, error)
		forward wire.ProposeReply
		err     error
		want    wire.Status
		hint    string
		asked   []string
	}{
		{name: "leads", leader: self, local: fails(nil), want: wire.StatusDone, asked: []string{self}},
		{name: "leads, as only Local knows", leader: "n2", hops: 2, local: fails(nil), want: wire.StatusDone, asked: []string{self}},
		{name: "overloaded", leader: self, local: fails(notDone(commit.ErrOverloaded)), want: wire.StatusOverloaded, asked: []string{self}},
		{name: "stopping", leader: self, local: fails(notDone(commit.ErrStopped)), want: wire.StatusStopping, asked: []string{self}},
		{name: "unknown", leader: self, local: fails(unknown(errLog)), want: wire.StatusUnknown, asked: []string{self}},
		{name: "leads no longer, never forwards to itself", leader: self, want: wire.StatusNotLeader, asked: []string{self}},
		{name: "no leader", want: wire.StatusNoQuorum, asked: []string{self}},
		{name: "forwards", leader: "n2", forward: done(), want: wire.StatusDone, asked: []string{self, "n2"}},
		{name: "forwards once more", leader: "n2", hops: 1, forward: done(), want: wire.StatusDone, asked: []string{self, "n2"}},
		{name: "not further", leader: "n2", hops: 2, want: wire.StatusNotLeader, hint: "n2", asked: []string{self}},
		{name: "nor if the hops overflow", leader: "n2", hops: 255, want: wire.StatusNotLeader, hint: "n2", asked: []string{self}},
		{name: "passes a hint on", leader: "n2", forward: hint("n5"), want: wire.StatusNotLeader, hint: "n5", asked: []string{self, "n2"}},
		{name: "leader not reached", leader: "n2", err: &transport.DialError{Err: errLog},
			want: wire.StatusNotLeader, hint: "n2", asked: []string{self, "n2"}},
		{name: "leader silent", leader: "n2", err: &transport.UnknownError{Err: errLog}, want: wire.StatusUnknown, asked: []string{self, "n2"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world, r *Router) {
				if tc.leader != "" {
					w.setLeader(tc.leader)
				}
				if tc.local != nil {
					w.local = tc.local
				}
				w.call = func(context.Context, string) (wire.ProposeReply, error) { return tc.forward, tc.err }
				req := wire.ProposeRequest{Hops: tc.hops, Timeout: time.Second, Command: locktable.Command{Op: locktable.OpClaim}}
				rep := r.Serve(t.Context(), req)
				if rep.Status != tc.want || rep.LeaderID != tc.hint {
					t.Errorf("%v with hint %q (%s), want %v with %q", rep.Status, rep.LeaderID, rep.Detail, tc.want, tc.hint)
				}
				wantTargets(t, w, tc.asked...)
				if rep.Status == wire.StatusNoQuorum && rep.Detail != w.why {
					t.Errorf("detail %q", rep.Detail)
				}
			})
		})
	}
}

func TestServeIsBoundedByTheRequest(t *testing.T) {
	for _, tc := range []struct{ asked, want time.Duration }{
		{300 * time.Millisecond, 300 * time.Millisecond},
		{0, defaultAttempt},
		{-time.Hour, defaultAttempt},
		{1000 * time.Hour, maxServe},
	} {
		bubble(t, func(t *testing.T, w *world, r *Router) {
			w.setLeader("n2")
			w.call = func(ctx context.Context, _ string) (wire.ProposeReply, error) { return silence(ctx) }
			r.Serve(t.Context(), wire.ProposeRequest{Timeout: tc.asked})
			if d := time.Since(w.start); d != tc.want {
				t.Errorf("asked for %v: served for %v, want %v", tc.asked, d, tc.want)
			}
		})
	}
}

// The forwarded request carries what is left of the time and one hop more.
func TestForwardedRequest(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, _ *Router) {
		w.setLeader("n2")
		var got wire.ProposeRequest
		env := w.env()
		env.Local = func(context.Context, *locktable.Command) (locktable.Result, error) {
			time.Sleep(100 * time.Millisecond)
			return locktable.Result{}, ErrNotLeader
		}
		env.Call = func(_ context.Context, _ Peer, req wire.ProposeRequest) (wire.ProposeReply, error) {
			got = req
			return done(), nil
		}
		cmd := locktable.Command{Op: locktable.OpClaim, Session: 4, Seq: 2}
		r := New(env)
		defer r.Wait()
		r.Serve(t.Context(), wire.ProposeRequest{Hops: 1, Timeout: time.Second, Command: cmd})
		if got.Hops != 2 || got.Timeout != 900*time.Millisecond || got.Command.Session != 4 || got.Command.Seq != 2 {
			t.Errorf("%+v", got)
		}
	})
}
