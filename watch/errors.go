package watch

import (
	"errors"
	"fmt"
)

var (
	// ErrFellBehind: events were missed, so the subscription has ended. The error is a *FellBehindError.
	ErrFellBehind = errors.New("watch fell behind")
	// ErrClosed: the subscription was closed by its owner, or the hub without a cause.
	ErrClosed = errors.New("watch closed")
	// ErrOutOfOrder: Publish was given a revision that does not follow the one before. It is an internal error of the caller.
	ErrOutOfOrder = errors.New("events out of revision order")
)

// FellBehindError says what was missed: events with revisions above Since, up to Now and from there on. A subscriber goes on by
// reading the present state and subscribing from the revision of what it read.
type FellBehindError struct {
	Since int64 // everything up to here has been delivered
	Now   int64 // revision of the hub when it gave up on the subscription
}

func (e *FellBehindError) Error() string {
	return fmt.Sprintf("%v: revisions after %d are missing, now at %d", ErrFellBehind, e.Since, e.Now)
}

// Is makes errors.Is(err, ErrFellBehind) true.
func (e *FellBehindError) Is(target error) bool { return target == ErrFellBehind }
