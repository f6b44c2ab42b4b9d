package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestCopyTree(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "tree")
	for _, name := range []string{
		"go.mod", "a.go", "untracked.txt", ".hidden", "sub/testdata/x.golden", ".git/config", "sub/.cache/y", self + "/bugs.go",
		"internal/simulation/simulation.go",
	} {
		path := filepath.Join(from, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, path, name)
	}
	script := filepath.Join(from, "run")
	write(t, script, "#!")
	if err := os.Chmod(script, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := copyTree(from, to); err != nil {
		t.Fatal(err)
	}
	want := []string{".hidden", "a.go", "go.mod", "internal/simulation/simulation.go", "run", "sub/testdata/x.golden", "untracked.txt"}
	if got := filesIn(t, to); !slices.Equal(got, want) {
		t.Errorf("copied %v, want %v", got, want)
	}
	if got := read(t, filepath.Join(to, "a.go")); got != "a.go" {
		t.Errorf("content %q", got)
	}
	if info, err := os.Stat(filepath.Join(to, "run")); err != nil || info.Mode().Perm()&0o100 == 0 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func filesIn(t *testing.T, root string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(root, path)
			list = append(list, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}
