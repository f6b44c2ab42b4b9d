//go:build unix

package main

import (
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
)

// TestOutage asks in the two forms that an outage has: a majority that is silent, and one that is gone.
func TestOutage(t *testing.T) {
	c := startCluster(t)
	leader := c.leader(t)
	others, survivor := []int{(leader + 1) % 3, leader}, (leader+2)%3
	for _, form := range []struct {
		name   string
		signal syscall.Signal
	}{{"silent", syscall.SIGSTOP}, {"gone", syscall.SIGKILL}} {
		t.Run(form.name, func(t *testing.T) {
			node := c.client(t, "orders-"+form.name) // one of before may have lost its session with the quorum
			hold, err := quorumlock.NewMutex(node, "jobs/"+form.name).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			info, err := node.Inspect(t.Context(), "jobs/"+form.name)
			if err != nil {
				t.Fatal(err)
			}
			everywhere(t, c, info.Index)
			if form.name == "gone" { // the survivor leads, and does not know yet that it must step down
				survivor = c.leader(t)
				others = []int{(survivor + 1) % 3, (survivor + 2) % 3}
			}
			c.signal(t, form.signal, others...)
			ask := func(args ...string) answer {
				t.Helper()
				a := c.call(t, args...).want(t, codeDegraded)
				if a.took > 2*time.Second {
					t.Errorf("%v took %v", args, a.took)
				}
				return a
			}
			status := objects[statusView](t, ask("status", "--json").out)[0]
			if status.State != "no_quorum" || status.Leader != nil || status.Voters != 3 || status.VotersReachable != 1 || !status.Stale {
				t.Errorf("%+v", status)
			}
			locks := objects[lockView](t, ask("locks", "jobs/"+form.name, "--json").out)
			if len(locks) != 1 || !locks[0].Stale || locks[0].Holders[0].Token != hold.Token().String() {
				t.Errorf("%+v", locks)
			}
			if form.name == "gone" {
				c.call(t, "watch", "--timeout", "1s").want(t, codeNoQuorum)
				return
			}
			if text := ask("status").out; !strings.HasPrefix(text, "STALE: ") || !strings.Contains(text, "NO QUORUM") {
				t.Errorf("%s", text)
			}
			reachable := 0
			for _, m := range objects[memberView](t, ask("members", "--json").out) {
				if m.State == "reachable" {
					reachable++
				}
			}
			if reachable != 1 {
				t.Errorf("%d members are reachable", reachable)
			}
			aligned(t, ask("members").out)
			if text := ask("locks").out; !strings.HasPrefix(text, "STALE: ") || !strings.Contains(text, "jobs/silent") {
				t.Errorf("%s", text)
			}
			if lock := objects[inspectView](t, ask("inspect", "jobs/silent", "--json").out)[0]; !lock.Stale || lock.State != "held" {
				t.Errorf("%+v", lock)
			}
			if text := ask("inspect", "jobs/silent").out; !strings.HasPrefix(text, "STALE: ") {
				t.Errorf("%s", text)
			}
			if sessions := objects[sessionView](t, ask("sessions", "--json").out); len(sessions) == 0 || !sessions[0].Stale {
				t.Errorf("%+v", sessions)
			}
			ask("audit")
			var asking sync.WaitGroup
			for _, args := range [][]string{
				{"release", "jobs/silent", "--token", hold.Token().String(), "--reason", "test"}, {"watch"}, {"elect", "chief", "--once"}, {"bench", "--count", "1"},
			} {
				asking.Go(func() {
					if a := c.call(t, append(args, "--timeout", "1s")...); a.code != codeNoQuorum || !strings.Contains(a.errs, "no quorum") {
						t.Errorf("%v: exit code %d: %s", args, a.code, a.errs)
					}
				})
			}
			asking.Go(func() {
				if a := c.call(t, "run", "--wait", "700ms", "x", "--", "true"); a.code != codeRunNotGranted || a.took > 5*time.Second {
					t.Errorf("run with --wait, after %v: exit code %d: %s", a.took, a.code, a.errs)
				}
			})
			asking.Wait()
			c.signal(t, syscall.SIGCONT, others...)
			for deadline := time.Now().Add(15 * time.Second); c.call(t, "status").code != codeOK; {
				if time.Now().After(deadline) {
					t.Fatal("it does not come back")
				}
			}
			_ = hold.Unlock()
		})
	}
	c.signal(t, syscall.SIGKILL, survivor)
	for _, command := range []string{"status", "locks"} {
		c.call(t, command).want(t, codeUnreachable)
	}
}

// TestNoLeader asks while a majority is there and has not elected yet: with these timings it cannot have.
func TestNoLeader(t *testing.T) {
	c := startClusterAt(t, "5s,5s,2500ms")
	c.signal(t, syscall.SIGKILL, c.leader(t))
	for _, command := range []string{"status", "status --json", "members", "locks", "sessions", "audit"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			a := c.call(t, strings.Fields(command)...).want(t, codeDegraded)
			if a.took > 2*time.Second {
				t.Errorf("it took %v", a.took)
			}
			switch command {
			case "status":
				if !strings.HasPrefix(a.out, "STALE: ") || !strings.Contains(a.out, "NO LEADER") || !strings.Contains(a.out, "2 of 3 reachable") {
					t.Errorf("%s", a.out)
				}
			case "status --json":
				if v := objects[statusView](t, a.out)[0]; v.State != "no_leader" || v.Leader != nil || v.Voters != 3 || v.VotersReachable != 2 || !v.Stale || v.Detail == "" {
					t.Errorf("%+v", v)
				}
			}
		})
	}
}

func TestTiming(t *testing.T) {
	for text, want := range map[string]quorumlock.Timing{
		"default": quorumlock.TimingDefault, "fast": quorumlock.TimingFast,
		"2s,1500ms,1s": {Heartbeat: 2 * time.Second, Election: 1500 * time.Millisecond, Lease: time.Second},
	} {
		if got, err := parseTiming(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "slow", "2s", "2s,2s", "2s,2s,", "2,2,1", "1s,1s,1s,1s", "2s, 2s, 1s"} {
		if a := call(t, "status", "--join", "127.0.0.1:1", "--cluster", "x", "--timing", text).want(t, codeUsage); !strings.Contains(a.errs, "--timing") {
			t.Errorf("%q: %s", text, a.errs)
		}
	}
}

// everywhere waits until all members have applied the log up to index: a follower learns a moment later that an entry is committed.
func everywhere(t *testing.T, c *cluster, index uint64) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; {
		there := 0
		for _, m := range objects[memberView](t, c.call(t, "members", "--json").out) {
			if m.Role == "voter" && m.Applied >= index {
				there++
			}
		}
		if there == len(c.agents) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d members have applied %d", there, index)
		}
	}
}
