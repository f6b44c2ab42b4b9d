// Package backoff spaces the attempts of those who failed together.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/quorumlock/quorumlock/fence/internal/ended"
)

// Backoff is the range of the longest pauses: First for attempt 0, doubled with each attempt up to Last. Both are positive.
type Backoff struct{ First, Last time.Duration }

// Pause waits a random time up to the longest pause of the attempt, so that those who met do not meet again, or until ctx ends.
// The error is that of ctx, with its cause.
func (b Backoff) Pause(ctx context.Context, attempt int) error {
	timer := time.NewTimer(rand.N(b.longest(attempt)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ended.Err(ctx)
}

func (b Backoff) longest(attempt int) time.Duration {
	longest := b.First
	for range attempt {
		if longest >= b.Last/2 {
			return b.Last
		}
		longest *= 2
	}
	return min(longest, b.Last)
}
