package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

var (
	// ErrNoLeader: nobody leads the election now.
	ErrNoLeader = errors.New("no leader")
	// ErrResigned: the leadership was given up by its own leader, with Resign or HandOver.
	ErrResigned = errors.New("leadership resigned")
	// ErrNoCandidate: nobody of that node waits for the leadership. The error is a *CandidateError.
	ErrNoCandidate = errors.New("no such candidate")
)

// CandidateError tells that leadership was not handed over, since no candidate of the node waits for it. It matches
// ErrNoCandidate.
type CandidateError struct {
	Name string // of the election
	Node string // whom HandOver named
	// the candidate went away while leadership was on its way: it passed to whoever waited next. Otherwise the leader
	// still leads
	Released bool
}

func (e *CandidateError) Error() string {
	if e.Released {
		return fmt.Sprintf("election %q: the candidate of node %q went away; leadership passed on in line", e.Name, e.Node)
	}
	return fmt.Sprintf("election %q: no candidate of node %q waits", e.Name, e.Node)
}

// Is reports whether target is ErrNoCandidate.
func (e *CandidateError) Is(target error) bool { return target == ErrNoCandidate }

// Election chooses one leader at a time among those that campaign for a name, in the order in which they came, and
// shows everybody who leads. It is an exclusive lock whose holder publishes a value, for instance the address at which
// it serves.
//
// Like a Mutex it is only a name with options, to be shared freely. The name is that of a lock: a Mutex or a MultiMutex
// of the same name excludes the leader, and its holder is shown as one (with no value).
type Election struct{ request request }

// NewElection names an election; see NewMutex for names and options. A *Node as owner goes on to campaign when its
// session was lost. A *Session can not: with it, all of the leaderships and locks that it holds are lost together.
func NewElection(o Owner, name string, opts ...LockOption) *Election {
	return &Election{newRequest(o, locktable.Exclusive, opts, name)}
}

// Campaign waits until it is this candidate's turn to lead, with value published from the first moment on. Errors and
// ctx are those of Mutex.Lock: ctx bounds the wait, never the leadership. A value is UTF-8 of at most 4 KiB.
//
// The leadership lasts until Resign, HandOver or loss. Run is the safer form: it waits for the work to end before it
// resigns.
func (e *Election) Campaign(ctx context.Context, value string) (*Leadership, error) {
	if err := checkValue(value); err != nil {
		return nil, err
	}
	r := e.request
	r.value = value
	h, err := r.acquire(ctx, "campaign", false)
	if err != nil {
		return nil, err
	}
	return newLeadership(e, h), nil
}

func checkValue(value string) error {
	switch {
	case len(value) > locktable.MaxValueLen:
		return &FieldError{Field: "value", Value: value, Problem: fmt.Sprintf("has %d bytes; %d is the most", len(value), locktable.MaxValueLen)}
	case !utf8.ValidString(value):
		return &FieldError{Field: "value", Value: value, Problem: "must be UTF-8"}
	}
	return nil
}

// Leader is who leads an election. Its Token is zero if nobody does.
type Leader struct {
	Node     string // Config.Name of the leader's node; "" if Observe meets one that this node does not know (any more)
	ServerID string
	Session  SessionID
	Value    string // what it has published last
	Token    Token
	Since    time.Time // wall clock of the raft leader at the grant, for display
}

// Leader tells who leads. The answer is linearizable: it is no older than the call, though it may be outdated when it
// arrives. ErrNoLeader means that nobody does; a *KindError that the name is in use as a semaphore. ctx bounds the
// round trip.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	info, err := e.inspect(ctx, "ask for the leader")
	if err != nil {
		return Leader{}, err
	}
	l, err := leaderOf(info)
	if err == nil && l.Token == 0 {
		err = fmt.Errorf("election %q: %w", e.request.label(), ErrNoLeader)
	}
	return l, err
}

// Candidates lists who waits to lead, in line: at most the first 64. It is as linearizable as Leader.
func (e *Election) Candidates(ctx context.Context) ([]Waiter, error) {
	info, err := e.inspect(ctx, "list candidates")
	if err != nil {
		return nil, err
	}
	if _, err := leaderOf(info); err != nil {
		return nil, err
	}
	return lockInfo(info).Queue, nil
}

func (e *Election) inspect(ctx context.Context, op string) (*locktable.Info, error) {
	if err := e.request.check(); err != nil {
		return nil, err
	}
	n, name := nodeOf(e.request.owner), e.request.label()
	if err := n.usable(ctx, op); err != nil {
		return nil, err
	}
	res, err := n.ask(ctx, op, name, &locktable.Command{Op: locktable.OpInspect, Names: e.request.names})
	if err != nil {
		return nil, err
	}
	if res.Code != locktable.CodeOK || res.Info == nil {
		return nil, refusal(op, name, &res)
	}
	return res.Info, nil
}

// leaderOf is the leader that a lock has: its exclusive holder. One that was lost and whose lock delay goes on leads no more.
func leaderOf(info *locktable.Info) (Leader, error) {
	if len(info.Holders) == 0 {
		return Leader{}, nil
	}
	switch h := holderOf(&info.Holders[0]); {
	case h.Mode == Permits:
		return Leader{}, &KindError{Name: info.Name, Semaphore: true}
	case h.Mode != Exclusive || h.Barred:
		return Leader{}, nil
	default:
		return Leader{Node: h.Node, ServerID: h.ServerID, Session: h.Session, Value: h.Value, Token: h.Token, Since: h.Since}, nil
	}
}
