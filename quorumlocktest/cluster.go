// Package quorumlocktest runs a whole quorumlock cluster in memory and in fake time, for unit tests of code that locks: what happens
// when the lease ends, the leader dies, the network splits or a process hangs can be tested in milliseconds and without luck.
//
//	func TestExportStopsWhenItsLockIsLost(t *testing.T) {
//		quorumlocktest.Run(t, 3, func(t *testing.T, c *quorumlocktest.Cluster) {
//			done := make(chan error, 1)
//			go func() { done <- export(t.Context(), c.Node(0)) }()
//			time.Sleep(time.Second) // fake time: it works by now
//			c.Expire(0)
//			if err := <-done; !errors.Is(err, quorumlock.ErrLost) {
//				t.Errorf("export went on: %v", err)
//			}
//		})
//	}
//
// The nodes are real: real raft, real sessions, real leases. Only the network, the disks, the clocks and gossip are simulated.
//
// # Time
//
// A cluster lives in a bubble of [testing/synctest], which [Run] makes: time stands still while any goroutine of the test works, and jumps ahead
// when all of them wait. So time.Sleep costs nothing, and waits exactly; code under test needs no change, as long as it waits for timers, channels and
// nodes, and not for real sockets or files. Goroutines must have ended when the test does, as after Close of what started them.
//
// # Ways to lose a lock
//
//   - [Cluster.Expire]: the session is gone this instant, as a process finds after a long stop.
//   - [Cluster.Isolate], or [Cluster.Partition]: the hold warns (Jeopardy) after 0.4 TTL and ends after 0.8 TTL; another instance gets the lock after the TTL.
//   - [Cluster.Pause] and [Cluster.Resume]: the same, and what was sent meanwhile arrives late.
//   - [Cluster.Crash] and [Cluster.Start]: the process dies; its locks are free after the TTL.
//   - [quorumlock.Node.ForceRelease] on any instance: an operator takes the lock away, at once or after a drain.
//   - [Cluster.Stop] and [Cluster.Leave]: an orderly end.
//
// Run many such tests in parallel (t.Parallel before Run); a test costs some milliseconds of processor time for each second of fake time.
package quorumlocktest

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/clock"
	"github.com/quorumlock/quorumlock/internal/sim"
	"github.com/quorumlock/quorumlock/internal/store"
	"github.com/quorumlock/quorumlock/transport"
)

// readyBound is fake time in which a healthy cluster must have formed.
const readyBound = time.Minute

// Cluster is a simulated cluster. Its methods may be called from any goroutine of the bubble. Instances are numbered from 0.
type Cluster struct {
	t         testing.TB
	net       *transport.Memory
	instances []*instance
	opt       options
}

type instance struct {
	index int
	node  *quorumlock.Node // nil while it is down
	disk  *store.Disk      // nil without a data directory
	clock *clock.Fake
}

type options struct {
	disks     bool
	seed      uint64
	configure func(i int, cfg *quorumlock.Config)
	logger    hclog.Logger
	snapshot  uint64
	hashEvery uint64
	latency   time.Duration
	waitReady bool
}

// Option sets something about a cluster.
type Option func(*options)

// InMemory gives the nodes no data directory: one that crashes comes back as a new member.
func InMemory() Option { return func(o *options) { o.disks = false } }

// Seed fixes the random choices of the simulated network.
func Seed(seed uint64) Option { return func(o *options) { o.seed = seed } }

// Configure adjusts the Config of each instance before it is opened. Cluster, Name, Addr, Join, Expect and Transport are set already.
func Configure(f func(i int, cfg *quorumlock.Config)) Option {
	return func(o *options) { o.configure = f }
}

// Logger takes what the nodes say.
func Logger(l hclog.Logger) Option { return func(o *options) { o.logger = l } }

// SnapshotBytes sets after how many bytes of log a snapshot is taken.
func SnapshotBytes(n uint64) Option { return func(o *options) { o.snapshot = n } }

// HashEvery sets after how many log entries the members compare the hashes of their states; a power of two, 1024 without it.
func HashEvery(n uint64) Option { return func(o *options) { o.hashEvery = n } }

// Latency is the one-way delay of the network; default 200 microseconds.
func Latency(d time.Duration) Option { return func(o *options) { o.latency = d } }

// NotReady makes New return without waiting for a leader.
func NotReady() Option { return func(o *options) { o.waitReady = false } }

// Run runs f as a test in a bubble of its own, with a cluster of n nodes that New starts. f must use the t that it is given, not the one
// around it. When f returns, the nodes are ended; goroutines that f has started must end with it, or because of that.
func Run(t *testing.T, n int, f func(t *testing.T, c *Cluster), opts ...Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, New(t, n, opts...)) })
}

// New starts a cluster of n nodes and waits until each has been answered by a leader. It must be called inside a bubble of testing/synctest (Run makes
// one), and closes everything when the test ends. Nodes keep their state on simulated disks unless InMemory is given.
func New(t testing.TB, n int, opts ...Option) *Cluster {
	t.Helper()
	requireBubble(t)
	o := options{disks: true, seed: 1, latency: 200 * time.Microsecond, waitReady: true}
	for _, opt := range opts {
		opt(&o)
	}
	c := &Cluster{t: t, net: transport.NewMemory(o.seed), opt: o}
	c.net.SetDelay("*", "*", o.latency, o.latency/4)
	for i := range n {
		c.instances = append(c.instances, c.newInstance(i))
	}
	t.Cleanup(c.close)
	for i := range n {
		c.Start(i)
	}
	if o.waitReady {
		c.WaitReady()
	}
	return c
}

// requireBubble fails the test outside a bubble, where a minute of fake time would be a minute of everybody's.
func requireBubble(t testing.TB) {
	t.Helper()
	defer func() {
		if recover() != nil {
			t.Fatal("quorumlocktest.New must be called inside synctest.Test; quorumlocktest.Run does that")
		}
	}()
	synctest.Wait()
}

func (c *Cluster) newInstance(i int) *instance {
	in := &instance{index: i, clock: clock.NewFake()}
	if c.opt.disks {
		in.disk = store.NewDisk()
	}
	return in
}

// Grow adds one more instance, which joins the others, and returns its number. It does not wait until it is ready.
func (c *Cluster) Grow() int {
	i := len(c.instances)
	c.instances = append(c.instances, c.newInstance(i))
	c.Start(i)
	return i
}

func host(i int) string { return fmt.Sprintf("host-%d", i) }

func address(i int) string { return host(i) + ":7000" }

func (c *Cluster) config(in *instance) quorumlock.Config {
	cfg := quorumlock.Config{
		Cluster: "test", Name: fmt.Sprintf("node-%d", in.index), Addr: address(in.index), Expect: len(c.instances), AllowPlaintext: true,
		Transport: c.net.Host(host(in.index)), Logger: c.opt.logger,
	}
	for _, other := range c.instances {
		if other != in {
			cfg.Join = append(cfg.Join, address(other.index))
		}
	}
	if c.opt.configure != nil {
		c.opt.configure(in.index, &cfg)
	}
	if cfg.Logger != nil {
		cfg.Logger = cfg.Logger.Named(cfg.Name)
	}
	sim.Attach(&cfg, &sim.Env{Clock: in.clock, Disk: in.disk, MemoryGossip: true, SnapshotBytes: c.opt.snapshot, HashEvery: c.opt.hashEvery})
	return cfg
}

// Node is instance i, which must be up.
func (c *Cluster) Node(i int) *quorumlock.Node {
	c.t.Helper()
	if c.instances[i].node == nil {
		c.t.Fatalf("instance %d is down", i)
	}
	return c.instances[i].node
}

// Size is the number of instances, up or down.
func (c *Cluster) Size() int { return len(c.instances) }

// Start opens instance i, which must be down.
func (c *Cluster) Start(i int) *quorumlock.Node {
	c.t.Helper()
	if err := c.TryStart(i); err != nil {
		c.t.Fatalf("open instance %d: %v", i, err)
	}
	return c.Node(i)
}

// TryStart is Start where Open may fail.
func (c *Cluster) TryStart(i int) error {
	c.t.Helper()
	in := c.instances[i]
	if in.node != nil {
		c.t.Fatalf("instance %d is up", i)
	}
	node, err := quorumlock.Open(context.Background(), c.config(in))
	if err != nil {
		return err
	}
	in.node = node
	return nil
}

// Replace gives instance i, which must be down, an empty disk: it comes back as a new member.
func (c *Cluster) Replace(i int) {
	c.t.Helper()
	if c.instances[i].node != nil {
		c.t.Fatalf("instance %d is up", i)
	}
	if !c.opt.disks {
		c.t.Fatalf("instance %d has no disk: it comes back as a new member anyway", i)
	}
	c.instances[i].disk = store.NewDisk()
}

// Stop closes instance i as a service that will be restarted.
func (c *Cluster) Stop(i int) error {
	node := c.take(i)
	return node.Close()
}

// Leave takes instance i out of the cluster for good.
func (c *Cluster) Leave(ctx context.Context, i int) error {
	node := c.take(i)
	return node.Leave(ctx)
}

func (c *Cluster) take(i int) *quorumlock.Node {
	c.t.Helper()
	node := c.Node(i)
	c.instances[i].node = nil
	return node
}

// Crash ends instance i as kill -9 or a power cut would: nothing is said to anybody, and what was not written is lost. Start brings it back.
func (c *Cluster) Crash(i int) {
	c.t.Helper()
	node := c.take(i)
	c.net.Crash(host(i))
	if d := c.instances[i].disk; d != nil {
		d.Crash()
	}
	sim.Abort(node)
}

// Network is the simulated network; hosts are named by Host.
func (c *Cluster) Network() *transport.Memory { return c.net }

// Host is the name of instance i in the network.
func (c *Cluster) Host(i int) string { return host(i) }

// Clock is instance i's clocks.
func (c *Cluster) Clock(i int) *Clock { return &Clock{c.instances[i].clock} }

// Disk is instance i's disk; nil with InMemory.
func (c *Cluster) Disk(i int) *Disk {
	if c.instances[i].disk == nil {
		return nil
	}
	return &Disk{c.instances[i].disk}
}

// Leader waits until an instance leads and returns its number.
func (c *Cluster) Leader() int {
	c.t.Helper()
	i, ok := c.leader(readyBound, -1)
	if !ok {
		c.t.Fatalf("no leader within %v", readyBound)
	}
	return i
}

// LeaderExcept waits until an instance other than i leads and returns its number.
func (c *Cluster) LeaderExcept(i int) int {
	c.t.Helper()
	j, ok := c.leader(readyBound, i)
	if !ok {
		c.t.Fatalf("no other leader than instance %d within %v", i, readyBound)
	}
	return j
}

func (c *Cluster) leader(bound time.Duration, except int) (int, bool) {
	for deadline := time.Now().Add(bound); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		for i, in := range c.instances {
			if i != except && in.node != nil && sim.Leading(in.node) {
				return i, true
			}
		}
	}
	return 0, false
}

// WaitReady waits until every instance that is up has been answered by a leader.
func (c *Cluster) WaitReady() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), readyBound)
	defer cancel()
	for i, in := range c.instances {
		if in.node == nil {
			continue
		}
		if err := in.node.Ready(ctx); err != nil {
			c.t.Fatalf("instance %d: %v", i, err)
		}
	}
}

// CheckState fails the test if two members that have applied the same log index differ in their state, and waits (in fake time) until all that are up
// have applied the same. Call it while no commands run.
func (c *Cluster) CheckState() {
	c.t.Helper()
	var indexes []uint64
	for deadline := time.Now().Add(readyBound); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		byIndex := make(map[uint64][32]byte)
		indexes = indexes[:0]
		for i, in := range c.instances {
			if in.node == nil || in.node.Err() != nil {
				continue
			}
			index, hash := sim.State(in.node)
			if other, seen := byIndex[index]; seen && other != hash {
				c.t.Fatalf("instance %d differs from another one at index %d", i, index)
			}
			byIndex[index] = hash
			indexes = append(indexes, index)
		}
		if len(byIndex) <= 1 {
			return
		}
	}
	c.t.Fatalf("members stay at different indexes: %v", indexes)
}

func (c *Cluster) close() {
	c.net.HealAll()
	for i, in := range c.instances {
		c.net.Resume(host(i))
		if in.disk != nil {
			in.disk.HangWrites(false)
		}
	}
	for _, in := range c.instances {
		if in.node != nil {
			sim.Abort(in.node)
			in.node = nil
		}
	}
	// Dials and timers of the libraries below end by their own bounds.
	time.Sleep(time.Minute)
}
