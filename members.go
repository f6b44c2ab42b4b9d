package quorumlock

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// Member is one instance as this node sees it.
type Member struct {
	ServerID string
	Name     string
	Addr     string
	Zone     string
	Voter    bool // in the group's configuration, with a vote
	InGroup  bool // in the group's configuration: a voter or a standby; all others are clients
	Alive    bool // believed alive by gossip, which notices a death after some seconds
	Leader   bool // leads, by the word of the newest term heard
	Self     bool // this node
	Drained  bool // an operator had it give up its vote (Node.Drain); of a client's Members with Local not known, and false

	// Reachable says that it answered within a second. What follows is what it said, or for this node what it knows
	// itself; zero otherwise.
	Reachable bool
	Term      uint64 // raft's
	Applied   uint64 // log index up to which its state machine has got
	Level     uint32 // feature level of its binary
}

// Members lists the instances in the group's configuration and those that gossip knows, by server id. It asks each of
// them how it is, not the leader, so it answers without a quorum too, within a second: how many of the voters are
// reachable tells whether there can be one. With Local it asks nobody. Who is in the group is this node's own view in
// both cases, of a client what the leader told it within the last second, and may be stale: a node that is cut off
// knows only the members it had, and its Applied, which stands still, shows it.
func (n *Node) Members(ctx context.Context, opts ...ReadOption) ([]Member, error) {
	if err := n.usable(ctx, "members"); err != nil {
		return nil, err
	}
	if n.cfg.caller() {
		if err := n.awaitMember(ctx, "members", ""); err != nil {
			return nil, err
		}
	}
	list := n.membersNow()
	leader, term := n.leader()
	var mu sync.Mutex
	var asked sync.WaitGroup
	var drained map[string]bool
	if !n.isClient() || !readingOf(opts).local {
		asked.Go(func() { drained = n.drained(ctx) })
	}
	for i := range list {
		m := &list[i]
		if m.Self {
			m.answered(n.status(), n.failed())
			continue
		}
		if readingOf(opts).local {
			continue
		}
		asked.Go(func() {
			status, err := n.probe(ctx, m.ServerID)
			m.answered(status, err)
			mu.Lock()
			defer mu.Unlock()
			if err == nil && status.LeaderID != "" && (status.Term > term || leader == "" && status.Term == term) {
				leader, term = status.LeaderID, status.Term
			}
		})
	}
	asked.Wait()
	if ctx.Err() != nil {
		return nil, &WaitError{Op: "members", Err: ended(ctx)}
	}
	for i := range list {
		list[i].Leader, list[i].Drained = list[i].ServerID == leader, drained[list[i].ServerID]
	}
	return list, nil
}

func (m *Member) answered(s wire.StatusReply, err error) {
	m.Reachable = err == nil
	if err == nil {
		m.Term, m.Applied, m.Level = s.Term, s.AppliedIndex, s.Level
	}
}

// membersNow joins the group's configuration and gossip's view.
func (n *Node) membersNow() []Member {
	byID := make(map[string]*Member)
	for _, s := range n.named(n.servers()) {
		byID[s.ID] = &Member{ServerID: s.ID, Name: s.Name, Addr: s.Addr, Voter: s.Voter, InGroup: true, Alive: s.ID == n.id, Self: s.ID == n.id}
	}
	for _, g := range n.gossip.Members() {
		m := byID[g.ServerID]
		if m == nil {
			m = &Member{ServerID: g.ServerID, Self: g.ServerID == n.id}
			byID[g.ServerID] = m
		}
		m.Name, m.Addr, m.Zone, m.Alive = g.Meta.Name, g.Addr, g.Meta.Zone, true
	}
	list := make([]Member, 0, len(byID))
	for _, m := range byID {
		list = append(list, *m)
	}
	slices.SortFunc(list, func(a, b Member) int { return cmp.Compare(a.ServerID, b.ServerID) })
	return list
}
