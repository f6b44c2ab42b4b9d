package scenario_test

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// movedBound is within what a cluster works again whose members have all come back at new addresses: a resolver's answer, at
// most 5 s old, a try of each address, an election.
const movedBound = 20 * time.Second

// All pods come back at once, in their directories and at addresses that none of them had before; only the DNS name of the
// service stays. Nobody knows any other's address from before, so what brings them together is that the name is resolved for
// ever. The raft configuration names ids, and needs no change.
func TestAllAddressesChangeAtOnce(t *testing.T) {
	for name, stop := range map[string]func(t *testing.T, c *quorumlocktest.Cluster, i int){"closed": goneBy["close"], "crashed": goneBy["crash"]} {
		for _, size := range []int{3, 5} {
			t.Run(name, func(t *testing.T) {
				bubble(t, func(t *testing.T) { moveAll(t, size, stop) })
			})
		}
	}
}

func moveAll(t *testing.T, size int, stop func(t *testing.T, c *quorumlocktest.Cluster, i int)) {
	c := quorumlocktest.New(t, size, quorumlocktest.JoinByName())
	last := grantMany(t, c.Node(0), "k", 3)
	cluster, addrs, ids := c.Node(0).ClusterID(), make(map[string]bool), make([]string, size)
	for i := range size {
		addrs[c.Node(i).Addr()], ids[i] = true, c.Node(i).ID()
	}
	for range 2 { // what they learned of each other's first move helps as little with the second
		for i := range size {
			stop(t, c, i)
		}
		for i := range size {
			c.Move(i)
			c.Start(i)
			if addr := c.Node(i).Addr(); addrs[addr] {
				t.Fatalf("the fault did not bite: %s was in use before", addr)
			} else {
				addrs[addr] = true
			}
		}
		for i := range size {
			readyIn(t, c.Node(i), movedBound)
			h := lockIn(t, c.Node(i), "k", grantBound+deadBound) // what a crashed node held ends by its TTL
			if h.Token() <= last {
				t.Errorf("token %v after %v", h.Token(), last)
			}
			last = h.Token()
			unlock(t, h)
			if n := c.Node(i); n.ClusterID() != cluster || n.ID() != ids[i] {
				t.Errorf("instance %d was %s of %s, is %s of %s", i, ids[i], cluster, n.ID(), n.ClusterID())
			}
		}
	}
	knowAddresses(t, c)
	c.CheckState()
}

// knowAddresses fails the test unless each instance knows each member at the address that it has now.
func knowAddresses(t *testing.T, c *quorumlocktest.Cluster) {
	t.Helper()
	now := make(map[string]string)
	for i := range c.Size() {
		now[c.Node(i).ID()] = c.Node(i).Addr()
	}
	for i := range c.Size() {
		for _, m := range groupOf(t, c.Node(i)) {
			if m.Addr != now[m.ServerID] {
				t.Errorf("instance %d knows %s at %s, which is at %s", i, m.ServerID, m.Addr, now[m.ServerID])
			}
		}
	}
}

// S64: a member is cut off for three minutes, long after gossip gave it up. Healed, it is back in everybody's view, and
// everybody in its, within the bound, and is granted locks. The same without seeds: those that it knew are tried for ever. And
// raft works though gossip never heals.
func TestS64IsolatedForLong(t *testing.T) {
	const isolated, backBound = 3 * time.Minute, 15 * time.Second
	for name, opts := range map[string][]quorumlocktest.Option{
		"seeds": nil, "stale seeds": {quorumlocktest.JoinByName()},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3, opts...)
				away := others(c, c.Leader())[0]
				rest := others(c, away)
				c.Isolate(away)
				time.Sleep(isolated)
				for _, i := range rest {
					if aliveSeen(t, c, i, away) || aliveSeen(t, c, away, i) {
						t.Fatal("the fault did not bite: the isolated member passes for alive")
					}
					unlock(t, lockIn(t, c.Node(i), "k", grantBound))
				}
				grantsNothing(t, c.Node(away), "k", grantBound)
				c.Heal()
				endsIn(t, "the return", backBound, func() {
					awaitAlive(t, c, backBound)
					unlock(t, lockIn(t, c.Node(away), "k", backBound))
				})
				seesMember(t, c.Node(rest[0]), c.Node(away).ID(), backBound)
				c.CheckState()
			})
		})
	}
}

// S64: datagrams, which gossip lives by, never get through to one member again; streams do. It is gone from the view, and yet
// it votes, follows and is granted locks.
func TestS64RaftWorksWhereGossipNeverHeals(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, heard := keepDiary()
		c := quorumlocktest.New(t, 3, heard)
		l, f := roles(c)
		deaf := f[0]
		before := len(d.leaders(t))
		held := lockIn(t, c.Node(deaf), "held", grantBound)
		for _, i := range others(c, deaf) {
			c.Network().SetLoss(c.Host(i), c.Host(deaf), 1)
			c.Network().SetLoss(c.Host(deaf), c.Host(i), 1)
		}
		for range 6 {
			time.Sleep(30 * time.Second)
			unlock(t, lockIn(t, c.Node(deaf), "k", grantBound))
		}
		if aliveSeen(t, c, l, deaf) {
			t.Fatal("the fault did not bite: gossip gets through")
		}
		calm(t, held)
		unlock(t, held)
		if now := len(d.leaders(t)); now != before {
			t.Errorf("%d leaders so far, %d before", now, before)
		}
		awaitVoters(t, c, time.Second, 0, 1, 2)
		c.Crash(f[1]) // so that its vote is needed
		unlock(t, lockIn(t, c.Node(deaf), "k", deadBound))
		c.CheckState()
	})
}

// aliveSeen tells whether instance i's gossip holds j for alive.
func aliveSeen(t *testing.T, c *quorumlocktest.Cluster, i, j int) bool {
	t.Helper()
	all, err := c.Node(i).Members(t.Context(), quorumlock.Local())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if m.ServerID == c.Node(j).ID() {
			return m.Alive
		}
	}
	return false
}
