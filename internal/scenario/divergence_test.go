package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/sim"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

const hashEvery = 32 // entries between two comparisons in these tests

// flips are the ways in which a member's state is changed behind the log's back. The new state breaks no rule: nothing but a comparison finds it.
var flips = map[string]func(n *quorumlock.Node) bool{
	"a session's TTL": func(n *quorumlock.Node) bool {
		once := false
		return sim.Flip(n, func(s *locktable.SessionRecord) bool {
			if once {
				return false
			}
			once, s.TTL = true, s.TTL^1<<20
			return true
		}, nil)
	},
	"a hold's time": func(n *quorumlock.Node) bool {
		return sim.Flip(n, nil, func(c *locktable.ClaimRecord) bool {
			held := c.Token != 0 && c.Names[0] == "held"
			if held {
				c.Granted ^= 1
			}
			return held
		})
	},
	// The revision of the last event, a release that is remembered nowhere else.
	"a hold's token": func(n *quorumlock.Node) bool {
		rev := int64(0)
		info, err := n.Inspect(context.Background(), "held")
		if err == nil {
			rev = info.Rev
		}
		return sim.Flip(n, nil, func(c *locktable.ClaimRecord) bool {
			held := c.Token != 0 && c.Names[0] == "held"
			if held {
				c.Token, c.Grant = locktable.Token(rev), locktable.Rev(rev)
			}
			return held
		})
	},
}

func votersOf(n int) quorumlocktest.Option {
	return quorumlocktest.Configure(func(_ int, cfg *quorumlock.Config) { cfg.Voters = n })
}

// use locks and unlocks until stop says so, with pauses in which a slower member catches up; each round is two entries. A call may fail while leadership changes.
func use(n *quorumlock.Node, name string, stop func() bool) {
	usePaced(n, name, 5*time.Millisecond, stop)
}

func usePaced(n *quorumlock.Node, name string, pace time.Duration, stop func() bool) {
	for !stop() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		if h, err := quorumlock.NewMutex(n, name).Lock(ctx); err == nil {
			_ = h.Unlock()
		}
		cancel()
		time.Sleep(pace)
	}
}

func failed(n *quorumlock.Node) func() bool { return func() bool { return n.Err() != nil } }

// after is a stop that comes when the node has applied so many more entries, or nothing more for a minute.
func after(n *quorumlock.Node, entries uint64) func() bool {
	from, _ := sim.State(n)
	last, at := from, time.Now()
	return func() bool {
		index, _ := sim.State(n)
		if index > last {
			last, at = index, time.Now()
		}
		return index >= from+entries || time.Since(at) > time.Minute
	}
}

// A member whose state was changed behind the log's back stops within few entries and says why, its holds are lost, and the others go on. It does not come
// back with its directory, but with an empty one.
func TestFlippedMemberStops(t *testing.T) {
	for _, size := range []int{3, 5} {
		for _, leads := range []bool{false, true} {
			for what, flip := range flips {
				if size == 5 && what != "a hold's token" {
					continue // three voters have shown it
				}
				t.Run(fmt.Sprintf("%d voters, leader %v, %s", size, leads, what), func(t *testing.T) {
					bubble(t, func(t *testing.T) { flippedMemberStops(t, size, leads, flip) })
				})
			}
		}
	}
}

func flippedMemberStops(t *testing.T, size int, leads bool, flip func(*quorumlock.Node) bool) {
	c := quorumlocktest.New(t, size, quorumlocktest.HashEvery(hashEvery), votersOf(size))
	awaitVoters(t, c, 20*time.Second, others(c, -1)...)
	bad := c.Leader()
	if !leads {
		bad = others(c, bad)[0]
	}
	rest := others(c, bad)
	node, other := c.Node(bad), c.Node(rest[0])
	held := lockIn(t, other, "held", time.Second)
	mine := lockIn(t, node, "mine", time.Second)
	use(other, "k", after(other, 2*hashEvery))
	c.CheckState()
	if node.Err() != nil {
		t.Fatalf("stopped before the flip: %v", node.Err())
	}
	if !flip(node) {
		t.Fatal("the flip did not bite")
	}
	at, _ := sim.State(node)
	endsIn(t, "the stop", 15*time.Second, func() { use(other, "k", failed(node)) })
	index, _ := sim.State(node)
	checkDiverged(t, c, bad, at, index)
	if err := mine.Err(); !errors.Is(err, quorumlock.ErrLost) || !errors.Is(err, quorumlock.ErrDiverged) {
		t.Errorf("hold of the member that stopped: %v", err)
	}
	r := newTraffic(t, "k")
	for _, i := range rest {
		r.from(c.Node(i))
	}
	r.flows(20, grantBound+5*time.Second)
	r.stop()
	if err := held.Err(); err != nil {
		t.Errorf("hold of another member: %v", err)
	}
	unlock(t, held)
	unlock(t, lockIn(t, node, "as a client", deadBound))
	for _, i := range rest {
		if err := c.Node(i).Err(); err != nil {
			t.Errorf("instance %d has stopped too: %v", i, err)
		}
	}
	if now, _ := sim.State(node); now != index {
		t.Errorf("the member that stopped at %d went on to %d", index, now)
	}
	c.CheckState()
	comesBackAsAnother(t, c, bad)
}

// checkDiverged asks that instance i has stopped by itself between the flip at one index and another, and says what a person needs.
func checkDiverged(t *testing.T, c *quorumlocktest.Cluster, i int, flipped, stopped uint64) {
	t.Helper()
	err := c.Node(i).Err()
	var d *quorumlock.DivergedError
	if !errors.As(err, &d) || !errors.Is(err, quorumlock.ErrFailed) || !errors.Is(err, quorumlock.ErrDiverged) {
		t.Fatalf("instance %d reports %v", i, err)
	}
	if d.Split || d.Voters != c.Size() || len(d.Differs) <= c.Size()/2 || slices.Contains(d.Differs, c.Node(i).ID()) {
		t.Errorf("%+v", d)
	}
	if _, hash := sim.State(c.Node(i)); d.Hash == "" || d.Index > stopped || d.Index%hashEvery != 0 {
		t.Errorf("%+v in state %x at %d", d, hash, stopped)
	}
	// The first point behind the flip may fall on an entry of raft's own, and answers take time, in which entries go on.
	if d.Index <= flipped || d.Index > flipped+2*hashEvery || stopped > flipped+4*hashEvery {
		t.Errorf("flipped at %d, found at %d, stopped at %d", flipped, d.Index, stopped)
	}
}

func comesBackAsAnother(t *testing.T, c *quorumlocktest.Cluster, i int) {
	t.Helper()
	id := c.Node(i).ID()
	endsIn(t, "close", 5*time.Second, func() {
		if err := c.Stop(i); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	for range 2 {
		err := c.TryStart(i)
		if field := (*quorumlock.FieldError)(nil); !errors.Is(err, quorumlock.ErrDiverged) || !errors.As(err, &field) || field.Field != "Config.Dir" {
			t.Fatalf("open with the directory of a member that differed: %v", err)
		}
	}
	c.Replace(i)
	c.Start(i)
	c.WaitReady()
	if c.Node(i).ID() == id {
		t.Errorf("came back as %s", id)
	}
	awaitVoters(t, c, 40*time.Second, others(c, -1)...)
	unlock(t, lockIn(t, c.Node(i), "k", 2*time.Second))
	c.CheckState()
}

// Nobody can know who is right when no majority agrees: then all that differ stop, and nothing is granted any more.
func TestWithoutAMajorityAllThatDifferStop(t *testing.T) {
	for name, test := range map[string]struct{ size, flipped int }{
		"one of two voters":    {2, 1},
		"two of three voters":  {3, 2},
		"all of three voters":  {3, 3},
		"three of five voters": {5, 4},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, test.size, quorumlocktest.HashEvery(hashEvery), votersOf(max(3, test.size)))
				awaitVoters(t, c, 20*time.Second, others(c, -1)...)
				held := lockIn(t, c.Node(0), "held", time.Second)
				use(c.Node(1), "k", after(c.Node(1), hashEvery))
				for i := range test.flipped {
					// Each in its own way, so that no two agree.
					if !sim.Flip(c.Node(i), nil, func(r *locktable.ClaimRecord) bool { r.Created += int64(1 + i); return true }) {
						t.Fatal("the flip did not bite")
					}
				}
				all := func() bool {
					return !slices.ContainsFunc(others(c, -1), func(i int) bool { return c.Node(i).Err() == nil })
				}
				end := time.Now().Add(30 * time.Second)
				use(c.Node(1), "k", func() bool { return all() || time.Now().After(end) })
				for i := range test.size {
					var d *quorumlock.DivergedError
					if err := c.Node(i).Err(); !errors.As(err, &d) || !d.Split {
						t.Errorf("instance %d reports %v", i, err)
					}
				}
				if held.Err() == nil {
					t.Error("a hold is believed still")
				}
				ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
				defer cancel()
				if _, err := quorumlock.NewMutex(c.Node(0), "other").TryLock(ctx); !errors.Is(err, quorumlock.ErrNoQuorum) {
					t.Errorf("lock of a cluster that has stopped: %v", err)
				}
			})
		})
	}
}

// A member without a vote compares its state with the voters'.
func TestFlippedStandbyStops(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 4, quorumlocktest.HashEvery(hashEvery))
		standby := slices.IndexFunc(others(c, -1), func(i int) bool { return !votes(t, c.Node(i)) })
		if standby < 0 {
			t.Fatal("all of four vote")
		}
		other := c.Node(others(c, standby)[0])
		held := lockIn(t, other, "held", time.Second)
		c.CheckState()
		if !flips["a hold's time"](c.Node(standby)) {
			t.Fatal("the flip did not bite")
		}
		end := time.Now().Add(30 * time.Second)
		use(other, "k", func() bool { return c.Node(standby).Err() != nil || time.Now().After(end) })
		if err := c.Node(standby).Err(); !errors.Is(err, quorumlock.ErrDiverged) {
			t.Errorf("standby reports %v", err)
		}
		unlock(t, held)
		c.CheckState()
	})
}

func votes(t *testing.T, n *quorumlock.Node) bool {
	t.Helper()
	return slices.ContainsFunc(groupOf(t, n), func(m quorumlock.Member) bool { return m.ServerID == n.ID() && m.Voter })
}
