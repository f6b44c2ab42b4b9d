// Package membership decides who belongs to a cluster: how the first voters found it, and whom the leader promotes, demotes and
// removes afterwards. The decisions are pure functions over what was observed; the only thing with a goroutine is the founding
// driver, and it lives exactly as long as its Run.
//
// # Founding
//
// A fresh deployment must end in one cluster although nobody is in charge yet and views differ. The instance with the lowest
// server id proposes a founding set; every instance of that set persists one Promise, and only when all of them have promised
// does the proposer, alone, bootstrap the cluster, whose id is the proposal's id. An instance holds one promise at a time and
// drops it only on proof that the proposal can no longer be used. So two founding sets that share a live instance cannot both be
// completed, and with Expect above half of all instances any two sets share one.
//
// The whole founding set promises, not only the voters among it: two sets of Expect instances always overlap, while two choices
// of three voters out of five need not.
//
// # Reconciling
//
// Next tells the leader the one change to make now, Admit answers a request to join. Both look only at what the leader itself
// measured; what gossip believes is never a reason to change the raft configuration.
package membership

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/hashicorp/go-hclog"

	"github.com/quorumlock/quorumlock/internal/clock"
	"github.com/quorumlock/quorumlock/internal/gossip"
)

// defaultVoters is the wanted number of voters where none is configured.
const defaultVoters = 3

// Config is what one instance was told about the deployment. The founding part must be the same on all founders; where it is not,
// nothing is founded and Status says why.
type Config struct {
	Self    string // server id
	Name    string // unique within the deployment; a label elsewhere, here it tells a successor from a stranger
	Addr    string // advertised host:port
	Cluster string // cluster name

	Expect   int      // instances that must promise; 1 founds alone, 0 only ever joins
	Founders []string // names of the instances that must promise; takes the place of Expect when not empty
	Voters   int      // wanted voters, of which the founding configuration gets as many as the founders allow; 0: 3

	ClusterIDPinned string // join only this cluster, never found one
	Boot            string // random, made at each start of the process
}

// MetaExpect is the value this instance has to publish as gossip.Meta.Expect: how many founders it wants, 0 if it never founds.
func (c Config) MetaExpect() int {
	switch {
	case c.ClusterIDPinned != "":
		return 0
	case len(c.Founders) > 0:
		return len(c.Founders)
	default:
		return c.Expect
	}
}

// founds tells whether this instance may take part in founding at all.
func (c Config) founds() bool {
	if c.ClusterIDPinned != "" {
		return false
	}
	if len(c.Founders) > 0 {
		return slices.Contains(c.Founders, c.Name)
	}
	return c.Expect > 0
}

// server is this instance as the others see it.
func (c Config) server() Server { return Server{ID: c.Self, Name: c.Name, Addr: c.Addr} }

// normalize copies c and brings it to the one form that comparisons rely on.
func (c Config) normalize() Config {
	c.Founders = slices.Clone(c.Founders)
	slices.Sort(c.Founders)
	c.Founders = slices.Compact(c.Founders)
	if c.Voters <= 0 {
		c.Voters = defaultVoters
	}
	return c
}

// Server is one member of a founding set or of a raft configuration.
type Server struct {
	ID    string
	Name  string
	Addr  string
	Voter bool
}

// Env is what founding needs from the node around it. No function may call back into Founding.
type Env struct {
	// Members is the gossip view, this instance included. A member counts as evidence of a cluster as soon as its Meta has a
	// ClusterID or HasState; a promise alone must therefore not be published as Meta.ClusterID.
	Members func() []gossip.Member

	// Load gives the promise that was saved last and not cleared. Save replaces it, Clear removes it; both are durable when they
	// return nil. After an error either outcome is possible.
	Load  func() (Promise, bool, error)
	Save  func(Promise) error
	Clear func() error

	// Ask makes one founding call to addr: the peer's Handle answers. A non-empty target is the server id that must answer. ctx
	// bounds the call.
	Ask func(ctx context.Context, addr, target string, msg []byte) ([]byte, error)

	// Bootstrap starts a cluster of these voters, this instance among them. It is called at most once in the life of a Founding,
	// by the proposer alone, after all founders have promised. When it returns nil, HasState is true.
	Bootstrap func(clusterID string, voters []Server) error

	// Join asks a member of an existing cluster to let this instance in; nil means that it is in. ctx bounds the attempt. It may
	// be called for a cluster whose configuration holds this instance already, and must then succeed.
	Join func(ctx context.Context, m gossip.Member) error

	// HasState tells whether this instance has raft state of any kind: a log entry, a snapshot, a vote or a term. What a Bootstrap that
	// was cut short left behind (a term, but no entry) must be wiped when the store is opened: it is no state of any cluster.
	HasState func() bool

	// Adopt makes clusterID the only cluster whose raft streams are accepted; empty refuses all. When it returns, no stream of
	// another cluster is open and nothing more of it will be written.
	Adopt func(clusterID string)

	Clock  clock.Source  // for the wall clock that proposals carry; timers are plain time
	NewID  func() string // a fresh random id for a proposal
	Rand   *rand.Rand    // jitter; used by Run only
	Logger hclog.Logger  // nil: silent
}
