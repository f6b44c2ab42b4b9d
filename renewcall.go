package quorumlock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/router"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/transport"
)

// renewCaller brings renewals of many sessions to another node: in one call, or one by one to a binary that does not know such calls. No feature level is needed for that: what
// goes into the log is the same, and a node that does not know a method says so and does nothing.
type renewCaller struct {
	together func(ctx context.Context, p router.Peer, req wire.RenewRequest) (wire.RenewReply, error)
	alone    func(ctx context.Context, p router.Peer, req wire.ProposeRequest) (wire.ProposeReply, error)

	mu  sync.Mutex
	old map[string]time.Time // by server id: until when it is not asked again whether it knows them
}

// oldFor is for how long a node that refused one call for many is asked one by one: about what an upgrade of one instance takes.
const oldFor = time.Minute

func (n *Node) newRenewCaller() *renewCaller {
	return &renewCaller{together: n.callRenew, alone: n.callPropose, old: make(map[string]time.Time)}
}

func (n *Node) callRenew(ctx context.Context, p router.Peer, req wire.RenewRequest) (wire.RenewReply, error) {
	b, err := n.calls.Call(ctx, p.Addr, p.ID, methodRenew, wire.AppendRenewRequest(nil, &req))
	if err != nil {
		return wire.RenewReply{}, err
	}
	return wire.DecodeRenewReply(b)
}

// call takes any error that the other node answers for "I do not know that": whatever it meant, asking one by one then tells.
func (r *renewCaller) call(ctx context.Context, p router.Peer, req wire.RenewRequest) (wire.RenewReply, error) {
	if !r.isOld(p.ID) {
		reply, err := r.together(ctx, p, req)
		if remote := (*transport.RemoteError)(nil); !errors.As(err, &remote) {
			return reply, err
		}
		r.note(p.ID)
	}
	return r.oneByOne(ctx, p, req)
}

func (r *renewCaller) isOld(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.old[id])
}

func (r *renewCaller) note(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for other, until := range r.old {
		if !now.Before(until) {
			delete(r.old, other) // server ids come and go
		}
	}
	r.old[id] = now.Add(oldFor)
}

// oneByOne sends all at the same time. The first that is not done speaks for all: the others are sent again with it, which a renewal does not mind.
func (r *renewCaller) oneByOne(ctx context.Context, p router.Peer, req wire.RenewRequest) (wire.RenewReply, error) {
	replies, errs := make([]wire.ProposeReply, len(req.Renewals)), make([]error, len(req.Renewals))
	var all sync.WaitGroup
	for i, v := range req.Renewals {
		all.Go(func() {
			replies[i], errs[i] = r.alone(ctx, p, wire.ProposeRequest{Hops: req.Hops, Timeout: req.Timeout, Command: v.Command()})
		})
	}
	all.Wait()
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return wire.RenewReply{}, errs[i]
	}
	results := make([]locktable.Result, len(replies))
	for i, a := range replies {
		if a.Status != wire.StatusDone {
			return wire.RenewReply{Status: a.Status, LeaderID: a.LeaderID, LeaderAddr: a.LeaderAddr, Detail: a.Detail}, nil
		}
		results[i] = a.Result
	}
	return wire.RenewReply{Status: wire.StatusDone, Results: results}, nil
}
