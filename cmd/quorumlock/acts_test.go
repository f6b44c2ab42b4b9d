//go:build unix

package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
)

// TestActs has what operators do to sessions and to the group meet a live cluster, and looks for it in the audit.
func TestActs(t *testing.T) {
	c := startCluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	holder := c.client(t, "orders-1")
	session, err := holder.NewSession(ctx, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	hold, err := quorumlock.NewMutex(session, "jobs/nightly").Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	raised(t, c)
	id := sessionText(session.ID())

	t.Run("sessions", func(t *testing.T) {
		all := objects[sessionView](t, c.call(t, "sessions", "--json").want(t, codeOK).out)
		i := slices.IndexFunc(all, func(s sessionView) bool { return s.Session == id })
		if i < 0 || all[i].Node != "orders-1" || all[i].ServerID != holder.ID() || all[i].TTLMS != 10_000 || all[i].Holding != 1 || all[i].Stale {
			t.Errorf("%+v", all)
		}
		text := c.call(t, "sessions").want(t, codeOK).out
		aligned(t, text)
		if !strings.Contains(normal(text), "TOKEN orders-1 1 0 D ") {
			t.Errorf("%s", normal(text))
		}
	})
	t.Run("session end", func(t *testing.T) {
		c.call(t, "session", "end", id).want(t, codeUsage)
		c.call(t, "session", "end", "none", "--reason", "test").want(t, codeUsage)
		c.call(t, "session", "end", "7", "--reason", "test").want(t, codeNotHeld)
		if session.Err() != nil {
			t.Fatalf("a refused end has ended it: %v", session.Err())
		}
		ended := objects[sessionEndView](t, c.call(t, "session", "end", id, "--reason", "host is on fire", "--actor", "kim", "--json").want(t, codeOK).out)[0]
		if ended != (sessionEndView{id, "barred", "kim", "host is on fire"}) {
			t.Errorf("%+v", ended)
		}
		select {
		case <-hold.Done():
		case <-ctx.Done():
			t.Fatal("the holder does not hear of it")
		}
		var lost *quorumlock.LostError
		if !errors.As(hold.Err(), &lost) || lost.Actor != "kim" || lost.Reason != "host is on fire" {
			t.Errorf("the holder is told %v", hold.Err())
		}
		if lock := objects[lockView](t, c.call(t, "inspect", "jobs/nightly", "--json").want(t, codeOK).out)[0]; lock.State != "barred" {
			t.Errorf("%+v", lock)
		}
		c.call(t, "session", "end", id, "--reason", "again").want(t, codeNotHeld)
		other, err := holder.NewSession(ctx, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		text := c.call(t, "session", "end", sessionText(other.ID()), "--reason", "at once", "--now").want(t, codeOK).out
		wantNormal(t, text, "session TOKEN: ended; what it held is free, and its owner may not know it yet\n")
	})
	t.Run("inspect shows a forced release", func(t *testing.T) {
		h, err := quorumlock.NewMutex(holder, "jobs/forced").Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		c.call(t, "release", "jobs/forced", "--token", h.Token().String(), "--reason", "stuck", "--actor", "kim", "--now").want(t, codeOK)
		a := c.call(t, "inspect", "jobs/forced", "--json")
		lock := objects[lockView](t, a.out)[0]
		if f := lock.Forced; f == nil || f.Actor != "kim" || f.Reason != "stuck" || f.Token != h.Token().String() || !f.Now || f.Time == nil {
			t.Errorf("%+v", lock)
		}
		if text := c.call(t, "inspect", "jobs/forced").out; !strings.Contains(text, "at once") || !strings.Contains(text, "by kim: stuck") {
			t.Errorf("%s", text)
		}
		only := objects[auditLine](t, c.call(t, "audit", "jobs/forced", "--json").want(t, codeOK).out)
		if len(only) != 1 || only[0].Act != "force-release" || only[0].Name != "jobs/forced" {
			t.Errorf("%+v", only)
		}
	})
	t.Run("transfer-leader", func(t *testing.T) {
		before := c.leader(t)
		next := (before + 1) % 3
		name := "web-" + string(rune('1'+next))
		moved := objects[memberActView](t, c.call(t, "transfer-leader", name, "--reason", "drill", "--actor", "kim", "--json").want(t, codeOK).out)[0]
		if moved.Name != name || moved.ServerID == "" || moved.Act != "transfer-leadership" || moved.Actor != "kim" {
			t.Errorf("%+v", moved)
		}
		if now := c.leader(t); now != next {
			t.Errorf("web-%d leads", now+1)
		}
		c.call(t, "transfer-leader", "nobody", "--reason", "drill").want(t, codeRefused)
		c.call(t, "transfer-leader", "", "--reason", "drill").want(t, codeUsage)
		if now := c.leader(t); now != next {
			t.Errorf("a refused transfer moved it: web-%d leads", now+1)
		}
		text := c.call(t, "transfer-leader", "--reason", "drill").want(t, codeOK).out
		if now := c.leader(t); now == next || !strings.Contains(text, "leads") && !strings.Contains(text, "handed over") {
			t.Errorf("web-%d leads; said %s", now+1, text)
		}
	})
	t.Run("drain", func(t *testing.T) {
		leader := c.leader(t)
		name := "web-" + string(rune('1'+leader))
		c.call(t, "undrain", name, "--reason", "it was not").want(t, codeRefused)
		drained := objects[memberActView](t, c.call(t, "drain", name, "--reason", "kernel", "--json").want(t, codeOK).out)[0]
		if drained.Name != name || drained.Act != "drain" {
			t.Errorf("%+v", drained)
		}
		if c.leader(t) == leader {
			t.Error("it leads still")
		}
		for _, m := range objects[memberView](t, c.call(t, "members", "--json").want(t, codeOK).out) {
			if m.ServerID == drained.ServerID && (m.Role != "standby" || !m.Drained) || m.ServerID != drained.ServerID && m.Drained {
				t.Errorf("%+v", m)
			}
		}
		if text := c.call(t, "members").want(t, codeOK).out; !strings.Contains(text, "standby, drained") {
			t.Errorf("%s", text)
		}
		c.call(t, "drain", "web-"+string(rune('1'+c.leader(t))), "--reason", "kernel").want(t, codeOK) // the other one goes on alone
		c.call(t, "drain", "web-"+string(rune('1'+c.leader(t))), "--reason", "kernel").want(t, codeRefused)
		for i := range c.agents {
			if i != c.leader(t) {
				c.call(t, "undrain", "web-"+string(rune('1'+i)), "--reason", "done").want(t, codeOK)
			}
		}
		for deadline := time.Now().Add(20 * time.Second); ; {
			status := objects[statusView](t, c.call(t, "status", "--json").want(t, codeOK).out)[0]
			if status.Voters == 3 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%+v", status)
			}
		}
	})
	t.Run("remove", func(t *testing.T) {
		leader := c.leader(t)
		dead := (leader + 1) % 3
		name := func(i int) string { return "web-" + string(rune('1'+i)) }
		for _, member := range []string{name(leader), name(dead), "nobody"} { // the leader, one that lives, nobody
			if a := c.call(t, "remove", member, "--reason", "drill").want(t, codeRefused); !strings.Contains(a.errs, "othing was done") {
				t.Errorf("%s: %s", member, a.errs)
			}
		}
		c.signal(t, syscall.SIGKILL, dead)
		var a answer
		for deadline := time.Now().Add(20 * time.Second); ; { // until it is known to be dead
			if a = c.call(t, "remove", name(dead), "--reason", "machine scrapped", "--actor", "kim", "--json"); a.code != codeRefused {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s", a.errs)
			}
		}
		removed := objects[memberActView](t, a.want(t, codeOK).out)[0]
		if removed.Name != name(dead) || removed.Act != "remove-member" {
			t.Errorf("%+v", removed)
		}
		status := objects[statusView](t, c.call(t, "status", "--json").want(t, codeOK).out)[0]
		if status.Voters != 2 || status.VotersReachable != 2 {
			t.Errorf("%+v", status)
		}
	})
	t.Run("audit", func(t *testing.T) {
		var acts []string
		for _, l := range objects[auditLine](t, c.call(t, "audit", "--json").want(t, codeOK).out) {
			acts = append(acts, l.Act)
			if l.Time == nil || l.Actor == "" || l.Reason == "" || l.Stale {
				t.Errorf("%+v", l)
			}
		}
		want := []string{"end-session", "end-session", "force-release", "transfer-leadership", "transfer-leadership",
			"drain", "drain", "undrain", "undrain", "remove-member"}
		if !slices.Equal(acts, want) {
			t.Errorf("%v, want %v", acts, want)
		}
		text := c.call(t, "audit").want(t, codeOK).out
		aligned(t, text)
		if !strings.Contains(text, "machine scrapped") {
			t.Errorf("%s", text)
		}
	})
	t.Run("outage", func(t *testing.T) {
		leader := c.leader(t)
		c.signal(t, syscall.SIGSTOP, leader)
		defer c.signal(t, syscall.SIGCONT, leader)
		for _, command := range []string{"sessions", "audit"} {
			a := c.call(t, command).want(t, codeDegraded)
			if !strings.HasPrefix(a.out, "STALE: ") || a.took > 2*time.Second {
				t.Errorf("%s after %v: %s", command, a.took, a.out)
			}
		}
		for _, args := range [][]string{{"session", "end", id}, {"transfer-leader"}, {"remove", "web-1"}} {
			if a := c.call(t, append(args, "--reason", "test", "--timeout", "1s")...); a.code != codeNoQuorum {
				t.Errorf("%v: exit code %d: %s", args, a.code, a.errs)
			}
		}
	})
}

// raised waits until the cluster has the feature level that acts need: the leader raises it a moment after it has heard all members.
func raised(t *testing.T, c *cluster) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); c.call(t, "sessions").code != codeOK; {
		if time.Now().After(deadline) {
			t.Fatalf("%s", c.call(t, "sessions").errs)
		}
	}
}
