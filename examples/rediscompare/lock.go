//go:build unix

package main

import (
	"context"

	"github.com/quorumlock/quorumlock/fence"
)

// The systems that are compared.
const (
	kindSingle  = "single"     // one Redis, or a primary with a replica
	kindRedlock = "redlock"    // independent Redis servers
	kindQuorum  = "quorumlock" // the workers themselves
)

// locker is one system as a worker uses it.
type locker interface {
	// acquire waits for a lock; ctx bounds the wait. With fenced the hold is to have a token, if the system can give one at all.
	acquire(ctx context.Context, name string, fenced bool) (hold, error)
	// ready waits until the system grants locks, and tells how it is.
	ready(ctx context.Context) (status, error)
	close() error
}

// hold is one grant.
type hold interface {
	// held tells whether the holder may believe in its grant, by the best means that the system has. Where the holder itself
	// has to extend its grant in time, that is done here.
	held(ctx context.Context) bool
	// grant is what the fence is shown, zero if the system gives no token.
	grant() fence.Grant
	// value is the random value that tells this grant from others, "" if the system has none.
	value() string
	// release gives the lock back. The error may be that it had been lost before.
	release(ctx context.Context) error
}

// status is what a worker knows of its system. Systems without members leave it zero.
type status struct {
	Voters int    `json:",omitempty"`
	Leader string `json:",omitempty"` // name of the instance that leads in raft
}
