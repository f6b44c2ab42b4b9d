package quorumlock

import (
	"context"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/gossip"
)

const (
	rejoinPace  = time.Second
	rejoinAfter = 5 * time.Second // without a leader; an election takes about one
	rejoinBound = 2 * time.Second // for one member asked
)

// runRejoin brings a member back that was taken out of the group while it was away: replaced after its grace, or removed by a request that came
// late. As a rule it cannot see that in its own configuration, which ends where it was cut off; it sees that no leader speaks to it. The leader answers "known" if it is
// a member after all, so asking does no harm.
func (n *Node) runRejoin() {
	heard := time.Now()
	for n.life.Err() == nil {
		pause(n.life, rejoinPace)
		removed := len(n.group.servers()) > 0 && !n.inConfiguration()
		if !n.isMember() || n.isClient() || n.failed() != nil || n.closing.Load() || n.group.leader() != "" && !removed {
			heard = time.Now()
			continue
		}
		n.askVoters(n.life)
		if (removed || time.Since(heard) > rejoinAfter) && n.rejoin() {
			heard = time.Now()
		}
	}
}

// rejoin asks the members of this node's cluster until one has brought it to the leader.
func (n *Node) rejoin() bool {
	return slices.ContainsFunc(n.clusterMembers(), n.rejoinBy)
}

func (n *Node) rejoinBy(m gossip.Member) bool {
	ctx, cancel := context.WithTimeout(n.life, rejoinBound)
	defer cancel()
	err := n.joinAloud(ctx, m)
	if err != nil {
		n.log.Debug("no leader speaks to this node: asked to be in the group", "by", m.Addr, "error", err)
		return false
	}
	n.log.Info("no leader spoke to this node, as to one that was taken out of the group: it asked, and is in it (again)", "by", m.Addr)
	return true
}
