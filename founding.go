package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/gossip"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/sim"
	"github.com/quorumlock/quorumlock/internal/store"
)

// This file joins the founding protocol, which is pure, to the node: what it sees, keeps and does.

func (n *Node) foundingConfig() membership.Config {
	return membership.Config{
		Self: n.id, Name: n.cfg.Name, Addr: n.endpoint.Advertise(), Cluster: n.cfg.Cluster, Expect: n.cfg.Expect, Voters: n.cfg.Voters,
		Founders: n.cfg.Founders, ClusterIDPinned: n.cfg.ClusterID, Boot: n.boot,
	}
}

func (n *Node) foundingEnv() membership.Env {
	return membership.Env{
		Members: n.gossip.Members, Load: n.loadPromise, Save: n.savePromise, Clear: n.clearPromise, Ask: n.callFound,
		Bootstrap: n.bootstrap, Join: n.joinAloud, HasState: n.hasState, Adopt: n.adopt,
		Clock: n.clock, NewID: newID, Rand: newRand(), Logger: n.log.Named("founding"),
	}
}

// runFounding brings the node into a cluster, founded, joined or known from before, and then tells.
func (n *Node) runFounding() {
	if n.cfg.caller() {
		n.attach()
		return
	}
	n.lookAround()
	if err := n.founding.Run(n.life); err != nil {
		if n.life.Err() == nil {
			n.fail(fmt.Errorf("found or join: %w", err))
		}
		return
	}
	if n.cfg.Role == RoleClient {
		n.becomeClient()
	}
	n.learnCluster()
}

// lookBound is how long a node that could found alone looks for the others that it was told of.
const lookBound = 3 * time.Second

// lookAround gives gossip the time to show a cluster that exists: a node that founds alone does so at once, and two clusters never merge.
func (n *Node) lookAround() {
	if len(n.cfg.Join) == 0 || n.foundingConfig().MetaExpect() != 1 {
		return
	}
	for end := time.Now().Add(lookBound); time.Now().Before(end) && len(n.gossip.Members()) < 2 && n.life.Err() == nil; {
		pause(n.life, pace)
	}
}

func (n *Node) loadPromise() (membership.Promise, bool, error) {
	b := n.store.Identity().Promise
	if len(b) == 0 {
		return membership.Promise{}, false, nil
	}
	p, err := membership.DecodePromise(b)
	return p, err == nil, err
}

func (n *Node) savePromise(p membership.Promise) error {
	return n.changeIdentity(func(id *store.Identity) { id.Promise = p.Encode() })
}

func (n *Node) clearPromise() error {
	return n.changeIdentity(func(id *store.Identity) { id.Promise = nil })
}

func (n *Node) changeIdentity(change func(*store.Identity)) error {
	n.identity <- struct{}{}
	defer func() { <-n.identity }()
	id := n.store.Identity()
	change(&id)
	return n.store.SetIdentity(id)
}

func (n *Node) bootstrap(clusterID string, servers []membership.Server) error {
	n.log.Info("founding a cluster", "cluster", clusterID, "servers", len(servers))
	if !n.store.Durable() {
		// Whether there was one nobody can know who keeps nothing; its holds would be lost without a word otherwise.
		n.log.Warn("founding a cluster without data directories: if one of this name ran before, it is lost with "+
			"all that was held in it; tokens go on above its own",
			"name", n.cfg.Cluster, "cluster", clusterID)
	}
	n.adopt(clusterID)
	if err := n.group.bootstrap(n.life, servers); err != nil {
		return fmt.Errorf("bootstrap: %w", err)
	}
	return n.keepIdentity(clusterID)
}

// hasState tells whether this node has raft state of any kind. A store that cannot tell is taken for one that has.
func (n *Node) hasState() bool {
	has, err := n.store.HasState()
	return err != nil || has
}

// adopt makes a cluster the only one whose raft streams are accepted; "" accepts none, as one that is a client by its Config does for ever. Streams that are open are cut.
func (n *Node) adopt(id string) {
	if n.raftClusterID() == id || n.cfg.Role == RoleClient {
		return
	}
	n.adopted.Store(&id)
	n.cuts.renew()
}

// checkCluster refuses what this node can not belong to.
func (n *Node) checkCluster(id string) error {
	if want := n.cfg.ClusterID; want != "" && id != want {
		return fmt.Errorf("%w: met cluster %s, pinned to %s", ErrClusterChanged, id, want)
	}
	if kept := n.store.Identity().ClusterID; kept != "" && kept != id {
		return fmt.Errorf("%w: met cluster %s, belongs to %s", ErrClusterChanged, id, kept)
	}
	return nil
}

// keepIntention notes which cluster is being joined.
func (n *Node) keepIntention(clusterID string) error {
	kept := n.store.Identity()
	if kept.ClusterID == clusterID || kept.Joining == clusterID {
		return nil
	}
	if err := n.changeIdentity(func(id *store.Identity) { id.Joining = clusterID }); err != nil {
		return fmt.Errorf("keep the cluster id: %w", err)
	}
	return nil
}

// keepIdentity makes this node belong to a cluster, for good.
func (n *Node) keepIdentity(clusterID string) error {
	if n.store.Identity().ClusterID != clusterID {
		err := n.changeIdentity(func(id *store.Identity) { id.ClusterID = clusterID })
		if err != nil {
			return fmt.Errorf("keep the cluster id: %w", err)
		}
	}
	n.setCluster(clusterID)
	n.publishMeta()
	return nil
}

// learnCluster takes in the cluster id that the state machine has, keeps it, and marks the node as a member. A different one than the
// node knew means that two histories met, which the handshakes are there to prevent: the node stops.
func (n *Node) learnCluster() {
	id := n.fsm.header().ClusterID
	if id == "" {
		id = n.intendedCluster()
	}
	if id == "" {
		return
	}
	if err := n.checkCluster(id); err != nil {
		n.fail(err)
		return
	}
	if err := n.keepIdentity(id); err != nil {
		n.fail(err)
		return
	}
	n.adopt(id)
	n.nowMember()
}

// intendedCluster is the cluster of raft state that has not told its id yet: founded or joined a moment ago, perhaps by a process that was killed
// before it could keep the id.
func (n *Node) intendedCluster() string {
	if id := n.clusterIDNow(); id != "" || !n.hasState() {
		return id
	}
	if id := n.store.Identity().Joining; id != "" {
		return id
	}
	if p, ok, err := n.loadPromise(); ok && err == nil {
		return p.ID
	}
	return ""
}

func (n *Node) nowMember() {
	n.joined.Do(func() {
		close(n.member)
		n.publishMeta()
	})
}

func (n *Node) isMember() bool {
	select {
	case <-n.member:
		return true
	default:
		return false
	}
}

func (n *Node) publishMeta() {
	if err := n.gossip.SetMeta(n.meta()); err != nil && !errors.Is(err, context.Canceled) {
		n.log.Warn("gossip does not take this node's data", "error", err)
	}
}

func (n *Node) clusterIDNow() string { return deref(n.cluster.Load()) }

func (n *Node) raftClusterID() string { return deref(n.adopted.Load()) }

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// setCluster makes the node say in every handshake that it belongs to this cluster.
func (n *Node) setCluster(id string) { n.cluster.Store(&id) }

// gossipChanged remembers names, which outlive their members' presence in the view.
func (n *Node) gossipChanged() {
	if n.isStarted() { // else: whoever asks for names later looks for himself
		n.names.renew(n.gossip.Members(), n.servers())
	}
}

// named adds names and addresses to servers of the configuration.
func (n *Node) named(servers []membership.Server) []membership.Server {
	n.gossipChanged()
	for i := range servers {
		servers[i].Name = n.names.of(servers[i].ID)
		servers[i].Addr, _ = n.resolve(servers[i].ID)
	}
	return servers
}

// newGossip is the real gossip, or the plain one for simulation.
func newGossip(env *sim.Env, opt gossip.Options) (gossip.Gossip, error) {
	if env.MemoryGossip {
		opt.Resolve = resolverOf(env)
		return gossip.NewMemory(opt)
	}
	return gossip.NewMemberlist(opt)
}

// resolverOf is the simulated network's DNS, nil for the real one.
func resolverOf(env *sim.Env) func(context.Context, string) ([]string, error) {
	if !env.MemoryGossip || env.Resolve != nil {
		return env.Resolve
	}
	// A simulated network knows no other names than its hosts'.
	return func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
}
