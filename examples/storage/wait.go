//go:build unix

package main

import (
	"context"
	"fmt"
	"time"
)

// within bounds a wait; what names what has not happened when it ends.
func within(ctx context.Context, d time.Duration, what string) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("%s within %v", what, d))
}

// sleep returns the cause of ctx if that ends first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

const pollPause = 25 * time.Millisecond

// poll asks until the answer is no error. When ctx ends first the error is its cause, with the last answer.
func poll(ctx context.Context, ask func() error) error {
	for {
		err := ask()
		if err == nil {
			return nil
		}
		if sleep(ctx, pollPause) != nil {
			return fmt.Errorf("%w; last answer: %w", context.Cause(ctx), err)
		}
	}
}
