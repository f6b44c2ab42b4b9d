package fence

import (
	"errors"
	"fmt"
	"strings"
)

// The errors to branch on with errors.Is. Where a caller needs facts, a typed error below carries them and matches one of these.
var (
	// ErrStaleToken: the resource has accepted a higher token than this one. The error is a *StaleTokenError.
	ErrStaleToken = errors.New("stale fencing token")
	// ErrWrongLock: the resource is guarded by another lock than the one held. The error is a *WrongLockError.
	ErrWrongLock = errors.New("resource guarded by another lock")
	// ErrNoGrant: the context carries no grant, so nothing shows that a lock is held.
	ErrNoGrant = errors.New("no grant in the context")
	// ErrFull: a Guard remembers as many resources as it may.
	ErrFull = errors.New("the guard remembers as many resources as it may")
	// ErrNotWritten: it is certain that nothing was written, though no fence refused the write: it never left or began, as that of a
	// hold that has ended, or it was taken back. It may be repeated if what failed it can pass.
	ErrNotWritten = errors.New("nothing was written")
	// ErrUnknownOutcome: the write was under way when its answer was lost, so it may have taken effect or may yet. Repeat it only if doing it twice does no harm.
	// Such an error may match others too, as those of the hold that ended meanwhile; so ask for this one first.
	ErrUnknownOutcome = errors.New("outcome of the write unknown")
	// ErrInvalid: an argument breaks a rule. The error is a *FieldError, or several joined.
	ErrInvalid = errors.New("invalid")
)

// StaleTokenError is a write that a fenced resource refused. It matches ErrStaleToken.
type StaleTokenError struct {
	Resource string
	Token    Token // the one refused
	Highest  Token // the highest accepted before; equal to Token if another cluster has granted that one
}

func (e *StaleTokenError) Error() string {
	if e.Token == e.Highest {
		return fmt.Sprintf("%s: token %v is stale: the same token of another cluster has been accepted", e.Resource, e.Token)
	}
	return fmt.Sprintf("%s: token %v is stale: %v has been accepted", e.Resource, e.Token, e.Highest)
}

// Is reports whether target is ErrStaleToken.
func (e *StaleTokenError) Is(target error) bool { return target == ErrStaleToken }

// WrongLockError is a write under a lock that is not the resource's. Two locks for one resource exclude nobody, so it is refused whatever its token.
// It matches ErrWrongLock.
type WrongLockError struct {
	Resource string
	Lock     string // the one held
	Guard    string // the one that guards the resource
}

func (e *WrongLockError) Error() string {
	return fmt.Sprintf("%s is guarded by lock %q, not by %q", e.Resource, e.Guard, e.Lock)
}

// Is reports whether target is ErrWrongLock.
func (e *WrongLockError) Is(target error) bool { return target == ErrWrongLock }

// FieldError names the argument or the configuration field that breaks a rule. It matches ErrInvalid.
type FieldError struct {
	Field   string
	Value   any // nil where it would be noise or secret
	Problem string
	Err     error // what the operating system or a layer below said, nil if it was not asked; Problem tells it
}

func (e *FieldError) Error() string {
	if e.Value == nil {
		return fmt.Sprintf("%s: %s", e.Field, e.Problem)
	}
	return fmt.Sprintf("%s %s: %s", e.Field, shown(e.Value), e.Problem)
}

// shown keeps a hostile or huge value from flooding a log.
func shown(v any) string {
	var text string
	switch v.(type) {
	case string, []string:
		text = fmt.Sprintf("%q", v)
	default:
		text = fmt.Sprint(v)
	}
	const most = 80
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

// Unwrap gives Err.
func (e *FieldError) Unwrap() error { return e.Err }

// Is reports whether target is ErrInvalid.
func (e *FieldError) Is(target error) bool { return target == ErrInvalid }
