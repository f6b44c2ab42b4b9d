package quorumlock

import (
	"context"
	"errors"
	"iter"

	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/watch"
)

// Observe tells who leads: now, and then each change, in order and once each: a leader, another value of it, and the
// end of its term, which is a Leader with Token 0. One stands between any two leaders, however soon the second follows.
// Tokens rise from leader to leader. The loop is the lifetime.
//
// The first answer is linearizable, so it waits for a quorum; what follows is told as this node's own state machine
// learns of it. If the loop falls far behind, it goes on with who leads by then: changes in between are left out. The
// loop ends with an error: a *WaitError when ctx ends, one that matches ErrClosed when the node closes, or ErrFailed
// when it fails.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		if err := e.request.check(); err != nil {
			yield(Leader{}, err)
			return
		}
		o := observer{election: e, name: e.request.label(), yield: yield}
		for o.follow(ctx) {
		}
	}
}

// observer is one loop over an election.
type observer struct {
	election *Election
	name     string
	yield    func(Leader, error) bool
	begun    bool
	shown    Leader // newest
}

// follow shows who leads and what changes from then on, until the loop ends (false) or has fallen behind. The subscription begins at the revision of the answer, so that nothing is
// missed between the two.
func (o *observer) follow(ctx context.Context) (again bool) {
	n := nodeOf(o.election.request.owner)
	info, err := o.ask(ctx)
	if err != nil {
		return o.fail(ctx, err)
	}
	leader, err := leaderOf(info)
	if err != nil {
		return o.fail(ctx, err)
	}
	if !o.show(leader) {
		return false
	}
	f := n.subscribe(o.name, int64(info.Rev))
	defer f.close()
	for {
		e, err := f.next(ctx)
		switch {
		case ctx.Err() == nil && errors.Is(err, watch.ErrFellBehind):
			return true
		case err != nil:
			return o.fail(ctx, err)
		case e.Name != o.name || e.Rev <= int64(info.Rev):
			continue
		}
		if !o.show(o.after(n, &e)) {
			return false
		}
	}
}

// ask waits out an overload: a loop that lasts for days must not end by it.
func (o *observer) ask(ctx context.Context) (*locktable.Info, error) {
	for {
		info, err := o.election.inspect(ctx, "observe")
		if !errors.Is(err, ErrOverloaded) || ctx.Err() != nil {
			return info, err
		}
		pause(ctx, persistPause)
	}
}

// fail tells the end of the loop.
func (o *observer) fail(ctx context.Context, err error) (again bool) {
	if wait := (*WaitError)(nil); ctx.Err() != nil && !errors.As(err, &wait) {
		err = &WaitError{Op: "observe", Name: o.name, Err: ended(ctx)}
	}
	o.yield(Leader{}, err)
	return false
}

// show tells of a leader unless it is the one told last.
func (o *observer) show(l Leader) bool {
	if o.begun && l.Token == o.shown.Token && l.Value == o.shown.Value {
		return true
	}
	o.begun, o.shown = true, l
	return o.yield(l, nil)
}

// after is who leads after an event.
func (o *observer) after(n *Node, e *watch.Event) Leader {
	current := o.shown.Token != 0 && e.Token == o.shown.Token
	switch {
	case e.Kind == watch.Granted && e.Mode == Exclusive:
		return Leader{
			Node: n.nameOf(e.ServerID), ServerID: e.ServerID, Session: SessionID(e.Session), Value: e.Value, Token: e.Token, Since: e.Time,
		}
	case e.Kind == watch.ValueChanged && current:
		next := o.shown
		next.Value = e.Value
		return next
	case current && (e.Kind == watch.Released || e.Kind == watch.Expired || e.Kind == watch.Forced):
		return Leader{}
	}
	return o.shown
}

// nameOf is what a server is called, "" if that is not known (any more).
func (n *Node) nameOf(id string) string {
	if id == n.id {
		return n.cfg.Name
	}
	name := n.names.of(id)
	if name == "" {
		n.gossipChanged()
		name = n.names.of(id)
	}
	return name
}
