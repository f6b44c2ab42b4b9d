package scenario_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/clock"
	"github.com/quorumlock/quorumlock/internal/sim"
	"github.com/quorumlock/quorumlock/transport"
)

func inDir(dir string) quorumlock.Config {
	cfg := quorumlock.Config{
		Cluster: "test", Name: "alone", Addr: "host:7000", Dir: dir, Expect: 1, AllowPlaintext: true, Transport: transport.NewMemory(1).Host("host"),
	}
	sim.Attach(&cfg, &sim.Env{Clock: clock.NewFake(), MemoryGossip: true})
	return cfg
}

// In a directory of files: one that is absent or empty, or has what an interrupted restore leaves, is taken; one in which anything else is, is refused and stays as
// it is. A second restore of what was restored is refused, too.
func TestRestoreIntoADirectory(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk, last := recoverable(t)
		n, err := quorumlock.Open(context.Background(), aloneOn(disk))
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		readyIn(t, n, restartBound)
		snapshot, _ := snapshotFrom(t, n)
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		clockPassesTokens()
		restore := func(dir string, dry bool) (*quorumlock.Restoration, error) {
			return quorumlock.Restore(context.Background(), inDir(dir), quorumlock.RestoreOptions{From: bytes.NewReader(snapshot), DryRun: dry})
		}
		interrupted := func(dir string) { // before the new cluster took the place of nothing
			n, err := quorumlock.Open(context.Background(), inDir(dir+"-other"))
			if err != nil {
				t.Fatal(err)
			}
			_ = n.Close()
			for _, name := range []string{"LOCK", "meta.tmp"} {
				if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		for name, prepare := range map[string]func(dir string){
			"absent": func(dir string) { _ = os.Remove(dir) }, "empty": func(string) {}, "interrupted": interrupted,
			"a file system's": func(dir string) { _ = os.Mkdir(filepath.Join(dir, "lost+found"), 0o700) },
		} {
			dir := filepath.Join(t.TempDir(), "data")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			prepare(dir)
			before := filesIn(t, dir)
			if _, err := restore(dir, true); err != nil {
				t.Fatalf("%s, dry: %v", name, err)
			}
			if after := filesIn(t, dir); after != before {
				t.Errorf("%s: the dry run left %s of %s", name, after, before)
			}
			r, err := restore(dir, false)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			var field *quorumlock.FieldError
			for _, dry := range []bool{true, false} {
				if _, err := restore(dir, dry); !errors.As(err, &field) || field.Field != "Config.Dir" {
					t.Errorf("%s, once more, dry %v: %v", name, dry, err)
				}
			}
			start := time.Now()
			n, err := quorumlock.Open(context.Background(), inDir(dir))
			if err != nil {
				t.Fatal(err)
			}
			if h := lockAfter(t, n, "k", start, r.Quarantine); h.Token() <= last || n.ClusterID() != r.ClusterID || n.ID() != r.ServerID {
				t.Errorf("%s: token %v after %v, cluster %s of %+v", name, h.Token(), last, n.ClusterID(), r)
			}
			if _, err := restore(dir, false); !errors.As(err, &field) || field.Field != "Config.Dir" {
				t.Errorf("%s, while the node runs: %v", name, err)
			}
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
		}
		full := t.TempDir()
		if err := os.WriteFile(filepath.Join(full, "somebody's"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		before := filesIn(t, full)
		var field *quorumlock.FieldError
		for _, dry := range []bool{true, false} {
			if _, err := restore(full, dry); !errors.As(err, &field) || field.Field != "Config.Dir" {
				t.Errorf("not empty, dry %v: %v", dry, err)
			}
		}
		if after := filesIn(t, full); after != before {
			t.Errorf("%s instead of %s", after, before)
		}
	})
}

// filesIn lists a directory.
func filesIn(t *testing.T, dir string) (names string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		names += e.Name() + " "
	}
	return names
}

// S36, A5: a machine whose clock is behind the snapshot's own time restores nothing by itself; with a floor that somebody knows it does.
func TestRestoreWithAClockBehind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk, last := recoverable(t)
		n, err := quorumlock.Open(context.Background(), aloneOn(disk))
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		readyIn(t, n, restartBound)
		snapshot, _ := snapshotFrom(t, n)
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		cfg := inDir(filepath.Join(t.TempDir(), "data"))
		behind := clock.NewFake()
		behind.StepWall(-2 * time.Hour)
		sim.Attached(&cfg).Clock = behind
		var field *quorumlock.FieldError
		_, err = quorumlock.Restore(context.Background(), cfg, quorumlock.RestoreOptions{From: bytes.NewReader(snapshot)})
		if !errors.As(err, &field) || field.Field != "RestoreOptions.TokenFloor" {
			t.Fatalf("with a clock behind: %v", err)
		}
		floor := last + 5_000_000_000
		r, err := quorumlock.Restore(context.Background(), cfg, quorumlock.RestoreOptions{From: bytes.NewReader(snapshot), TokenFloor: floor})
		if err != nil || r.TokensAbove <= floor {
			t.Errorf("%+v, %v, floor %v", r, err, floor)
		}
	})
}
