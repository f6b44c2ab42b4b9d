// Package ended has the errors of contexts that have ended: each tells the end itself and why it came, such as a hold that was
// lost.
package ended

import (
	"context"
	"strings"
)

// Err is nil until ctx has ended; then the error is found by errors.Is and errors.As as ctx.Err and as context.Cause.
func Err(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return Join(ctx.Err(), context.Cause(ctx))
}

// Join makes one error of several, which tells each once, though one may wrap another. Those that are nil do not count. The
// errors are never compared with each other: those of a caller's types may have no equality, and comparing them would panic.
func Join(errs ...error) error {
	j := &joined{}
	var text []string
	for _, err := range errs {
		if err == nil {
			continue
		}
		j.errs = append(j.errs, err)
		if t := err.Error(); !strings.Contains(strings.Join(text, ": "), t) {
			text = append(text, t)
		}
	}
	if len(j.errs) == 0 {
		return nil
	}
	j.text = strings.Join(text, ": ")
	return j
}

type joined struct {
	text string
	errs []error
}

func (j *joined) Error() string   { return j.text }
func (j *joined) Unwrap() []error { return j.errs }
