package watch

import (
	"errors"
	"fmt"
)

// ErrFellBehind: events were missed, so the watch has ended. The error is a *FellBehindError.
var ErrFellBehind = errors.New("watch fell behind")

// FellBehindError says what was missed: the events with revisions above Since, up to Now and from there on. A watcher
// goes on by reading the present state (Inspect, Locks) and watching from the revision of what it read; or from Since,
// if the node still keeps the events from there on.
type FellBehindError struct {
	Since int64 // everything up to here has been delivered
	Now   int64 // the node's newest revision when it gave up on the watch
}

func (e *FellBehindError) Error() string {
	return fmt.Sprintf("%v: revisions after %d are missing, now at %d", ErrFellBehind, e.Since, e.Now)
}

// Is reports whether target is ErrFellBehind.
func (e *FellBehindError) Is(target error) bool { return target == ErrFellBehind }
