package history

import (
	"fmt"
	"math"
	"time"

	"github.com/quorumlock/quorumlock/watch"
)

// Claim is what a call asks for. Its ID is its note: the events carry it, so claims of one session on one name are told apart.
type Claim struct {
	ID      string // no other claim of the run has it
	Names   []string
	Mode    watch.Mode
	Permits int
	Limit   int // of the semaphore
	Delay   time.Duration
	MaxHold time.Duration
	From    string // the claim whose hold it takes over, by Downgrade or Receive. Its delay goes on to be that of the former
}

// The modes of watch.Event.
const (
	exclusive = watch.Exclusive
	shared    = watch.Shared
	permits   = watch.Permits
)

// Call is one call of a client: on which lock, and between which instants it ran. Client is for people.
type Call struct {
	Client, Lock string
	Start, End   time.Time
}

// Outcome is how a call that gives something back ended.
type Outcome uint8

// The outcomes.
const (
	Clean   Outcome = iota + 1 // nil
	Lost                       // ErrLost
	Unknown                    // any other error: it may have had its effect, or have it later
)

// instant is nanoseconds since the start of the run.
type instant int64

const (
	ever  instant = math.MinInt64 // before everything
	never instant = math.MaxInt64 // after everything
)

func (i instant) String() string {
	switch i {
	case ever:
		return "the beginning"
	case never:
		return "the end"
	}
	return time.Duration(i).String()
}

// span is the instants between which something happened, both included: in fake time much happens at one instant.
type span struct{ from, to instant }

// call is a Call as it is kept.
type call struct {
	client, lock string
	span
}

func (c call) String() string {
	if c.lock == "" {
		return fmt.Sprintf("%s from %v to %v", c.client, c.from, c.to)
	}
	return fmt.Sprintf("%s on %q from %v to %v", c.client, c.lock, c.from, c.to)
}

// claimCall is a call about one claim.
type claimCall struct {
	call
	claim   string
	token   int64 // Acquired
	outcome Outcome
	other   string // HandedOver: the server id of whom it was for. Proclaimed: the value
}

// read is a call that showed who holds a lock, each by its claim.
type read struct {
	call
	holders []string // of a refusal one at most
	waiting int      // Inspect only
	refused bool     // a try; otherwise an Inspect
	asked   string   // the claim that was refused
}

func (r *read) String() string {
	if r.refused {
		return fmt.Sprintf("%v was refused, the holders being %q", r.call, r.holders)
	}
	return fmt.Sprintf("%v showed holders %q and %d waiting", r.call, r.holders, r.waiting)
}

type sessionCall struct {
	call
	session int64
	outcome Outcome // of a close
}

type resizeCall struct {
	call
	limit   int
	outcome Outcome
}

// sighting is an event as it was first seen.
type sighting struct {
	watch.Event
	by    string
	first instant // the earliest instant at which anybody saw it
}
