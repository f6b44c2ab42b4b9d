// Package expiry knows how long each session has been silent, and which drained holds have waited out their time. It decides
// nothing: it answers who is due, and the leader proposes a command that the state machine drops if the session renewed since.
//
// Every member keeps a Tracker all the time and stamps its own clocks when it applies a renewal. So a new leader needs no reset of
// leases, and no two machines' clocks are ever compared. What only a leader needs beside it is the Gate.
//
// Time is passed in; there is no timer and no goroutine here.
package expiry

import (
	"iter"
	"math"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/clock"
	"github.com/quorumlock/quorumlock/internal/locktable"
)

// Never is what Due answers for next when nothing is being timed.
const Never = time.Duration(math.MaxInt64)

// Expiry names a session that has been silent for its TTL. RenewIndex is the operand for the compare-and-set of OpExpire.
type Expiry struct {
	Session    locktable.SessionID
	RenewIndex uint64
}

// DrainDue names a drained hold whose time is over. Index is the operand for the compare-and-set of OpDrained.
type DrainDue struct {
	Grant locktable.Rev
	Index uint64
}

// Tracker times sessions and drains. It is safe for concurrent use: the goroutine that applies the log stamps, the leader's loop
// asks. No call holds the lock for longer than a bounded number of steps, except Reset.
type Tracker struct {
	mu       sync.Mutex
	sessions *queue
	drains   *queue
}

// New returns a Tracker that times nothing yet.
func New() *Tracker {
	return &Tracker{sessions: newQueue(), drains: newQueue()}
}

// Renewed stamps a session that was opened or renewed by the entry at index. at is read by this member when it applies that entry,
// thus after the commit; it must not be read before. O(1) and free of allocation for a session that is known.
func (t *Tracker) Renewed(s locktable.SessionID, ttl time.Duration, index uint64, at clock.Reading) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sessions.stamp(int64(s), ttl, index, at)
}

// Ended forgets a session. Unknown ones are ignored.
func (t *Tracker) Ended(s locktable.SessionID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sessions.forget(int64(s))
}

// DrainBegan stamps a hold whose drain or lock delay began by the entry at index; it is due when wait has passed. A delay that follows a drain
// takes its place.
func (t *Tracker) DrainBegan(grant locktable.Rev, wait time.Duration, index uint64, at clock.Reading) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drains.stamp(int64(grant), wait, index, at)
}

// DrainEnded forgets a drain: the hold is gone, however that came. Unknown ones are ignored.
func (t *Tracker) DrainEnded(grant locktable.Rev) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drains.forget(int64(grant))
}

// Reset forgets everything and stamps these sessions with at, after a restart or the installation of a snapshot: for how long they
// have been silent is not known, so each gets a full TTL from now. Drains are forgotten too; the caller announces those of the
// restored state by DrainBegan with the same reading.
func (t *Tracker) Reset(sessions iter.Seq[locktable.Renewal], at clock.Reading) {
	fresh := newQueue()
	for r := range sessions {
		fresh.stamp(int64(r.Session), r.TTL, r.Index, at)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sessions, t.drains = fresh, newQueue()
}

// Sessions is the number of sessions being timed.
func (t *Tracker) Sessions() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.sessions.items)
}

// Due tells what has been silent for its full TTL at now by every clock, at most limit of each kind, and after how long the question is
// worth asking again: zero if there is more to tell at once, Never if nothing else is being timed. What has been told does not count for
// next. now must not go back from one call to the next.
//
// It is a question and changes nothing: asked again, it names the same ones until they end or renew. Whoever has proposals in
// flight waits for their results before asking, and asks again when they failed.
func (t *Tracker) Due(now clock.Reading, limit int) (expire []Expiry, drained []DrainDue, next time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	again := t.sessions.advance(now)
	for _, it := range t.sessions.first(limit) {
		expire = append(expire, Expiry{locktable.SessionID(it.id), it.index})
	}
	againDrains := t.drains.advance(now)
	for _, it := range t.drains.first(limit) {
		drained = append(drained, DrainDue{locktable.Rev(it.id), it.index})
	}
	if len(t.sessions.due.items) > limit || len(t.drains.due.items) > limit {
		return expire, drained, 0
	}
	return expire, drained, min(again, againDrains)
}
