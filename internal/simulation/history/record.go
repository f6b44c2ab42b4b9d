package history

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"math"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/watch"
)

// Call is one call of a client: which lock, and between which instants it ran. Client is for people.
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

func (o Outcome) String() string {
	switch o {
	case Clean:
		return "clean"
	case Lost:
		return "lost"
	}
	return "unknown"
}

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
	return fmt.Sprintf("%s on %q from %v to %v", c.client, c.lock, c.from, c.to)
}

type acquired struct {
	call
	token int64
}

type unlocked struct {
	call
	token   int64
	outcome Outcome
}

// read is a call that showed who holds a lock.
type read struct {
	call
	holder  int64
	waiting int  // Inspect only
	refused bool // a TryLock; otherwise an Inspect
}

type sessionCall struct {
	call
	session int64
	outcome Outcome // of a close
}

func (r *read) String() string {
	if r.refused {
		return fmt.Sprintf("%v was refused, the holder being %d", r.call, r.holder)
	}
	return fmt.Sprintf("%v showed holder %d and %d waiting", r.call, r.holder, r.waiting)
}

// sighting is an event as it was first seen.
type sighting struct {
	watch.Event
	by    string
	first instant // the earliest instant at which anybody saw it
}

// History is the record of one run of one cluster. Its methods are safe for concurrent use.
type History struct {
	start time.Time

	mu     sync.Mutex
	sum    hash.Hash
	buf    []byte // of the digest, reused
	calls  int
	failed int

	acquired []acquired
	unlocked []unlocked
	reads    []read
	opened   []sessionCall
	closed   []sessionCall

	held      map[int64]instant // last instant at which the hold of a token was held by its own word
	ended     map[int64]instant // first instant at which it was given up, or said that it is not held
	forcedNow map[int64]struct{}

	observers int64
	seen      map[int64]*sighting
	order     findings // what is wrong with the subscriptions, noted as it comes
	forked    bool     // two observers disagree about a revision: there is no one log
}

// New begins the history of a run that starts at start.
func New(start time.Time) *History {
	return &History{
		start: start, sum: sha256.New(), held: make(map[int64]instant), ended: make(map[int64]instant),
		forcedNow: make(map[int64]struct{}), seen: make(map[int64]*sighting),
	}
}

func (h *History) at(t time.Time) instant { return instant(t.Sub(h.start)) }

// begin notes one call of a kind; the caller holds mu.
func (h *History) begin(k kind, c Call, numbers ...int64) call {
	h.calls++
	kept := call{c.Client, c.Lock, span{h.at(c.Start), h.at(c.End)}}
	h.digestCall(k, kept, numbers...)
	if kept.to < kept.from {
		h.order.add(Record, "%v: ended before it began", kept)
		kept.to = kept.from
	}
	return kept
}

// Acquired records that Lock, TryLock or Do gave a hold.
func (h *History) Acquired(c Call, token int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acquired = append(h.acquired, acquired{h.begin(kindAcquired, c, token), token})
}

// Refused records that a TryLock found the lock taken. holder is the token of the hold that the error names, 0 if it names none
// because others wait while none holds.
func (h *History) Refused(c Call, holder int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reads = append(h.reads, read{call: h.begin(kindRefused, c, holder), holder: holder, refused: true})
}

// Failed records that an acquire ended with another error. It may have had an effect, which the log then shows, and so it says nothing that
// could be checked; it is counted.
func (h *History) Failed(c Call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.begin(kindFailed, c)
	h.failed++
}

// Unlocked records the end of an Unlock, or of a Do. Its Call starts when Unlock was called, or when the callback of Do returned.
func (h *History) Unlocked(c Call, token int64, o Outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unlocked = append(h.unlocked, unlocked{h.begin(kindUnlocked, c, token, int64(o)), token, o})
}

// Inspected records what an Inspect showed: the token of the hold, 0 if the lock is free, and how many claims wait (LockInfo.Waiting,
// not the length of the Queue, which is cut).
func (h *History) Inspected(c Call, holder int64, waiting int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reads = append(h.reads, read{call: h.begin(kindInspected, c, holder, int64(waiting)), holder: holder, waiting: waiting})
}

// SessionOpened records that NewSession gave a session. The Call names no lock.
func (h *History) SessionOpened(c Call, session int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opened = append(h.opened, sessionCall{call: h.begin(kindSessionOpened, c, session), session: session})
}

// SessionClosed records that a session's Close returned. The Call names no lock.
func (h *History) SessionClosed(c Call, session int64, o Outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = append(h.closed, sessionCall{h.begin(kindSessionClosed, c, session, int64(o)), session, o})
}

// ForcedNow records that somebody is about to ask for the forced release of a hold at once. Only needed where the hold may be draining: an event
// does not tell the end of a drain, before which the holder must have stopped, from a release at once in the middle of it. (If the reason given
// differs from that of the drain, the events do tell.)
func (h *History) ForcedNow(token int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.digest(kindForcedNow, token)
	h.forcedNow[token] = struct{}{}
}

// Held records that at this instant a hold said that it is held. It is asked as often as the run likes; best just when a next grant shows.
func (h *History) Held(token int64, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := h.at(at)
	h.digest(kindHeld, token, int64(i))
	if last, known := h.held[token]; !known || i > last {
		h.held[token] = i
	}
}

// Ended records that from this instant on the owner of a hold does not claim to hold it: it is about to call Unlock, or the hold reported its
// loss. The first instant counts.
func (h *History) Ended(token int64, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := h.at(at)
	h.digest(kindEnded, token, int64(i))
	if first, known := h.ended[token]; !known || i < first {
		h.ended[token] = i
	}
}
