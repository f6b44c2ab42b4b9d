package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// DrainOptions say why a member is drained, or no longer.
type DrainOptions struct {
	// Actor is who does it and Reason why, for the audit record. Both are required, at most 1 KiB each.
	Actor  string
	Reason string
}

// Drain has a member give up leadership and vote to others, so that its machine can be taken without costing the
// cluster anything. A standby takes the vote first, if there is one; else the others go on with one voter less. The
// member replicates on without a vote, and its own sessions and locks live on. It stays so, over restarts in its
// directory and changes of the leader, until Undrain, or until it leaves or is removed; if it is away for longer than a
// dead standby is kept it comes back as a client. Member.Drained shows it.
//
// Refused, with nothing changed (ErrRefused), are a server that is not in the group, and a voter without whose vote the
// others that can be reached would be no majority, or are all drained themselves. Drain returns when the member neither
// leads nor votes, as far as this node has heard. When ctx ends before, the error says so, and the member stays drained.
// It needs feature level 2 (ErrLevel).
func (n *Node) Drain(ctx context.Context, id string, opt DrainOptions) error {
	const op = "drain member"
	if err := checkDrain(id, opt); err != nil {
		return err
	}
	if err := n.act(ctx, op, wire.ActRequest{Act: locktable.ActDrain, ServerID: id, Actor: opt.Actor, Reason: opt.Reason}); err != nil {
		return err
	}
	for n.inOffice(id) {
		if pause(ctx, pace); ctx.Err() != nil {
			return &WaitError{Op: op, Name: id, Waiting: "it is drained, and has not given up its vote yet", Err: ended(ctx)}
		}
		if n.life.Err() != nil {
			return &WaitError{Op: op, Name: id, Err: ErrClosed}
		}
	}
	return nil
}

// Undrain lets a member that was drained have a vote again when one is free. It returns at once; who is not drained is
// refused (ErrRefused). Otherwise it is as Drain.
func (n *Node) Undrain(ctx context.Context, id string, opt DrainOptions) error {
	if err := checkDrain(id, opt); err != nil {
		return err
	}
	return n.act(ctx, "undrain member", wire.ActRequest{Act: locktable.ActUndrain, ServerID: id, Actor: opt.Actor, Reason: opt.Reason})
}

func checkDrain(id string, opt DrainOptions) error {
	err := errors.Join(checkWords("DrainOptions.Actor", opt.Actor), checkWords("DrainOptions.Reason", opt.Reason))
	if id == "" {
		err = errors.Join(&FieldError{Field: "server id", Problem: "must not be empty"}, err)
	}
	return err
}

// inOffice tells whether a server leads or votes, as far as this node knows; without a leader nobody can tell.
func (n *Node) inOffice(id string) bool {
	leader, _ := n.leader()
	if leader == "" || leader == id {
		return true
	}
	for _, s := range n.servers() {
		if s.ID == id && s.Voter {
			return true
		}
	}
	return false
}

// drain records that a member is drained, or no longer; what follows is the reconciliation's matter, under each leader to come. It keeps the place of a change, so that no
// two are drained where one is the most.
func (l *leadership) drain(ctx context.Context, req wire.ActRequest) error {
	l.probeAll(ctx)
	if err := l.beginChange(ctx); err != nil {
		return err
	}
	defer l.endChange()
	if err := l.node.group.barrier(ctx); err != nil { // a leader elected a moment ago may not know of the last one
		return err
	}
	v := l.view()
	if req.Act == locktable.ActDrain {
		if v.Drained[req.ServerID] {
			return nil
		}
		v.Config = withoutVotes(v)
		if why := membership.Needs(v, req.ServerID); why != "" {
			return refused(why)
		}
	} else if !v.Drained[req.ServerID] {
		return refused("it is not drained")
	}
	return l.record(ctx, req, req.ServerID)
}

// endDrain records that a member which has gone for good is not drained any more: the record of a drain in force is kept, and the room for them is limited. A dead
// one that the reconciliation took out may come back in its directory, and stays drained.
func (l *leadership) endDrain(ctx context.Context, id, why string) {
	if !l.node.fsm.aside()[id] {
		return
	}
	if err := l.record(ctx, wire.ActRequest{Act: locktable.ActUndrain, Actor: "quorumlock", Reason: why}, id); err != nil {
		l.node.log.Warn("still recorded as drained, though it has gone for good", "server", id, "error", err)
	}
}

// withoutVotes is the configuration as it will be when all that are drained have given up their votes.
func withoutVotes(v membership.View) (config []membership.Server) {
	for _, s := range v.Config {
		s.Voter = s.Voter && !v.Drained[s.ID]
		config = append(config, s)
	}
	return config
}

// stepAside hands leadership over if this node is drained, to a voter that is not.
func (l *leadership) stepAside(ctx context.Context) error {
	n := l.node
	aside := n.fsm.aside()
	if !aside[n.id] {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, handOverBound)
	defer cancel()
	var last error
	for v := range n.answering(ctx) {
		if aside[v.ServerID] {
			continue
		}
		if last = n.group.transfer(ctx, v.ServerID, v.LastIndex); last == nil {
			return nil
		}
	}
	if last != nil {
		return fmt.Errorf("drained, and leadership not handed over: %w", last)
	}
	return nil
}

// aside are the members that are drained, by server id.
func (f *fsm) aside() map[string]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.table.Aside()
}

// drained are the members that are drained, as this node knows or, if it is a client, a member tells; nil if nobody does.
func (n *Node) drained(ctx context.Context) map[string]bool {
	if !n.isClient() {
		return n.fsm.aside()
	}
	ctx, cancel := context.WithTimeout(ctx, drainedBound)
	defer cancel()
	return locktable.Aside(func(yield func(locktable.AuditRecord) bool) {
		for p, err := range n.pages(ctx, "members", locktable.OpAudit, reading{local: true}) {
			for i := range p.Audit {
				if err == nil && !yield(p.Audit[i]) {
					return
				}
			}
		}
	})
}

const drainedBound = time.Second
