//go:build !wasip1 && !darwin && !dragonfly && !freebsd && !linux && !netbsd && !openbsd

package store

// closeUnreleased lets the lock go as the end of the process does.
func closeUnreleased(l *dirLock) error { return l.db.Close() }
