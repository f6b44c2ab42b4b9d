package quorumlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/router"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/transport"
)

// EndOptions say how and why a session is ended.
type EndOptions struct {
	// Actor is who does it and Reason why, for the audit record and for the session's owner. Both are required, at most
	// 1 KiB each.
	Actor  string
	Reason string
	// Now frees what the session holds at once. Its owner may then still believe in its holds while the next ones have
	// them, so only fenced resources stay safe. Without it the locks stay barred for the session's TTL, in which the
	// owner has stopped by its own clock even if no word reaches it.
	Now bool
}

// EndSession ends a session against its owner's will, whether the owner lives or not: its waiting claims end, its locks
// pass on as EndOptions say, and the owner, if it can be reached, is told at once (a *LostError with CauseForced). A node
// whose own session was ended opens another when it next locks. The error matches ErrNoSession if there is none of that
// id, and ErrLevel below feature level 2. ctx bounds the round trip; calling again with the same words is harmless.
func (n *Node) EndSession(ctx context.Context, id SessionID, opt EndOptions) error {
	const op = "end session"
	if err := n.usable(ctx, op); err != nil {
		return err
	}
	if id <= 0 {
		return &FieldError{Field: "session", Value: int64(id), Problem: "must be positive"}
	}
	if err := errors.Join(checkWords("EndOptions.Actor", opt.Actor), checkWords("EndOptions.Reason", opt.Reason)); err != nil {
		return err
	}
	cmd := &locktable.Command{Op: locktable.OpEnd, Session: locktable.SessionID(id), Now: opt.Now, Note: opt.Reason, Actor: opt.Actor}
	res, err := n.askLater(ctx, op, cmd)
	switch {
	case err != nil:
		return err
	case res.Code == locktable.CodeOK:
		return nil
	case res.Code == locktable.CodeNoSession:
		if by := sessionGone("", &res); by.Cause == CauseForced && by.Actor == opt.Actor && by.Reason == opt.Reason {
			return nil // a copy of this request got through before
		}
		return &WaitError{Op: op, Waiting: fmt.Sprintf("session %d", id), Err: ErrNoSession}
	}
	return refusal(op, "", &res)
}

// TransferOptions say why leadership is handed over.
type TransferOptions struct {
	// Actor is who does it and Reason why, for the audit record. Both are required, at most 1 KiB each.
	Actor  string
	Reason string
}

// TransferLeadership hands leadership to a voter: the one with the server id to, or with "" the first of them to answer.
// It takes milliseconds, and no hold is lost by it. Handing it to the voter that leads already is done at once, and not
// recorded; where an answer was lost, another leader afterwards counts as done, be it that an election made it one.
// Refused, with nothing changed (ErrRefused), are a server that does not vote and one that does not answer. ctx bounds all of it.
// It needs feature level 2 (ErrLevel).
func (n *Node) TransferLeadership(ctx context.Context, to string, opt TransferOptions) error {
	if err := errors.Join(checkWords("TransferOptions.Actor", opt.Actor), checkWords("TransferOptions.Reason", opt.Reason)); err != nil {
		return err
	}
	return n.act(ctx, "transfer leadership", wire.ActRequest{Act: locktable.ActTransfer, ServerID: to, Actor: opt.Actor, Reason: opt.Reason})
}

// RemoveOptions say why a member is removed.
type RemoveOptions struct {
	// Actor is who does it and Reason why, for the audit record. Both are required, at most 1 KiB each.
	Actor  string
	Reason string
	// Force removes a member that answers, too. It asks to be let in again as soon as it notices, unless it is stopped;
	// Node.Leave is how a live one goes.
	Force bool
}

// RemoveMember takes a dead member out of the group, which then needs one vote less. That is for a machine that is gone
// for good: dead voters are replaced by themselves where another instance can take their place, but the last that could
// make a majority are kept for their return. Server ids are never used again; a process that comes back with the
// member's directory asks to be let in like a new one.
//
// Refused, with nothing changed (ErrRefused), are the leader itself (transfer leadership first), a server that is not in
// the group, one that answers (see Force), and one without which the voters that can be reached would be no majority.
// ctx bounds all of it. It needs feature level 2 (ErrLevel).
func (n *Node) RemoveMember(ctx context.Context, id string, opt RemoveOptions) error {
	err := errors.Join(checkWords("RemoveOptions.Actor", opt.Actor), checkWords("RemoveOptions.Reason", opt.Reason))
	if id == "" {
		err = errors.Join(&FieldError{Field: "server id", Problem: "must not be empty"}, err)
	}
	if err != nil {
		return err
	}
	return n.act(ctx, "remove member", wire.ActRequest{Act: locktable.ActRemove, ServerID: id, Force: opt.Force, Actor: opt.Actor, Reason: opt.Reason})
}

// act has the leader do something to the group, and asks until ctx ends or it has answered. An answer may be lost on the way, so what a former attempt has done counts as
// done.
func (n *Node) act(ctx context.Context, op string, req wire.ActRequest) error {
	if err := n.usable(ctx, op); err != nil {
		return err
	}
	if err := n.awaitMember(ctx, op, req.ServerID); err != nil {
		return err
	}
	if err := n.awaitLevel(ctx, op, req.ServerID, recordOf(&req, "", "")); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(n.asking, cancel)()
	asked := attempts{member: contains(n.servers(), req.ServerID)}
	for {
		err := n.askToAct(ctx, &asked, req)
		var no *turnedDown
		switch {
		case err == nil:
			return nil
		case errors.As(err, &no) && no.status == wire.StatusRefused && asked.unsure && req.Act == locktable.ActUndrain:
			return nil // a former attempt was heard
		case errors.As(err, &no) && no.status == wire.StatusRefused:
			return &WaitError{Op: op, Name: req.ServerID, Waiting: no.detail, Err: ErrRefused}
		}
		if pause(ctx, persistPause); ctx.Err() == nil {
			continue
		}
		if n.life.Err() != nil {
			return &WaitError{Op: op, Name: req.ServerID, Err: ErrClosed}
		}
		if n.leaderless() {
			return &WaitError{Op: op, Name: req.ServerID, Waiting: n.why(), Err: joined(ended(ctx), true)}
		}
		return &WaitError{Op: op, Name: req.ServerID, Waiting: err.Error(), Err: ended(ctx)}
	}
}

// attempts is what the former ones of an act may have done.
type attempts struct {
	leader string // whom the first one asked
	unsure bool   // one of them got no answer, and may have been heard
	member bool   // whom it concerns was in the group before
}

// askToAct makes one attempt.
func (n *Node) askToAct(ctx context.Context, former *attempts, req wire.ActRequest) error {
	leader, ok := n.whoMayAct()
	if !ok {
		return n.noQuorum()
	}
	if former.leader == "" {
		former.leader = leader.ID
	}
	if former.unsure && n.seemsDone(&req, former, leader.ID) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, confTimeout)
	defer cancel()
	body := wire.AppendActRequest(nil, &req)
	err := n.askLeader(leader, n.clusterIDNow(), func(p router.Peer) (wire.JoinReply, error) {
		if p.ID == n.id {
			return wire.JoinReply(n.serveAct(ctx, req)), nil
		}
		b, err := n.calls.Call(ctx, p.Addr, p.ID, methodAct, body)
		if err != nil {
			return wire.JoinReply{}, err
		}
		reply, err := wire.DecodeLeaveReply(b)
		return wire.JoinReply(reply), err
	})
	var no *turnedDown
	heard := err != nil && !errors.As(err, new(*transport.DialError)) && (!errors.As(err, &no) || no.status == wire.StatusUnknown)
	former.unsure = former.unsure || heard
	return err
}

// seemsDone tells whether an act whose answer was lost has had its effect. That of a transfer to a voter of the leader's choice is another leader.
func (n *Node) seemsDone(req *wire.ActRequest, former *attempts, leader string) bool {
	switch {
	case req.Act == locktable.ActDrain || req.Act == locktable.ActUndrain:
		return false // asking again does no harm
	case req.Act == locktable.ActRemove:
		return former.member && !n.leaderless() && !contains(n.servers(), req.ServerID)
	case n.leaderless():
		return false
	case req.ServerID == "":
		return leader != former.leader
	}
	return leader == req.ServerID
}

// whoMayAct is the leader, this node if it leads, or else whoever can tell.
func (n *Node) whoMayAct() (router.Peer, bool) {
	if leader, _ := n.knownLeader(); leader.ID != "" {
		return leader, true
	}
	return n.whoMayLead()
}

func (n *Node) serveAct(ctx context.Context, req wire.ActRequest) wire.LeaveReply {
	lead := n.lead.Load()
	if lead == nil {
		return wire.LeaveReply(n.notLeading())
	}
	var err error
	switch req.Act {
	case locktable.ActTransfer:
		err = lead.transferTo(ctx, req)
	case locktable.ActRemove:
		err = lead.removeMember(ctx, req)
	case locktable.ActDrain, locktable.ActUndrain:
		err = lead.drain(ctx, req)
	default:
		err = refused(fmt.Sprintf("the leader's binary does not know act %d", req.Act))
	}
	return wire.LeaveReply(n.membershipReply(err))
}

// transferTo hands leadership to the voter named, or to the first that answers.
func (l *leadership) transferTo(ctx context.Context, req wire.ActRequest) error {
	n := l.node
	if req.ServerID == n.id {
		return nil
	}
	if err := l.mayLead(req.ServerID); err != nil {
		return err
	}
	status, err := n.answerOf(ctx, req.ServerID)
	if err != nil {
		return err
	}
	if err := l.record(ctx, req, status.ServerID); err != nil {
		return err
	}
	if status, err = n.answerOf(ctx, status.ServerID); err != nil { // the record is an entry that it may have got by now
		return err
	}
	if err := n.group.transfer(ctx, status.ServerID, status.LastIndex); err != nil {
		if n.group.leading() && n.group.term() == l.term {
			return refused(fmt.Sprintf("%s did not take it: %v", status.ServerID, err))
		}
		return fmt.Errorf("hand leadership to %s: %w", status.ServerID, err)
	}
	return nil
}

// mayLead refuses whoever has no vote.
func (l *leadership) mayLead(id string) error {
	voters := 0
	aside := l.node.fsm.aside()
	for _, s := range l.node.group.servers() {
		switch {
		case s.ID == id && aside[id]:
			return refused(id + " is drained")
		case s.ID == id && !s.Voter:
			return refused(id + " stands by without a vote")
		case s.ID == id:
			return nil
		case s.Voter && s.ID != l.node.id && !aside[s.ID]:
			voters++
		}
	}
	if id != "" {
		return refused(id + " is not in the group")
	}
	if voters == 0 {
		return refused("there is no other voter")
	}
	return nil
}

// answerOf asks a voter how it is, or with "" all of them, and gives the first answer.
func (n *Node) answerOf(ctx context.Context, id string) (wire.StatusReply, error) {
	if id == "" {
		aside := n.fsm.aside()
		for status := range n.answering(ctx) {
			if !aside[status.ServerID] {
				return status, nil
			}
		}
		return wire.StatusReply{}, refused("no other voter answers")
	}
	status, err := n.probe(ctx, id)
	if err != nil {
		return status, refused(fmt.Sprintf("%s does not answer: %v", id, err))
	}
	status.ServerID = id
	return status, nil
}

// removeMember takes a server out of the group. It keeps the place of a change from the look at the group to the entry.
func (l *leadership) removeMember(ctx context.Context, req wire.ActRequest) error {
	n, id := l.node, req.ServerID
	if _, err := n.probe(ctx, id); err == nil && !req.Force && id != n.id && contains(n.group.servers(), id) {
		return refused("it is alive: let it leave, or stop it")
	}
	l.probeAll(ctx) // by the former round one may be counted on that has died since
	if err := l.beginChange(ctx); err != nil {
		return err
	}
	defer l.endChange()
	if why := membership.Keeps(l.view(), id); why != "" {
		return refused(why)
	}
	if err := l.record(ctx, req, id); err != nil {
		return err
	}
	n.log.Info("changing membership", "change", membership.Remove, "server", id, "reason", req.Reason, "by", req.Actor)
	if err := l.apply(ctx, membership.Change{Kind: membership.Remove, ID: id, Reason: req.Reason}); err != nil {
		return err
	}
	l.endDrain(ctx, id, "it was removed")
	return nil
}

// record keeps an act in the audit, before it is done.
func (l *leadership) record(ctx context.Context, req wire.ActRequest, id string) error {
	cmd := recordOf(&req, id, l.node.nameOf(id))
	if err := l.node.mayProposeHere(ctx, cmd); err != nil {
		return refused("not recorded: " + err.Error())
	}
	res, err := l.batch.Do(ctx, cmd)
	if err == nil && res.Code != locktable.CodeOK {
		err = refused(fmt.Sprintf("not recorded: %v %s", res.Code, res.Detail))
	}
	return err
}

func recordOf(req *wire.ActRequest, id, name string) *locktable.Command {
	return &locktable.Command{Op: locktable.OpAct, Act: req.Act, Node: id, NodeName: name, Note: req.Reason, Actor: req.Actor}
}
