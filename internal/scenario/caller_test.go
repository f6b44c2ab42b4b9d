package scenario_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/clock"
	"github.com/quorumlock/quorumlock/internal/sim"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// openCaller opens a caller in the network of a cluster, from a host of its own.
func openCaller(t *testing.T, c *quorumlocktest.Cluster, set func(*quorumlock.Config)) *quorumlock.Node {
	t.Helper()
	cfg := quorumlock.Config{
		Cluster: "test", Name: "tool", Role: quorumlock.RoleClient, AllowPlaintext: true, Transport: c.Network().Host("outside"),
	}
	for i := range c.Size() {
		cfg.Join = append(cfg.Join, c.Host(i)+":7000")
	}
	if set != nil {
		set(&cfg)
	}
	sim.Attach(&cfg, &sim.Env{MemoryGossip: true, Clock: clock.NewFake()})
	n, err := quorumlock.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return n
}

// crashLeader ends the leader, and says which one it was.
func crashLeader(t *testing.T, c *quorumlocktest.Cluster) int {
	t.Helper()
	i := c.Leader()
	c.Crash(i)
	return i
}

// A caller has the whole API, and a change of leader under it goes by unseen: its hold lives on and the next lock is granted.
func TestCallerOutlivesLeaders(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		n := openCaller(t, c, nil)
		readyIn(t, n, 2*time.Second)
		if n.Addr() != "" {
			t.Errorf("it has the address %q", n.Addr())
		}
		held := lockIn(t, n, "held", grantBound)
		seen := watchAll(t, n, "k")
		down := crashLeader(t, c)
		next := lockIn(t, n, "k", grantBound)
		if next.Token() <= held.Token() {
			t.Errorf("token %v after %v", next.Token(), held.Token())
		}
		unlock(t, next)
		time.Sleep(time.Minute)
		calm(t, held)
		info, err := c.Node((down+1)%3).Inspect(t.Context(), "held")
		if err != nil || len(info.Holders) != 1 || info.Holders[0].ServerID != n.ID() || info.Holders[0].Node != "tool" {
			t.Errorf("a member shows %+v, %v", info, err)
		}
		if err := c.Node((down+1)%3).ForceRelease(t.Context(), "held", held.Token(), quorumlock.ForceOptions{Actor: "a", Reason: "r"}); err != nil {
			t.Error(err)
		}
		select {
		case <-held.Done():
		case <-time.After(15 * time.Second):
			t.Error("not told of the drain")
		}
		if kinds := seen.kinds(); len(kinds) != 2 {
			t.Errorf("it watched %v", kinds)
		}
		for _, m := range groupOf(t, c.Node((down+1)%3)) {
			if m.ServerID == n.ID() {
				t.Error("a member lists it")
			}
		}
	})
}

// With two of three dead a caller that starts only now finds the one that is left and answers from its state within 2 s, marked as old; with a leader back it goes on.
func TestCallerStartsInAnOutage(t *testing.T) {
	for _, dead := range []string{"gone", "silent"} {
		t.Run(dead, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3)
				holder := lockIn(t, c.Node(2), "held", grantBound)
				time.Sleep(time.Second)
				for _, i := range []int{0, 1} {
					if dead == "gone" {
						c.Crash(i)
					} else {
						c.Isolate(i)
					}
				}
				time.Sleep(5 * time.Second)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				began := time.Now()
				n := openCaller(t, c, nil)
				info, err := n.Inspect(ctx, "held", quorumlock.Local())
				if err != nil || !info.Local || info.Age < 4*time.Second || len(info.Holders) != 1 || info.Holders[0].Token != holder.Token() {
					t.Errorf("stale inspect: %+v, %v", info, err)
				}
				t.Logf("first stale answer after %v", time.Since(began))
				ctx, cancel = context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				members, err := n.Members(ctx)
				if up := slices.DeleteFunc(members, func(m quorumlock.Member) bool { return !m.Reachable }); err != nil || len(up) != 1 || up[0].Name != "node-2" {
					t.Errorf("members: %+v, %v", members, err)
				}
				t.Logf("members after %v", time.Since(began))
				short, end := context.WithTimeout(t.Context(), 3*time.Second)
				defer end()
				if _, err := quorumlock.NewMutex(n, "k").Lock(short); !errors.Is(err, quorumlock.ErrNoQuorum) {
					t.Errorf("lock without a quorum: %v", err)
				}
				if dead == "gone" {
					c.Start(0)
				} else {
					c.Heal()
				}
				unlock(t, lockIn(t, n, "k", 10*time.Second))
			})
		})
	}
}

// The same with a client that listens, and gossips: it comes when there is no leader, and takes the survivor's word.
func TestClientStartsInAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3, quorumlocktest.Configure(func(i int, cfg *quorumlock.Config) {
			if cfg.Expect = 3; i >= 3 {
				cfg.Role, cfg.Expect = quorumlock.RoleClient, 0
			}
		}))
		holder := lockIn(t, c.Node(2), "held", grantBound)
		time.Sleep(time.Second)
		c.Crash(0)
		c.Crash(1)
		time.Sleep(5 * time.Second)
		n := c.Node(c.Grow())
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		info, err := n.Inspect(ctx, "held", quorumlock.Local())
		if err != nil || !info.Local || len(info.Holders) != 1 || info.Holders[0].Token != holder.Token() {
			t.Errorf("stale inspect: %+v, %v", info, err)
		}
		time.Sleep(time.Second)
		if voters := len(groupOf(t, n)); voters != 3 {
			t.Errorf("it sees %d in the group", voters)
		}
		c.Start(0)
		unlock(t, lockIn(t, n, "k", 10*time.Second))
	})
}

// All members move to other addresses under a caller that knows nothing but where they were told to be found.
func TestCallerFindsMembersAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3, quorumlocktest.JoinByName())
		hosts := func(context.Context, string) (list []string, _ error) {
			for i := range c.Size() {
				list = append(list, c.Host(i))
			}
			return list, nil
		}
		cfg := quorumlock.Config{
			Cluster: "test", Name: "tool", Role: quorumlock.RoleClient, AllowPlaintext: true, Transport: c.Network().Host("outside"), Join: []string{"service:7000"},
		}
		sim.Attach(&cfg, &sim.Env{MemoryGossip: true, Clock: clock.NewFake(), Resolve: hosts})
		n, err := quorumlock.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		first := lockIn(t, n, "k", 2*time.Second)
		for i := range 3 {
			c.Crash(i)
			c.Move(i)
		}
		for i := range 3 {
			c.Start(i)
		}
		time.Sleep(15 * time.Second)
		unlock(t, first)
		follows(t, first, lockIn(t, n, "k", grantBound))
	})
}

// A caller takes the word of a client that listens on who is in the group: any instance's address will do for Join.
func TestCallerJoinsByAClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 4, quorumlocktest.Configure(func(i int, cfg *quorumlock.Config) {
			if cfg.Expect = 3; i == 3 {
				cfg.Role, cfg.Expect = quorumlock.RoleClient, 0
			}
		}))
		awaitRoles(t, c, time.Minute, upTo(4), 3, 0)
		n := openCaller(t, c, func(cfg *quorumlock.Config) { cfg.Join = cfg.Join[3:] })
		unlock(t, lockIn(t, n, "k", 2*time.Second))
		c.Crash(3)
		crashLeader(t, c)
		unlock(t, lockIn(t, n, "k", grantBound))
	})
}

// A caller that is pinned to another cluster, or whose seeds are nobody, says so, and nothing of it reaches the cluster.
func TestCallerSaysWhatItMisses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 1)
		for _, set := range []func(*quorumlock.Config){
			func(cfg *quorumlock.Config) { cfg.ClusterID = "another" },
			func(cfg *quorumlock.Config) { cfg.Join = []string{"nowhere:7000"} },
		} {
			n := openCaller(t, c, set)
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			err := n.Ready(ctx)
			cancel()
			var wait *quorumlock.WaitError
			if !errors.As(err, &wait) || !errors.Is(err, context.DeadlineExceeded) || len(wait.Waiting) < 50 {
				t.Errorf("ready: %v", err)
			}
			t.Log(err)
			if err := n.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// What a caller cannot have is refused by name.
func TestCallerConfig(t *testing.T) {
	for field, set := range map[string]func(*quorumlock.Config){
		"Config.Dir":       func(cfg *quorumlock.Config) { cfg.Dir = t.TempDir() },
		"Config.Advertise": func(cfg *quorumlock.Config) { cfg.Advertise = "host:1" },
		"Config.Join":      func(cfg *quorumlock.Config) { cfg.Join = nil },
		"Config.TLS":       func(cfg *quorumlock.Config) { cfg.TLS = &quorumlock.TLSConfig{} },
	} {
		cfg := quorumlock.Config{Cluster: "test", Role: quorumlock.RoleClient, Join: []string{"127.0.0.1:1"}}
		set(&cfg)
		n, err := quorumlock.Open(t.Context(), cfg)
		if err == nil {
			_ = n.Close()
		}
		if f := (*quorumlock.FieldError)(nil); !errors.As(err, &f) || f.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
