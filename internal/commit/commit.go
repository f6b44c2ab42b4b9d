// Package commit is the leader's group commit: commands that arrive while a write is in flight share the next log entry.
//
// A write to a majority of disks costs about a millisecond however much it carries, so the commands of all callers of all nodes are
// gathered into few entries. Nothing waits for company: if a slot is free, what is queued is sent at once, and only while all slots
// are busy do commands gather. Renewals are the exception. There are many, each may wait a little, and none may wait long, so they have
// a queue of their own (see Options.RenewGather).
package commit

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// Env is what a Batcher needs from its surroundings.
type Env struct {
	// Propose begins to write one entry that holds these commands in this order, and returns soon; it may be held up by a busy
	// log, and is called by one goroutine at a time. wait, called once, returns when the entry was applied or its fate will not be
	// learned any more, with one result per command, or with an error that concerns all of them. The error should be an *Error; of any
	// other the outcome counts as unknown. Both may block for as long as the log does (a hung disk): no caller of Do is held up by
	// that. cmds and what it points to must not be changed, and the slice is Propose's only until wait returns.
	Propose func(cmds []*locktable.Command) (wait func() ([]locktable.Result, error))
	// Urgent tells that a renewal is not to wait for others, since its session's TTL is too short for that. Nil: none is. It is called without locks.
	Urgent func(c *locktable.Command) bool
}

// Outcome says what is known of a command that got no result.
type Outcome int

const (
	// NotDone means the command certainly had no effect and never will.
	NotDone Outcome = iota
	// Unknown means it may have had its effect, or may still have it.
	Unknown
)

// String names the outcome.
func (o Outcome) String() string {
	if o == NotDone {
		return "not done"
	}
	return "outcome unknown"
}

// Error is why a command got no result. Every error of Do is one.
type Error struct {
	Outcome Outcome
	Err     error
}

// Error tells the outcome and the reason.
func (e *Error) Error() string { return fmt.Sprintf("%v: %v", e.Outcome, e.Err) }

// Unwrap gives the reason, so that errors.Is finds a context's error and the sentinels below.
func (e *Error) Unwrap() error { return e.Err }

var (
	// ErrOverloaded means that the queue is full. It always comes with NotDone.
	ErrOverloaded = errors.New("too many commands are waiting")
	// ErrStopped means that Stop was called, mostly because this node leads no longer. It always comes with NotDone.
	ErrStopped = errors.New("group commit has stopped")
	// ErrTooLarge means that one command alone exceeds Options.MaxBytes; trying again is pointless. It always comes with NotDone.
	ErrTooLarge = errors.New("command is too large")
)

var errResultCount = errors.New("an entry was answered with another number of results than it holds commands")

// Options bound a Batcher. Zero values take the defaults.
type Options struct {
	// MaxCommands is the most commands in one entry, at least 2; default 256. Larger entries won nothing and held up others longer.
	MaxCommands int
	// MaxBytes is the most bytes in one entry, by the estimate of Size; default 256 KiB.
	MaxBytes int
	// InFlight is how many entries are written at once; default 2. One leaves the log idle between entries; 4 was slower than 2.
	InFlight int
	// MaxQueue is the most ordinary commands that wait; default 8192. Commands that give something back (unlock, cancel, close) are
	// refused only at twice that, and internal ones (found, expire, drained, level) never: both shrink the load, and the leader
	// bounds its own.
	MaxQueue int
	// MaxQueueBytes bounds the memory of waiting ordinary commands in the same way; default 32 MiB.
	MaxQueueBytes int
	// RenewGather is how long a renewal may wait for others; default 100 ms. It goes earlier with any entry that is sent anyway, and at once if it
	// is urgent.
	RenewGather time.Duration
	// MaxRenewals is the most renewals that wait; default 200 000, one for each possible session. Ordinary commands that can be
	// refused are refused from there on too, so that no renewal is refused before them.
	MaxRenewals int
}

func (o Options) withDefaults() Options {
	o.MaxCommands = max(orDefault(o.MaxCommands, 256), 2)
	o.MaxBytes = orDefault(o.MaxBytes, 256<<10)
	o.InFlight = orDefault(o.InFlight, 2)
	o.MaxQueue = orDefault(o.MaxQueue, 8192)
	o.MaxQueueBytes = orDefault(o.MaxQueueBytes, 32<<20)
	o.RenewGather = orDefault(o.RenewGather, 100*time.Millisecond)
	o.MaxRenewals = orDefault(o.MaxRenewals, locktable.MaxSessions)
	return o
}

func orDefault[T int | time.Duration](v, def T) T {
	if v <= 0 {
		return def
	}
	return v
}

// commandOverhead covers the numbers of an encoded command, each at its longest varint, and the tags and lengths of its fields.
const commandOverhead = 192

// Size estimates from above how many bytes a command takes in an entry. It is an estimate so that the queue need not encode.
func Size(c *locktable.Command) int {
	n := commandOverhead + len(c.Note) + len(c.Actor) + len(c.Node) + len(c.NodeName) + len(c.ClusterID) +
		len(c.Value) + len(c.Secret) + len(c.After) + len(c.Incarnation)
	for _, name := range c.Names {
		n += len(name) + 2
	}
	return n
}
