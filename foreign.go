package quorumlock

import (
	"errors"
	"fmt"
	"time"
)

// foreignCluster is another cluster of this node's cluster name, met by gossip or in a handshake.
type foreignCluster struct {
	id string
	at time.Time
}

// foreignMemory is how long a meeting counts: gossip tries addresses with nobody of its own cluster at least every 10 s.
const foreignMemory = time.Minute

// metForeign only takes note, and tells of it once per meeting. That the other cluster exists proves nothing about this one, whose majority may be alive elsewhere; that holds also
// where the other was made of this one's data (Recover), perhaps in error.
func (n *Node) metForeign(clusterID string) {
	now := &foreignCluster{id: clusterID, at: time.Now()}
	last := n.foreign.Swap(now)
	if last != nil && last.id == now.id && now.at.Sub(last.at) < foreignMemory {
		return
	}
	own := n.clusterIDNow()
	n.spawn(func() { // gossip holds locks
		n.log.Warn("met another cluster of this name: the two refuse each other, and never merge; "+followOther, "met", clusterID, "belongs", own)
	})
}

// followOther is what to do, for the errors and the log of a node of either cluster: which of the two was given up neither can know.
const followOther = "one of the two took the other's place (recovered, or founded anew), as a rule: stop the instances of the one that was given up, " +
	"empty their data directories, and they join the other"

// foreignInSight is the cluster that was met lately, "" if none was.
func (n *Node) foreignInSight() string {
	if f := n.foreign.Load(); f != nil && time.Since(f.at) < foreignMemory {
		return f.id
	}
	return ""
}

// explain adds ErrClusterChanged to the error of a call that reached no leader while another cluster of this name was in sight: its own
// was founded anew, as a rule, and waiting will not help.
func (n *Node) explain(err error) error {
	if err == nil {
		return nil
	}
	var none *noQuorumError
	if other := n.foreignInSight(); other != "" && errors.As(err, &none) {
		none.changed = fmt.Errorf("%w: met cluster %s, belongs to %s; %s", ErrClusterChanged, other, n.clusterIDNow(), followOther)
	}
	return err
}
