package quorumlock

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/router"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// This file is where a client's reads with Local come from: the state of some member, as that of this node would be.

// readState answers an inspection or a page from the nearest state: this node's own, or if it is a client that of the first member to answer.
func (n *Node) readState(ctx context.Context, op, name string, cmd *locktable.Command) (locktable.Result, time.Duration, error) {
	if !n.isClient() {
		return n.readOwn(cmd)
	}
	req := wire.AppendReadRequest(nil, &wire.ReadRequest{Command: *cmd})
	reply, ok := firstAnswer(ctx, n.members(), func(ctx context.Context, p router.Peer) (wire.ReadReply, bool) {
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		b, err := n.calls.Call(ctx, p.Addr, p.ID, methodRead, req)
		if err != nil {
			return wire.ReadReply{}, false
		}
		reply, err := wire.DecodeReadReply(b)
		return reply, err == nil && reply.Status == wire.StatusDone
	})
	if ok {
		return reply.Result, reply.Age, nil
	}
	err := ErrNoQuorum
	if ctx.Err() != nil {
		err = ended(ctx)
	}
	return locktable.Result{}, 0, &WaitError{Op: op, Name: name, Waiting: "no member answers this client, which has no state of its own", Err: err}
}

// readOwn reads this node's own state.
func (n *Node) readOwn(cmd *locktable.Command) (locktable.Result, time.Duration, error) {
	if err := n.believable(); err != nil {
		return locktable.Result{}, 0, err
	}
	age := n.contactAge() // before the state, so that it is never too young for it
	switch {
	case cmd.Op == locktable.OpInspect && len(cmd.Names) == 1:
		info := n.fsm.inspect(cmd.Names[0])
		return locktable.Result{Code: locktable.CodeOK, Info: &info}, age, nil
	case cmd.Op == locktable.OpList && len(cmd.Names) <= 1:
		prefix := ""
		if len(cmd.Names) == 1 {
			prefix = cmd.Names[0]
		}
		infos, more := n.fsm.list(prefix, cmd.After)
		return locktable.Result{Code: locktable.CodeOK, Infos: infos, More: more}, age, nil
	}
	return locktable.Result{}, 0, errNotARead
}

var errNotARead = errors.New("not a question that is answered from the state")

// serveRead answers a client from this member's own state.
func (n *Node) serveRead(req wire.ReadRequest) wire.ReadReply {
	if n.isClient() {
		return wire.ReadReply{Status: wire.StatusNotLeader, Detail: "a client itself"}
	}
	if err := locktable.Check(&req.Command); err != nil {
		return wire.ReadReply{Status: wire.StatusRefused, Detail: err.Error()}
	}
	res, age, err := n.readOwn(&req.Command)
	if err != nil {
		return wire.ReadReply{Status: wire.StatusRefused, Detail: err.Error()}
	}
	return wire.ReadReply{Status: wire.StatusDone, Result: res, Age: age}
}
