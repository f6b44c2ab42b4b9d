package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

var (
	endOpt      = quorumlock.EndOptions{Actor: "ops", Reason: "stuck since noon"}
	transferOpt = quorumlock.TransferOptions{Actor: "ops", Reason: "takes the machine"}
	removeOpt   = quorumlock.RemoveOptions{Actor: "ops", Reason: "machine is gone"}
)

func sessionsOf(t *testing.T, n *quorumlock.Node, opts ...quorumlock.ReadOption) (list []quorumlock.SessionInfo) {
	t.Helper()
	for s, err := range n.Sessions(t.Context(), opts...) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, s)
	}
	return list
}

func auditOf(t *testing.T, n *quorumlock.Node, opts ...quorumlock.ReadOption) (list []quorumlock.AuditRecord) {
	t.Helper()
	for r, err := range n.Audit(t.Context(), opts...) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	return list
}

// acted are the acts in the audit, oldest first.
func acted(t *testing.T, n *quorumlock.Node) string {
	t.Helper()
	var acts []string
	for _, r := range auditOf(t, n) {
		acts = append(acts, r.Act.String())
	}
	return strings.Join(acts, " ")
}

// An operator sees each session with what it holds and waits for, from a member, a client and a caller alike, over several pages; with Local each member's own.
func TestSessionsAreListed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		tool := openCaller(t, c, nil)
		time.Sleep(2 * time.Second) // the level is raised
		began := time.Now()
		s, err := c.Node(0).NewSession(t.Context(), 20*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		lockIn(t, s, "a", grantBound)
		lockIn(t, s, "b", grantBound)
		go func() { _, _ = quorumlock.NewMutex(c.Node(1), "a").Lock(context.Background()) }() // until the test ends
		time.Sleep(time.Second)
		for range 120 {
			if _, err := c.Node(2).NewSession(t.Context(), time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		for _, list := range [][]quorumlock.SessionInfo{
			sessionsOf(t, tool), sessionsOf(t, c.Node(0)), sessionsOf(t, c.Node(1), quorumlock.Local()), sessionsOf(t, tool, quorumlock.Local()),
		} {
			if len(list) != 122 {
				t.Fatalf("%d sessions", len(list))
			}
			first, second := list[0], list[1]
			if first.ID != s.ID() || first.Node != "node-0" || first.ServerID != c.Node(0).ID() || first.TTL != 20*time.Second || first.Holding != 2 || first.Waiting != 0 {
				t.Errorf("%+v", first)
			}
			if off := first.Since.Sub(began); off < -time.Second || off > time.Second {
				t.Errorf("opened at %v, which was %v", first.Since, began)
			}
			if second.Node != "node-1" || second.Waiting != 1 || second.Holding != 0 {
				t.Errorf("%+v", second)
			}
			for i := range list[1:] {
				if list[i].ID >= list[i+1].ID {
					t.Errorf("session %d before %d", list[i].ID, list[i+1].ID)
				}
			}
		}
		for range tool.Sessions(t.Context()) {
			break // leaving the loop is fine
		}
	})
}

// A session is ended: its owner is told at once and by whom, its waiting claims are gone, and its lock passes on only when its lease would have run out, also if no
// word reaches it. So no two hold at a time (I3), and tokens rise.
func TestEndSession(t *testing.T) {
	type setting struct{ cut, kill, onCaller bool }
	for name, s := range map[string]setting{"told": {}, "cut off": {cut: true}, "leader killed": {kill: true}, "on a caller": {onCaller: true}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3)
				lead := c.Leader()
				a, b := others(c, lead)[0], others(c, lead)[1]
				owner := c.Node(a)
				if s.onCaller {
					owner = openCaller(t, c, nil)
				}
				session, err := owner.NewSession(t.Context(), 0)
				if err != nil {
					t.Fatal(err)
				}
				w := newWitness(t, c)
				h := lockIn(t, session, "k", time.Second)
				w.see(h)
				inTheWay := lockIn(t, c.Node(b), "w", time.Second)
				waiting := make(chan error, 1)
				go func() {
					_, err := quorumlock.NewMutex(session, "w").Lock(context.Background())
					waiting <- err
				}()
				next := lockLater(t, c.Node(b), "k", 3*quorumTTL)
				time.Sleep(quorumTTL / 2)
				if s.cut {
					c.Isolate(a)
				}
				began := time.Now()
				if err := c.Node(b).EndSession(t.Context(), session.ID(), endOpt); err != nil {
					t.Fatal(err)
				}
				if s.kill {
					c.Crash(lead)
				}
				if err := c.Node(b).EndSession(t.Context(), session.ID(), endOpt); err != nil {
					t.Errorf("again: %v", err)
				}
				other := endOpt
				other.Reason = "another"
				if err := c.Node(b).EndSession(t.Context(), session.ID(), other); !errors.Is(err, quorumlock.ErrNoSession) {
					t.Errorf("again with other words: %v", err)
				}
				if !s.cut {
					<-h.Done()
					if took := time.Since(began); took > reportBound && (!s.kill || took > grantBound) {
						t.Errorf("told after %v", took)
					}
					forced(t, h)
					if err := <-waiting; !errors.Is(err, quorumlock.ErrLost) {
						t.Errorf("the session's waiting call: %v", err)
					}
				}
				g := next.get()
				if took := time.Since(began); took < quorumTTL || took > deadBound+grantBound {
					t.Errorf("passed on after %v", took)
				}
				t.Logf("passed on after %v, margin %v", time.Since(began), w.exclusive(1))
				if h.Err() == nil {
					t.Error("still held")
				}
				unlock(t, g)
				unlock(t, inTheWay)
				if s.kill {
					c.Start(lead)
				}
				c.Heal()
				c.WaitReady()
				if s.cut {
					<-waiting
				}
				unlock(t, lockIn(t, owner, "again", grantBound)) // by another session
				if rec := auditOf(t, c.Node(b)); len(rec) != 1 || rec[0].Act != quorumlock.ActEndSession || rec[0].Session != session.ID() || rec[0].Actor != "ops" ||
					rec[0].Reason != endOpt.Reason || rec[0].ServerID != owner.ID() || rec[0].Now {
					t.Errorf("audit: %+v", rec)
				}
				time.Sleep(time.Second)
				c.CheckState()
			})
		})
	}
}

// Now frees at once, and tells the owner at once.
func TestEndSessionNow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		h := lockIn(t, c.Node(0), "k", time.Second)
		next := lockLater(t, c.Node(1), "k", time.Minute)
		time.Sleep(2 * time.Second)
		opt, began := endOpt, time.Now()
		opt.Now = true
		if err := c.Node(2).EndSession(t.Context(), lockShown(t, c, "k").Holders[0].Session, opt); err != nil {
			t.Fatal(err)
		}
		g := next.get()
		<-h.Done()
		if took := time.Since(began); took > reportBound {
			t.Errorf("took %v", took)
		}
		forced(t, h)
		follows(t, h, g)
		unlock(t, g)
		if rec := auditOf(t, c.Node(0), quorumlock.Local()); len(rec) != 1 || !rec[0].Now || !rec[0].Local {
			t.Errorf("audit: %+v", rec)
		}
	})
}

// Words and ids are checked before anything is sent; so is what the cluster does not know.
func TestActsAreChecked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 1)
		n := c.Node(0)
		for what, err := range map[string]error{
			"nobody ends":      n.EndSession(t.Context(), 1, quorumlock.EndOptions{Reason: "r"}),
			"no reason to end": n.EndSession(t.Context(), 1, quorumlock.EndOptions{Actor: "a"}),
			"no session":       n.EndSession(t.Context(), 0, endOpt),
			"nobody transfers": n.TransferLeadership(t.Context(), "", quorumlock.TransferOptions{Reason: "r"}),
			"nobody to remove": n.RemoveMember(t.Context(), "", removeOpt),
			"long reason":      n.RemoveMember(t.Context(), "x", quorumlock.RemoveOptions{Actor: "a", Reason: strings.Repeat("x", 1025)}),
		} {
			if !errors.Is(err, quorumlock.ErrInvalid) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := n.EndSession(t.Context(), 12345, endOpt); !errors.Is(err, quorumlock.ErrNoSession) {
			t.Errorf("unknown session: %v", err)
		}
		if err := n.TransferLeadership(t.Context(), "", transferOpt); !errors.Is(err, quorumlock.ErrRefused) {
			t.Errorf("transfer by the only voter: %v", err)
		}
		if acts := acted(t, n); acts != "" {
			t.Errorf("recorded: %s", acts)
		}
	})
}

// Leadership goes to the voter that was named, from wherever it is asked, and nothing held is lost; a refusal changes nothing.
func TestTransferLeadership(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 4)
		awaitRoles(t, c, time.Minute, upTo(4), 3, 1)
		tool := openCaller(t, c, nil)
		held := lockIn(t, tool, "held", grantBound)
		var standby int
		var voters []int
		for i := range 4 {
			if votes(t, c.Node(i)) {
				voters = append(voters, i)
			} else {
				standby = i
			}
		}
		for _, to := range voters {
			for _, by := range []*quorumlock.Node{tool, c.Node(standby), c.Node(to)} { // the last time it is a node that leads
				began := time.Now()
				if err := by.TransferLeadership(t.Context(), c.Node(to).ID(), transferOpt); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("took %v", took)
				}
				if lead := c.Leader(); lead != to {
					t.Errorf("%d leads, want %d", lead, to)
				}
			}
		}
		lead := c.Leader()
		if err := tool.TransferLeadership(t.Context(), "", transferOpt); err != nil {
			t.Fatal(err)
		}
		if now := c.Leader(); now == lead {
			t.Error("it leads on")
		}
		lead = c.Leader()
		away := voters[0]
		if away == lead {
			away = voters[1]
		}
		term := statusOf(t, c.Node(lead)).Term
		c.Isolate(away)
		for who, id := range map[string]string{"standby": c.Node(standby).ID(), "nobody": "somebody", "cut off": c.Node(away).ID(), "caller": tool.ID()} {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			err := tool.TransferLeadership(ctx, id, transferOpt)
			cancel()
			if !errors.Is(err, quorumlock.ErrRefused) {
				t.Errorf("to %s: %v", who, err)
			}
			t.Log(err)
		}
		if c.Leader() != lead || statusOf(t, c.Node(lead)).Term != term {
			t.Error("a refusal changed the leader")
		}
		c.Heal()
		calm(t, held)
		if acts := strings.Fields(acted(t, tool)); len(acts) < 3 || len(acts) > 4 {
			t.Errorf("recorded: %v", acts)
		}
		c.WaitReady()
		time.Sleep(10 * time.Second)
		c.CheckState()
	})
}

func statusOf(t *testing.T, n *quorumlock.Node) quorumlock.NodeStatus {
	t.Helper()
	s, err := n.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Of three voters one is dead for good: it is taken out, the other two go on as two, and a third that comes gets its vote. What would cost the majority is refused, as are the leader, the
// living and strangers.
func TestRemoveMember(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		tool := openCaller(t, c, nil)
		time.Sleep(2 * time.Second)
		lead := c.Leader()
		rest := others(c, lead)
		refusedFor := func(what, id string, opt quorumlock.RemoveOptions) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			err := tool.RemoveMember(ctx, id, opt)
			if !errors.Is(err, quorumlock.ErrRefused) {
				t.Errorf("%s: %v", what, err)
			}
			t.Log(err)
			if n := len(groupOf(t, c.Node(lead))); n != 3 {
				t.Fatalf("%s: %d in the group", what, n)
			}
		}
		forcing := removeOpt
		forcing.Force = true
		refusedFor("alive", c.Node(rest[0]).ID(), removeOpt)
		refusedFor("the leader", c.Node(lead).ID(), forcing)
		refusedFor("a stranger", "somebody", forcing)
		id := c.Node(rest[0]).ID()
		c.Crash(rest[0])
		refusedFor("one of the two that are left", c.Node(rest[1]).ID(), forcing)
		if acts := acted(t, tool); acts != "" {
			t.Errorf("recorded: %s", acts)
		}
		time.Sleep(30 * time.Second) // by themselves they keep it
		if n := len(groupOf(t, c.Node(lead))); n != 3 {
			t.Fatalf("%d in the group", n)
		}
		if err := tool.RemoveMember(t.Context(), id, removeOpt); err != nil {
			t.Fatal(err)
		}
		if n := len(groupOf(t, c.Node(lead))); n != 2 {
			t.Errorf("%d in the group", n)
		}
		if rec := auditOf(t, tool); len(rec) != 1 || rec[0].Act != quorumlock.ActRemove || rec[0].ServerID != id || rec[0].Node != fmt.Sprintf("node-%d", rest[0]) {
			t.Errorf("audit: %+v", rec)
		}
		unlock(t, lockIn(t, tool, "k", grantBound))
		c.Replace(rest[0])
		c.Start(rest[0])
		awaitVoters(t, c, time.Minute, upTo(3)...)
		c.CheckState()
	})
}
