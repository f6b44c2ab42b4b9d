package quorumlock

import (
	"cmp"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/watch"
)

// membersNow joins the group's configuration and gossip's view.
func (n *Node) membersNow() []Member {
	leader := n.group.leader()
	byID := make(map[string]*Member)
	for _, s := range n.named(n.group.servers()) {
		byID[s.ID] = &Member{ServerID: s.ID, Name: s.Name, Addr: s.Addr, Voter: s.Voter, InGroup: true, Alive: s.ID == n.id, Leader: s.ID == leader}
	}
	for _, g := range n.gossip.Members() {
		m := byID[g.ServerID]
		if m == nil {
			m = &Member{ServerID: g.ServerID}
			byID[g.ServerID] = m
		}
		m.Name, m.Addr, m.Alive = g.Meta.Name, g.Addr, true
	}
	list := make([]Member, 0, len(byID))
	for _, m := range byID {
		list = append(list, *m)
	}
	slices.SortFunc(list, func(a, b Member) int { return cmp.Compare(a.ServerID, b.ServerID) })
	return list
}

// watchEvents gives the state machine's events in the public form.
func watchEvents(events []locktable.Event) []watch.Event {
	list := make([]watch.Event, len(events))
	for i := range events {
		e := &events[i]
		list[i] = watch.Event{
			Rev: int64(e.Rev), Kind: watch.Kind(e.Kind), Name: e.Name, Token: int64(e.Token), Session: int64(e.Session), NodeID: e.Node,
			Index: e.Index, Time: time.UnixMilli(e.Wall), Note: e.Note,
		}
	}
	return list
}
