package scenario_test

import (
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/sim"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// Two members are cut off, the leader among them, and nothing tells so: who dials them waits. A client that asks them first finds the new leader all the same, and its calls are as
// fast as before.
func TestClientBehindTwoMembersThatAreCutOff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const size, client = 6, 5
		c := quorumlocktest.New(t, size, quorumlocktest.Configure(func(i int, cfg *quorumlock.Config) {
			cfg.Expect, cfg.Voters = 5, 5
			if i == client {
				cfg.Role, cfg.Expect = quorumlock.RoleClient, 0
			}
		}))
		awaitRoles(t, c, time.Minute, upTo(size), 5, 0)
		n := c.Node(client)
		seen := watchAll(t, n, "k")
		first := founders(t, c)[:2]
		for l := c.Leader(); !slices.Contains(first, l); l = c.Leader() {
			c.HandOver(l)
			time.Sleep(2 * time.Second)
		}
		held := lockIn(t, n, "held", grantBound)
		for _, i := range first {
			c.Isolate(i)
		}
		awaitLeaderBut(t, c, first)
		time.Sleep(2 * time.Second)
		for range 3 {
			endsIn(t, "lock and unlock", 50*time.Millisecond, func() { unlock(t, lockIn(t, n, "k", grantBound)) })
			time.Sleep(2 * time.Second)
			endsIn(t, "inspect", 50*time.Millisecond, func() {
				if _, err := n.Inspect(t.Context(), "k", quorumlock.Local()); err != nil {
					t.Error(err)
				}
			})
		}
		unlock(t, held)
		time.Sleep(10 * time.Second)
		if events := len(seen.kinds()); events != 6 {
			t.Errorf("%d events of three locks", events)
		}
	})
}

// founders are the instances of the group by server id, as they stand in the configuration that they founded.
func founders(t *testing.T, c *quorumlocktest.Cluster) []int {
	t.Helper()
	var list []int
	for _, m := range groupOf(t, c.Node(0)) {
		list = append(list, slices.IndexFunc(upTo(c.Size()), func(i int) bool { return c.Node(i).ID() == m.ServerID }))
	}
	return list
}

func awaitLeaderBut(t *testing.T, c *quorumlocktest.Cluster, except []int) {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		for i := range c.Size() {
			if !slices.Contains(except, i) && sim.Leading(c.Node(i)) {
				return
			}
		}
	}
	t.Fatal("nobody leads")
}

// A member that was taken out for dead came back, and is a client. When it gets a place again, the leader must not judge it by what it measured of it back then, and take it out
// again as long dead.
func TestServerThatIsAdmittedAgain(t *testing.T) {
	for k := range 4 {
		t.Run("", func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 6)
				awaitRoles(t, c, time.Minute, upTo(6), 3, 2)
				leader := c.Leader()
				standbys := slices.DeleteFunc(founders(t, c), func(i int) bool { return hasVote(t, c, i) })
				back, dead := standbys[0], standbys[1]
				c.Isolate(back)
				time.Sleep(2 * time.Minute)
				c.Heal()
				time.Sleep(30*time.Second + time.Duration(k)*300*time.Millisecond)
				if sim.Replicates(c.Node(back)) || c.Leader() != leader {
					t.Fatal("its place was not taken, or nobody remembers it")
				}
				c.Isolate(dead)
				endsIn(t, "getting a place", time.Minute, func() {
					for !sim.Replicates(c.Node(back)) {
						time.Sleep(100 * time.Millisecond)
					}
				})
				for range 100 {
					time.Sleep(100 * time.Millisecond)
					if !inGroup(t, c.Node(leader), c.Node(back).ID()) {
						t.Fatal("it was let in and taken out again")
					}
				}
				c.Heal()
				c.CheckState()
			})
		})
	}
}

func hasVote(t *testing.T, c *quorumlocktest.Cluster, i int) bool {
	t.Helper()
	return slices.ContainsFunc(groupOf(t, c.Node(0)), func(m quorumlock.Member) bool { return m.Voter && m.ServerID == c.Node(i).ID() })
}

// A voter that is started anew as a client is one until it has given its vote up. If it leaves in the same moment it must be taken out, and not believe that a client has nothing to
// be taken out of.
func TestFormerVoterLeavesAsAClientAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		made := -1
		c := quorumlocktest.New(t, 3, quorumlocktest.Configure(func(i int, cfg *quorumlock.Config) {
			if made == i {
				cfg.Role, cfg.Expect = quorumlock.RoleClient, 0
			}
		}))
		i := voterThatFollows(c)
		if err := c.Stop(i); err != nil {
			t.Fatal(err)
		}
		made = i
		n := c.Start(i)
		readyIn(t, n, time.Second)
		if !inGroup(t, c.Node(c.Leader()), n.ID()) {
			t.Fatal("it has given its vote up: nothing is tried")
		}
		if err := leaves(c, i, leaveBound); err != nil {
			t.Error(err)
		}
		if inGroup(t, c.Node(c.Leader()), n.ID()) {
			t.Error("it has left, and is in the group")
		}
	})
}
