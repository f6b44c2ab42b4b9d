package redisfence

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/fence"
)

// The errors to branch on with errors.Is, beside those of package fence.
var (
	// ErrUncertain: the write may have taken effect, or may still. The error is an *UncertainError, which matches
	// fence.ErrUnknownOutcome too: that is the one for code that works with any fence.
	ErrUncertain = errors.New("the write may have taken effect")
	// ErrCommand: a command of the write failed; those before it have taken effect. The error is a *CommandError.
	ErrCommand = errors.New("a command of the write failed")
	// ErrUnreplicated: the write took effect, but too few replicas confirmed it. The error is a *ReplicationError.
	ErrUnreplicated = errors.New("too few replicas have the write")
	// ErrDamaged: the resource's fence cannot be read. The error is a *DamagedError.
	ErrDamaged = errors.New("the fence cannot be read")
	// ErrEvicts: the server may evict the fence. The error is an *EvictionError.
	ErrEvicts = errors.New("the server evicts keys that have no TTL")
)

// UncertainError is a write that was sent and got no answer, or none that tells. It matches ErrUncertain, fence.ErrUnknownOutcome,
// and what Err matches. That may be a refusal: ask for the unknown outcome first.
type UncertainError struct {
	Resource string
	Err      error
}

func (e *UncertainError) Error() string {
	return fmt.Sprintf("%s: %v: %v", e.Resource, ErrUncertain, e.Err)
}

// Is reports whether target is ErrUncertain or fence.ErrUnknownOutcome.
func (e *UncertainError) Is(target error) bool {
	return target == ErrUncertain || target == fence.ErrUnknownOutcome
}

// Unwrap gives Err.
func (e *UncertainError) Unwrap() error { return e.Err }

// CommandError is a write that ended midway: the commands before this one have taken effect, and the grant is accepted. It
// matches ErrCommand.
type CommandError struct {
	Resource string
	Index    int    // of the command, from 0
	Name     string // of the command
	Message  string // what the server said
}

func (e *CommandError) Error() string {
	return fmt.Sprintf("%s: command %d, %s: %s; those before it have taken effect", e.Resource, e.Index, e.Name, e.Message)
}

// Is reports whether target is ErrCommand.
func (e *CommandError) Is(target error) bool { return target == ErrCommand }

// ReplicationError is a write that took effect on the server, and may be lost in a failover. It matches ErrUnreplicated.
type ReplicationError struct {
	Resource    string
	Wanted, Got int
	After       time.Duration
}

func (e *ReplicationError) Error() string {
	return fmt.Sprintf("%s: written, but %d replicas of %d confirmed it within %v", e.Resource, e.Got, e.Wanted, e.After)
}

// Is reports whether target is ErrUnreplicated.
func (e *ReplicationError) Is(target error) bool { return target == ErrUnreplicated }

// DamagedError is a fence's key that somebody else has written. Nothing is written past it. It matches ErrDamaged.
type DamagedError struct {
	Resource string
	Key      string
	Problem  string
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s: %v: %q: %s", e.Resource, ErrDamaged, e.Key, e.Problem)
}

// Is reports whether target is ErrDamaged.
func (e *DamagedError) Is(target error) bool { return target == ErrDamaged }

// EvictionError is a server that may forget a fence when it is short of memory. It matches ErrEvicts.
type EvictionError struct {
	Resource string
	Policy   string // the server's maxmemory-policy
}

func (e *EvictionError) Error() string {
	return fmt.Sprintf("%s: %v (maxmemory-policy %s)", e.Resource, ErrEvicts, e.Policy)
}

// Is reports whether target is ErrEvicts.
func (e *EvictionError) Is(target error) bool { return target == ErrEvicts }
