package quorumlocktest

import (
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/quorumlock/quorumlock"
)

type options struct {
	disks     bool
	seed      uint64
	configure func(i int, cfg *quorumlock.Config)
	logger    hclog.Logger
	snapshot  uint64
	hashEvery uint64
	latency   time.Duration
	waitReady bool
	byName    bool
	timeLimit time.Duration
}

// Option sets something about a cluster.
type Option func(*options)

// InMemory gives the nodes no data directory: one that crashes comes back as a new member.
func InMemory() Option { return func(o *options) { o.disks = false } }

// Seed fixes the random choices of the simulated network.
func Seed(seed uint64) Option { return func(o *options) { o.seed = seed } }

// Configure adjusts the Config of each instance before it is opened. Cluster, Name, Addr, Join, Expect and Transport
// are set already.
func Configure(f func(i int, cfg *quorumlock.Config)) Option {
	return func(o *options) { o.configure = f }
}

// Logger takes what the nodes say.
func Logger(l hclog.Logger) Option { return func(o *options) { o.logger = l } }

// SnapshotBytes sets after how many bytes of log a snapshot is taken.
func SnapshotBytes(n uint64) Option { return func(o *options) { o.snapshot = n } }

// HashEvery sets after how many log entries the members compare the hashes of their states; a power of two, 1024
// without it.
func HashEvery(n uint64) Option { return func(o *options) { o.hashEvery = n } }

// Latency is the one-way delay of the network; default 200 microseconds.
func Latency(d time.Duration) Option { return func(o *options) { o.latency = d } }

// NotReady makes New return without waiting for a leader.
func NotReady() Option { return func(o *options) { o.waitReady = false } }
