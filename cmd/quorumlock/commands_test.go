//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
)

// normal makes output comparable: what differs from run to run becomes a letter, and columns are one space apart.
func normal(text string) string {
	for _, r := range []struct{ from, to string }{
		{`\b[0-9a-f]{32}\b`, "ID"},
		{`\b[0-9]{16}\b`, "TOKEN"},
		{`\b127\.0\.0\.1:[0-9]+`, "ADDR"},
		{`\b[0-9.]+(ms|s)\b`, "D"},
		{`\b[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}\b`, "TIME"},
		{`  +`, " "},
		{` +\n`, "\n"},
	} {
		text = regexp.MustCompile(r.from).ReplaceAllString(text, r.to)
	}
	return text
}

func wantNormal(t *testing.T, got, want string) {
	t.Helper()
	if got := normal(got); got != strings.TrimLeft(want, "\n") {
		t.Errorf("printed\n%s\nwant\n%s", got, want)
	}
}

// TestCommands has every command that looks or operates meet a live cluster, in both forms.
func TestCommands(t *testing.T) {
	c := startCluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	holder, waiter := c.client(t, "orders-1"), c.client(t, "orders-2")
	hold, err := quorumlock.NewMutex(holder, "jobs/nightly", quorumlock.Note("billing\trun"[:7])).Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := quorumlock.NewSemaphore(holder, "gpu", 8).Acquire(ctx, 2); err != nil {
		t.Fatal(err)
	}
	var waiting sync.WaitGroup
	defer waiting.Wait()
	next := make(chan *quorumlock.Hold, 1)
	waiting.Go(func() {
		if h, err := quorumlock.NewMutex(waiter, "jobs/nightly", quorumlock.Note("next")).Lock(ctx); err == nil {
			next <- h
		}
	})
	for {
		info, err := holder.Inspect(ctx, "jobs/nightly")
		if err != nil {
			t.Fatal(err)
		}
		if info.Waiting == 1 {
			break
		}
	}

	t.Run("status", func(t *testing.T) {
		status := objects[statusView](t, c.call(t, "status", "--json").want(t, codeOK).out)[0]
		if status.State != "ok" || status.Voters != 3 || status.VotersReachable != 3 || status.Leader == nil || status.ClusterID != holder.ClusterID() || status.Stale {
			t.Errorf("%+v", status)
		}
		text := c.call(t, "status").want(t, codeOK).out
		if !strings.Contains(text, "voters   3 of 3 reachable") || !strings.Contains(text, "state    ok") {
			t.Errorf("%s", text)
		}
		aligned(t, text[strings.Index(text, "NAME"):])
	})
	t.Run("members", func(t *testing.T) {
		voters, leaders := 0, 0
		for _, m := range objects[memberView](t, c.call(t, "members", "--json").want(t, codeOK).out) {
			if m.Role == "voter" && m.State == "reachable" && m.Applied > 0 {
				voters++
			}
			if m.Leader {
				leaders++
			}
		}
		if voters != 3 || leaders != 1 {
			t.Errorf("%d voters, %d leaders", voters, leaders)
		}
		aligned(t, c.call(t, "members").want(t, codeOK).out)
	})
	t.Run("locks", func(t *testing.T) {
		text := c.call(t, "locks").want(t, codeOK).out
		aligned(t, text)
		wantNormal(t, text, `
NAME STATE HOLDER TOKEN MODE FOR WAITING NOTE
gpu held orders-1 TOKEN permits D 0 -
jobs/nightly held orders-1 TOKEN exclusive D 1 billing
`)
		locks := objects[lockView](t, c.call(t, "locks", "jobs/", "--json").want(t, codeOK).out)
		if len(locks) != 1 || locks[0].Name != "jobs/nightly" || locks[0].Waiting != 1 || locks[0].Holders[0].Token != hold.Token().String() || locks[0].Stale {
			t.Errorf("%+v", locks)
		}
		if got := c.call(t, "locks", "none/", "--json").want(t, codeOK).out; got != "" {
			t.Errorf("printed %q", got)
		}
	})
	t.Run("inspect", func(t *testing.T) {
		text := c.call(t, "inspect", "jobs/nightly").want(t, codeOK).out
		tables := strings.Split(text, "\n\n")
		aligned(t, tables[1])
		aligned(t, tables[2])
		wantNormal(t, strings.Join(tables[1:], "\n\n"), `
HOLDER TOKEN MODE FOR SESSION STATE NOTE VALUE
orders-1 TOKEN exclusive D TOKEN held billing -

NEXT WAITER MODE FOR SESSION NOTE
1 orders-2 exclusive D TOKEN next
`)
		gpu := objects[inspectView](t, c.call(t, "inspect", "gpu", "--json").want(t, codeOK).out)[0]
		if gpu.Limit != 8 || gpu.InUse != 2 || gpu.Holders[0].Permits != 2 || gpu.Holders[0].Mode != "permits" {
			t.Errorf("%+v", gpu)
		}
		none := c.call(t, "inspect", "nothing", "--json").want(t, codeNotHeld)
		if lock := objects[inspectView](t, none.out)[0]; lock.State != "free" || lock.Index == 0 {
			t.Errorf("%+v", lock)
		}
		if e := objects[errorView](t, none.errs)[0]; e.Code != codeNotHeld || !strings.Contains(e.Error, "nothing") {
			t.Errorf("%+v", e)
		}
	})
	t.Run("refusals", func(t *testing.T) {
		wrong := c.call(t, "release", "jobs/nightly", "--token", "7", "--reason", "test").want(t, codeWrongToken)
		if !strings.Contains(wrong.errs, hold.Token().String()) || !strings.Contains(wrong.errs, "Nothing was done") {
			t.Errorf("says %s", wrong.errs)
		}
		c.call(t, "release", "nothing", "--token", "7", "--reason", "test").want(t, codeNotHeld)
		c.call(t, "release", "jobs/nightly", "--token", "x", "--reason", "test").want(t, codeUsage)
		c.call(t, "release", "jobs/nightly", "--token", "7").want(t, codeUsage)
		c.call(t, "inspect", "").want(t, codeUsage)
		if a := c.call(t, "inspect").want(t, codeUsage); !strings.Contains(a.errs, "inspect NAME") {
			t.Errorf("an argument is missing: %s", a.errs)
		}
		if a := call(t, "status", "--cluster", c.name, "--join", "192.0.2.1:7000").want(t, codeUsage); !strings.Contains(a.errs, "--allow-plaintext") || a.took > 3*time.Second {
			t.Errorf("without TLS, after %v: %s", a.took, a.errs)
		}
		if info, err := holder.Inspect(ctx, "jobs/nightly"); err != nil || info.Holders[0].Draining || info.Holders[0].Token != hold.Token() {
			t.Errorf("a refused release changed the lock: %+v, %v", info, err)
		}
		for _, command := range []string{"status", "members", "locks", "watch"} {
			a := call(t, command, "--cluster", "another", "--join", strings.Join(c.addrs, ",")).want(t, codeWrongCluster)
			if !strings.Contains(a.errs, "other cluster name") || a.took > 3*time.Second {
				t.Errorf("%s after %v: %s", command, a.took, a.errs)
			}
		}
	})
	t.Run("watch and release", func(t *testing.T) {
		before, err := holder.Inspect(ctx, "jobs/nightly")
		if err != nil {
			t.Fatal(err)
		}
		released := c.call(t, "release", "jobs/nightly", "--token", hold.Token().String(), "--reason", "host is on fire", "--actor", "kim", "--now", "--json").want(t, codeOK)
		if v := objects[releaseView](t, released.out)[0]; v != (releaseView{"jobs/nightly", hold.Token().String(), "released", "kim", "host is on fire"}) {
			t.Errorf("%+v", v)
		}
		var lost *quorumlock.LostError
		select {
		case <-hold.Done():
		case <-ctx.Done():
			t.Fatal("the holder does not hear of it")
		}
		if !errors.As(hold.Err(), &lost) || lost.Actor != "kim" || lost.Reason != "host is on fire" {
			t.Errorf("the holder is told %v", hold.Err())
		}
		second := <-next
		from := strconv.FormatInt(before.Rev, 10)
		events := objects[eventView](t, c.call(t, "watch", "jobs/", "--from", from, "--count", "2", "--json").want(t, codeOK).out)
		if len(events) != 2 || events[0].Kind != "forced" || events[0].Note != "kim: host is on fire" && !strings.Contains(events[0].Note, "host is on fire") ||
			events[1].Kind != "granted" || events[1].Token != second.Token().String() || events[1].ServerID != waiter.ID() {
			t.Errorf("%+v", events)
		}
		text := c.call(t, "watch", "jobs/", "--from", from, "--count", "2").want(t, codeOK).out
		aligned(t, text)

		drained := c.call(t, "release", "jobs/nightly", "--token", second.Token().String(), "--reason", "slowly").want(t, codeOK)
		if !strings.Contains(drained.out, "draining") {
			t.Errorf("says %s", drained.out)
		}
		if lock := objects[inspectView](t, c.call(t, "inspect", "jobs/nightly", "--json").want(t, codeOK).out)[0]; lock.State != "draining" || !lock.Holders[0].Draining {
			t.Errorf("%+v", lock)
		}
		if err := second.Unlock(); err != nil {
			t.Error(err)
		}
	})
	t.Run("elect", func(t *testing.T) {
		c.call(t, "elect", "chief", "--once").want(t, codeNotHeld)
		lead, err := quorumlock.NewElection(holder, "chief").Campaign(ctx, "http://orders-1")
		if err != nil {
			t.Fatal(err)
		}
		leader := objects[leaderView](t, c.call(t, "elect", "chief", "--once", "--json").want(t, codeOK).out)[0]
		if !leader.Leading || leader.Node != "orders-1" || leader.Value != "http://orders-1" || leader.Token != lead.Token().String() {
			t.Errorf("%+v", leader)
		}
		wantNormal(t, c.call(t, "elect", "chief", "--once").want(t, codeOK).out, "chief: orders-1 leads with token TOKEN, value http://orders-1\n")
		if err := lead.Resign(); err != nil {
			t.Error(err)
		}
	})
	t.Run("bench", func(t *testing.T) {
		v := objects[benchView](t, c.call(t, "bench", "--count", "200", "--callers", "8", "--names", "4", "--json").want(t, codeOK).out)[0]
		if v.Cycles != 200 || v.Errors != 0 || v.LocksPerSec <= 0 || v.LockP50US <= 0 || v.LockP99US < v.LockP50US || v.Names != 4 {
			t.Errorf("%+v", v)
		}
		if text := c.call(t, "bench", "--count", "50").want(t, codeOK).out; !strings.Contains(text, "locks/s") {
			t.Errorf("%s", text)
		}
		short := objects[benchView](t, c.call(t, "bench", "--count", "0", "--duration", "300ms", "--json").want(t, codeOK).out)[0]
		if short.Seconds > 3 || short.Cycles == 0 {
			t.Errorf("%+v", short)
		}
		c.call(t, "bench", "--callers", "0").want(t, codeUsage)
	})
	t.Run("environment", func(t *testing.T) {
		t.Setenv("QUORUMLOCK_JOIN", strings.Join(c.addrs, ","))
		t.Setenv(envClusterName, c.name)
		t.Setenv("QUORUMLOCK_CLUSTER", holder.ClusterID()) // as under a lock
		call(t, "status").want(t, codeOK)
		call(t, "status", "--cluster", "another").want(t, codeWrongCluster)
		t.Setenv("QUORUMLOCK_TIMING", "slow")
		call(t, "status").want(t, codeUsage)
	})
	t.Run("interrupt", func(t *testing.T) {
		cmd := program(t, c.flags("watch", "--json")...)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		made := make(chan struct{})
		defer close(made)
		go func() { // events until it has seen one
			for {
				select {
				case <-made:
					return
				default:
					if h, err := quorumlock.NewMutex(holder, "seen").Lock(ctx); err == nil {
						_ = h.Unlock()
					}
				}
			}
		}()
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Process.Signal(os.Interrupt)
		_, _ = out.Read(make([]byte, 1<<16))
		go func() { _, _ = out.Read(make([]byte, 1<<20)) }()
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != codeInterrupted || errs.String() != "{\"error\":\"interrupted\",\"code\":130}\n" {
			t.Errorf("exit code %d, says %q", code, errs.String())
		}
	})
}

func TestAgentStopsInOrder(t *testing.T) {
	t.Parallel()
	addr := filepath.Join(t.TempDir(), "data")
	cmd := program(t, "agent", "--json", "--cluster", "one", "--expect", "1", "--voters", "1", "--dir", addr)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(said.String(), `"ready"`) {
		n, err := out.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		said.Write(buf[:n])
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	for {
		n, err := out.Read(buf)
		said.Write(buf[:n])
		if err != nil {
			break
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	events := objects[agentView](t, said.String())
	if len(events) != 3 || events[0].Event != "serving" || events[0].Addr == "" || events[1].ClusterID == "" || events[2].Event != "stopped" {
		t.Errorf("%+v", events)
	}
	call(t, "agent", "--cluster", "one", "--expect", "1", "--voters", "2").want(t, codeUsage)
	call(t, "agent", "--expect", "1").want(t, codeUsage)
}
