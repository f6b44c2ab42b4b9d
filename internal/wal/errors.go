package wal

import (
	"errors"
	"fmt"
)

// ErrNotFound: the log has no entry of that index.
var ErrNotFound = errors.New("no such entry")

// ErrClosed: the log has been closed.
var ErrClosed = errors.New("log is closed")

// CorruptError says that what is stored is not what was written. Nothing was written.
type CorruptError struct {
	File string // "" if it is about the log as a whole
	Err  error
}

func (e *CorruptError) Error() string {
	if e.File == "" {
		return fmt.Sprintf("log is corrupt: %v", e.Err)
	}
	return fmt.Sprintf("log segment %s is corrupt: %v", e.File, e.Err)
}

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }

func corrupt(file, format string, args ...any) *CorruptError {
	return &CorruptError{File: file, Err: fmt.Errorf(format, args...)}
}
