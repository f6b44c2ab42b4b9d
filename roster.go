package quorumlock

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/gossip"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/router"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// roster is what a client knows of the group that it does not belong to: who is in it and who leads.
type roster struct {
	leader  string
	term    uint64
	index   uint64 // where the configuration stands in the log
	level   uint32 // feature level
	servers []membership.Server
}

const (
	rosterPace = 500 * time.Millisecond // between two looks at the group
	placePace  = 10 * time.Second       // between two questions for a place while all seem taken, and up to half as much again
)

// servers is the group's configuration: this node's own, or that which a member told it.
func (n *Node) servers() []membership.Server {
	if !n.isClient() {
		return n.group.servers()
	}
	if r := n.roster.Load(); r != nil {
		return slices.Clone(r.servers)
	}
	return nil
}

// leader is the server id of the leader and its term as far as this node knows, "" if none.
func (n *Node) leader() (id string, term uint64) {
	if !n.isClient() {
		return n.group.leader(), n.group.term()
	}
	if r := n.roster.Load(); r != nil {
		return r.leader, r.term
	}
	return "", 0
}

// runClient follows the group from outside while this node is a client, and asks for a place in it as soon as one may be free.
func (n *Node) runClient() {
	asked := time.Now()
	wait := placePause()
	for n.life.Err() == nil {
		if !n.isClient() || n.failed() != nil {
			pause(n.life, rosterPace)
			asked = time.Now()
			continue
		}
		if n.cfg.Role == RoleAuto && n.replicates() {
			n.becomeReplica()
			continue
		}
		n.followGroup(n.life)
		if n.cfg.Role == RoleClient && n.listed() {
			n.giveUpPlace()
		}
		if n.cfg.Role == RoleAuto && !n.closing.Load() && (n.placeFree() || time.Since(asked) > wait) {
			n.askForPlace()
			asked, wait = time.Now(), placePause()
		}
		pause(n.life, rosterPace)
	}
}

// placePause differs from client to client, so that they do not all ask at once.
func placePause() time.Duration { return placePace + rand.N(placePace/2) }

// placeFree tells whether the group as it is known has fewer replicas than it should. The leader, who knows which of them are dead, decides.
func (n *Node) placeFree() bool {
	r := n.roster.Load()
	return r != nil && r.leader != "" && len(r.servers) < membership.Places(n.cfg.Voters)
}

// followGroup asks the leader who is in the group, or else whoever answers.
func (n *Node) followGroup(ctx context.Context) {
	old, _ := n.leader()
	if old == "" { // beside the search, so that a client without a leader can nearly always say how many voters answer
		var counted sync.WaitGroup
		counted.Go(func() { n.askVoters(ctx) })
		defer counted.Wait()
	}
	known := n.members()
	reply, _, err := firstAnswer(ctx, append(known, n.seedPeers(known)...), n.callRoster)
	if err == nil {
		n.noteRoster(&reply)
		if reply.LeaderID != old {
			n.leaderMayHaveChanged()
		}
		return
	}
	if ctx.Err() != nil {
		return
	}
	if old != "" {
		n.loseLeader()
		n.askVoters(ctx)
	}
}

func (n *Node) loseLeader() {
	if r := n.roster.Load(); r != nil { // it is nil if the leader that answers no more was known to a replica, which this node was a moment ago
		lost := *r
		lost.leader = ""
		n.roster.Store(&lost)
	}
	n.leaderMayHaveChanged()
}

// noteHearsay takes in who is in the group from a member that hears no leader, or from a client, unless more is known already. It is how a client that comes when there is no
// leader gets to know the survivors.
func (n *Node) noteHearsay(reply *wire.RosterReply) {
	was := n.roster.Load()
	if len(reply.Servers) == 0 || was != nil && (was.leader != "" || reply.Index < was.index) {
		return
	}
	n.noteRoster(reply)
}

func (n *Node) noteRoster(reply *wire.RosterReply) {
	r := &roster{leader: reply.LeaderID, term: reply.Term, index: reply.Index, level: reply.Level}
	for _, s := range reply.Servers {
		r.servers = append(r.servers, membership.Server{ID: s.ServerID, Voter: s.Voter})
		if s.Addr != "" && s.ServerID != n.id {
			n.gossip.Learn(s.ServerID, s.Addr)
		}
		n.names.learn(s.ServerID, s.Name)
	}
	n.roster.Store(r)
	n.keepAddresses(r)
}

// members are those whom a client asks, in this order: the leader, the others in the group, and whoever else belongs to the cluster.
func (n *Node) members() []router.Peer {
	leader, _ := n.leader()
	var peers []router.Peer
	add := func(id, addr string) {
		if id != n.id && addr != "" && !slices.ContainsFunc(peers, func(p router.Peer) bool { return p.ID == id }) {
			peers = append(peers, router.Peer{ID: id, Addr: addr})
		}
	}
	known := func(id string) {
		addr, _ := n.resolve(id)
		add(id, addr)
	}
	if leader != "" {
		known(leader)
	}
	for _, s := range n.servers() {
		known(s.ID)
	}
	for _, m := range n.clusterMembers() {
		add(m.ServerID, m.Addr)
	}
	return peers
}

// clusterMembers are the instances of this node's cluster that gossip knows, itself excepted, those first that may replicate.
func (n *Node) clusterMembers() []gossip.Member {
	list := slices.DeleteFunc(n.gossip.Members(), func(m gossip.Member) bool { return m.ServerID == n.id || m.Meta.ClusterID != n.clusterIDNow() })
	slices.SortStableFunc(list, func(a, b gossip.Member) int {
		switch {
		case a.Meta.HasState == b.Meta.HasState:
			return 0
		case a.Meta.HasState:
			return -1
		}
		return 1
	})
	return list
}

func (n *Node) callRoster(ctx context.Context, p router.Peer) (wire.RosterReply, error) {
	reply, err := n.askRoster(ctx, p)
	if err == nil && reply.ClusterID == n.clusterIDNow() && reply.LeaderID == "" {
		n.noteHearsay(&reply)
	}
	if err == nil && (reply.ClusterID != n.clusterIDNow() || reply.LeaderID == "") {
		err = errNoRoster
	}
	return reply, err
}

func (n *Node) askRoster(ctx context.Context, p router.Peer) (wire.RosterReply, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	b, err := n.calls.Call(ctx, p.Addr, p.ID, methodRoster, nil)
	if err != nil {
		return wire.RosterReply{}, err
	}
	return wire.DecodeRosterReply(b)
}

// errNoRoster is of a member that hears no leader, a client, or a node of another cluster.
var errNoRoster = errors.New("does not know the group")

// rosterReply is this member's word on the group; that of a client is hearsay, and names no leader.
func (n *Node) rosterReply() wire.RosterReply {
	reply := wire.RosterReply{ClusterID: n.clusterIDNow()}
	if n.failed() != nil {
		return reply
	}
	var servers []membership.Server
	if !n.isClient() {
		servers, reply.Index = n.group.configuration()
		reply.LeaderID, reply.Term, reply.Level = n.group.leader(), n.group.term(), n.level()
	} else if r := n.roster.Load(); r != nil {
		servers, reply.Index, reply.Term, reply.Level = slices.Clone(r.servers), r.index, r.term, r.level
	}
	for _, s := range n.named(servers) {
		reply.Servers = append(reply.Servers, wire.RosterServer{ServerID: s.ID, Name: s.Name, Addr: s.Addr, Voter: s.Voter})
	}
	return reply
}

// giveUpPlace takes a node out of the group that was in it as a former process, before its Config made it a client.
func (n *Node) giveUpPlace() {
	ctx, cancel := context.WithTimeout(n.life, rejoinBound)
	defer cancel()
	if err := n.askToLeave(ctx); err != nil {
		n.log.Debug("still in the group, which a client should not be", "error", err)
	}
}

// askForPlace asks the leader to let this client replicate.
func (n *Node) askForPlace() {
	select {
	case n.standing.asking <- struct{}{}:
	case <-n.life.Done():
		return
	}
	defer func() { <-n.standing.asking }()
	for _, p := range n.members() {
		if n.closing.Load() || n.askForPlaceBy(p) == nil {
			return
		}
	}
}

func (n *Node) askForPlaceBy(p router.Peer) error {
	ctx, cancel := context.WithTimeout(n.life, rejoinBound)
	defer cancel()
	err := n.join(ctx, gossip.Member{ServerID: p.ID, Addr: p.Addr})
	n.log.Debug("asked for a place in the group", "by", p.Addr, "error", err)
	return err
}
