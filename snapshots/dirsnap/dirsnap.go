// Package dirsnap keeps snapshots in a directory. It is a backup only if the directory lies on another disk than the
// data of the nodes: a network file system that all of them have mounted, as a rule.
package dirsnap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/snapshots"
)

// Store is one directory, of which each object is a file. Files of other names than snapshots.CheckName accepts are not
// touched, but for temporary ones (".snapshot-*.tmp"), which are removed when they are a day old.
//
// The file system must have hard links: by a link a file gets its name only if nobody has it, on a network too. A call
// into one that hangs cannot be ended by a context: a node that closes meanwhile returns after its bound and says that a
// write hangs, and its data directory stays in use until it returns. Mount such file systems so that they give up.
type Store struct{ dir string }

var _ snapshots.Store = (*Store)(nil)

// New gives the store of a directory. The first Create makes it if its parent exists; until then it counts as empty.
func New(dir string) *Store { return &Store{dir: dir} }

const (
	tempPattern = ".snapshot-*.tmp"
	strayAge    = 24 * time.Hour // older than any upload that goes on
)

func (s *Store) path(ctx context.Context, name string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if s == nil || s.dir == "" {
		return "", errors.New("no directory is named")
	}
	return filepath.Join(s.dir, name), snapshots.CheckName(name)
}

// Create is snapshots.Store.Create: a temporary file, synced, which is then linked to its name.
func (s *Store) Create(ctx context.Context, name string, write func(w io.Writer) error) error {
	path, err := s.path(ctx, name)
	if err != nil {
		return fmt.Errorf("create snapshot: %w", err)
	}
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("create snapshot: %w: %s", snapshots.ErrExists, path)
	}
	if err := s.make(); err != nil {
		return fmt.Errorf("create snapshot: %w", err)
	}
	s.sweep()
	temp, err := s.fill(ctx, write)
	if err != nil {
		return fmt.Errorf("create snapshot: %w", err)
	}
	err = os.Link(temp, path)
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%w: %s", snapshots.ErrExists, path)
	}
	_ = os.Remove(temp) // what is left of it is swept up
	if err == nil {
		err = syncDir(s.dir)
	}
	if err != nil {
		return fmt.Errorf("create snapshot: %w", err)
	}
	return nil
}

// make makes the directory itself, not its parents: a path that is not mounted should not be brought to life.
func (s *Store) make() error {
	err := os.Mkdir(s.dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(s.dir))
}

// fill writes a temporary file, and leaves none after an error.
func (s *Store) fill(ctx context.Context, write func(w io.Writer) error) (path string, err error) {
	f, err := os.CreateTemp(s.dir, tempPattern)
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	err = write(heeding{ctx, f})
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = ctx.Err() // to sync may take long
	}
	return f.Name(), err
}

// heeding is a file that is written or read until ctx ends.
type heeding struct {
	ctx  context.Context
	file *os.File
}

func (h heeding) Write(p []byte) (int, error) {
	if err := h.ctx.Err(); err != nil {
		return 0, err
	}
	return h.file.Write(p)
}

func (h heeding) Read(p []byte) (int, error) {
	if err := h.ctx.Err(); err != nil {
		return 0, err
	}
	return h.file.Read(p)
}

func (h heeding) Close() error { return h.file.Close() }

// sweep removes what a process that was killed has left. Nothing depends on its success.
func (s *Store) sweep() {
	entries, _ := os.ReadDir(s.dir)
	for _, e := range entries {
		if stray, _ := filepath.Match(tempPattern, e.Name()); !stray {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > strayAge {
			_ = os.Remove(filepath.Join(s.dir, e.Name()))
		}
	}
}

// Open is snapshots.Store.Open.
func (s *Store) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	path, err := s.path(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("open snapshot: %w", err)
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %s", snapshots.ErrNotFound, path)
	}
	if err != nil {
		return nil, fmt.Errorf("open snapshot: %w", err)
	}
	return heeding{ctx, f}, nil
}

// List is snapshots.Store.List.
func (s *Store) List(ctx context.Context, prefix string) ([]snapshots.Object, error) {
	if _, err := s.path(ctx, "any"); err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	var found []snapshots.Object
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) || snapshots.CheckName(e.Name()) != nil {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("list snapshots: %w", err)
		}
		if info.Mode().IsRegular() {
			found = append(found, snapshots.Object{Name: e.Name(), Size: info.Size(), Modified: info.ModTime()})
		}
	}
	slices.SortFunc(found, func(a, b snapshots.Object) int { return strings.Compare(a.Name, b.Name) })
	return found, ctx.Err()
}

// Remove is snapshots.Store.Remove.
func (s *Store) Remove(ctx context.Context, name string) error {
	path, err := s.path(ctx, name)
	if err != nil {
		return fmt.Errorf("remove snapshot: %w", err)
	}
	switch err := os.Remove(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("remove snapshot: %w", err)
	}
	if err := syncDir(s.dir); err != nil {
		return fmt.Errorf("remove snapshot: %w", err)
	}
	return nil
}

// syncDir makes names in a directory durable. Windows has no such call and needs none.
func syncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
