//go:build unix

package demokit

import (
	"context"
	"fmt"
	"time"
)

// Within bounds a wait; what names what has not happened when it ends.
func Within(ctx context.Context, d time.Duration, what string) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("%s within %v", what, d))
}

// Sleep returns the cause of ctx if that ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// PollPause is the time between two questions of Poll.
const PollPause = 25 * time.Millisecond

// Poll asks until the answer is no error. When ctx ends first the error is its cause, with the last answer.
func Poll(ctx context.Context, ask func() error) error {
	for {
		err := ask()
		if err == nil {
			return nil
		}
		if Sleep(ctx, PollPause) != nil {
			return fmt.Errorf("%w; last answer: %w", context.Cause(ctx), err)
		}
	}
}
