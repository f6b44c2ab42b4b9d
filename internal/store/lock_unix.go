//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const lockRetry = 20 * time.Millisecond

// dirLock is a flock on the lock file, held until release or the end of the process. flock and not fcntl: fcntl's lock would let
// a second node of the same process in, and would be lost when any descriptor of the file is closed.
//
// A later start draws conclusions from getting the lock, so nothing else may free it: children do not inherit the file, and the watchdog's goroutine keeps
// a Store that was forgotten, and so the file, from the garbage collector.
type dirLock struct {
	file *os.File

	mu        sync.Mutex  // guards what follows, and the writes: the mark may be settled while the store is closed
	content   lockContent // as in the file
	damage    error       // why content was not there to be read
	announced bool        // the file is to be rewritten at the end
}

// lockContent is what stands in the lock file, as JSON.
type lockContent struct {
	Holder
	Mark *mark `json:"mark,omitempty"` // of the latest incarnation
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
			content, damage := readLock(file)
			return &dirLock{file: file, content: content, damage: damage}, nil
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
		content, _ := readLock(file) // it may be just being written
		err = &InUseError{Holder: content.Holder}
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

// readLock reads what stands in the lock file. An empty one has never been announced: errRemade.
func readLock(file *os.File) (lockContent, error) {
	var c lockContent
	content := make([]byte, 4096)
	n, err := file.ReadAt(content, 0)
	switch {
	case err != nil && err != io.EOF:
		return lockContent{}, fmt.Errorf("the lock file cannot be read: %w", err)
	case n == 0:
		return lockContent{}, errRemade
	}
	if err := json.Unmarshal(content[:n], &c); err != nil {
		return lockContent{}, fmt.Errorf("the lock file holds something else than a mark: %w", err)
	}
	return c, nil
}

// announce writes the holder into the lock file, for those who find it locked. The mark stays: what it proves does not depend on who comes after.
func (l *dirLock) announce(h Holder) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.content.Holder, l.announced = h, true
	return l.write()
}

// last is the holder found in the file: of the latest one that has not let go in order, else zero.
func (l *dirLock) last() Holder { return l.content.Holder }

// place is where the lock file lies; of is the kernel's word if nil.
func (l *dirLock) place(of func(*os.File) (place, error)) (place, error) {
	if of == nil {
		of = kernelPlace
	}
	return of(l.file)
}

// found is the mark of the latest incarnation, nil for none, or why it could not be read.
func (l *dirLock) found() (*mark, error) { return l.content.Mark, l.damage }

// leave writes the mark through the descriptor that has the lock, and so into no other file than the locked one. It is synced although after a power failure the
// machine's boot is another one: a file system can be taken away and come back without that.
func (l *dirLock) leave(m mark) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.content.Mark = &m
	if err := l.write(); err != nil {
		return err
	}
	if err := l.file.Sync(); err != nil {
		return err
	}
	return syncDir(filepath.Dir(l.file.Name()))
}

// write empties the file first, so that one cut short by the end of the process is never a mixture of two marks.
func (l *dirLock) write() error {
	content, err := json.Marshal(l.content)
	if err != nil {
		return err
	}
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err = l.file.WriteAt(content, 0)
	return err
}

// release frees the lock. The file stays: removing it would let two processes lock two files of one name. So does the mark in it: the sessions of a node that was
// closed without a quorum are still there.
func (l *dirLock) release() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	if l.announced {
		l.content.Holder = Holder{}
		err = l.write()
	}
	return errors.Join(err, l.file.Close())
}
