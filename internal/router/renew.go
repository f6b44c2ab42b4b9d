package router

import (
	"context"
	"fmt"

	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// load is what one call brings to the leader: a command, or renewals, which are asked for anew by each attempt.
type load struct {
	cmd      *locktable.Command
	renewals func() []wire.Renewal
}

// Renewed is the answer to the renewal of one session.
type Renewed struct {
	Session locktable.SessionID
	Result  locktable.Result
}

// Renew is Do for renewals of many sessions at once, of which none is given up for overload while ctx lasts. They go as one request and are answered together, one
// result each, and are hedged together. due says which are still wanted; it is called for each attempt, by several goroutines at once, and what it gives, at
// most wire.MaxRenewals, belongs to the Router. If it gives none the call ends without a result.
func (r *Router) Renew(ctx context.Context, due func() []wire.Renewal, opt Options) ([]Renewed, error) {
	opt.Renewal = true
	t := trip{router: r, load: load{renewals: due}, opt: opt.withDefaults()}
	a, err := t.run(ctx)
	return a.renewed, err
}

// ServeRenew is Serve for renewals of many sessions at once.
func (r *Router) ServeRenew(ctx context.Context, req wire.RenewRequest) wire.RenewReply {
	a := r.serve(ctx, load{renewals: func() []wire.Renewal { return req.Renewals }}, req.Hops, req.Timeout)
	rep := wire.RenewReply{Status: a.Status, LeaderID: a.LeaderID, LeaderAddr: a.LeaderAddr, Detail: a.Detail}
	for _, v := range a.renewed {
		rep.Results = append(rep.Results, v.Result)
	}
	return rep
}

func (r *Router) localRenew(ctx context.Context, list []wire.Renewal) answer {
	cmds := make([]locktable.Command, len(list))
	ptrs := make([]*locktable.Command, len(list))
	for i, v := range list {
		cmds[i] = v.Command()
		ptrs[i] = &cmds[i]
	}
	results, err := r.env.LocalRenew(ctx, ptrs)
	a := localAnswer(locktable.Result{}, err)
	if err == nil {
		a.renewed = paired(list, results)
	}
	return a
}

func (r *Router) callRenew(ctx context.Context, p Peer, req wire.RenewRequest) answer {
	if len(req.Renewals) == 0 {
		return reply(wire.ProposeReply{Status: wire.StatusDone})
	}
	rep, err := r.env.CallRenew(ctx, p, req)
	if err == nil && rep.Status == wire.StatusDone && len(rep.Results) != len(req.Renewals) {
		err = fmt.Errorf("%d results for %d renewals", len(rep.Results), len(req.Renewals))
	}
	a := callAnswer(p, wire.ProposeReply{Status: rep.Status, LeaderID: rep.LeaderID, LeaderAddr: rep.LeaderAddr, Detail: rep.Detail}, err)
	if a.Status == wire.StatusDone {
		a.renewed = paired(req.Renewals, rep.Results)
	}
	return a
}

// paired puts to each renewal its result, if there are any.
func paired(list []wire.Renewal, results []locktable.Result) []Renewed {
	if len(results) != len(list) {
		return nil
	}
	all := make([]Renewed, len(list))
	for i, v := range list {
		all[i] = Renewed{v.Session, results[i]}
	}
	return all
}
