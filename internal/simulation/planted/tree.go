package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// workspace is a private copy of the source tree with a place for everything that the go command writes beside it. Bugs are planted in the
// copy: whoever edits the tree meanwhile does not change what is being tested, and a run that is killed leaves no bug behind.
type workspace struct {
	dir  string // of everything
	tree string // the copy
	temp string // TMPDIR of what runs
}

// self is this package's own folder. It is not copied: its test would find each bug by the edit that no longer applies.
const self = "internal/simulation/planted"

// newWorkspace copies the tree at root.
func newWorkspace(root string) (*workspace, error) {
	dir, err := os.MkdirTemp("", "planted-")
	if err != nil {
		return nil, err
	}
	w := &workspace{dir: dir, tree: filepath.Join(dir, "tree"), temp: filepath.Join(dir, "tmp")}
	err = os.Chmod(dir, 0o711) // a server that a test starts may have to run as another user than root, below temp
	if err == nil {
		err = os.Mkdir(w.temp, 0o755)
	}
	if err == nil {
		err = copyTree(root, w.tree)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("copy the tree: %w", err), w.remove())
	}
	return w, nil
}

func (w *workspace) remove() error { return os.RemoveAll(w.dir) }

// copyTree copies all files, tracked or not, except those of folders whose name begins with a dot, and this package.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && rel != "." && strings.HasPrefix(d.Name(), "."), filepath.ToSlash(rel) == self:
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		return copyFile(path, filepath.Join(to, rel))
	})
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, info.Mode().Perm())
}

// command is a go command in the copy. It runs in a process group of its own, which ends as a whole when ctx does: the go command does not
// pass its own end on to the tests it has started.
func (w *workspace) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = w.tree
	// With the tree's own go.work, if it has one: the tests nearest to a bug may be in another module.
	cmd.Env = append(os.Environ(), "TMPDIR="+w.temp, "TEMP="+w.temp, "TMP="+w.temp, "GOWORK=")
	groupOfItsOwn(cmd)
	return cmd
}

// compile vets the package in a folder of the tree, which compiles it with its tests.
func (w *workspace) compile(ctx context.Context, folder string) error {
	out, err := w.command(ctx, "vet", "./"+folder).CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("it does not compile: go vet ./%s: %w\n%s", folder, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// moduleRoot is the root of the module in whose tree the command runs.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	gomod := strings.TrimSpace(string(out))
	if filepath.Base(gomod) != "go.mod" {
		return "", errors.New("not inside a module: run this in the source tree")
	}
	return filepath.Dir(gomod), nil
}
