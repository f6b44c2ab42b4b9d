package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// localBound is within what local reads answer, whatever the cluster is like (S111).
const localBound = 2 * time.Second

// S111, S113: two of three are gone. The survivor answers local reads at once with what it knew, marked local with an age that grows, and tells which voters it reaches;
// what would have to be true is refused, and says that the quorum is gone.
func TestLocalReadsWithoutAQuorum(t *testing.T) {
	for _, leads := range []bool{true, false} {
		t.Run(fmt.Sprintf("survivor led %v", leads), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3)
				lead := c.Leader()
				left := lead
				if !leads {
					left = others(c, lead)[0]
				}
				h := lockIn(t, c.Node(others(c, left)[0]), "k", time.Second)
				time.Sleep(5 * time.Second)
				crashAllBut(c, left)
				gone := time.Now()
				survivor := c.Node(left)
				// A follower may take its dead leader for alive for up to three heartbeat timeouts: raft looks again one to two of them after a look that found recent contact.
				for _, at := range []time.Duration{2 * time.Second, 5 * time.Second, time.Minute} {
					time.Sleep(at - time.Since(gone))
					endsIn(t, "local reads", localBound, func() { readsAlone(t, survivor, h, time.Since(gone)) })
				}
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
				defer cancel()
				if _, err := survivor.Inspect(ctx, "k"); !errors.Is(err, quorumlock.ErrNoQuorum) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("inspect without a quorum: %v", err)
				}
				for _, err := range survivor.Locks(ctx, "") {
					if !errors.Is(err, quorumlock.ErrNoQuorum) && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("locks without a quorum: %v", err)
					}
				}
				startAllBut(c, left)
				c.WaitReady()
				time.Sleep(time.Second)
				info, err := survivor.Inspect(context.Background(), "k", quorumlock.Local())
				if err != nil || info.Age > time.Second {
					t.Errorf("with the quorum back: age %v, %v", info.Age, err)
				}
				c.CheckState()
			})
		})
	}
}

// readsAlone reads locally on a node that has been alone for a while.
func readsAlone(t *testing.T, n *quorumlock.Node, h *quorumlock.Hold, alone time.Duration) {
	t.Helper()
	info, err := n.Inspect(context.Background(), "k", quorumlock.Local())
	if err != nil || !info.Local || len(info.Holders) != 1 || info.Holders[0].Token != h.Token() || info.Index == 0 {
		t.Fatalf("after %v: %+v, %v", alone, info, err)
	}
	if off := alone - info.Age; off < -time.Second || off > time.Second {
		t.Errorf("alone for %v, age %v", alone, info.Age)
	}
	if list := locksOf(t, n, "", quorumlock.Local()); len(list) != 1 || list[0].Name != "k" || !list[0].Local {
		t.Errorf("locks: %+v", list)
	}
	members, err := n.Members(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	voters, reachable, leaders := 0, 0, 0
	for _, m := range members {
		voters += count(m.Voter)
		reachable += count(m.Voter && m.Reachable)
		leaders += count(m.Leader)
		if m.Self && (!m.Reachable || m.Term == 0 || m.Applied < info.Index) {
			t.Errorf("itself: %+v", m)
		}
	}
	if voters != 3 || reachable != 1 || leaders != 0 {
		t.Errorf("after %v alone: %d of %d voters reachable, %d leaders", alone, reachable, voters, leaders)
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// S111: a node whose disk hangs answers local reads as well, and does not pass its state for fresh: as a leader too, which goes on to think that it leads.
func TestLocalReadsWhileTheDiskHangs(t *testing.T) {
	for _, leads := range []bool{true, false} {
		t.Run(fmt.Sprintf("leader's %v", leads), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3)
				hung := c.Leader()
				if !leads {
					hung = others(c, hung)[0]
				}
				h := lockIn(t, c.Node(hung), "k", time.Second)
				time.Sleep(time.Second)
				c.Disk(hung).Hang(true)
				c.LeaderExcept(hung)
				time.Sleep(30 * time.Second)
				var info quorumlock.LockInfo
				endsIn(t, "a local read", 10*time.Millisecond, func() {
					var err error
					if info, err = c.Node(hung).Inspect(context.Background(), "k", quorumlock.Local()); err != nil {
						t.Fatal(err)
					}
				})
				if len(info.Holders) != 1 || info.Holders[0].Token != h.Token() || info.Age < 20*time.Second || info.Age > 31*time.Second {
					t.Errorf("after 30 s of a hanging disk: %+v", info)
				}
				endsIn(t, "members", localBound, func() {
					members, err := c.Node(hung).Members(context.Background())
					if err != nil {
						t.Fatal(err)
					}
					for _, m := range members {
						if m.Leader != (m.ServerID == c.Node(c.LeaderExcept(hung)).ID()) || !m.Reachable {
							t.Errorf("%+v", m)
						}
					}
				})
				c.Disk(hung).Hang(false)
				time.Sleep(5 * time.Second)
				if info, err := c.Node(hung).Inspect(context.Background(), "k", quorumlock.Local()); err != nil || info.Age > time.Second {
					t.Errorf("with a disk again: age %v, %v", info.Age, err)
				}
				calm(t, h) // it lived on through another member
				unlock(t, h)
				c.CheckState()
			})
		})
	}
}

// A member that has failed shows what it had, with its age; one whose state is known to be wrong shows nothing of it. Both still answer what goes through the log.
func TestLocalReadsOfAFailedMember(t *testing.T) {
	for name, fail := range map[string]func(*quorumlocktest.Cluster, int) bool{
		"disk":     func(c *quorumlocktest.Cluster, i int) bool { c.Disk(i).Fail(errors.New("broken")); return true },
		"diverged": func(c *quorumlocktest.Cluster, i int) bool { return flips["a hold's time"](c.Node(i)) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3, quorumlocktest.HashEvery(hashEvery))
				bad := others(c, c.Leader())[0]
				n, other := c.Node(bad), c.Node(c.Leader())
				h := lockIn(t, other, "held", time.Second)
				use(other, "k", after(other, 2*hashEvery))
				if !fail(c, bad) {
					t.Fatal("the fault did not bite")
				}
				endsIn(t, "the failure", time.Minute, func() { use(other, "k", failed(n)) })
				time.Sleep(30 * time.Second)
				info, err := n.Inspect(context.Background(), "held", quorumlock.Local())
				if name == "disk" {
					if err != nil || info.Holding != 1 || info.Holders[0].Token != h.Token() || info.Age < 25*time.Second {
						t.Errorf("%+v, %v", info, err)
					}
				} else if !errors.Is(err, quorumlock.ErrDiverged) {
					t.Errorf("%+v, %v; want %v", info, err, quorumlock.ErrDiverged)
				}
				for _, err := range n.Locks(context.Background(), "", quorumlock.Local()) {
					if errors.Is(err, quorumlock.ErrDiverged) != (name == "diverged") {
						t.Errorf("locks: %v", err)
					}
				}
				if info, err := n.Inspect(context.Background(), "held"); err != nil || info.Holding != 1 || info.Local {
					t.Errorf("through the log: %+v, %v", info, err)
				}
			})
		})
	}
}

// A node that has found nobody since it was opened does not know how old its state is, and says so; the state is there once there is a leader.
func TestAgeIsUnknownBeforeAnyContact(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		h := lockIn(t, c.Node(0), "k", time.Second)
		for i := range c.Size() {
			c.Crash(i)
		}
		c.Start(1)
		time.Sleep(10 * time.Second)
		info, err := c.Node(1).Inspect(context.Background(), "k", quorumlock.Local())
		if err != nil || !info.Local || info.Age != quorumlock.AgeUnknown {
			t.Errorf("%+v, %v", info, err)
		}
		c.Start(0)
		c.WaitReady()
		time.Sleep(time.Second)
		info, err = c.Node(1).Inspect(context.Background(), "k", quorumlock.Local())
		if err != nil || info.Age > time.Second || info.Holding != 1 || info.Holders[0].Token != h.Token() {
			t.Errorf("%+v, %v", info, err)
		}
	})
}
