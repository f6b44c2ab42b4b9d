//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
)

// TestSnapshotInAnOutage is S111: a majority is silent, and the survivor's state is to be had for who asks for it.
func TestSnapshotInAnOutage(t *testing.T) {
	c := startCluster(t)
	leader := c.leader(t)
	node := c.client(t, "orders")
	hold, err := quorumlock.NewMutex(node, "jobs").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	info, err := node.Inspect(t.Context(), "jobs")
	if err != nil {
		t.Fatal(err)
	}
	everywhere(t, c, info.Index)
	dir := t.TempDir()
	local := objects[snapshotView](t, c.call(t, "snapshot", "save", "--to", filepath.Join(dir, "local"), "--local", "--json").want(t, codeDegraded).out)[0]
	if !local.Snapshot.Stale || local.Snapshot.AgeMS == nil || *local.Snapshot.AgeMS > 5000 {
		t.Errorf("%+v", local.Snapshot)
	}
	c.signal(t, syscall.SIGSTOP, leader, (leader+1)%3)
	file := filepath.Join(dir, "survivor.qlsnap")
	a := c.call(t, "snapshot", "save", "--to", file).want(t, codeNoQuorum)
	if !strings.Contains(a.errs, "--stale") || a.took > 3*time.Second {
		t.Errorf("after %v: %s", a.took, a.errs)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
	a = c.call(t, "snapshot", "save", "--to", file, "--stale", "--json").want(t, codeDegraded)
	v := objects[snapshotView](t, a.out)[0]
	if v.Check != "ok" || !v.Snapshot.Stale || v.Snapshot.Holds != 1 || v.Snapshot.TokensUpTo < hold.Token().String() || v.Snapshot.Index < info.Index {
		t.Errorf("%+v", v.Snapshot)
	}
	if a.took > 2*time.Second {
		t.Errorf("it took %v", a.took)
	}
	a = c.call(t, "snapshot", "save", "--to", dir, "--stale").want(t, codeDegraded)
	if !strings.Contains(a.out, "STALE: one member's own state") {
		t.Errorf("%s", a.out)
	}
	a = c.call(t, "snapshot", "save", "--to", filepath.Join(dir, "other"), "--local").want(t, codeDegraded)
	if a.took > 2*time.Second {
		t.Errorf("--local took %v", a.took)
	}
	// It is a snapshot like any other, and says what it is.
	if v := content(t, call(t, "snapshot", "verify", file, "--json")); !v.Snapshot.Stale {
		t.Errorf("%+v", v.Snapshot)
	}
	text := call(t, "snapshot", "drill", file).want(t, codeOK).out
	if !strings.Contains(text, "it can be restored") {
		t.Errorf("%s", text)
	}
	c.signal(t, syscall.SIGKILL, 0, 1, 2)
	c.call(t, "snapshot", "save", "--to", filepath.Join(dir, "nobody"), "--stale").want(t, codeUnreachable)
}
