//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package store

import (
	"os"
	"path/filepath"
	"testing"
)

// TestReplacedLockFile: a lock on a file that is no longer the lock file protects nothing.
func TestReplacedLockFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, lockName)
	file, err := tryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if stillAt(file, path) {
		t.Error("the replacement was not noticed")
	}
}

// closeUnreleased lets the lock go as the end of the process does.
func closeUnreleased(l *dirLock) error { return l.file.Close() }
