package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/router"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// This file is where a client's reads with Local come from: the state of some member, as that of this node would be.

// readState answers an inspection or a page from the nearest state: this node's own, or if it is a client that of the first member to answer.
func (n *Node) readState(ctx context.Context, op, name string, cmd *locktable.Command) (locktable.Result, time.Duration, error) {
	if n.cfg.Role == RoleClient {
		if err := n.awaitMember(ctx, op, name); err != nil {
			return locktable.Result{}, 0, err
		}
	}
	if !n.isClient() {
		return n.readOwn(cmd)
	}
	reply, from, err := firstAnswer(ctx, n.readable(), func(ctx context.Context, p router.Peer) (wire.ReadReply, error) {
		return n.callRead(ctx, p, cmd)
	})
	if err == nil {
		n.reader.Store(&from)
		return reply.Result, reply.Age, nil
	}
	err = ErrNoQuorum
	if ctx.Err() != nil {
		err = ended(ctx)
	}
	return locktable.Result{}, 0, &WaitError{Op: op, Name: name, Waiting: "no member answers this client, which has no state of its own", Err: err}
}

// readable are the members to read from: first the one that answered last, since in an outage those before it in any other order may all be dead.
func (n *Node) readable() []router.Peer {
	peers := n.members()
	last := n.reader.Load()
	if i := slices.IndexFunc(peers, func(p router.Peer) bool { return last != nil && p == *last }); i > 0 {
		copy(peers[1:i+1], peers[:i])
		peers[0] = *last
	}
	return peers
}

func (n *Node) callRead(ctx context.Context, p router.Peer, cmd *locktable.Command) (wire.ReadReply, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	b, err := n.calls.Call(ctx, p.Addr, p.ID, methodRead, wire.AppendReadRequest(nil, &wire.ReadRequest{Command: *cmd}))
	if err != nil {
		return wire.ReadReply{}, err
	}
	reply, err := wire.DecodeReadReply(b)
	if err == nil && reply.Status != wire.StatusDone {
		err = fmt.Errorf("%v: %s", reply.Status, reply.Detail)
	}
	return reply, err
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
	case cmd.Op == locktable.OpSessions || cmd.Op == locktable.OpAudit:
		return n.fsm.page(cmd), age, nil
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
