//go:build unix

package main

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
)

// TestActs has operators act on a live cluster, in both forms, and reads the record of it.
func TestActs(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
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
	id := sessionText(session.ID())
	name := func(i int) string { return "web-" + string(rune('1'+i)) }

	t.Run("sessions", func(t *testing.T) {
		found := false
		for _, s := range objects[sessionView](t, c.call(t, "sessions", "--json").want(t, codeOK).out) {
			found = found || s.Session == id && s.Holding == 1 && s.TTLMS == 10_000 && s.Node == "orders-1" && !s.Stale
		}
		if !found {
			t.Error("the session is not listed")
		}
		aligned(t, c.call(t, "sessions").want(t, codeOK).out)
	})
	t.Run("session end", func(t *testing.T) {
		c.call(t, "session", "end", "7", "--reason", "test").want(t, codeNotHeld)
		c.call(t, "session", "end", "x", "--reason", "test").want(t, codeUsage)
		c.call(t, "session", "end", id).want(t, codeUsage)
		act := objects[actView](t, c.call(t, "session", "end", id, "--reason", "stuck", "--actor", "kim", "--now", "--json").want(t, codeOK).out)[0]
		if act.Session != id || act.Actor != "kim" || act.Reason != "stuck" || act.Act != quorumlock.ActEndSession.String() {
			t.Errorf("%+v", act)
		}
		select {
		case <-hold.Done():
		case <-ctx.Done():
			t.Fatal("the holder does not hear of it")
		}
		if lost := (*quorumlock.LostError)(nil); !errors.As(hold.Err(), &lost) || lost.Cause != quorumlock.CauseForced || lost.Actor != "kim" {
			t.Errorf("the holder is told %v", hold.Err())
		}
	})
	t.Run("transfer-leader", func(t *testing.T) {
		from := c.leader(t)
		to := (from + 1) % 3
		c.call(t, "transfer-leader", "nobody", "--reason", "test").want(t, codeNotHeld)
		c.call(t, "transfer-leader", name(to), "--reason", "test").want(t, codeOK)
		for c.leader(t) != to {
			if ctx.Err() != nil {
				t.Fatal("it does not lead")
			}
		}
		if act := objects[actView](t, c.call(t, "transfer-leader", "--reason", "any", "--json").want(t, codeOK).out)[0]; act.Act != quorumlock.ActTransfer.String() || act.Node == name(to) || act.Node == "" || act.ServerID == "" {
			t.Errorf("%+v", act)
		}
	})
	t.Run("drain", func(t *testing.T) {
		who := name((c.leader(t) + 1) % 3)
		act := objects[actView](t, c.call(t, "drain", who, "--reason", "new disk", "--json").want(t, codeOK).out)[0]
		if act.Node != who || act.ServerID == "" {
			t.Errorf("%+v", act)
		}
		drained := func() (drained, voter bool) {
			for _, m := range objects[memberView](t, c.call(t, "members", "--json").out) {
				if m.Name == who {
					return m.Drained, m.Role == "voter"
				}
			}
			return false, false
		}
		if d, voter := drained(); !d || voter {
			t.Errorf("drained %v, voter %v", d, voter)
		}
		if text := c.call(t, "members").out; !strings.Contains(text, "drained") {
			t.Errorf("%s", text)
		}
		if act := objects[actView](t, c.call(t, "undrain", who, "--reason", "done", "--json").want(t, codeOK).out)[0]; act.Act != quorumlock.ActUndrain.String() || act.Node != who || act.ServerID == "" {
			t.Errorf("%+v", act)
		}
		c.call(t, "drain", who, "--reason", "once more").want(t, codeOK)
		if text := c.call(t, "undrain", who, "--reason", "done").want(t, codeOK).out; !strings.Contains(text, who+": not drained any more") {
			t.Errorf("%s", text)
		}
		c.call(t, "undrain", who, "--reason", "again").want(t, codeRefused)
		for {
			if d, voter := drained(); !d && voter {
				break
			}
			if ctx.Err() != nil {
				t.Fatal("it gets no vote again")
			}
		}
	})
	t.Run("remove", func(t *testing.T) {
		leader := c.leader(t)
		gone := (leader + 1) % 3
		c.call(t, "remove", name(gone), "--reason", "test").want(t, codeRefused) // it answers
		c.call(t, "remove", name(leader), "--reason", "test").want(t, codeRefused)
		c.signal(t, syscall.SIGKILL, gone)
		if act := objects[actView](t, c.call(t, "remove", name(gone), "--reason", "host is gone", "--json").want(t, codeOK).out)[0]; act.Act != quorumlock.ActRemove.String() || act.Node != name(gone) {
			t.Errorf("%+v", act)
		}
		status := objects[statusView](t, c.call(t, "status", "--json").want(t, codeOK).out)[0]
		for status.Voters != 2 && ctx.Err() == nil {
			status = objects[statusView](t, c.call(t, "status", "--json").out)[0]
		}
		if status.Voters != 2 {
			t.Errorf("%+v", status)
		}
	})
	t.Run("audit", func(t *testing.T) {
		other, err := quorumlock.NewMutex(holder, "jobs/other").Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		c.call(t, "release", "jobs/other", "--token", other.Token().String(), "--reason", "last", "--now").want(t, codeOK)
		acts := objects[auditView](t, c.call(t, "audit", "--json").want(t, codeOK).out)
		done := make(map[string]bool)
		for _, a := range acts {
			done[a.Act+" "+a.Reason] = true
		}
		for act, reason := range map[quorumlock.Act]string{
			quorumlock.ActEndSession: "stuck", quorumlock.ActTransfer: "any", quorumlock.ActDrain: "new disk", quorumlock.ActUndrain: "done",
			quorumlock.ActRemove: "host is gone", quorumlock.ActForceRelease: "last",
		} {
			if !done[act.String()+" "+reason] {
				t.Errorf("no record of %v %q: %+v", act, reason, acts)
			}
		}
		aligned(t, c.call(t, "audit").want(t, codeOK).out)
		inspected := objects[inspectView](t, c.call(t, "inspect", "jobs/other", "--json").out)[0]
		if len(inspected.Acts) != 1 || inspected.Acts[0].Reason != "last" || inspected.Acts[0].Token != other.Token().String() || !inspected.Acts[0].Now {
			t.Errorf("%+v", inspected.Acts)
		}
		if text := c.call(t, "inspect", "jobs/other").out; !strings.Contains(text, "FORCED") {
			t.Errorf("%s", text)
		}
	})
}
