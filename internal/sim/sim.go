// Package sim is the seam through which simulated clusters run real nodes: it supplies what cannot be simulated from
// outside, clocks and disks. Nothing but tests and quorumlocktest uses it; users cannot, since it is internal.
package sim

import (
	"context"

	"github.com/quorumlock/quorumlock/internal/clock"
	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/store"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Env replaces parts of one node. Zero fields leave the real part in place.
type Env struct {
	Clock        clock.Source
	Disk         *store.Disk // stands in for Config.Dir
	MemoryGossip bool        // plain gossip instead of memberlist
	// Resolve gives the hosts of the simulated network behind a name in Config.Join. Nil: a name is its host's.
	Resolve       func(ctx context.Context, name string) (hosts []string, err error)
	SnapshotBytes uint64      // log bytes after which a snapshot is taken
	HashEvery     uint64      // log entries between two comparisons of the members' states; a power of two
	Binary        wire.Binary // what the node's binary understands of the log
}

// Attach sets the Env of a *quorumlock.Config. The root package fills it in; a wider API would show users what only
// simulation may touch.
var Attach func(config any, env *Env)

// Attached is the Env of a *quorumlock.Config, nil if it has none.
var Attached func(config any) *Env

// What simulation does to a node beyond its API. The root package fills these in too.
var (
	// Abort ends a *quorumlock.Node as kill -9 would: nothing is released, handed over or told; only goroutines and ports go.
	Abort func(node any)
	// State gives a member's applied log index and the hash of its state there.
	State func(node any) (index uint64, hash [32]byte)
	// Level is the cluster's feature level as a member has it.
	Level func(node any) uint32
	// Flip changes a member's state behind the log's back, as a fault of its memory or of its program would: one of the two functions, the other is nil, gets
	// each record and says whether it changed it. False means that nothing was changed, or that the new state breaks a rule of the lock table, which
	// would show without any comparison.
	Flip func(node any, session func(*locktable.SessionRecord) bool, claim func(*locktable.ClaimRecord) bool) bool
	// HandOver makes a node that leads hand leadership over to another voter; it goes on otherwise.
	HandOver func(node any)
	// Snapshot has a member write its state down, as it does when its log has grown, and returns when that is on the disk. There is nothing new to write: nil.
	Snapshot func(ctx context.Context, node any) error
	// Expire makes all sessions of a node lost on their own side, as if their leases had run out that moment.
	Expire func(node any)
	// Leading tells whether the node leads the raft group.
	Leading func(node any) bool
	// Replicates tells whether the node keeps a state of its own: it is no client.
	Replicates func(node any) bool
)
