package scenario_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/sim"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// In an upgrade the members may all be new, and raise the level, before it is the clients' turn. Those go on as they are; asking for a place is not what they fail by.
func TestOldClientsGoOnWhenTheLevelIsRaised(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const size = 7
		v := new(versions)
		v.set(1, upTo(size)...)
		c := quorumlocktest.New(t, size, v.option())
		awaitRoles(t, c, time.Minute, upTo(size), 3, 2)
		clients := clientsOf(c)
		held := lockIn(t, c.Node(clients[0]), "held", grantBound)
		members := slices.DeleteFunc(upTo(size), func(i int) bool { return slices.Contains(clients, i) })
		for _, i := range members {
			v.restartAs(t, c, i, 2)
			time.Sleep(5 * time.Second)
		}
		awaitLevel(t, c, 2, members...)
		time.Sleep(time.Minute) // they ask for a place each 10 to 15 s
		for _, i := range clients {
			if err := c.Node(i).Err(); err != nil {
				t.Errorf("client %d: %v", i, err)
			}
			unlock(t, lockIn(t, c.Node(i), "k", grantBound))
		}
		calm(t, held)
		for _, i := range clients {
			v.restartAs(t, c, i, 2)
		}
		awaitRoles(t, c, time.Minute, upTo(size), 3, 2)
	})
}

// The only voter can not become a client: its cluster would be gone. It is told so, and stays what it is.
func TestOnlyVoterCannotBecomeAClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client := true
		c := quorumlocktest.New(t, 1, quorumlocktest.NotReady(), quorumlocktest.Configure(func(_ int, cfg *quorumlock.Config) {
			if client = !client; client {
				cfg.Role, cfg.Expect, cfg.Join = quorumlock.RoleClient, 0, []string{"host-1:7000"}
			}
		}))
		c.WaitReady()
		first := lockIn(t, c.Node(0), "k", grantBound)
		if err := c.Stop(0); err != nil {
			t.Fatal(err)
		}
		var field *quorumlock.FieldError
		if err := c.TryStart(0); !errors.As(err, &field) || field.Field != "Config.Role" {
			t.Fatalf("started as a client: %v", err)
		}
		follows(t, first, lockIn(t, c.Start(0), "k", grantBound))
		if !sim.Replicates(c.Node(0)) {
			t.Error("it is a client")
		}
	})
}

// All members get new addresses at once, under clients that know nothing but a name. The clients find them, keep what they hold, and miss no event.
func TestMembersMoveUnderTheirClients(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 5, quorumlocktest.JoinByName(), quorumlocktest.Configure(func(i int, cfg *quorumlock.Config) {
			if cfg.Expect = 3; i >= 3 {
				cfg.Role, cfg.Expect = quorumlock.RoleClient, 0
			}
		}))
		awaitRoles(t, c, time.Minute, upTo(5), 3, 0)
		seen := watchAll(t, c.Node(3), "k")
		held := lockIn(t, c.Node(3), "held", grantBound)
		for range 3 {
			for i := range 3 {
				c.Crash(i)
				c.Move(i)
			}
			time.Sleep(time.Second)
			for i := range 3 {
				c.Start(i)
			}
			unlock(t, lockIn(t, c.Node(4), "k", grantBound))
			time.Sleep(30 * time.Second)
		}
		calm(t, held)
		if events := len(seen.kinds()); events != 6 {
			t.Errorf("%d events of three locks", events)
		}
		c.CheckState()
	})
}
