package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/sim"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// raiseBound is from the moment in which the last member has the newer binary to the raised level.
const raiseBound = 10 * time.Second

// versions are the levels of the instances' binaries, from their next start on. Proclaim stands for a command that came with
// level 2: an older binary does not know it.
type versions [8]atomic.Uint32

func (v *versions) set(level uint32, instances ...int) {
	for _, i := range instances {
		v[i].Store(level)
	}
}

func (v *versions) option() quorumlocktest.Option {
	return quorumlocktest.Configure(v.attach)
}

func (v *versions) attach(i int, cfg *quorumlock.Config) {
	later := map[locktable.Op]uint32{locktable.OpProclaim: 2}
	sim.Attach(cfg, &sim.Env{Binary: wire.Binary{Level: v[i].Load(), Later: later}})
}

// mixed is a cluster of three whose binaries have these levels.
func mixed(t *testing.T, levels [3]uint32, opts ...quorumlocktest.Option) (*quorumlocktest.Cluster, *versions) {
	v := new(versions)
	v.set(1, 3, 4, 5, 6, 7)
	for i, level := range levels {
		v.set(level, i)
	}
	return quorumlocktest.New(t, 3, append(opts, v.option())...), v
}

// restartAs gives an instance another binary.
func (v *versions) restartAs(t *testing.T, c *quorumlocktest.Cluster, i int, level uint32) {
	t.Helper()
	if err := c.Stop(i); err != nil {
		t.Fatal(err)
	}
	v.set(level, i)
	c.Start(i)
	c.WaitReady()
}

func awaitLevel(t *testing.T, c *quorumlocktest.Cluster, level uint32, instances ...int) {
	t.Helper()
	for end := time.Now().Add(raiseBound); ; time.Sleep(50 * time.Millisecond) {
		reached := 0
		for _, i := range instances {
			if sim.Level(c.Node(i)) == level {
				reached++
			}
		}
		if reached == len(instances) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("level %d on %d of %d members", level, reached, len(instances))
		}
	}
}

// staysLow watches the level for longer than raising it takes.
func staysLow(t *testing.T, c *quorumlocktest.Cluster, instances ...int) {
	t.Helper()
	for end := time.Now().Add(raiseBound); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		for _, i := range instances {
			if level := sim.Level(c.Node(i)); level > 1 {
				t.Fatalf("instance %d: level %d", i, level)
			}
		}
	}
}

// proclaims uses the command of level 2 through a node.
func proclaims(t *testing.T, n *quorumlock.Node) error {
	t.Helper()
	l := leadNow(t, n, "e-"+n.ID(), "first")
	defer resign(t, l)
	ctx, cancel := context.WithTimeout(context.Background(), grantBound)
	defer cancel()
	return l.Proclaim(ctx, "second")
}

// leads makes an instance the raft leader.
func leads(t *testing.T, c *quorumlocktest.Cluster, i int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); c.Leader() != i; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("instance %d does not lead", i)
		}
		c.HandOver(c.Leader())
	}
}

// S103: a rolling upgrade in each order, and in each state of it every member leads once. What came with the new version is
// refused, with an error that says so, as long as one member is older, on every node and under every leader; it is used from the
// moment in which the last one is new. Nobody fails, and all have one state.
func TestRollingUpgradeRaisesTheLevel(t *testing.T) {
	for _, order := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c, v := mixed(t, [3]uint32{1, 1, 1}, quorumlocktest.HashEvery(8))
				tr := trafficOn(t, c, "k")
				for _, i := range order {
					for leader := range 3 {
						leads(t, c, leader)
						for node := range 3 {
							err := proclaims(t, c.Node(node))
							var wait *quorumlock.WaitError
							if !errors.Is(err, quorumlock.ErrLevel) || !errors.As(err, &wait) || errors.Is(err, context.DeadlineExceeded) {
								t.Fatalf("before %d is upgraded, through %d: %v", i, node, err)
							}
						}
					}
					v.restartAs(t, c, i, 2)
					tr.from(c.Node(i))
				}
				used := usedAsSoonAsPossible(t, c)
				awaitLevel(t, c, 2, 0, 1, 2)
				t.Logf("used %v after the last start", used)
				for leader := range 3 {
					leads(t, c, leader)
					for node := range 3 {
						if err := proclaims(t, c.Node(node)); err != nil {
							t.Errorf("after the upgrade, leader %d, through %d: %v", leader, node, err)
						}
					}
				}
				tr.flows(3, grantBound)
				tr.stop()
				allGoOn(t, c)
				c.CheckState()
			})
		})
	}
}

// usedAsSoonAsPossible tries the command of level 2 on all nodes until it is taken.
func usedAsSoonAsPossible(t *testing.T, c *quorumlocktest.Cluster) time.Duration {
	t.Helper()
	begun := time.Now()
	for {
		for i := range c.Size() {
			err := proclaims(t, c.Node(i))
			if err == nil {
				return time.Since(begun)
			}
			if !errors.Is(err, quorumlock.ErrLevel) {
				t.Fatalf("through %d: %v", i, err)
			}
		}
		if time.Since(begun) > raiseBound {
			t.Fatalf("not used for %v", raiseBound)
		}
	}
}

func allGoOn(t *testing.T, c *quorumlocktest.Cluster) {
	t.Helper()
	for i := range c.Size() {
		if err := c.Node(i).Err(); err != nil {
			t.Errorf("instance %d: %v", i, err)
		}
	}
}

// S103: a rollback before the last member is new costs nothing.
func TestRollbackBeforeTheLevelIsRaised(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, v := mixed(t, [3]uint32{1, 1, 1})
		v.restartAs(t, c, 0, 2)
		v.restartAs(t, c, 1, 2)
		staysLow(t, c, 0, 1, 2)
		v.restartAs(t, c, 1, 1)
		v.restartAs(t, c, 2, 2)
		v.restartAs(t, c, 0, 1)
		staysLow(t, c, 0, 1, 2)
		grantMany(t, c.Node(0), "k", 3)
		allGoOn(t, c)
		c.CheckState()
	})
}

// A member that does not answer may come back with the binary that it had: the level waits for it.
func TestLevelWaitsForWhoIsAway(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, v := mixed(t, [3]uint32{1, 1, 1})
		away := others(c, c.Leader())[0]
		c.Crash(away)
		for _, i := range others(c, away) {
			if err := c.Stop(i); err != nil {
				t.Fatal(err)
			}
			v.set(2, i)
			c.Start(i)
			c.WaitReady()
		}
		staysLow(t, c, others(c, away)...)
		c.Start(away)
		c.WaitReady()
		staysLow(t, c, 0, 1, 2)
		v.restartAs(t, c, away, 2)
		awaitLevel(t, c, 2, 0, 1, 2)
	})
}

// S103: after the level was raised, members go back to the older binary. Each fails with an error that says so before it applies
// what it cannot read, whether its log or a snapshot from the others tells it; it does so at each start, and with the newer
// binary it is what it was. The others go on.
func TestRollbackAfterTheLevelWasRaised(t *testing.T) {
	for name, test := range map[string]struct {
		entries int // while it is away
		wiped   bool
	}{
		"by its log":            {entries: 5},
		"by a snapshot":         {entries: 700}, // two entries each: the log does not go back that far
		"when it wants to join": {entries: 5, wiped: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c, v := mixed(t, [3]uint32{2, 2, 2}, quorumlocktest.SnapshotBytes(8<<10))
				awaitLevel(t, c, 2, 0, 1, 2)
				back := others(c, c.Leader())[0]
				stay := others(c, back)
				id := c.Node(back).ID()
				c.Crash(back)
				last := grantMany(t, c.Node(stay[0]), "k", test.entries)
				if test.wiped {
					c.Replace(back)
				}
				v.set(1, back)
				for range 2 {
					refusedAsTooOld(t, c, back, id, test.wiped)
				}
				if next := grantMany(t, c.Node(stay[0]), "k", 2); next <= last {
					t.Errorf("token %v after %v", next, last)
				}
				v.set(2, back)
				c.Start(back)
				c.WaitReady()
				if err := proclaims(t, c.Node(back)); err != nil {
					t.Errorf("with the newer binary again: %v", err)
				}
				allGoOn(t, c)
				c.CheckState()
			})
		})
	}
}

// refusedAsTooOld starts an instance that must not get far, and stops it.
func refusedAsTooOld(t *testing.T, c *quorumlocktest.Cluster, i int, former string, wiped bool) {
	t.Helper()
	if err := c.TryStart(i); err != nil {
		if !errors.Is(err, quorumlock.ErrLevel) {
			t.Errorf("open: %v", err)
		}
		return
	}
	n := c.Node(i)
	select {
	case <-n.Done():
	case <-time.After(grantBound):
		t.Fatal("the node goes on")
	}
	if err := n.Err(); !errors.Is(err, quorumlock.ErrFailed) || !errors.Is(err, quorumlock.ErrLevel) {
		t.Errorf("the node reports %v", err)
	}
	if level := sim.Level(n); level > 1 {
		t.Errorf("it applied the level %d", level)
	}
	if wiped == (n.ID() == former) {
		t.Errorf("its id is %s, it was %s", n.ID(), former)
	}
	members, err := c.Node(others(c, i)[0]).Members(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range members {
		if m.ServerID == n.ID() && (wiped && m.InGroup || m.Reachable) {
			t.Errorf("it takes part: %+v", m)
		}
	}
	if err := c.Stop(i); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// S103: all members go back at once. None of them applies what it cannot read, and none grants anything; with the newer binary
// they are what they were.
func TestAllMembersGoBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, v := mixed(t, [3]uint32{2, 2, 2})
		awaitLevel(t, c, 2, 0, 1, 2)
		last := grantMany(t, c.Node(0), "k", 3)
		for i := range 3 {
			c.Crash(i)
		}
		v.set(1, 0, 1, 2)
		for i := range 3 {
			if err := c.TryStart(i); err != nil && !errors.Is(err, quorumlock.ErrLevel) {
				t.Fatalf("open %d: %v", i, err)
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if h, err := quorumlock.NewMutex(c.Node(0), "k").Lock(ctx); err == nil {
			t.Errorf("granted with token %v", h.Token())
		}
		failed := 0
		for i := range 3 {
			n := c.Node(i)
			if errors.Is(n.Err(), quorumlock.ErrLevel) {
				failed++
			}
			if level := sim.Level(n); level > 1 {
				t.Errorf("instance %d applied level %d", i, level)
			}
			c.Crash(i)
		}
		if failed == 0 {
			t.Error("nobody says that its binary is too old")
		}
		v.set(2, 0, 1, 2)
		for i := range 3 {
			c.Start(i)
		}
		c.WaitReady()
		if next := grantMany(t, c.Node(1), "k", 2); next <= last {
			t.Errorf("token %v after %v", next, last)
		}
		allGoOn(t, c)
		c.CheckState()
	})
}

// A client is told of the level, and uses what it allows as the members do; one whose binary is older than the level is refused.
func TestClientUsesTheLevel(t *testing.T) {
	bubble(t, func(t *testing.T) {
		v := new(versions)
		v.set(2, 0, 1, 2, 3)
		v.set(1, 4)
		c := quorumlocktest.New(t, 3, quorumlocktest.Configure(func(i int, cfg *quorumlock.Config) {
			v.attach(i, cfg)
			if i >= 3 {
				cfg.Role, cfg.Expect = quorumlock.RoleClient, 0
			}
		}))
		awaitLevel(t, c, 2, 0, 1, 2)
		client := c.Grow()
		c.WaitReady()
		if err := proclaims(t, c.Node(client)); err != nil {
			t.Error(err)
		}
		old := c.Node(c.Grow())
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := old.Ready(ctx); !errors.Is(err, quorumlock.ErrLevel) {
			t.Errorf("ready of a client with an older binary: %v", err)
		}
	})
}
