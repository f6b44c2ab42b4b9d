package quorumlock

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/router"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// NodeStatus is how one node sees itself and its cluster.
type NodeStatus struct {
	ServerID  string
	Name      string
	Addr      string
	Zone      string
	Cluster   string // name
	ClusterID string // "" while it belongs to none

	Self    bool // this node. If not, a member answered for it: a client has no state of its own
	Leads   bool
	Voter   bool
	InGroup bool // a voter or a standby

	LeaderID   string // "" while it hears none
	LeaderName string
	Term       uint64 // raft's
	Applied    uint64 // log index up to which its state machine has got
	Last       uint64 // last index of its log
	Level      uint32 // the cluster's feature level as it knows it, 0 if it was never raised
	Binary     uint32 // the highest feature level that its binary understands

	// Age is how long ago it was in touch with its group; see LockInfo.Age.
	Age time.Duration
	// Failed is why the node can not go on, nil if it works; of this node only.
	Failed error
}

// Status shows how this node is; of a client, which has no state, how the member is that answers it first, the leader if
// it can. It asks nobody else, so it answers without a quorum and without a leader too: a member at once, a client
// within 2 s if any member is there. What it shows may be stale, as Age tells. ctx bounds it.
func (n *Node) Status(ctx context.Context) (NodeStatus, error) {
	const op = "status"
	if err := n.usable(ctx, op); err != nil {
		return NodeStatus{}, err
	}
	if n.cfg.Role == RoleClient {
		if err := n.awaitMember(ctx, op, ""); err != nil {
			return NodeStatus{}, err
		}
	}
	if !n.isClient() {
		own := n.status()
		s := n.statusOf(&own, n.contactAge(), n.level())
		s.Self, s.Failed = true, n.failed()
		return s, nil
	}
	peers := n.members() // the leader comes first
	if n.leaderless() {
		peers = n.readable()
	}
	told, from, err := firstAnswer(ctx, peers, n.askStatus)
	if err != nil {
		waiting := "no member answers this client, which has no state of its own"
		if ctx.Err() != nil {
			return NodeStatus{}, &WaitError{Op: op, Waiting: waiting, Err: ended(ctx)}
		}
		return NodeStatus{}, &WaitError{Op: op, Waiting: waiting, Err: ErrNoQuorum}
	}
	n.reader.Store(&from)
	return n.statusOf(&told.status, told.age, n.level()), nil
}

// selfImage is what a member told of itself.
type selfImage struct {
	status wire.StatusReply
	age    time.Duration
}

// askStatus asks a member how it is, and by a small read of its state how old that is.
func (n *Node) askStatus(ctx context.Context, p router.Peer) (selfImage, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	status, err := n.callStatus(ctx, p.Addr, p.ID)
	if err != nil {
		return selfImage{}, err
	}
	read, err := n.callRead(ctx, p, &locktable.Command{Op: locktable.OpList, Count: 1})
	return selfImage{status, read.Age}, err
}

func (n *Node) statusOf(s *wire.StatusReply, age time.Duration, level uint32) NodeStatus {
	addr, _ := n.resolve(s.ServerID)
	return NodeStatus{
		ServerID: s.ServerID, Name: s.Name, Addr: addr, Zone: s.Zone, Cluster: n.cfg.Cluster, ClusterID: s.ClusterID,
		Leads: s.LeaderID != "" && s.LeaderID == s.ServerID, Voter: s.Voter, InGroup: contains(n.servers(), s.ServerID),
		LeaderID: s.LeaderID, LeaderName: n.nameOf(s.LeaderID), Term: s.Term, Applied: s.AppliedIndex, Last: s.LastIndex, Level: level, Binary: s.Level, Age: age,
	}
}
