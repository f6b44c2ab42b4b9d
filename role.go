package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Role is what an instance may become in its cluster.
type Role int

const (
	// RoleAuto lets the cluster decide: the first instances vote (Config.Voters), two more stand by, and all others are
	// clients until one of those places is free.
	RoleAuto Role = iota
	// RoleClient never replicates and never founds: the instance uses the cluster of the others. All of the API works
	// the same; each call goes to a member over the network, and so does what would otherwise be read from the
	// instance's own state (Watch, Observe, and reads with Local).
	//
	// Without Config.Addr it is a caller, for processes outside the deployment such as tools: it opens no port, is told
	// to nobody (Members does not list it, and its Name need not be its own), and keeps nothing.
	RoleClient
)

// String is "auto" or "client".
func (r Role) String() string {
	switch r {
	case RoleAuto:
		return "auto"
	case RoleClient:
		return "client"
	}
	return fmt.Sprintf("role(%d)", int(r))
}

func (c *Config) validateRole(p *problems) {
	switch {
	case c.Role != RoleAuto && c.Role != RoleClient:
		p.add("Role", c.Role, "must be RoleAuto or RoleClient")
	case c.Role == RoleAuto:
	case c.Expect > 0 || len(c.Founders) > 0:
		p.add("Role", c.Role, "a client never founds: leave Expect and Founders out")
	case len(c.Join) == 0:
		p.add("Join", nil, "is needed: a client is found by nobody")
	}
}

// checkClient refuses to make a client of the only voter: its vote could be handed to nobody, and nobody could join the cluster any more.
func (n *Node) checkClient() error {
	voters := slices.DeleteFunc(n.group.servers(), func(s membership.Server) bool { return !s.Voter })
	if n.cfg.Role != RoleClient || len(voters) != 1 || voters[0].ID != n.id {
		return nil
	}
	return &FieldError{
		Field: "Config.Role", Value: n.cfg.Role,
		Problem: "the data directory is that of the only voter of its cluster, which could not do without it: start it as RoleAuto, and let others join first",
	}
}

// errEnough: the cluster has replicas enough, so this node is a client of it.
var errEnough = errors.New("the cluster has replicas enough")

// standing is whether this node replicates. One that does not has no state of its own, or one that stands still, and asks the members for theirs.
type standing struct {
	client atomic.Bool
	// asking has one slot: who holds it may ask the leader for a place. Leave holds it for good.
	asking chan struct{}
	// doubt is set while a question for a place may have been answered with yes without this node knowing.
	doubt atomic.Bool
}

// isClient tells whether this node keeps no state of its own.
func (n *Node) isClient() bool { return n.standing.client.Load() }

// becomeClient takes in that the others replicate without this node. Its state stands still from now on.
func (n *Node) becomeClient() {
	if !n.standing.client.CompareAndSwap(false, true) {
		return
	}
	n.log.Info("client of the cluster: others replicate", "cluster", n.clusterIDNow())
	n.publishMeta()
	n.hub.Move()
	n.leaderMayHaveChanged()
}

// outageAfter is how long a node that is a client by its Config asks for the leader before it goes by the word of a member that hears none.
const outageAfter = time.Second

// standsOutside tells whether a client belongs to the cluster on one member's word: while there is no leader nobody can say whether its name is free, and its reads are for just then.
func (n *Node) standsOutside(member *wire.StatusReply) bool {
	return n.cfg.Role == RoleClient && member.LeaderID == "" && time.Since(n.opened) > outageAfter
}

// becomeReplica takes in that a leader speaks to this node again.
func (n *Node) becomeReplica() {
	if !n.standing.client.CompareAndSwap(true, false) {
		return
	}
	n.log.Info("replicating the cluster's state", "cluster", n.clusterIDNow())
	n.publishMeta()
	n.leaderMayHaveChanged()
}

// outside makes a client stay one, and tells whether it certainly is none of the group: then it has nothing to ask the leader for when it leaves.
func (n *Node) outside(ctx context.Context) bool {
	select {
	case n.standing.asking <- struct{}{}: // for good
		return !n.standing.doubt.Load() && !n.listed()
	case <-ctx.Done():
		return false
	}
}

// leaderless tells that no leader is known.
func (n *Node) leaderless() bool {
	id, _ := n.leader()
	return id == ""
}

// replicates tells whether this node is in the configuration that it has, and hears a leader.
func (n *Node) replicates() bool { return n.group.leader() != "" && n.inConfiguration() }

// inConfiguration tells whether this node is in the group by its own state.
func (n *Node) inConfiguration() bool { return contains(n.group.servers(), n.id) }

// listed is the same by what it was told, if it is a client; one that has not been told yet may be in the group as its former process.
func (n *Node) listed() bool {
	if n.isClient() && n.roster.Load() == nil {
		return n.inConfiguration()
	}
	return contains(n.servers(), n.id)
}

func contains(list []membership.Server, id string) bool {
	return slices.ContainsFunc(list, func(s membership.Server) bool { return s.ID == id })
}
