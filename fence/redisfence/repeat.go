package redisfence

import (
	"errors"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/internal/backoff"
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

// between are the pauses from one attempt to the next.
var between = backoff.Backoff{First: 8 * time.Millisecond, Last: 512 * time.Millisecond}
