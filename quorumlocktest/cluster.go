// Package quorumlocktest runs a whole quorumlock cluster in memory and in fake time, for unit tests of code that locks: what happens
// when the lease ends, the leader dies, the network splits or a process hangs can be tested in milliseconds and without luck.
//
// A cluster lives in a bubble of testing/synctest:
//
//	synctest.Test(t, func(t *testing.T) {
//		c := quorumlocktest.New(t, 3)
//		h, err := quorumlock.NewMutex(c.Node(0), "job").Lock(ctx)
//		...
//		c.Isolate(0)
//		<-h.Done() // lost, after 0.8 TTL of fake time
//	})
//
// The nodes are real: real raft, real sessions, real leases. Only the network, the disks, the clocks and gossip are simulated.
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

// New starts a cluster of n nodes and waits until each has been answered by a leader. It must be called inside a bubble, and closes everything when the
// test ends. Nodes keep their state on simulated disks unless InMemory is given.
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
			t.Fatal("quorumlocktest.New must be called inside synctest.Test")
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

// Cut stops everything from instance i to instance j, one way. Streams deliver what they held after Heal.
func (c *Cluster) Cut(i, j int) { c.net.Cut(host(i), host(j)) }

// Isolate cuts instance i off from all others, both ways.
func (c *Cluster) Isolate(i int) { c.net.Isolate(host(i)) }

// Heal undoes every Cut and Isolate.
func (c *Cluster) Heal() { c.net.HealAll() }

// Pause freezes what goes in and out of instance i, as SIGSTOP would; its clocks go on. Resume undoes it.
func (c *Cluster) Pause(i int) { c.net.Pause(host(i)) }

// Resume undoes Pause.
func (c *Cluster) Resume(i int) { c.net.Resume(host(i)) }

// HandOver makes instance i, if it leads, hand raft leadership over to another voter. Nothing else of it changes.
func (c *Cluster) HandOver(i int) { sim.HandOver(c.Node(i)) }

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

// Clock moves one instance's clocks against fake time.
type Clock struct{ fake *clock.Fake }

// SetRate makes the clocks run at rate against fake time.
func (c *Clock) SetRate(rate float64) { c.fake.SetRate(rate) }

// StepWall steps the wall clock, as NTP or an operator would.
func (c *Clock) StepWall(d time.Duration) { c.fake.StepWall(d) }

// Slept makes the machine wake up from a suspend of d: BOOTTIME and the wall clock have gone on, MONOTONIC_RAW has not.
func (c *Clock) Slept(d time.Duration) { c.fake.Slept(d) }

// Stopped makes the process wake up from a stop of d (SIGSTOP, a frozen cgroup): all its clocks have gone on, and nothing has run meanwhile.
func (c *Clock) Stopped(d time.Duration) { c.fake.Jump(d, d, d) }

// Disk injects faults into one instance's disk.
type Disk struct{ disk *store.Disk }

// Slow makes each write take d.
func (d *Disk) Slow(delay time.Duration) { d.disk.SlowWrites(delay) }

// Hang makes writes wait until Hang(false).
func (d *Disk) Hang(hang bool) { d.disk.HangWrites(hang) }

// Fail makes every write fail with err; nil ends it.
func (d *Disk) Fail(err error) { d.disk.FailWrites(err) }

// FailNext makes the next write fail with err, and none after it.
func (d *Disk) FailNext(err error) { d.disk.FailNextWrite(err) }

// Refused is how many writes have failed because of Fail and FailNext.
func (d *Disk) Refused() int { return d.disk.Refused() }

// FailMark makes the mark on the disk of a member whose state differs from the others' fail with err; nil ends it.
func (d *Disk) FailMark(err error) { d.disk.FailCondemn(err) }

// AlterSnapshot puts what change makes of the newest snapshot in its place, and tells whether there is one.
func (d *Disk) AlterSnapshot(change func(content []byte) []byte) bool {
	return d.disk.AlterSnapshot(change)
}

// Corrupt flips a bit in the stored log entry of an instance that is down, and tells whether there is one.
func (d *Disk) Corrupt(index uint64) bool { return d.disk.Corrupt(index) }
