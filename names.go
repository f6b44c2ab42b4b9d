package quorumlock

import (
	"context"
	"sync"

	"github.com/quorumlock/quorumlock/internal/gossip"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// nameBook remembers what servers are called, those also that are in the group's configuration and have vanished from gossip's view.
type nameBook struct {
	mu    sync.Mutex
	names map[string]string // by server id
}

// renew takes in who is in either now, and forgets all others: ids are never used again, so they would pile up.
func (b *nameBook) renew(view []gossip.Member, group []membership.Server) {
	b.mu.Lock()
	defer b.mu.Unlock()
	names := make(map[string]string, len(view))
	for _, s := range group {
		if name, known := b.names[s.ID]; known {
			names[s.ID] = name
		}
	}
	for _, m := range view {
		names[m.ServerID] = m.Meta.Name
	}
	b.names = names
}

// learn takes in what a member said.
func (b *nameBook) learn(id, name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if name != "" && b.names != nil {
		b.names[id] = name
	}
}

// namesake finds a live client of the name of one that wants to join; of those in the group membership.Admit knows. Gossip may still show a process that is gone, perhaps the former one of
// the very instance that asks, so it is asked itself.
func (n *Node) namesake(ctx context.Context, req *wire.JoinRequest) (gossip.Member, bool) {
	for _, m := range n.clusterMembers() {
		if m.Meta.Name != req.Name || m.ServerID == req.ServerID || contains(n.servers(), m.ServerID) {
			continue
		}
		if _, err := n.probe(ctx, m.ServerID); err == nil {
			return m, true
		}
	}
	return gossip.Member{}, false
}

// of is the name of a server, "" if it is not known.
func (b *nameBook) of(id string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.names[id]
}
