package history

import (
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/watch"
)

// judge sets the callers' side against the log. The direct checks come first; they are linear, name the culprit, and leave to the
// linearizability checker what they cannot decide.
type judge struct {
	*History
	*findings
	log    *logbook
	replay *replay

	given      map[int64]struct{} // tokens that a caller was given
	unlockedAt map[int64]instant  // first instant at which an Unlock of the token had returned
	closedAt   map[int64]instant  // and a Close of the session
}

func (j *judge) acquisitions() {
	for i := range j.acquired {
		a := &j.acquired[i]
		if _, twice := j.given[a.token]; twice {
			j.add(TokenRule, "%v was given token %d, which was given out before", a.call, a.token)
			continue
		}
		j.given[a.token] = struct{}{}
		j.acquisition(a)
	}
}

func (j *judge) acquisition(a *acquired) {
	g := j.replay.grants[a.token]
	switch {
	case g == nil && j.log.blind(a.token):
	case g == nil:
		j.add(TokenRule, "%v was given token %d, of which the log shows no grant", a.call, a.token)
	case g.Name != a.lock:
		j.add(TokenRule, "%v was given token %d, which the log grants for %q", a.call, a.token, g.Name)
	default:
		g.cause(&a.call)
		if closed, known := j.closedAt[g.Session]; known && closed < a.from {
			j.add(SessionRule, "%v was given token %d under session %d, which had been closed by %v", a.call, a.token, g.Session, closed)
		}
	}
}

func (j *judge) unlocks() {
	clean := make(map[int64]struct{})
	for i := range j.unlocked {
		u := &j.unlocked[i]
		j.unlockedAt[u.token] = earliest(j.unlockedAt, u.token, u.to)
		if u.outcome != Clean {
			continue
		}
		if _, twice := clean[u.token]; twice {
			j.add(UnlockRule, "%v: token %d was unlocked before", u.call, u.token)
			continue
		}
		clean[u.token] = struct{}{}
		j.cleanUnlock(u)
	}
}

// cleanUnlock: nil says that this call released the hold. Had the hold ended in any other way, by the end of its session too, the work under it
// might have overlapped with the next, and the answer is ErrLost.
func (j *judge) cleanUnlock(u *unlocked) {
	g := j.replay.grants[u.token]
	switch {
	case g == nil && j.log.blind(u.token), g != nil && g.removal == nil && g.missed:
	case g == nil:
		j.add(UnlockRule, "%v: the log shows no grant of token %d", u.call, u.token)
	case g.Name != u.lock:
		j.add(UnlockRule, "%v: token %d is a hold of %q", u.call, u.token, g.Name)
	case g.removal == nil:
		j.add(UnlockRule, "%v: the log does not show that the hold of token %d ended", u.call, u.token)
	case g.ending != Released:
		j.add(UnlockRule, "%v returned nil, but the hold of token %d was %v by revision %d, first seen at %v",
			u.call, u.token, g.ending, g.removal.Rev, g.removal.first)
	case g.byClose:
		j.add(UnlockRule, "%v returned nil, but the hold of token %d ended with its session %d by revision %d, first seen at %v",
			u.call, u.token, g.Session, g.removal.Rev, g.removal.first)
	default:
		g.removal.cause(&u.call)
	}
}

func (j *judge) openings() {
	given := make(map[int64]struct{})
	for i := range j.opened {
		o := &j.opened[i]
		if _, twice := given[o.session]; twice {
			j.add(SessionRule, "%v was given session %d, which was given out before", o.call, o.session)
			continue
		}
		given[o.session] = struct{}{}
		at, seen := j.log.find(o.session)
		switch {
		case seen && j.log.entries[at].Kind == watch.SessionOpened:
			j.log.entries[at].cause(&o.call)
		case seen || !j.log.blind(o.session):
			j.add(SessionRule, "%v was given session %d, of which the log shows no opening", o.call, o.session)
		}
	}
}

// closings notes when sessions were over for their owners. A clean Close of a session says nothing about the log: it is nil as well for a session that
// was lost before, for one that had nothing to release, and when it is called again.
func (j *judge) closings() {
	for i := range j.closed {
		c := &j.closed[i]
		j.closedAt[c.session] = earliest(j.closedAt, c.session, c.to)
	}
}

func earliest(known map[int64]instant, key int64, at instant) instant {
	if before, ok := known[key]; ok {
		return min(before, at)
	}
	return at
}

// intervals checks that a hold was over by its own word before the next grant of the lock was known, and that it stayed over.
func (j *judge) intervals(gaps map[Ending]time.Duration) {
	for _, g := range j.replay.ordered {
		j.finality(g)
		last, known := j.lastInstant(g)
		if !known || g.next == nil || g.removal == nil || g.removal.Rev > g.next.Rev || g.ending == Forced {
			continue
		}
		size := time.Duration(g.next.commit.to - last)
		if least, measured := gaps[g.ending]; !measured || size < least {
			gaps[g.ending] = size
		}
		// An unlock, the grant that follows it, and a look at the hold just before can fall on one instant of fake time. An expiry or the end
		// of a drain cannot: the margin between the two clocks is never nothing.
		if size < 0 || size == 0 && g.ending != Released {
			j.add(HoldInterval, "%s", j.overlap(g, last))
		}
	}
}

// lastInstant is the last one at which the hold was held by its owner's word. If the log shows that it was unlocked, its owner counts
// as holding it until then: it called Unlock only afterwards.
func (j *judge) lastInstant(g *grant) (instant, bool) {
	last, held := j.held[g.Token]
	ended, known := j.ended[g.Token]
	if known && g.removal != nil && g.ending == Released && !g.byClose && (!held || ended > last) {
		return ended, true
	}
	return last, held
}

func (j *judge) overlap(g *grant, last instant) string {
	return fmt.Sprintf("%q: token %d was held at %v, but the next grant, token %d, was known at %v; the former was %v by revision %d",
		g.Name, g.Token, last, g.next.Token, g.next.commit.to, g.ending, g.removal.Rev)
}

// finality: what was over for its owner is never held again.
func (j *judge) finality(g *grant) {
	last, held := j.held[g.Token]
	if !held {
		return
	}
	if at, known := j.unlockedAt[g.Token]; known && last > at {
		j.add(Finality, "%q: token %d was held at %v, but its Unlock had returned at %v", g.Name, g.Token, last, at)
	}
	if at, known := j.closedAt[g.Session]; known && last > at {
		j.add(Finality, "%q: token %d was held at %v, but the Close of its session %d had returned at %v", g.Name, g.Token, last, g.Session, at)
	}
}
