//go:build unix

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
)

// blocks are the steps of docs/OPERATIONS.md that are marked to be run, by their marks.
func blocks(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/OPERATIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	mark, in := "", false
	for line := range strings.SplitSeq(string(text), "\n") {
		line = strings.TrimSpace(line)
		name, marked := strings.CutPrefix(line, "<!-- run: ")
		switch {
		case marked:
			mark = strings.TrimSuffix(name, " -->")
		case mark != "" && !in && line == "```sh":
			in = true
		case mark != "" && !in:
			t.Fatalf("%s: no shell block follows its mark", mark)
		case in && line == "```":
			mark, in = "", false
		case in:
			found[mark] += line + "\n"
		}
	}
	return found
}

// follow runs the steps as a person would who copies them.
func follow(t *testing.T, c *cluster, steps string, env ...string) string {
	t.Helper()
	if steps == "" {
		t.Fatal("there are no such steps")
	}
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir()
	if err := os.Symlink(self, filepath.Join(path, "quorumlock")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-eu", "-c", steps)
	cmd.Env = append(os.Environ(), asProgram+"=1", "PATH="+path+":"+os.Getenv("PATH"), "QUORUMLOCK_TIMING=fast",
		"QUORUMLOCK_JOIN="+strings.Join(c.addrs, ","), envClusterName+"="+c.name)
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, steps, out)
	}
	return string(out)
}

// startAround starts the one instance with a directory, and two with empty ones, and waits until all three vote in a cluster that is not the old one and has kept its audit. It gives
// the new cluster's id, and what kills the three.
func startAround(t *testing.T, name, dir, old string) (id string, kill func()) {
	t.Helper()
	addr, stop := startOne(t, name, dir, "--voters", "3")
	stops := []func(){stop}
	for range 2 {
		_, stop := startOne(t, name, t.TempDir(), "--voters", "3", "--expect", "0", "--join", addr)
		stops = append(stops, stop)
	}
	for deadline := time.Now().Add(30 * time.Second); ; {
		s := objects[statusView](t, call(t, "status", "--cluster", name, "--join", addr, "--timing", "fast", "--json").out)
		if len(s) == 1 && s[0].State == "ok" && s[0].VotersReachable == 3 && s[0].ClusterID != old {
			id = s[0].ClusterID
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v", s)
		}
	}
	if audit := call(t, "audit", "--cluster", name, "--join", addr, "--timing", "fast").want(t, codeOK).out; !strings.Contains(audit, "its holder hangs") {
		t.Errorf("the audit is not kept:\n%s", audit)
	}
	return id, func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// TestOperations follows the marked steps of docs/OPERATIONS.md on a live cluster: a lock is freed, a drill held, all is lost and restored, and in the end a majority of that is lost.
func TestOperations(t *testing.T) {
	all := blocks(t)
	c := startCluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	node := c.client(t, "orders-1")
	id := node.ClusterID()
	store := "dir://" + filepath.Join(t.TempDir(), "backups")
	run := make(map[string]bool)
	steps := func(name string) string { run[name] = true; return all[name] }

	hold, err := quorumlock.NewMutex(node, "jobs/nightly").Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	out := follow(t, c, steps("force-release"), "LOCK=jobs/nightly", "TOKEN="+hold.Token().String())
	var lost *quorumlock.LostError
	select {
	case <-hold.Done():
	case <-ctx.Done():
		t.Fatal("the holder hears of nothing")
	}
	if !errors.As(hold.Err(), &lost) || lost.Reason != "its holder hangs" || !strings.Contains(out, "its holder hangs") {
		t.Errorf("%v\n%s", hold.Err(), out)
	}

	content(t, c.call(t, "snapshot", "save", "--to", store, "--json"))
	if out := follow(t, c, steps("restore-drill"), "SNAPSHOTS="+store); !strings.Contains(out, "it can be restored") {
		t.Errorf("%s", out)
	}
	if status := objects[statusView](t, c.call(t, "status", "--json").want(t, codeOK).out)[0]; status.ClusterID != id {
		t.Errorf("the drill met the cluster: %+v", status)
	}

	c.signal(t, syscall.SIGKILL, 0, 1, 2)
	dir := filepath.Join(t.TempDir(), "data")
	if out := follow(t, c, steps("restore"), "SNAPSHOTS="+store, "DIR="+dir); !strings.Contains(out, "with empty directories") {
		t.Errorf("%s", out)
	}
	restored, stop := startAround(t, c.name, dir, id)

	stop()
	if out := follow(t, c, steps("survivor"), "DIR="+dir); !strings.Contains(out, "dry run: nothing was changed") || !strings.Contains(out, "--give-up "+restored) {
		t.Errorf("%s", out)
	}
	if out := follow(t, c, steps("lost-majority"), "DIR="+dir, "CLUSTER_ID="+restored); !strings.Contains(out, "with empty directories") {
		t.Errorf("%s", out)
	}
	startAround(t, c.name, dir, restored)
	for name := range all {
		if !run[name] {
			t.Errorf("steps %s are marked to be run, and no test follows them", name)
		}
	}
}
