//go:build !wasip1 && !darwin && !dragonfly && !freebsd && !linux && !netbsd && !openbsd

package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

const holderName = "LOCK.holder"

// dirLock borrows bbolt's file lock, which exists on every system that bbolt runs on, by keeping an empty database open. The
// holder's description needs a file of its own, since the database is locked against reading too on some systems.
type dirLock struct {
	db     *bbolt.DB
	holder string
}

// lockDir waits for the lock as long as ctx and lockPatience allow.
func lockDir(ctx context.Context, dir string) (*dirLock, error) {
	patience := lockPatience
	if deadline, ok := ctx.Deadline(); ok {
		patience = min(patience, max(time.Until(deadline), time.Millisecond))
	}
	holder := filepath.Join(dir, holderName)
	db, err := bbolt.Open(filepath.Join(dir, lockName), 0o600, &bbolt.Options{Timeout: patience})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout) && ctx.Err() != nil:
		return nil, fmt.Errorf("%w: %w", &InUseError{Dir: dir, Holder: readHolder(holder)}, context.Cause(ctx))
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, &InUseError{Dir: dir, Holder: readHolder(holder)}
	case err != nil:
		return nil, &DirError{Dir: dir, Err: err}
	}
	return &dirLock{db: db, holder: holder}, nil
}

func readHolder(path string) Holder {
	var h Holder
	content, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(content, &h) != nil {
		return Holder{}
	}
	return h
}

// last is the latest holder that has not let go in order, else zero.
func (l *dirLock) last() Holder { return readHolder(l.holder) }

// announce writes down the holder, for those who find the directory locked.
func (l *dirLock) announce(h Holder) error {
	content, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return os.WriteFile(l.holder, content, 0o600)
}

// place does not know where the lock file lies: bbolt does not show it.
func (*dirLock) place(func(*os.File) (place, error)) (place, error) {
	return place{}, fmt.Errorf("on %s it cannot be proven that a former process is over: %w", runtime.GOOS, errors.ErrUnsupported)
}

func (*dirLock) found() (*mark, error) { return nil, errors.ErrUnsupported }

func (*dirLock) leave(mark) error { return errors.ErrUnsupported }

// release frees the lock. The lock file stays: removing it would let two processes lock two files of one name.
func (l *dirLock) release() error {
	return errors.Join(os.Remove(l.holder), l.db.Close())
}
