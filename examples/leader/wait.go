package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const pollPause = 50 * time.Millisecond

// within bounds a wait; what names what has not happened when it ends.
func within(ctx context.Context, d time.Duration, what string) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("%s within %v", what, d))
}

// poll asks until the answer is no error. When ctx ends first the error is its cause, with the last answer.
func poll(ctx context.Context, ask func() error) error {
	for {
		err := ask()
		if err == nil {
			return nil
		}
		if cause := context.Cause(ctx); errors.Is(err, cause) {
			return cause
		} else if cause != nil {
			return fmt.Errorf("%w; last answer: %w", cause, err)
		}
		sleep(ctx, pollPause)
	}
}
