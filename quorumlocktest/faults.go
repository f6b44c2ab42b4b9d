package quorumlocktest

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/clock"
	"github.com/quorumlock/quorumlock/internal/sim"
	"github.com/quorumlock/quorumlock/internal/store"
)

// Expire makes all sessions of instance i lost, as a process finds them when it goes on after a stop that outlasted
// their TTL: when Expire returns, its holds say that they are lost (quorumlock.CauseExpired), without a warning before.
// No time passes.
//
// The cluster hears of it from the instance itself, within a round trip, and grants the locks to the next; but not
// while a callback of Do or Run still works under one: then when the callback has returned, or when the TTL is over,
// whichever comes first. So a successor never starts beside a callback that ignores its context any earlier than it
// would in earnest. The instance goes on: the node opens a session anew when it is next asked for a lock.
//
// For a loss that comes slowly, with its warning, use Isolate and let the time pass.
func (c *Cluster) Expire(i int) {
	c.t.Helper()
	sim.Expire(c.Node(i))
}

// Cut stops everything from instance i to instance j, one way. Streams deliver what they held after Heal.
func (c *Cluster) Cut(i, j int) { c.net.Cut(c.Host(i), c.Host(j)) }

// Isolate cuts instance i off from all others, both ways.
func (c *Cluster) Isolate(i int) { c.net.Isolate(c.Host(i)) }

// Partition splits the network: instances of different groups cannot reach each other, those of one group can.
// Instances that are in no group make up one more together, so Partition([]int{0}) parts the first instance from the
// rest. It comes on top of former cuts, and ends with Heal.
func (c *Cluster) Partition(groups ...[]int) {
	c.t.Helper()
	side := make([]int, c.Size()) // 0 is that of the rest
	for g, group := range groups {
		for _, i := range group {
			if side[i] != 0 {
				c.t.Fatalf("instance %d is in two groups", i)
			}
			side[i] = g + 1
		}
	}
	for i := range side {
		for j := range side {
			if side[i] != side[j] {
				c.Cut(i, j)
			}
		}
	}
}

// Heal undoes every Cut, Isolate and Partition.
func (c *Cluster) Heal() { c.net.HealAll() }

// Pause freezes what goes in and out of instance i, as SIGSTOP would; what others send to it waits. Resume undoes it.
//
// Goroutines cannot be stopped from outside. So the node's own code goes on to run, and so does the code under test:
// its holds see their deadline pass while it is paused, where those of a stopped process would see it on waking. What a
// stopped process would not do in the meantime, the test must not let it do; what it does first on waking is tested by
// doing it after Resume. Expire is the shorter way to that moment.
func (c *Cluster) Pause(i int) { c.net.Pause(c.Host(i)) }

// Resume undoes Pause. What was held is delivered.
func (c *Cluster) Resume(i int) { c.net.Resume(c.Host(i)) }

// HandOver makes instance i, if it leads, hand raft leadership over to another voter. Nothing else of it changes.
func (c *Cluster) HandOver(i int) { sim.HandOver(c.Node(i)) }

// Clock moves one instance's clocks against fake time.
type Clock struct{ fake *clock.Fake }

// SetRate makes the clocks run at rate against fake time.
func (c *Clock) SetRate(rate float64) { c.fake.SetRate(rate) }

// StepWall steps the wall clock, as NTP or an operator would.
func (c *Clock) StepWall(d time.Duration) { c.fake.StepWall(d) }

// Slept makes the machine wake up from a suspend of d: BOOTTIME and the wall clock have gone on, MONOTONIC_RAW has not.
func (c *Clock) Slept(d time.Duration) { c.fake.Slept(d) }

// Stopped makes the process wake up from a stop of d (SIGSTOP, a frozen cgroup): all its clocks have gone on, and
// nothing has run meanwhile.
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
