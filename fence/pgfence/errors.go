package pgfence

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/internal/ended"
)

// UnknownOutcomeError: the commit was sent, and no answer to it came that tells whether it took effect. It is never retried
// by itself, since the write could happen twice.
//
// To find out, write a row with an id of the operation in the same transaction as its effect, and look for it by another Tx:
// its claim waits until the earlier transaction has ended, if that still runs, so that what is seen after it is final. If the
// grant has been succeeded by then the claim is refused, and it is the successor, who reads after its own claim, who knows.
//
// It is also what comes of a function that hid the error of a statement, of which the drivers tell by errors of their own kinds,
// and of one that has committed or rolled back by itself.
type UnknownOutcomeError struct {
	Resource string
	Err      error // what the driver said
}

func (e *UnknownOutcomeError) Error() string {
	return fmt.Sprintf("pgfence: %q: whether the transaction was committed is not known: %v", e.Resource, e.Err)
}

// Unwrap gives Err.
func (e *UnknownOutcomeError) Unwrap() error { return e.Err }

// Is reports whether target is fence.ErrUnknownOutcome.
func (e *UnknownOutcomeError) Is(target error) bool { return target == fence.ErrUnknownOutcome }

// The conditions of PostgreSQL (its manual, appendix A) that tell whether a transaction is to be run again.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	completionUnknown    = "40003"
)

// sqlState is the condition that the server named, "" if err does not come from it. Both drivers have the method on their
// error types.
func sqlState(err error) string {
	var e interface{ SQLState() string }
	if errors.As(err, &e) {
		return e.SQLState()
	}
	return ""
}

// transient reports whether err is of a transaction that the server has rolled back only because of others that ran at the
// same time.
func transient(err error) bool {
	var unknown *UnknownOutcomeError
	if errors.As(err, &unknown) {
		return false
	}
	state := sqlState(err)
	return state == serializationFailure || state == deadlockDetected
}

// rolledBack reports whether an error of COMMIT proves that nothing was committed: the server has answered, with a condition
// other than one under which it gives up a connection whatever became of the transaction (shutdown, cancel, input and output,
// resources, the connection itself).
func rolledBack(err error) bool {
	state := sqlState(err)
	if len(state) != 5 || state == completionUnknown {
		return false
	}
	for _, class := range []string{"08", "53", "57", "58", "XX"} {
		if strings.HasPrefix(state, class) {
			return false
		}
	}
	return true
}

// withContext adds the error of ctx, and its cause, to one that a driver made of it: not all of them say so.
func withContext(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return ended.Join(ended.Err(ctx), err)
}

// notWritten is of a transaction that is known not to have been committed, though its function succeeded.
func notWritten(resource string, err error) error {
	return fmt.Errorf("pgfence: %q: %w: %w", resource, fence.ErrNotWritten, err)
}
