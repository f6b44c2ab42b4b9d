package quorumlock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/clock"
	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/router"
)

// sessionSet is the sessions of one node. Its mu is taken under a session's mu and never the other way round.
type sessionSet struct {
	mu     sync.Mutex
	byID   map[locktable.SessionID]*Session
	closed bool
	turns  int           // counts the calls of turn
	some   chan struct{} // one slot: there are sessions to pace
	// noticed are those that the pacer must look at whatever it thinks: new, over, or in a hurry. Some may be in it twice.
	noticed  []*Session
	shortest time.Duration // what paceFor says of the session with the shortest TTL, at most pace
	// expired is called for each session that ended by its deadline, without locks that matter to it; it must not block.
	expired func(*Session)
}

func newSessionSet(expired func(*Session)) *sessionSet {
	return &sessionSet{byID: make(map[locktable.SessionID]*Session), some: make(chan struct{}, 1), shortest: pace, expired: expired}
}

// add takes in a session that was asked for when turned gave turns. It is not added when the node is closing, which is ErrClosed, nor when a turn has come
// since, which is errTurned: the answer may be that of a state machine that is not to be relied on.
func (t *sessionSet) add(s *Session, turns int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ErrClosed
	}
	if turns != t.turns {
		return errTurned
	}
	t.byID[s.id] = s
	t.noticed = append(t.noticed, s)
	t.shortest = min(t.shortest, paceFor(s.ttl))
	select {
	case t.some <- struct{}{}:
	default:
	}
	return nil
}

var errTurned = errors.New("asked for before the node's state was found to differ")

// turned is what add wants to know about a session that is about to be asked for.
func (t *sessionSet) turned() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.turns
}

// turn gives all sessions, and no others will come that have been asked for before.
func (t *sessionSet) turn() []*Session {
	t.mu.Lock()
	t.turns++
	t.mu.Unlock()
	return t.all(nil)
}

func (t *sessionSet) remove(s *Session, expired bool) {
	t.mu.Lock()
	known := t.byID[s.id] == s
	if known {
		delete(t.byID, s.id)
		t.noticed = append(t.noticed, s)
		if t.shortest < pace && t.shortest == paceFor(s.ttl) {
			t.shortest = pace
			for _, other := range t.byID {
				t.shortest = min(t.shortest, paceFor(other.ttl))
			}
		}
	}
	t.mu.Unlock()
	if known && expired {
		t.expired(s)
	}
}

// notice has the pacer look at a session at its next tick.
func (t *sessionSet) notice(s *Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[s.id] == s {
		t.noticed = append(t.noticed, s)
	}
}

// takeNoticed gives what was noticed since it was called last.
func (t *sessionSet) takeNoticed(buf []*Session) []*Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	buf = append(buf, t.noticed...)
	clear(t.noticed)
	t.noticed = t.noticed[:0]
	return buf
}

// pace is how often the pacer has to look.
func (t *sessionSet) pace() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.shortest
}

func (t *sessionSet) get(id locktable.SessionID) *Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[id]
}

func (t *sessionSet) all(buf []*Session) []*Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.byID {
		buf = append(buf, s)
	}
	return buf
}

// close refuses new sessions, closes those there are, all at once, and returns the first error.
func (t *sessionSet) close() error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	open := t.all(nil)
	errs := make(chan error, len(open))
	for _, s := range open {
		go func() { errs <- s.close(CauseNodeClosed) }()
	}
	var first error
	for range open {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// current is the node's own session, opened when it is first needed and again after a loss. Callers that need it at once share one opening.
func (n *Node) current(ctx context.Context) (*Session, error) {
	select {
	case n.opening <- struct{}{}:
	case <-ctx.Done():
		return nil, &WaitError{Op: "open session", Waiting: n.why(), Err: joined(ended(ctx), n.leaderless())}
	}
	defer func() { <-n.opening }()
	if n.own != nil && n.own.alive() {
		return n.own, nil
	}
	s, err := n.openSession(ctx, n.cfg.SessionTTL)
	if err != nil {
		return nil, err
	}
	n.own = s
	return s, nil
}

// endLater tells the cluster that a session is over which this node gave up, by its own deadline or in a Close that got no answer, so that its claims need not wait for the rest of the TTL.
// It goes on until it is answered or the node closes: when the quorum was away for longer than the lease, every member's stamps begin anew with the
// next leader, and claims of calls that failed long ago would stand in the way for another TTL.
//
// finished says that its owner has closed it, so that no lock delay applies.
func (n *Node) endLater(s *Session, finished bool) {
	n.spawn(func() {
		for n.life.Err() == nil {
			cmd := &locktable.Command{Op: locktable.OpClose, Session: s.id, Now: finished}
			if _, err := n.do(n.life, "close session", "", cmd, router.Options{}); !errors.Is(err, ErrOverloaded) {
				return
			}
			pause(n.life, persistPause)
		}
	})
}

// deliver takes in what the cluster says about a session of this node, from the leader's push or from this node's own state machine. now may be a moment old: whoever is told of a
// hold reads the clocks again.
func (n *Node) deliver(e *locktable.Event, now clock.Reading) {
	s := n.sessions.get(e.Session)
	if s == nil {
		return
	}
	switch e.Kind {
	case locktable.EventGranted:
		s.mu.Lock()
		s.grantedLocked(e.Seq, Token(e.Token), now)
		s.mu.Unlock()
	case locktable.EventForced, locktable.EventDraining:
		s.fetchNews()
	case locktable.EventSessionClosed:
		if e.Note == "" {
			s.endedByCluster()
		} else { // by force: the answer says by whom
			s.fetchNews()
		}
	case locktable.EventCancelled:
		if s.waits(e.Seq) { // and yet it ended: the semaphore is too small for it now
			s.fetchNews()
		}
	case locktable.EventSessionExpiry:
		s.endedByCluster()
	}
}

// endedByCluster takes in that the session is over, which the next renewal would find out later.
func (s *Session) endedByCluster() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing == nil {
		s.loseLocked(&LostError{Cause: CauseExpired, Reason: "the cluster ended the session"})
	}
}

// fetchNews renews at once: a hold was lost or is being drained, and the renewal's answer says which, by whom and why.
func (s *Session) fetchNews() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewSoonLocked()
	if s.renewing || s.closing != nil || s.life.Err() != nil {
		return
	}
	s.renewing, s.renewSoon, s.renewed = true, false, s.node.clock.Now()
	s.node.renew([]*Session{s})
}

// waits says whether the session still knows a claim, so that it was not the session that gave it up.
func (s *Session) waits(seq uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claims[seq] != nil
}
