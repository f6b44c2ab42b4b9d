package fence

import "context"

// Checker keeps the highest grant that each resource has accepted, and lets a write happen only under one that the resource accepts.
type Checker interface {
	// Do judges the grant that ctx carries (see Judge), keeps it, and runs write: all of it as one atomic step, so that no write under a lower token
	// takes effect after one under a higher token has. Where the step is a transaction, write finds it in the context it is called with.
	//
	// The errors of a refusal are *StaleTokenError, *WrongLockError, *FieldError and ErrNoGrant; write has not run then. The error of write is returned such
	// that errors.Is and errors.As find it.
	Do(ctx context.Context, resource string, write func(ctx context.Context) error) error
}

// Claim makes the resource refuse every token lower than that of the grant in ctx from now on, without writing anything. Whoever computes a write from what
// it read claims before it reads: the predecessor's last write is then either in what it reads, or refused.
func Claim(ctx context.Context, c Checker, resource string) error {
	if c == nil {
		return &FieldError{Field: "checker", Problem: "must not be nil"}
	}
	return c.Do(ctx, resource, func(context.Context) error { return nil })
}
