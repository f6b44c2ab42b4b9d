package membership

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/internal/gossip"
)

// join asks one member to be let in. The attempt runs without the turn: peers are answered meanwhile, and state may arrive.
func (f *Founding) join(ctx context.Context, g gossip.Member) (time.Duration, error) {
	jctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	joinErr := f.env.Join(jctx, g)
	if err := f.lock(ctx); err != nil {
		return 0, err
	}
	defer f.unlock()
	f.m.joined(g, joinErr)
	if joinErr == nil {
		f.log.Info("joined a cluster", "cluster_id", g.Meta.ClusterID, "through", g.ServerID)
		return 0, nil
	}
	return joinEvery, nil
}

// joined notes how an attempt to join ended. The next one takes another member.
func (m *machine) joined(g gossip.Member, err error) {
	m.joins++
	if err != nil {
		m.joinFail = g.ServerID + ": " + err.Error()
		return
	}
	m.settle(g.Meta.ClusterID)
}

// settle ends founding: the instance belongs to a cluster, which may be known before any of its state arrives. A promise is kept,
// because it is the record of the cluster id until the cluster itself has replicated it.
func (m *machine) settle(clusterID string) { m.settled, m.clusterID = true, clusterID }
