// Package quorumlocktest runs a whole quorumlock cluster in memory and in fake time, for unit tests of code that locks:
// what happens when the lease ends, the leader dies, the network splits or a process hangs can be tested in
// milliseconds and without luck.
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
// The nodes are real: real raft, real sessions, real leases. Only the network, the disks, the clocks and gossip are
// simulated.
//
// # Time
//
// A cluster lives in a bubble of [testing/synctest], which [Run] makes: time stands still while any goroutine of the
// test works, and jumps ahead when all of them wait. So time.Sleep costs nothing, and waits exactly; code under test
// needs no change, as long as it waits for timers, channels and nodes, and not for real sockets or files. Goroutines
// must have ended when the test does, as after Close of what started them.
//
// # Ways to lose a lock
//
//   - [Cluster.Expire]: the session is gone this instant, as a process finds after a long stop.
//   - [Cluster.Isolate], or [Cluster.Partition]: the hold warns (Jeopardy) after 0.4 TTL and ends after 0.8 TTL;
//     another instance gets the lock after the TTL.
//   - [Cluster.Pause] and [Cluster.Resume]: the same, and what was sent meanwhile arrives late.
//   - [Cluster.Crash] and [Cluster.Start]: the process dies; its locks are free after the TTL.
//   - [quorumlock.Node.ForceRelease] on any instance: an operator takes the lock away, at once or after a drain.
//   - [Cluster.Stop] and [Cluster.Leave]: an orderly end.
//
// # A test that hangs
//
// Two callers that each wait for the other one's lock would wait until go test gives up, since fake time goes on.
// [TimeLimit], one hour of fake time if it is not set, fails such a test with a report of who holds what and who waits
// for it.
//
// Run many such tests in parallel (t.Parallel before Run); a test costs some milliseconds of processor time for each
// second of fake time.
package quorumlocktest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/clock"
	"github.com/quorumlock/quorumlock/internal/sim"
	"github.com/quorumlock/quorumlock/internal/store"
	"github.com/quorumlock/quorumlock/transport"
)

// Cluster is a simulated cluster. Its methods may be called from any goroutine of the bubble. Instances are numbered
// from 0.
type Cluster struct {
	t     testing.TB
	net   *transport.Memory
	opt   options
	limit *limit

	mu        sync.Mutex // guards what follows, and each instance's node, disk and host
	instances []*instance
	ended     bool // no instance is started any more
}

type instance struct {
	index int
	host  string           // see Cluster.mu
	moves int              // see Cluster.mu
	node  *quorumlock.Node // nil while it is down; see Cluster.mu
	disk  *store.Disk      // nil without a data directory; see Cluster.mu
	clock *clock.Fake
}

// all is the instances there are now.
func (c *Cluster) all() []*instance {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.instances)
}

func (c *Cluster) instance(i int) *instance {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.instances[i]
}

// running is the instance's node, nil while it is down.
func (c *Cluster) running(in *instance) *quorumlock.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return in.node
}

// set notes that the instance runs as node, or with nil that it is down; false if the cluster has ended.
func (c *Cluster) set(in *instance, node *quorumlock.Node) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	in.node = node
	return !c.ended
}

func (c *Cluster) diskOf(i int) *store.Disk {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.instances[i].disk
}

func (c *Cluster) insert(i int, disk *store.Disk) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.instances[i].disk = disk
}

// Run runs f as a test in a bubble of its own, with a cluster of n nodes that New starts. f must use the t that it is
// given, not the one around it. When f returns, the nodes are ended; goroutines that f has started must end with it, or
// because of that.
func Run(t *testing.T, n int, f func(t *testing.T, c *Cluster), opts ...Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, New(t, n, opts...)) })
}

// New starts a cluster of n nodes and waits until each has been answered by a leader. It must be called inside a bubble
// of testing/synctest (Run makes one), and closes everything when the test ends, or when the cluster's TimeLimit has
// passed. Nodes keep their state on simulated disks unless InMemory is given.
func New(t testing.TB, n int, opts ...Option) *Cluster {
	t.Helper()
	requireBubble(t)
	o := options{disks: true, seed: 1, latency: 200 * time.Microsecond, waitReady: true, timeLimit: defaultTimeLimit}
	for _, opt := range opts {
		opt(&o)
	}
	c := &Cluster{t: t, net: transport.NewMemory(o.seed), opt: o}
	c.net.SetDelay("*", "*", o.latency, o.latency/4)
	for range n {
		c.add()
	}
	t.Cleanup(c.close)
	c.limit = newLimit(c)
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
	in := &instance{index: i, host: fmt.Sprintf("host-%d", i), clock: clock.NewFake()}
	if c.opt.disks {
		in.disk = store.NewDisk()
	}
	return in
}

// Grow adds one more instance, which joins the others, and returns its number. It does not wait until it is ready.
func (c *Cluster) Grow() int {
	in := c.add()
	c.Start(in.index)
	return in.index
}

func (c *Cluster) add() *instance {
	c.mu.Lock()
	defer c.mu.Unlock()
	in := c.newInstance(len(c.instances))
	c.instances = append(c.instances, in)
	return in
}

func (c *Cluster) config(in *instance) quorumlock.Config {
	all := c.all()
	cfg := quorumlock.Config{
		Cluster: "test", Name: fmt.Sprintf("node-%d", in.index), Addr: address(c.hostOf(in)), Expect: len(all), AllowPlaintext: true,
		Transport: c.net.Host(c.hostOf(in)), Logger: c.opt.logger, Join: c.seedsOf(in, all),
	}
	if c.opt.configure != nil {
		c.opt.configure(in.index, &cfg)
	}
	if cfg.Logger != nil {
		cfg.Logger = cfg.Logger.Named(cfg.Name)
	}
	sim.Attach(&cfg, &sim.Env{
		Clock: in.clock, Disk: in.disk, MemoryGossip: true, Resolve: c.resolve, SnapshotBytes: c.opt.snapshot, HashEvery: c.opt.hashEvery,
	})
	return cfg
}

// Node is instance i, which must be up.
func (c *Cluster) Node(i int) *quorumlock.Node {
	c.t.Helper()
	node := c.running(c.instance(i))
	if node == nil {
		c.t.Fatalf("instance %d is down", i)
	}
	return node
}

// Size is the number of instances, up or down.
func (c *Cluster) Size() int { return len(c.all()) }

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
	in := c.instance(i)
	if c.running(in) != nil {
		c.t.Fatalf("instance %d is up", i)
	}
	node, err := quorumlock.Open(context.Background(), c.config(in))
	if err != nil {
		return err
	}
	if !c.set(in, node) {
		sim.Abort(node)
		c.t.Fatalf("instance %d: the cluster has been closed", i)
	}
	return nil
}

// Replace gives instance i, which must be down, an empty disk: it comes back as a new member.
func (c *Cluster) Replace(i int) {
	c.t.Helper()
	if c.running(c.instance(i)) != nil {
		c.t.Fatalf("instance %d is up", i)
	}
	if !c.opt.disks {
		c.t.Fatalf("instance %d has no disk: it comes back as a new member anyway", i)
	}
	c.insert(i, store.NewDisk())
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
	c.set(c.instance(i), nil)
	return node
}

// Crash ends instance i as kill -9 or a power cut would: nothing is said to anybody, and what was not written is lost.
// Start brings it back.
func (c *Cluster) Crash(i int) {
	c.t.Helper()
	node := c.take(i)
	c.net.Crash(c.Host(i))
	if d := c.diskOf(i); d != nil {
		d.Crash()
	}
	sim.Abort(node)
}

// Network is the simulated network; hosts are named by Host.
func (c *Cluster) Network() *transport.Memory { return c.net }

// Host is the name of instance i in the network; Move changes it.
func (c *Cluster) Host(i int) string { return c.hostOf(c.instance(i)) }

// Clock is instance i's clocks.
func (c *Cluster) Clock(i int) *Clock { return &Clock{c.instance(i).clock} }

// Disk is instance i's disk; nil with InMemory.
func (c *Cluster) Disk(i int) *Disk {
	disk := c.diskOf(i)
	if disk == nil {
		return nil
	}
	return &Disk{disk}
}

func (c *Cluster) close() {
	c.limit.stop()
	c.end()
	// Dials and timers of the libraries below end by their own bounds.
	time.Sleep(time.Minute)
}

// end aborts all nodes, whatever was done to them. Calls that wait in them return.
func (c *Cluster) end() {
	c.mu.Lock()
	c.ended = true
	all := slices.Clone(c.instances)
	c.mu.Unlock()
	c.net.HealAll()
	for i := range all {
		c.net.Resume(c.Host(i))
		if disk := c.diskOf(i); disk != nil {
			disk.HangWrites(false)
		}
	}
	for _, in := range all {
		if node := c.running(in); node != nil {
			sim.Abort(node)
		}
	}
}
