package dirsnap_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/snapshots"
	"github.com/quorumlock/quorumlock/snapshots/dirsnap"
	"github.com/quorumlock/quorumlock/snapshots/snaptest"
)

func TestDirectory(t *testing.T) {
	t.Run("absent", func(t *testing.T) {
		snaptest.Test(t, func(t *testing.T) snapshots.Store { return dirsnap.New(filepath.Join(t.TempDir(), "snapshots")) })
	})
	t.Run("empty", func(t *testing.T) {
		snaptest.Test(t, func(t *testing.T) snapshots.Store { return dirsnap.New(t.TempDir()) })
	})
}

// What a killed process left is removed when it is old enough to be nobody's, and never listed; nothing else is touched.
func TestStrayFiles(t *testing.T) {
	dir := t.TempDir()
	s := dirsnap.New(dir)
	old := time.Now().Add(-25 * time.Hour)
	for name, modified := range map[string]time.Time{".snapshot-1.tmp": old, ".snapshot-2.tmp": time.Now(), ".other": old, "with space": old} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, modified, modified); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "directory"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.Create(context.Background(), "name", func(io.Writer) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if found, err := s.List(context.Background(), ""); err != nil || len(found) != 1 || found[0].Name != "name" {
		t.Errorf("%+v, %v", found, err)
	}
	for name, there := range map[string]bool{".snapshot-1.tmp": false, ".snapshot-2.tmp": true, ".other": true, "with space": true, "directory": true} {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != there {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A path that is not mounted is not brought to life, and a file is no directory.
func TestNoDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Join(t.TempDir(), "absent", "snapshots"), file, ""} {
		err := dirsnap.New(dir).Create(context.Background(), "name", func(io.Writer) error { return nil })
		if err == nil || errors.Is(err, snapshots.ErrExists) {
			t.Errorf("%q: %v", dir, err)
		}
	}
}
