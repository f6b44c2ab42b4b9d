package quorumlock

import (
	"errors"
	"fmt"
	"time"
)

// foreignCluster is another cluster of this node's cluster name, met by gossip.
type foreignCluster struct {
	id string
	at time.Time
}

// foreignMemory is how long a meeting counts: gossip tries addresses with nobody of its own cluster at least every 10 s.
const foreignMemory = time.Minute

// metForeign only takes note. That the other cluster exists proves nothing about this one, whose majority may be alive elsewhere.
func (n *Node) metForeign(clusterID string) {
	n.foreign.Store(&foreignCluster{id: clusterID, at: time.Now()})
}

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
	var none *noQuorumError
	if other := n.foreignInSight(); other != "" && errors.As(err, &none) {
		none.changed = fmt.Errorf("%w: met cluster %s, belongs to %s", ErrClusterChanged, other, n.clusterIDNow())
	}
	return err
}
