// Package router brings a command to the leader, wherever it is: any node accepts any operation.
//
// A command is tried until it is answered or its caller's time is over. Every try carries the same command with the same session
// and sequence, so the state machine lets it take effect at most once however many copies arrive. What the router must get right
// is therefore not "send only once" but: never call done what is not, never call not sent what was, end in time, and say why.
package router

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Peer is another node.
type Peer struct{ ID, Addr string }

// Env is what a Router needs from its surroundings. All funcs are called from many goroutines at once; Local and Call end when
// their context ends.
type Env struct {
	Self string // this node's server id
	// Local does a command as the leader. It returns ErrNotLeader, at once, when this node does not lead, and otherwise what
	// commit.Batcher.Do returned. An error that is neither counts as an unknown outcome.
	Local func(ctx context.Context, c *locktable.Command) (locktable.Result, error)
	// LocalRenew is Local for renewals of many sessions at once: what commit.Batcher.RenewAll returned.
	LocalRenew func(ctx context.Context, c []*locktable.Command) ([]locktable.Result, error)
	// Leader is the leader as this node knows it, the zero Peer if it knows none, and a channel that is closed when that may have
	// changed; closing it ends pauses, and attempts at a leader that is not the leader any more.
	Leader func() (Peer, <-chan struct{})
	// Others lists members to try through when the leader is not known or not reached, best first.
	Others func() []Peer
	// Call sends one request. A *transport.DialError says that nothing was sent; after any other error the request may have arrived.
	Call func(ctx context.Context, p Peer, req wire.ProposeRequest) (wire.ProposeReply, error)
	// CallRenew is Call for renewals of many sessions at once.
	CallRenew func(ctx context.Context, p Peer, req wire.RenewRequest) (wire.RenewReply, error)
	// Why says for people why there may be no leader, such as "no quorum: 1 of 3 voters reachable"; "" if it does not know.
	Why func() string
}

// Options are the wishes of one call of Do.
type Options struct {
	// Attempt bounds one attempt; default 1 s.
	Attempt time.Duration
	// Renewal is for a command on which a lease hangs. When an attempt has not been answered after Hedge, another begins
	// through another member, and the first answer counts. It is never given up for overload while ctx lasts.
	Renewal bool
	// Hedge is for Renewal; default 0.5 s.
	Hedge time.Duration
}

var (
	// ErrNotLeader is Env.Local's word for "this node does not lead". Do never returns it.
	ErrNotLeader = errors.New("this node does not lead")
	// ErrNoQuorum is in the error of a call during which no leader was reached.
	ErrNoQuorum = errors.New("no quorum")
	// ErrRefused means that the command will not be done however often it is sent.
	ErrRefused = errors.New("command refused")
)

// Error is why a command got no answer. Every error of Do is one. It unwraps to Err, and to ErrNoQuorum if NoLeader; what
// lies below (of the log, of the wire) is told in Why as text and can not be matched.
type Error struct {
	Err      error  // the context's error, commit.ErrOverloaded, or ErrRefused
	Why      string // what stood in the way, for people; may be ""
	Sent     bool   // a copy of the command may have taken effect or still take effect. False is certain
	NoLeader bool   // no leader was reached by the last attempt that could tell
}

// Error says what the call waited for, and how it ended.
func (e *Error) Error() string {
	var b strings.Builder
	if e.NoLeader && !strings.HasPrefix(e.Why, ErrNoQuorum.Error()) {
		b.WriteString(ErrNoQuorum.Error() + ": ")
	}
	if e.Why != "" {
		b.WriteString(e.Why + ": ")
	}
	b.WriteString(e.Err.Error())
	if e.Sent {
		b.WriteString(" (it may still take effect)")
	}
	return b.String()
}

// Unwrap gives Err, and ErrNoQuorum if no leader was reached.
func (e *Error) Unwrap() []error {
	if e.NoLeader {
		return []error{e.Err, ErrNoQuorum}
	}
	return []error{e.Err}
}

const (
	defaultAttempt = time.Second
	hedgeAfter     = 500 * time.Millisecond
	maxServe       = 10 * time.Second // however long a request from outside wants to wait

	// maxHops is how often a request is forwarded. Once suffices with a member that knows the leader, twice if leadership just moved;
	// what needs more runs after stale views in a circle, and its origin knows no less than they do.
	maxHops = 2

	// overloadTries is how often a command meets a full queue before its caller is told. A few, since a burst is over soon; not for
	// as long as ctx lasts, since then overload would show as timeouts and feed itself by retries.
	overloadTries = 3
)

// Router carries commands. It is safe for concurrent use.
type Router struct {
	env    Env
	reigns *reigns
	hedges sync.WaitGroup
}

// New makes a Router.
func New(env Env) *Router { return &Router{env: env, reigns: newReigns(env.Leader)} }

// Wait ends what the Router has in the background and returns when it is gone: the attempts that a hedged Do left behind, which are cancelled when
// Do returns, so it does not take long; and the watch for another leader. For the end of a node, after the last Do.
func (r *Router) Wait() {
	r.hedges.Wait()
	r.reigns.wait()
}

// Do sends c until it is answered, and ctx bounds that. An answer is a Result, also one whose Code tells of a refusal by the state
// machine. c must not be changed any more, whatever Do returned, because copies may still be on their way. Without an answer the
// error is an *Error:
//   - ctx ended: Err is its error, and NoLeader tells whether the cluster was the reason;
//   - the leader's queue was full three times in a row: commit.ErrOverloaded (for a renewal: only when ctx ended);
//   - the command is one that nobody would do, such as an internal one: ErrRefused.
//
// OpOpen and OpForce have no sequence. A second copy of an open makes an empty session that expires; a second copy of a force finds the
// hold gone and says so.
func (r *Router) Do(ctx context.Context, c *locktable.Command, opt Options) (locktable.Result, error) {
	if isInternal(c.Op) {
		return locktable.Result{}, &Error{Err: ErrRefused, Why: "internal commands are not routed"}
	}
	t := trip{router: r, load: load{cmd: c}, opt: opt.withDefaults()}
	a, err := t.run(ctx)
	return a.Result, err
}

func (o Options) withDefaults() Options {
	if o.Attempt <= 0 {
		o.Attempt = defaultAttempt
	}
	if o.Hedge <= 0 {
		o.Hedge = hedgeAfter
	}
	return o
}

// isInternal tells whether only the leader itself may make such a command, for the term in which it leads.
func isInternal(op locktable.Op) bool {
	switch op {
	case locktable.OpFound, locktable.OpExpire, locktable.OpDrained, locktable.OpLevel:
		return true
	}
	return false
}

// Serve answers a request from another node. A leader does it; another node passes it on to the leader it knows, unless it has come
// too far; else it says who leads as far as it knows. ctx bounds it, and the request's own Timeout.
func (r *Router) Serve(ctx context.Context, req wire.ProposeRequest) wire.ProposeReply {
	if isInternal(req.Command.Op) {
		return wire.ProposeReply{Status: wire.StatusRefused, Detail: "internal commands are not taken from others"}
	}
	return r.serve(ctx, load{cmd: &req.Command}, req.Hops, req.Timeout).ProposeReply
}

func (r *Router) serve(ctx context.Context, load load, hops uint8, timeout time.Duration) answer {
	bound := time.Now().Add(serveTimeout(timeout))
	cancel := context.CancelFunc(func() {})
	if deadline, ok := ctx.Deadline(); !ok || bound.Before(deadline) { // else whoever brought the request has seen to it
		ctx, cancel = context.WithDeadline(ctx, bound)
	}
	defer cancel()
	// Whether this node leads is asked of Local and not of Leader, which may lag behind.
	if a := r.local(ctx, load); a.Status != wire.StatusNotLeader {
		return a
	}
	leader, changed := r.env.Leader()
	switch {
	case leader.ID == "":
		return reply(wire.ProposeReply{Status: wire.StatusNoQuorum, Detail: r.env.Why()})
	case leader.ID == r.env.Self: // and Local has just denied it: never forward to oneself
		return reply(wire.ProposeReply{Status: wire.StatusNotLeader, Detail: "leadership is changing"})
	case hops >= maxHops:
		return reply(notLeader(leader, "too many hops"))
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	a := r.call(ctx, end, target{leader, changed}, load, hops+1)
	if a.unreached {
		a.ProposeReply = notLeader(leader, a.Detail) // it may be reachable for who asked
	}
	return a
}

func serveTimeout(asked time.Duration) time.Duration {
	if asked <= 0 {
		return defaultAttempt
	}
	return min(asked, maxServe)
}

func notLeader(leader Peer, detail string) wire.ProposeReply {
	return wire.ProposeReply{
		Status:   wire.StatusNotLeader,
		LeaderID: leader.ID, LeaderAddr: leader.Addr,
		Detail: detail,
	}
}

// local tries a command on this node.
func (r *Router) local(ctx context.Context, l load) answer {
	if l.renewals != nil {
		return r.localRenew(ctx, l.renewals())
	}
	res, err := r.env.Local(ctx, l.cmd)
	return localAnswer(res, err)
}

// call tries a command on another node, and cancels ctx if another leader than that node is known before it answers. hops is how often the
// command has been forwarded then.
func (r *Router) call(ctx context.Context, cancel context.CancelFunc, to target, l load, hops uint8) answer {
	defer r.reigns.ends(to, cancel)()
	var timeout time.Duration
	if deadline, ok := ctx.Deadline(); ok {
		// A request with no time left would be taken for one without a bound.
		timeout = max(time.Until(deadline), time.Millisecond)
	}
	if l.renewals != nil {
		return r.callRenew(ctx, to.Peer, wire.RenewRequest{Hops: hops, Timeout: timeout, Renewals: l.renewals()})
	}
	rep, err := r.env.Call(ctx, to.Peer, wire.ProposeRequest{Hops: hops, Timeout: timeout, Command: *l.cmd})
	return callAnswer(to.Peer, rep, err)
}
