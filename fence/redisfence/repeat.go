package redisfence

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/fence"
)

// lostError is what a Client says when no answer came.
type lostError struct{ err error }

func (e *lostError) Error() string { return e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

// again tells whether an attempt that ended with err is made again: if no answer came, or a refusal for a time.
func again(err error) bool {
	var lost *lostError
	var refused *ServerError
	switch {
	case errors.Is(err, fence.ErrInvalid): // a client that is none
		return false
	case errors.As(err, &lost):
		return true
	case errors.As(err, &refused):
		return passing(refused.Message)
	}
	return false
}

// passing tells of an answer that says nothing of the command: a server that is starting, in a failover, or in a cluster that is
// moving slots.
func passing(message string) bool {
	for _, code := range []string{"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "ERR max number of clients"} {
		if strings.HasPrefix(message, code) {
			return true
		}
	}
	return false
}

const (
	firstPause = 8 * time.Millisecond
	lastPause  = 512 * time.Millisecond
)

// pause waits for a random time that grows with each attempt. The error is that of ctx, with its cause.
func pause(ctx context.Context, attempt int) error {
	timer := time.NewTimer(rand.N(min(firstPause<<min(attempt, 16), lastPause)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ended(ctx)
}
