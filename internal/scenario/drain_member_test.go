package scenario_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

var drainOpt = quorumlock.DrainOptions{Actor: "ops", Reason: "new kernel"}

// drainedOf are the names of the members that a node shows as drained.
func drainedOf(t *testing.T, n *quorumlock.Node) (names []string) {
	t.Helper()
	all, err := n.Members(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if m.Drained {
			names = append(names, m.Name)
		}
	}
	return names
}

// awaitVotes waits until these instances vote, by their own word, and nobody else.
func awaitVotes(t *testing.T, c *quorumlocktest.Cluster, instances ...int) {
	t.Helper()
	want := make(map[string]bool)
	for _, i := range instances {
		want[c.Node(i).ID()] = true
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		right := 0
		for _, i := range instances {
			n := 0
			for _, m := range groupOf(t, c.Node(i)) {
				if m.Voter == want[m.ServerID] {
					n++
				}
			}
			if group := groupOf(t, c.Node(i)); n == len(group) && n >= len(instances) {
				right++
			}
		}
		if right == len(instances) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not these voters after a minute: %+v", groupOf(t, c.Node(instances[0])))
		}
	}
}

func drainMember(t *testing.T, by *quorumlock.Node, id string) {
	t.Helper()
	began := time.Now()
	if err := by.Drain(t.Context(), id, drainOpt); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("drained after %v", took)
	}
}

// The leader is drained: another one leads, the standby votes in its place, and its machine can be taken, and another one beside it, without a hold lost. It stays so over restarts and
// under each new leader, until it is undrained, and then votes again where a vote is free.
func TestDrainMember(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 4)
		awaitRoles(t, c, time.Minute, upTo(4), 3, 1)
		tool := openCaller(t, c, nil)
		held := lockIn(t, tool, "held", grantBound)
		away := c.Leader()
		own := lockIn(t, c.Node(away), "own", grantBound)
		id := c.Node(away).ID()
		drainMember(t, tool, id)
		drainMember(t, tool, id) // again is fine
		if c.Leader() == away || votes(t, c.Node(away)) {
			t.Error("it leads or votes on")
		}
		voters := others(c, away)
		awaitVotes(t, c, voters...)
		for _, n := range []*quorumlock.Node{tool, c.Node(away), c.Node(voters[0])} {
			time.Sleep(time.Second)
			if names := drainedOf(t, n); len(names) != 1 || names[0] != nodeName(away) {
				t.Errorf("shown as drained: %v", names)
			}
		}
		if err := tool.TransferLeadership(t.Context(), id, transferOpt); !errors.Is(err, quorumlock.ErrRefused) {
			t.Errorf("leadership to it: %v", err)
		}
		calm(t, own)
		unlock(t, own)
		for range 3 { // whoever leads keeps to it
			if err := tool.TransferLeadership(t.Context(), "", transferOpt); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Second)
			if votes(t, c.Node(away)) {
				t.Fatal("it votes")
			}
		}
		c.Crash(away)
		lead := c.LeaderExcept(away)
		c.Crash(lead)
		unlock(t, lockIn(t, tool, "k", grantBound)) // two of three voters are there
		c.Start(lead)
		c.Start(away)
		c.WaitReady()
		time.Sleep(30 * time.Second)
		if votes(t, c.Node(away)) {
			t.Error("it votes after a restart")
		}
		calm(t, held)
		if err := c.Node(away).Undrain(t.Context(), id, drainOpt); err != nil {
			t.Fatal(err)
		}
		if err := c.Node(away).Undrain(t.Context(), id, drainOpt); !errors.Is(err, quorumlock.ErrRefused) {
			t.Errorf("undrained twice: %v", err)
		}
		other := others(c, away)[0]
		drainMember(t, tool, c.Node(other).ID())
		awaitVotes(t, c, others(c, other)...)
		if names := drainedOf(t, tool); len(names) != 1 || names[0] != nodeName(other) {
			t.Errorf("shown as drained: %v", names)
		}
		c.CheckState()
	})
}

// Of three one is drained, and the two that are left vote on; a second one must not go before it is back, nor one while another is dead. Of two one can go, and the other works alone. Draining never
// costs the quorum.
func TestDrainNeverCostsTheQuorum(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		tool := openCaller(t, c, nil)
		time.Sleep(2 * time.Second)
		lead := c.Leader()
		first, second := others(c, lead)[0], others(c, lead)[1]
		refused := func(what string, i int) {
			t.Helper()
			if err := tool.Drain(t.Context(), c.Node(i).ID(), drainOpt); !errors.Is(err, quorumlock.ErrRefused) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := tool.Drain(t.Context(), tool.ID(), drainOpt); !errors.Is(err, quorumlock.ErrRefused) {
			t.Errorf("a caller: %v", err)
		}
		c.Crash(second)
		time.Sleep(20 * time.Second)
		refused("one of two that are left", first)
		c.Start(second)
		c.WaitReady()
		time.Sleep(10 * time.Second)
		held := lockIn(t, tool, "held", grantBound)
		drainMember(t, tool, c.Node(first).ID())
		awaitVotes(t, c, lead, second)
		drainMember(t, tool, c.Node(lead).ID()) // the leader of two
		awaitVotes(t, c, second)
		if got := c.Leader(); got != second {
			t.Errorf("%d leads", got)
		}
		refused("the last one", second)
		c.Crash(first)
		c.Crash(lead)
		unlock(t, lockIn(t, tool, "k", grantBound)) // alone
		calm(t, held)
		c.Start(first)
		c.Start(lead)
		c.WaitReady()
		for _, i := range []int{first, lead} {
			if err := tool.Undrain(t.Context(), c.Node(i).ID(), drainOpt); err != nil {
				t.Fatal(err)
			}
		}
		awaitVotes(t, c, upTo(3)...)
		if acts := acted(t, tool); acts != "drain drain undrain undrain" {
			t.Errorf("recorded: %s", acts)
		}
		c.CheckState()
	})
}

// Who is drained and then leaves, or is removed, is drained no more: its record does not take up room for good. Nobody else's drain ends with it.
func TestDrainEndsWithTheMember(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, c *quorumlocktest.Cluster, i int){
		"leaves": func(t *testing.T, c *quorumlocktest.Cluster, i int) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := c.Leave(ctx, i); err != nil {
				t.Error(err)
			}
		},
		"is removed": func(t *testing.T, c *quorumlocktest.Cluster, i int) {
			id := c.Node(i).ID()
			c.Crash(i)
			opt := quorumlock.RemoveOptions{Actor: "ops", Reason: "burnt"}
			if err := c.Node(c.LeaderExcept(i)).RemoveMember(t.Context(), id, opt); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 5)
				awaitRoles(t, c, time.Minute, upTo(5), 3, 2)
				lead := c.Leader()
				rest := others(c, lead)
				stays, goes := rest[0], rest[1]
				drainMember(t, c.Node(lead), c.Node(stays).ID())
				id := c.Node(goes).ID()
				drainMember(t, c.Node(lead), id)
				end(t, c, goes)
				time.Sleep(5 * time.Second)
				if names := drainedOf(t, c.Node(lead)); len(names) != 1 || names[0] != nodeName(stays) {
					t.Errorf("shown as drained: %v", names)
				}
				records := auditOf(t, c.Node(lead))
				if last := records[len(records)-1]; last.Act != quorumlock.ActUndrain || last.ServerID != id || last.Actor != "quorumlock" || last.Reason == "" {
					t.Errorf("%+v", last)
				}
			})
		})
	}
}
