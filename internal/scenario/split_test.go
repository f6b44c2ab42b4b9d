package scenario_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/sim"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// startApart starts instances in two groups that cannot reach each other from the first moment on; Heal lets them meet.
func startApart(t *testing.T, left, right int, opts ...quorumlocktest.Option) (c *quorumlocktest.Cluster, a, b []int) {
	t.Helper()
	c = quorumlocktest.New(t, 0, append(opts, quorumlocktest.NotReady())...)
	for i := range left + right {
		if i < left {
			a = append(a, i)
		} else {
			b = append(b, i)
		}
	}
	cutHosts(c, a, b)
	for range left + right {
		c.Grow()
	}
	return c, a, b
}

// cutHosts cuts two groups off from each other, whose instances need not be there yet.
func cutHosts(c *quorumlocktest.Cluster, a, b []int) {
	for _, i := range a {
		for _, j := range b {
			c.Network().Cut(hostNumber(i), hostNumber(j))
			c.Network().Cut(hostNumber(j), hostNumber(i))
		}
	}
}

// expecting sets Expect on every instance.
func expecting(n int) quorumlocktest.Option {
	return quorumlocktest.Configure(func(_ int, cfg *quorumlock.Config) { cfg.Expect = n })
}

// clustersOf are the ids of the clusters that the instances belong to.
func clustersOf(c *quorumlocktest.Cluster, instances ...int) (ids []string) {
	for _, i := range instances {
		if id := c.Node(i).ClusterID(); id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// notReadyBecause fails the test unless Ready of a node that belongs to no cluster says why in words.
func notReadyBecause(t *testing.T, n *quorumlock.Node, words string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := n.Ready(ctx)
	if !errors.Is(err, quorumlock.ErrNoQuorum) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), words) {
		t.Errorf("ready: %v, want it to say %q", err, words)
	}
}

// checkAmong is CheckState for the members of one cluster of two.
func checkAmong(t *testing.T, c *quorumlocktest.Cluster, instances ...int) {
	t.Helper()
	var indexes []uint64
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		byIndex := make(map[uint64][32]byte)
		indexes = indexes[:0]
		for _, i := range instances {
			index, hash := sim.State(c.Node(i))
			if other, seen := byIndex[index]; seen && other != hash {
				t.Fatalf("instance %d differs from another one at index %d", i, index)
			}
			byIndex[index] = hash
			indexes = append(indexes, index)
		}
		if len(byIndex) == 1 {
			return
		}
	}
	t.Fatalf("members stay at different indexes: %v", indexes)
}

// keepApart lets two clusters that can reach each other run for a while: each grants by itself, no server of one gets into the
// configuration of the other, and no state mixes.
func keepApart(t *testing.T, c *quorumlocktest.Cluster, groups ...[]int) {
	t.Helper()
	var held []*quorumlock.Hold
	for _, g := range groups {
		held = append(held, lockIn(t, c.Node(g[0]), "the same name", grantBound))
	}
	time.Sleep(2 * time.Minute)
	for k, g := range groups {
		own := make(map[string]bool)
		for _, i := range g {
			own[c.Node(i).ID()] = true
		}
		if ids := clustersOf(c, g...); len(ids) != 1 {
			t.Errorf("clusters of one group: %v", ids)
		}
		for _, i := range g {
			for _, m := range groupOf(t, c.Node(i)) {
				if !own[m.ServerID] {
					t.Errorf("instance %d has %s of another cluster in its group", i, m.ServerID)
				}
			}
			unlock(t, lockIn(t, c.Node(i), "k", grantBound))
		}
		calm(t, held[k])
		unlock(t, held[k])
		checkAmong(t, c, g...)
	}
}

// S59 a: four instances, cut two from two at their first start. With an Expect that exceeds half of them nobody founds before
// they meet, and then they found one cluster. With an Expect of half of them, which the documentation forbids, each half founds
// one: nothing can prevent that, since neither knows of the other. Then the two never merge: each goes on by itself.
func TestS59FoundedApart(t *testing.T) {
	for _, expect := range []int{3, 4} {
		bubbleIn(t, func(t *testing.T) {
			c, a, b := startApart(t, 2, 2, expecting(expect))
			time.Sleep(time.Minute)
			for _, i := range slices.Concat(a, b) {
				notReadyBecause(t, c.Node(i), "waiting for founders: 2 of")
			}
			c.Heal()
			for i := range 4 {
				readyIn(t, c.Node(i), restartBound)
			}
			if ids := clustersOf(c, 0, 1, 2, 3); len(ids) != 1 {
				t.Errorf("clusters: %v", ids)
			}
			unlock(t, lockIn(t, c.Node(3), "k", grantBound))
			c.CheckState()
		})
	}
	t.Run("half", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			d, heard := keepDiary()
			c, a, b := startApart(t, 2, 2, expecting(2), heard)
			for _, i := range slices.Concat(a, b) {
				readyIn(t, c.Node(i), restartBound)
			}
			if ids := clustersOf(c, 0, 1, 2, 3); len(ids) != 2 {
				t.Fatalf("the fault did not bite: %v", ids)
			}
			if told := d.said("met another cluster"); told != 0 {
				t.Errorf("told %d times of a cluster out of reach", told)
			}
			c.Heal()
			keepApart(t, c, a, b)
			if told := d.said("met another cluster"); told < 2 || told > 4*3 {
				t.Errorf("told %d times of the other cluster, by four instances in two minutes", told)
			}
		})
	})
}

// S59 b: a cluster of three works; gossip and DNS are down between it and three new instances with empty directories. With an
// Expect that says how many instances there are the new ones found nothing, and say why; they join as soon as gossip works
// again. With an Expect of three, which does not exceed half of six, they found a second cluster, which never merges with the
// first.
func TestS59NewInstancesBesideARunningCluster(t *testing.T) {
	old, fresh := []int{0, 1, 2}, []int{3, 4, 5}
	start := func(t *testing.T, expect int, opts ...quorumlocktest.Option) (*quorumlocktest.Cluster, *quorumlock.Hold) {
		set := quorumlocktest.Configure(func(i int, cfg *quorumlock.Config) {
			if cfg.Expect = expect; i < 3 {
				cfg.Expect = 3
			}
		})
		c := quorumlocktest.New(t, 3, append(opts, set)...)
		held := lockIn(t, c.Node(0), "held", grantBound)
		for _, i := range old {
			for _, j := range fresh {
				c.Network().SetLoss(hostNumber(i), hostNumber(j), 1)
				c.Network().SetLoss(hostNumber(j), hostNumber(i), 1)
			}
		}
		for range fresh {
			c.Grow()
		}
		return c, held
	}
	heal := func(c *quorumlocktest.Cluster) { c.Network().SetLoss("*", "*", 0) }
	t.Run("all expected", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			c, held := start(t, 6)
			time.Sleep(time.Minute)
			for _, i := range fresh {
				notReadyBecause(t, c.Node(i), "waiting for founders: 3 of 6 seen")
			}
			heal(c)
			for _, i := range fresh {
				readyIn(t, c.Node(i), restartBound)
			}
			if ids := clustersOf(c, 0, 1, 2, 3, 4, 5); len(ids) != 1 {
				t.Errorf("clusters: %v", ids)
			}
			calm(t, held)
			unlock(t, held)
			c.CheckState()
		})
	})
	t.Run("half expected", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			c, held := start(t, 3)
			for _, i := range fresh {
				readyIn(t, c.Node(i), restartBound)
			}
			if ids := clustersOf(c, 0, 1, 2, 3, 4, 5); len(ids) != 2 {
				t.Fatalf("the fault did not bite: %v", ids)
			}
			heal(c)
			keepApart(t, c, old, fresh)
			calm(t, held)
			unlock(t, held)
		})
	})
}

// S59 c: one of three is configured with another Expect, a larger or a smaller one. Nobody founds, and each says who disagrees.
// Restarted with the right value, they found one cluster.
func TestS59ExpectDiffers(t *testing.T) {
	for _, wrong := range []int{2, 4} {
		bubbleIn(t, func(t *testing.T) {
			expect := 3
			c := quorumlocktest.New(t, 3, quorumlocktest.NotReady(), quorumlocktest.Configure(func(i int, cfg *quorumlock.Config) {
				if cfg.Expect = 3; i == 2 && expect == 3 {
					cfg.Expect = wrong
				}
			}))
			foundsOnceMended(t, c, "instances disagree", 2, func() { expect = 0 }) // all the same from now on
		})
	}
}

// S59 d: the seeds of each of three instances lead to itself only. Nobody founds alone; with the right seeds on one of them,
// the three find each other and found one cluster.
func TestS59SeedsLeadToOneself(t *testing.T) {
	bubble(t, func(t *testing.T) {
		mended := false
		c := quorumlocktest.New(t, 3, quorumlocktest.NotReady(), quorumlocktest.Configure(func(_ int, cfg *quorumlock.Config) {
			if cfg.Expect = 3; !mended {
				cfg.Join = []string{cfg.Addr}
			}
		}))
		foundsOnceMended(t, c, "waiting for founders: 1 of 3 seen", 1, func() { mended = true })
	})
}

// foundsOnceMended: for a minute none of the three instances is ready, for the reason given, and all found one cluster as soon as
// the configuration of one has been mended and that one restarted.
func foundsOnceMended(t *testing.T, c *quorumlocktest.Cluster, because string, wrong int, mend func()) {
	t.Helper()
	time.Sleep(time.Minute)
	for i := range 3 {
		notReadyBecause(t, c.Node(i), because)
	}
	mend()
	if err := c.Stop(wrong); err != nil {
		t.Error(err)
	}
	c.Start(wrong)
	for i := range 3 {
		readyIn(t, c.Node(i), restartBound)
	}
	if ids := clustersOf(c, 0, 1, 2); len(ids) != 1 {
		t.Errorf("clusters: %v", ids)
	}
	c.CheckState()
}

// S62: two clusters whose instances are configured with the seeds of both. One of the first is then given up, and its address
// comes back as one of the second. No server of one gets into the configuration of the other, and what they meet of each other
// is told once a minute at most.
func TestS62AddressGoesToAnotherCluster(t *testing.T) {
	bubble(t, func(t *testing.T) {
		moved := false
		d, heard := keepDiary()
		c := quorumlocktest.New(t, 6, heard, quorumlocktest.Configure(func(i int, cfg *quorumlock.Config) {
			if cfg.Expect, cfg.Cluster = 3, "x"; i >= 3 || i == 2 && moved {
				cfg.Cluster = "y"
			}
		}))
		x, y := []int{0, 1, 2}, []int{3, 4, 5}
		keepApart(t, c, x, y)
		gave := c.Node(2).ID()
		c.Crash(2)
		moved = true
		if err := c.TryStart(2); !errors.Is(err, quorumlock.ErrInvalid) || !blames(err, "Config.Dir") {
			t.Fatalf("started in the directory of the other cluster: %v", err)
		}
		c.Replace(2)
		begun, before := time.Now(), d.said("met another cluster")
		c.Start(2)
		readyIn(t, c.Node(2), restartBound)
		x, y = []int{0, 1}, []int{2, 3, 4, 5}
		for _, i := range x {
			if ids := clustersOf(c, i, 2); len(ids) != 2 {
				t.Errorf("the fault did not bite: clusters %v", ids)
			}
			unlock(t, lockIn(t, c.Node(i), "k", deadBound))
		}
		for _, i := range y {
			unlock(t, lockIn(t, c.Node(i), "k", grantBound))
		}
		time.Sleep(2 * time.Minute)
		for _, i := range x {
			for _, m := range groupOf(t, c.Node(i)) {
				if m.ServerID == c.Node(2).ID() || m.ServerID == gave && m.Alive {
					t.Errorf("instance %d has %+v in its group", i, m)
				}
			}
		}
		checkAmong(t, c, x...)
		checkAmong(t, c, y...)
		told, minutes := d.said("met another cluster")-before, int(time.Since(begun)/time.Minute)
		if told == 0 || told > c.Size()*(minutes+1) {
			t.Errorf("told %d times of the other cluster, by %d instances in %d minutes", told, c.Size(), minutes)
		}
	})
}

// hostNumber is the name in the network of an instance that need not be there yet.
func hostNumber(i int) string { return "host-" + string(rune('0'+i)) }
