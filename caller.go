package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/gossip"
	"github.com/quorumlock/quorumlock/internal/router"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// A caller is a client without an address: a process outside the deployment, such as a tool, that uses the cluster over the members' one port. It dials, and nobody
// dials it; it is in no gossip, so what a client hears there it asks for.

// caller tells whether the node listens on nothing.
func (c *Config) caller() bool { return c.Role == RoleClient && c.Addr == "" }

func (c *Config) validateCaller(p *problems) {
	if c.Advertise != "" {
		p.add("Advertise", c.Advertise, "needs Addr: a client without one listens on nothing")
	}
	if c.Dir != "" || c.sim.Disk != nil {
		p.add("Dir", c.Dir, "needs Addr: a client without one keeps nothing, and a former member could not give up its place")
	}
	for _, j := range c.Join {
		checkHostPort(p, "Join", j, false)
	}
}

func (n *Node) startSeeds() error {
	var err error
	n.seeds, err = gossip.NewSeeds(gossip.SeedOptions{Seeds: n.cfg.Join, Resolve: resolverOf(n.cfg.sim), Logger: n.log.Named("gossip")})
	if err == nil { // else it would be an interface that is not nil
		n.gossip = n.seeds
	}
	return err
}

// attachPace is the time between two looks for a member.
const attachPace = 250 * time.Millisecond

// attach makes a caller belong to the cluster of the first member to answer at its seeds. No leader is needed, so that a tool works in an outage.
func (n *Node) attach() {
	for n.life.Err() == nil {
		first, from, err := firstAnswer(n.life, n.seedPeers(nil), n.callFirst)
		if err == nil {
			err = n.keepIdentity(first.ClusterID)
		}
		if err == nil {
			n.gossipChanged() // else no names are kept
			n.noteRoster(&first)
			n.reader.Store(n.memberAt(from.Addr))
			n.log.Info("calling the cluster from outside", "cluster", first.ClusterID)
			n.nowMember()
			n.leaderMayHaveChanged()
			return
		}
		n.unattached.Store(&err)
		pause(n.life, attachPace)
	}
}

// callFirst asks whoever is at a seed's address who is in the group. Any word of a cluster to which this node can belong will do, also that of a member without a
// leader, or of a client.
func (n *Node) callFirst(ctx context.Context, p router.Peer) (wire.RosterReply, error) {
	reply, err := n.askRoster(ctx, p)
	switch {
	case err != nil:
		return reply, fmt.Errorf("ask %s: %w", p.Addr, err)
	case reply.ClusterID == "":
		return reply, fmt.Errorf("%s does not belong to a cluster yet", p.Addr)
	case len(reply.Servers) == 0:
		return reply, fmt.Errorf("%s %w", p.Addr, errNoRoster)
	}
	return reply, n.checkCluster(reply.ClusterID)
}

// whyUnattached says what a caller waits for.
func (n *Node) whyUnattached() string {
	const looking = "looking for a member of the cluster"
	err := n.unattached.Load()
	switch {
	case err == nil:
		return looking
	case errors.Is(*err, errNobody):
		return looking + ": no address is known of any in Join"
	}
	return fmt.Sprintf("%s: %v", looking, *err)
}

// seedPeers are the addresses in Join at which none of the known peers is. Whoever is there answers.
func (n *Node) seedPeers(known []router.Peer) []router.Peer {
	if n.seeds == nil {
		return nil
	}
	at := make(map[string]bool, len(known))
	for _, p := range known {
		at[p.Addr] = true
	}
	var peers []router.Peer
	for _, addr := range n.seeds.Addresses() {
		if !at[addr] {
			peers = append(peers, router.Peer{Addr: addr})
		}
	}
	return peers
}

// memberAt is the server of the group that is known at an address, nil if none is.
func (n *Node) memberAt(addr string) *router.Peer {
	for _, p := range n.members() {
		if p.Addr == addr {
			return &p
		}
	}
	return nil
}

// keepAddresses lets a caller forget the addresses of servers that are in the group no more.
func (n *Node) keepAddresses(r *roster) {
	if n.seeds == nil {
		return
	}
	ids := make(map[string]bool, len(r.servers))
	for _, s := range r.servers {
		ids[s.ID] = true
	}
	n.seeds.Keep(ids)
}
