package store

import (
	"errors"
	"fmt"
	"time"
)

// ErrClosed is returned by a Store after Close.
var ErrClosed = errors.New("store is closed")

// ErrCrashed is returned by a Store whose Disk has crashed under it: for that Store the process is dead. It fells no latch.
var ErrCrashed = errors.New("process of this store has crashed")

// errNotFound is what raft expects of a StableStore for an absent key; it compares the text.
var errNotFound = errors.New("not found")

// DirError says that a data directory cannot be used. Nothing was written.
type DirError struct {
	Dir string
	Err error
}

func (e *DirError) Error() string { return fmt.Sprintf("data directory %s: %v", e.Dir, e.Err) }

// Unwrap returns the cause.
func (e *DirError) Unwrap() error { return e.Err }

// CondemnedError says that the member whose data this is must not come back with it; Reason says why. Nothing was written.
type CondemnedError struct {
	Dir    string
	Reason string
	Mark   string // the file that says so; "" where there are no files
}

func (e *CondemnedError) Error() string {
	text := fmt.Sprintf("data directory %s must not be used again: %s; emptied, it is that of a new member", e.Dir, e.Reason)
	if e.Mark != "" {
		text += fmt.Sprintf(" (%s says so)", e.Mark)
	}
	return text
}

// RefusedError says that Options.VerifySnapshot did not accept a snapshot, which was not kept. It fells no latch: what was stored before is as good as ever.
type RefusedError struct {
	Snapshot string
	Err      error
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("snapshot %s is refused: %v", e.Snapshot, e.Err)
}

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Err }

// Holder is the node that has a data directory open. Zero fields are unknown.
type Holder struct {
	PID     int       `json:"pid"`
	Host    string    `json:"host"`
	Started time.Time `json:"started"` // when that node opened the directory
}

func (h Holder) String() string {
	if h.PID == 0 && h.Host == "" {
		return "an unknown process"
	}
	return fmt.Sprintf("process %d on %s since %s", h.PID, h.Host, h.Started.Format(time.RFC3339))
}

// InUseError says that another node, perhaps in this process, has the data directory open.
type InUseError struct {
	Dir    string
	Holder Holder
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("data directory %s is in use by %v", e.Dir, e.Holder)
}

// FormatError says that the data directory was written by a newer version of this package. Nothing was written.
type FormatError struct {
	Dir              string
	Found, Supported int
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("data directory %s has format %d, this version reads up to %d", e.Dir, e.Found, e.Supported)
}

// ForeignError says that the data directory belongs to a cluster of another name. Nothing was written.
type ForeignError struct {
	Dir          string
	Found, Asked string
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("data directory %s belongs to cluster %q, not %q", e.Dir, e.Found, e.Asked)
}

// CorruptError says that something stored is not what was written. The member cannot go on; it has to be made anew with an empty
// directory, as a new member.
type CorruptError struct {
	What string // the part that is damaged, such as "raft.db" or "log entry 17"
	Err  error
}

func (e *CorruptError) Error() string { return fmt.Sprintf("%s is corrupt: %v", e.What, e.Err) }

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }

func corrupt(what, format string, args ...any) *CorruptError {
	return &CorruptError{What: what, Err: fmt.Errorf(format, args...)}
}
