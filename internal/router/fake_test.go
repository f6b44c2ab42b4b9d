package router

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/transport"
)

// world is what one Router sees, as a script: every attempt asks it, and it remembers who was asked when.
type world struct {
	t     *testing.T
	start time.Time
	local func(ctx context.Context) (locktable.Result, error)
	call  func(ctx context.Context, to string) (wire.ProposeReply, error)
	why   string

	mu      sync.Mutex
	leader  Peer
	changed chan struct{}
	others  []Peer
	asked   []ask
	renewed [][]wire.Renewal // with each ask of renewals
	cmd     *locktable.Command
}

// ask is one attempt.
type ask struct {
	to string
	at time.Duration
}

const self = "n1"

func newWorld(t *testing.T) *world {
	w := &world{t: t, start: time.Now(), changed: make(chan struct{}), why: "no quorum: 1 of 3 voters reachable"}
	w.others = []Peer{{"n2", "h2:1"}, {"n3", "h3:1"}}
	w.local = func(context.Context) (locktable.Result, error) { return locktable.Result{}, ErrNotLeader }
	w.call = func(context.Context, string) (wire.ProposeReply, error) { return status(wire.StatusNotLeader), nil }
	return w
}

func status(s wire.Status) wire.ProposeReply { return wire.ProposeReply{Status: s} }

func done() wire.ProposeReply {
	return wire.ProposeReply{Status: wire.StatusDone, Result: locktable.Result{Code: locktable.CodeOK}}
}

func hint(id string) wire.ProposeReply {
	return wire.ProposeReply{Status: wire.StatusNotLeader, LeaderID: id, LeaderAddr: "hint:" + id}
}

func (w *world) setLeader(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leader = Peer{ID: id, Addr: "leader:" + id}
	if id == "" {
		w.leader = Peer{}
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *world) note(to string, c *locktable.Command) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, ask{to, time.Since(w.start)})
	if w.cmd != nil && (w.cmd.Seq != c.Seq || w.cmd.Session != c.Session || w.cmd.Op != c.Op) {
		w.t.Errorf("another command was sent: %+v", c)
	}
}

func (w *world) noteRenewals(to string, list []wire.Renewal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, ask{to, time.Since(w.start)})
	w.renewed = append(w.renewed, list)
}

// renewedAll has a result for each renewal that tells whose it is.
func renewedAll(list []wire.Renewal) []locktable.Result {
	var results []locktable.Result
	for _, v := range list {
		results = append(results, locktable.Result{Code: locktable.CodeOK, Session: v.Session, Renewed: true})
	}
	return results
}

func (w *world) env() Env {
	return Env{
		Self: self,
		Local: func(ctx context.Context, c *locktable.Command) (locktable.Result, error) {
			w.note(self, c)
			return w.local(ctx)
		},
		Leader: func() (Peer, <-chan struct{}) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.leader, w.changed
		},
		Others: func() []Peer { return w.others },
		Call: func(ctx context.Context, p Peer, req wire.ProposeRequest) (wire.ProposeReply, error) {
			w.note(p.ID, &req.Command)
			if p.ID == self {
				w.t.Error("this node called itself")
			}
			return w.call(ctx, p.ID)
		},
		Why: func() string { return w.why },
		LocalRenew: func(ctx context.Context, cmds []*locktable.Command) ([]locktable.Result, error) {
			var list []wire.Renewal
			for _, c := range cmds {
				list = append(list, wire.Renewal{Session: c.Session, Since: c.Since})
			}
			w.noteRenewals(self, list)
			_, err := w.local(ctx)
			return renewedAll(list), err
		},
		CallRenew: func(ctx context.Context, p Peer, req wire.RenewRequest) (wire.RenewReply, error) {
			w.noteRenewals(p.ID, req.Renewals)
			rep, err := w.call(ctx, p.ID)
			renewed := wire.RenewReply{Status: rep.Status, LeaderID: rep.LeaderID, LeaderAddr: rep.LeaderAddr, Detail: rep.Detail}
			if rep.Status == wire.StatusDone {
				renewed.Results = renewedAll(req.Renewals)
			}
			return renewed, err
		},
	}
}

// silence answers nothing until the attempt ends.
func silence(ctx context.Context) (wire.ProposeReply, error) {
	<-ctx.Done()
	return wire.ProposeReply{}, &transport.UnknownError{Err: ctx.Err()}
}

func refusedDial() (wire.ProposeReply, error) {
	return wire.ProposeReply{}, &transport.DialError{Err: context.DeadlineExceeded}
}

func (w *world) targets() []string {
	var ids []string
	for _, a := range w.asked {
		ids = append(ids, a.to)
	}
	return ids
}

// bubble runs a test in fake time and waits for what it left.
func bubble(t *testing.T, test func(t *testing.T, w *world, r *Router)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := New(w.env())
		defer r.Wait()
		test(t, w, r)
	})
}

func (w *world) do(r *Router, timeout time.Duration, opt Options) (locktable.Result, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), timeout)
	defer cancel()
	w.cmd = &locktable.Command{Op: locktable.OpClaim, Session: 7, Seq: 3, Names: []string{"job"}}
	if opt.Renewal {
		w.cmd = &locktable.Command{Op: locktable.OpRenew, Session: 7}
	}
	return r.Do(ctx, w.cmd, opt)
}
