package router

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock/internal/commit"
	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/transport"
)

// answer is how one attempt ended. Whatever can go wrong, here or elsewhere, is put into the terms of a reply, so that there is one
// place to decide what each means:
//
//	Done        final
//	Refused     final
//	Overloaded  not done; the leader is there; again after a pause, a few times
//	NotLeader   not done; again elsewhere
//	Stopping    not done; again elsewhere
//	NoQuorum    not done; again elsewhere
//	Unknown     may have been done or yet be done; the same again. Also any status of a newer version
type answer struct {
	wire.ProposeReply
	renewed   []Renewed // of renewals, in place of a result
	unreached bool      // not done because nothing could be sent
	silent    bool      // something was sent and nothing came back, so nothing is known of the leader either
}

// localAnswer puts what Env.Local returned into the terms of a reply.
func localAnswer(res locktable.Result, err error) answer {
	if err == nil {
		return reply(wire.ProposeReply{Status: wire.StatusDone, Result: res})
	}
	return reply(wire.ProposeReply{Status: localStatus(err), Detail: err.Error()})
}

func localStatus(err error) wire.ProposeStatus {
	if errors.Is(err, ErrNotLeader) {
		return wire.StatusNotLeader
	}
	var known *commit.Error
	if !errors.As(err, &known) || known.Outcome != commit.NotDone {
		return wire.StatusUnknown
	}
	switch {
	case errors.Is(err, commit.ErrOverloaded):
		return wire.StatusOverloaded
	case errors.Is(err, commit.ErrStopped):
		return wire.StatusStopping
	case errors.Is(err, commit.ErrTooLarge), errors.Is(err, wire.ErrLevel):
		return wire.StatusRefused
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		// It stayed in the queue for a whole attempt: this leader can not write. Not Overloaded, or a leader with a hung disk would
		// make its callers give up before another one is elected.
		return wire.StatusNoQuorum
	}
	return wire.StatusNotLeader
}

// callAnswer puts what Env.Call returned into the terms of a reply.
func callAnswer(p Peer, rep wire.ProposeReply, err error) answer {
	if err == nil {
		return reply(rep)
	}
	detail := fmt.Sprintf("call %s at %s: %v", p.ID, p.Addr, err)
	if dial := (*transport.DialError)(nil); errors.As(err, &dial) {
		return answer{ProposeReply: wire.ProposeReply{Status: wire.StatusNotLeader, Detail: detail}, unreached: true}
	}
	return answer{ProposeReply: wire.ProposeReply{Status: wire.StatusUnknown, Detail: detail}, silent: true}
}

func reply(rep wire.ProposeReply) answer { return answer{ProposeReply: rep} }

// leaderReached tells whether a leader had to do with the answer.
func (a answer) leaderReached() bool {
	switch a.Status {
	case wire.StatusDone, wire.StatusOverloaded, wire.StatusRefused:
		return true
	case wire.StatusNotLeader, wire.StatusStopping, wire.StatusNoQuorum:
		return false
	}
	return !a.silent
}

// maybeDone tells whether this copy of the command may have, or may yet get, its effect without the caller knowing.
func (a answer) maybeDone() bool {
	switch a.Status {
	case wire.StatusDone, wire.StatusOverloaded, wire.StatusRefused,
		wire.StatusNotLeader, wire.StatusStopping, wire.StatusNoQuorum:
		return false
	}
	return true
}

func (a answer) hint() Peer { return Peer{ID: a.LeaderID, Addr: a.LeaderAddr} }
