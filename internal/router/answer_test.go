package router

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/quorumlock/quorumlock/internal/commit"
	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/transport"
)

func notDone(err error) error { return &commit.Error{Outcome: commit.NotDone, Err: err} }
func unknown(err error) error { return &commit.Error{Outcome: commit.Unknown, Err: err} }

var errLog = errors.New("log says no")

// What each error of the own leader means: the status decides whether it is final, tried elsewhere, or the same again.
func TestLocalErrors(t *testing.T) {
	for _, tc := range []struct {
		name  string
		err   error
		want  wire.Status
		maybe bool // may have taken effect
		known bool // a leader was reached
	}{
		{"done", nil, wire.StatusDone, false, true},
		{"not leader", ErrNotLeader, wire.StatusNotLeader, false, false},
		{"not leader, wrapped", fmt.Errorf("apply: %w", ErrNotLeader), wire.StatusNotLeader, false, false},
		{"not leader, by the log", notDone(fmt.Errorf("%w: %w", ErrNotLeader, errLog)), wire.StatusNotLeader, false, false},
		{"not done", notDone(errLog), wire.StatusNotLeader, false, false}, // enqueue timeout, leadership transfer
		{"overloaded", notDone(commit.ErrOverloaded), wire.StatusOverloaded, false, true},
		{"stopped", notDone(fmt.Errorf("%w: %w", commit.ErrStopped, errLog)), wire.StatusStopping, false, false},
		{"too large", notDone(commit.ErrTooLarge), wire.StatusRefused, false, true},
		{"time over in the queue", notDone(context.DeadlineExceeded), wire.StatusNoQuorum, false, false},
		{"cancelled in the queue", notDone(context.Canceled), wire.StatusNoQuorum, false, false},
		{"time over in flight", unknown(context.DeadlineExceeded), wire.StatusUnknown, true, true},
		{"unknown", unknown(errLog), wire.StatusUnknown, true, true}, // leadership lost, shutdown, aborted by a restore
		{"of no kind", errLog, wire.StatusUnknown, true, true},
		{"a bare context error", context.DeadlineExceeded, wire.StatusUnknown, true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			checkAnswer(t, localAnswer(locktable.Result{}, tc.err), tc.want, tc.maybe, tc.known)
		})
	}
}

// What each way a call to another node can end means.
func TestCallErrors(t *testing.T) {
	reply := func(s wire.Status) wire.ProposeReply { return wire.ProposeReply{Status: s} }
	for _, tc := range []struct {
		name  string
		reply wire.ProposeReply
		err   error
		want  wire.Status
		maybe bool
		known bool
	}{
		{"done", reply(wire.StatusDone), nil, wire.StatusDone, false, true},
		{"not leader", reply(wire.StatusNotLeader), nil, wire.StatusNotLeader, false, false},
		{"overloaded", reply(wire.StatusOverloaded), nil, wire.StatusOverloaded, false, true},
		{"unknown", reply(wire.StatusUnknown), nil, wire.StatusUnknown, true, true},
		{"stopping", reply(wire.StatusStopping), nil, wire.StatusStopping, false, false},
		{"no quorum", reply(wire.StatusNoQuorum), nil, wire.StatusNoQuorum, false, false},
		{"refused", reply(wire.StatusRefused), nil, wire.StatusRefused, false, true},
		{"a status of a newer version", reply(99), nil, 99, true, true},
		{"a reply never filled in", reply(0), nil, 0, true, true},
		{"dial: refused", wire.ProposeReply{}, &transport.DialError{Err: syscall.ECONNREFUSED}, wire.StatusNotLeader, false, false},
		{"dial: time over", wire.ProposeReply{}, &transport.DialError{Err: context.DeadlineExceeded}, wire.StatusNotLeader, false, false},
		{"dial: wrapped", wire.ProposeReply{}, fmt.Errorf("call: %w", &transport.DialError{Err: io.EOF}), wire.StatusNotLeader, false, false},
		{"sent, cut", wire.ProposeReply{}, &transport.UnknownError{Err: io.ErrUnexpectedEOF}, wire.StatusUnknown, true, false},
		{"sent, time over", wire.ProposeReply{}, &transport.UnknownError{Err: context.DeadlineExceeded}, wire.StatusUnknown, true, false},
		{"closed", wire.ProposeReply{}, net.ErrClosed, wire.StatusUnknown, true, false},
		{"a reply beside an error", reply(wire.StatusDone), io.EOF, wire.StatusUnknown, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			checkAnswer(t, callAnswer(Peer{ID: "n2", Addr: "h:1"}, tc.reply, tc.err), tc.want, tc.maybe, tc.known)
		})
	}
}

func checkAnswer(t *testing.T, a answer, want wire.Status, maybe, known bool) {
	t.Helper()
	if a.Status != want || a.maybeDone() != maybe || a.leaderReached() != known {
		t.Errorf("%v, may be done: %v, leader reached: %v; want %v, %v, %v", a.Status, a.maybeDone(), a.leaderReached(), want, maybe, known)
	}
}

// TestErrorText: each error says what was waited for and how it ended, matches what it should, and nothing from below.
func TestErrorText(t *testing.T) {
	for _, tc := range []struct {
		err  *Error
		want string
	}{
		{&Error{Err: context.DeadlineExceeded, Why: "no quorum: 1 of 3 voters reachable", NoLeader: true},
			"no quorum: 1 of 3 voters reachable: context deadline exceeded"},
		{&Error{Err: context.Canceled, NoLeader: true, Sent: true}, "no quorum: context canceled (it may still take effect)"},
		{&Error{Err: context.Canceled, Why: "election", NoLeader: true}, "no quorum: election: context canceled"},
		{&Error{Err: commit.ErrOverloaded}, "too many commands are waiting"},
	} {
		if got := tc.err.Error(); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
		if !errors.Is(tc.err, tc.err.Err) || errors.Is(tc.err, ErrNoQuorum) != tc.err.NoLeader {
			t.Errorf("%v matches the wrong errors", tc.err)
		}
	}
}
