// Package gossip is the phone book: which instances there are, at which addresses, in which roles. It never decides anything:
// it does not bootstrap, add, remove or expire.
package gossip

// Member is what is known of one instance.
type Member struct {
	ServerID string
	Addr     string // advertised host:port
	Meta     Meta
}

// Meta is what an instance tells about itself. Encoded it must stay under 512 bytes; SetMeta refuses more.
type Meta struct {
	Name      string // for people
	Zone      string
	ClusterID string // empty until the node belongs to a cluster
	Version   uint32 // highest feature level the binary knows
	Expect    int    // what the instance was configured to expect, for founding; 0: never founds
	HasState  bool   // the instance has raft state of a cluster
	Boot      string // random, made at each start: tells a restarted process from its copy
}

// Gossip is one instance's view. All methods may be called at any time from any goroutine.
type Gossip interface {
	// Members lists the instances believed alive, this one included, ordered by server id.
	Members() []Member
	// Lookup gives the last known address of a server id, also of one that is not alive any more (kept for at least an hour).
	Lookup(serverID string) (addr string, ok bool)
	// SetMeta publishes a new Meta of this instance.
	SetMeta(m Meta) error
	// Learn adds an address that was learned elsewhere (raft configuration, a join answer) to those that are re-joined.
	Learn(serverID, addr string)
	// Leave tells the others that this instance is going; bounded by about a second. Close ends everything and returns when every
	// goroutine is gone. Twice is fine.
	Leave() error
	Close() error
}
