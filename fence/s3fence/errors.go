package s3fence

import (
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock/fence"
)

// The errors to branch on with errors.Is, beside those of package fence.
var (
	// ErrUnfenced: the object has no envelope, so it was written past the fence. Adopt takes it in. The error is an *EnvelopeError.
	ErrUnfenced = errors.New("the object has no fence")
	// ErrEnvelope: the object's envelope cannot be read: it is damaged, or of a later version. The error is an *EnvelopeError.
	ErrEnvelope = errors.New("the object's fence cannot be read")
	// ErrUnconditional: the store does not honour conditional writes. The error is an *UnconditionalError.
	ErrUnconditional = errors.New("the store does not honour conditional writes")
	// ErrUncertain: the write may have taken effect, or may still. The error is an *UncertainError, which matches
	// fence.ErrUnknownOutcome too: that is the one for code that works with any fence.
	ErrUncertain = errors.New("the write may have taken effect")
)

// EnvelopeError is an object that does not begin with an envelope this package can read, so nobody knows which tokens it has
// accepted. Nothing is written to it. It matches ErrUnfenced or ErrEnvelope.
type EnvelopeError struct {
	Resource string
	Problem  string
	Unfenced bool // there is no envelope at all
	Err      error
}

func (e *EnvelopeError) Error() string {
	return fmt.Sprintf("%s: %v: %s", e.Resource, e.kind(), e.Problem)
}

func (e *EnvelopeError) kind() error {
	if e.Unfenced {
		return ErrUnfenced
	}
	return ErrEnvelope
}

// Is reports whether target is the sentinel that says which of both it is.
func (e *EnvelopeError) Is(target error) bool { return target == e.kind() }

// Unwrap gives Err.
func (e *EnvelopeError) Unwrap() error { return e.Err }

// UnconditionalError is a store that failed the probe. It matches ErrUnconditional.
type UnconditionalError struct {
	Problem string // what it did
}

func (e *UnconditionalError) Error() string {
	return fmt.Sprintf("%v: it %s", ErrUnconditional, e.Problem)
}

// Is reports whether target is ErrUnconditional.
func (e *UnconditionalError) Is(target error) bool { return target == ErrUnconditional }

// UncertainError is a write that was sent, and of which nobody can say whether it took effect: no answer came and the object
// could not be read again, or it shows no trace any more, or the request may still be on its way. Whether it did can be seen in
// the object once that has been written again under the same or a later grant. It matches ErrUncertain, fence.ErrUnknownOutcome,
// and what Err matches. That may be a refusal: ask for the unknown outcome first.
type UncertainError struct {
	Resource string
	Err      error
}

func (e *UncertainError) Error() string {
	return fmt.Sprintf("%s: %v: %v", e.Resource, ErrUncertain, e.Err)
}

// Is reports whether target is ErrUncertain or fence.ErrUnknownOutcome.
func (e *UncertainError) Is(target error) bool {
	return target == ErrUncertain || target == fence.ErrUnknownOutcome
}

// Unwrap gives Err.
func (e *UncertainError) Unwrap() error { return e.Err }
