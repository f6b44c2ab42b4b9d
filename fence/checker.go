package fence

import (
	"context"

	"github.com/quorumlock/quorumlock/fence/internal/arg"
)

// Checker keeps the highest grant that each resource has accepted, and lets a write happen only under one that the resource accepts.
type Checker interface {
	// Do judges the grant that ctx carries (see Judge), keeps it, and runs write: all of it as one atomic step, so that no write under a lower token
	// takes effect after one under a higher token has. Where the step is a transaction, write finds it in the context it is called with.
	//
	// If write returns an error or panics, what it did in the step is taken back; a Checker that cannot do so is a Rollbacker too,
	// and says so.
	//
	// The errors of a refusal are *StaleTokenError, *WrongLockError, *FieldError and ErrNoGrant; write has not run then. The error
	// of write is returned such that errors.Is and errors.As find it. One that leaves open whether the step took effect matches
	// ErrUnknownOutcome, whatever else it matches; any other after write succeeded is taken for such a one, unless it matches
	// ErrNotWritten.
	Do(ctx context.Context, resource string, write func(ctx context.Context) error) error
}

// Rollbacker may be implemented by a Checker to say whether it takes back what a write did that failed. A Checker that wraps
// another answers what RollsBack says of that one.
type Rollbacker interface {
	Checker
	// RollsBack is false if what a write did stands although it returned an error or panicked. Such a Checker must not run a write
	// twice.
	RollsBack() bool
}

// RollsBack reports whether c takes back what a write did that failed: what c says if it is a Rollbacker, else true.
// httpfence.Handler and grpcfence.Check ask it before they tell a client that nothing was written.
func RollsBack(c Checker) bool {
	r, ok := c.(Rollbacker)
	return !ok || r.RollsBack()
}

// Claim makes the resource refuse every token lower than that of the grant in ctx from now on, without writing anything. Whoever computes a write from what
// it read claims before it reads: the predecessor's last write is then either in what it reads, or refused.
func Claim(ctx context.Context, c Checker, resource string) error {
	if arg.IsNil(c) {
		return &FieldError{Field: "checker", Problem: "must not be nil"}
	}
	return c.Do(ctx, resource, func(context.Context) error { return nil })
}
