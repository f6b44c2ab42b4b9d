//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const lockRetry = 20 * time.Millisecond

// dirLock is a flock on the lock file, held until release or the end of the process. flock and not fcntl: fcntl's lock would let
// a second node of the same process in, and would be lost when any descriptor of the file is closed.
type dirLock struct {
	file *os.File
}

// lockDir waits for the lock as long as ctx and lockPatience allow.
func lockDir(ctx context.Context, dir string) (*dirLock, error) {
	patience := time.NewTimer(lockPatience)
	defer patience.Stop()
	retry := time.NewTicker(lockRetry)
	defer retry.Stop()
	for {
		file, err := tryLock(filepath.Join(dir, lockName))
		if err == nil {
			return &dirLock{file: file}, nil
		}
		var inUse *InUseError
		if !errors.As(err, &inUse) {
			return nil, &DirError{Dir: dir, Err: err}
		}
		inUse.Dir = dir
		select {
		case <-retry.C:
		case <-patience.C:
			return nil, inUse
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", inUse, context.Cause(ctx))
		}
	}
}

// tryLock returns the locked file or an *InUseError with the holder.
func tryLock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = flock(file)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = &InUseError{Holder: readHolder(file)}
	} else if err == nil && !stillAt(file, path) {
		err = &InUseError{} // removed or replaced while we waited; look again
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

func flock(file *os.File) error {
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func stillAt(file *os.File, path string) bool {
	ours, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(ours, there)
}

func readHolder(file *os.File) Holder {
	var h Holder
	content := make([]byte, 4096)
	n, _ := file.ReadAt(content, 0)
	if json.Unmarshal(content[:n], &h) != nil {
		return Holder{} // being written
	}
	return h
}

// announce writes the holder into the lock file, for those who find it locked.
func (l *dirLock) announce(h Holder) error {
	content, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err = l.file.WriteAt(content, 0)
	return err
}

// release frees the lock. The file stays: removing it would let two processes lock two files of one name.
func (l *dirLock) release() error {
	return errors.Join(l.file.Truncate(0), l.file.Close())
}
