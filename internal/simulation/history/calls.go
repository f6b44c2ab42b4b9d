package history

import (
	"github.com/quorumlock/quorumlock/watch"
)

// judge sets the callers' side against the log. The direct checks come first; they are linear, name the culprit, and leave to the
// linearizability checker what they cannot decide.
type judge struct {
	*History
	*findings
	log    *logbook
	replay *replay

	given      map[string]*claimCall // how callers were given their holds
	unlockedAt map[string]instant    // first instant at which an Unlock of the claim had returned
	closedAt   map[int64]instant     // and a Close of the session
}

// claim is a claim of the log, nil, and reported, if no call asked for it.
func (j *judge) claim(c *claimCall) *claim {
	found := j.replay.claims[c.claim]
	if found == nil {
		j.add(AskedRule, "%v: nobody asked for claim %q", c.call, c.claim)
	}
	return found
}

func (j *judge) acquisitions() {
	for i := range j.acquired {
		a := &j.acquired[i]
		if j.given[a.claim] != nil {
			j.add(OnceRule, "%v was given the hold of %q, which was given out before", a.call, a.claim)
			continue
		}
		j.given[a.claim] = a
		if c := j.claim(a); c != nil {
			j.acquisition(a, c)
		}
	}
}

// visible is the token that a hold tells its owner.
func (c *claim) visible() int64 {
	if c.Mode == permits {
		return 0
	}
	return c.token
}

func (j *judge) acquisition(a *claimCall, c *claim) {
	g := c.granted
	switch {
	case g == nil && j.mayBeUnseen(c, a.token):
	case g == nil:
		j.add(TokenRule, "%v was given token %d for %q, of which the log shows no grant", a.call, a.token, c.ID)
	case c.visible() != a.token:
		j.add(TokenRule, "%v was given token %d for %q; in the log it has %d", a.call, a.token, c.ID, c.token)
	default:
		g.cause(&a.call)
		if closed, known := j.closedAt[c.session]; known && closed < a.from {
			j.add(SessionRule, "%v was given the hold of %q under session %d, which had been closed by %v", a.call, c.ID, c.session, closed)
		}
	}
}

// mayBeUnseen says that the grant of a claim may have been among what nobody saw. Permits do not tell their token, and readers join older ones.
func (j *judge) mayBeUnseen(c *claim, token int64) bool {
	if c.Mode == exclusive {
		return j.log.blind(token)
	}
	return j.log.unseen > 0 || j.log.unseenBefore()
}

func (j *judge) unlocks() {
	clean := make(map[string]struct{})
	for i := range j.unlocked {
		u := &j.unlocked[i]
		j.unlockedAt[u.claim] = earliest(j.unlockedAt, u.claim, u.to)
		if u.outcome != Clean {
			continue
		}
		if _, twice := clean[u.claim]; twice {
			j.add(UnlockRule, "%v: %q was unlocked before", u.call, u.claim)
			continue
		}
		clean[u.claim] = struct{}{}
		if c := j.claim(u); c != nil {
			j.cleanUnlock(u, c)
		}
	}
}

// cleanUnlock: nil says that this call released the hold. Had the hold ended in any other way, by the end of its session too, the work under it
// might have overlapped with the next, and the answer is ErrLost.
func (j *judge) cleanUnlock(u *claimCall, c *claim) {
	switch {
	case c.removal == nil && (c.missed || c.granted == nil && j.log.unseen > 0 || j.log.unseenBefore()):
	case c.granted == nil && c.removal == nil:
		j.add(UnlockRule, "%v: the log shows no grant of %q", u.call, c.ID)
	case c.removal == nil:
		j.add(UnlockRule, "%v: the log does not show that the hold of %q ended", u.call, c.ID)
	case c.ending != Released || c.next != nil && c.next.From == c.ID:
		j.add(UnlockRule, "%v returned nil, but the hold of %q was %v by revision %d, first seen at %v",
			u.call, c.ID, c.ending, c.removal.Rev, c.removal.first)
	case c.byClose:
		j.add(UnlockRule, "%v returned nil, but the hold of %q ended with its session %d by revision %d, first seen at %v",
			u.call, c.ID, c.session, c.removal.Rev, c.removal.first)
	default:
		c.removal.cause(&u.call)
	}
}

// handOvers: a hand over that said nil gave the hold to a candidate of the node that it named, in one step.
func (j *judge) handOvers() {
	for i := range j.handed {
		m := &j.handed[i]
		j.unlockedAt[m.claim] = earliest(j.unlockedAt, m.claim, m.to)
		if m.outcome != Clean {
			continue
		}
		c := j.claim(m)
		switch {
		case c == nil || c.next == nil && (j.log.unseen > 0 || j.log.unseenBefore()):
		case c.next == nil || c.next.granted == nil || c.next.granted.ServerID != m.other:
			j.add(MoveRule, "%v returned nil, but the hold of %q did not go on to a candidate of node %q", m.call, c.ID, m.other)
		default:
			c.removal.cause(&m.call)
			j.replay.tally.HandedOver++
		}
	}
}

// proclamations: a value that was set was told, once, while its owner held.
func (j *judge) proclamations() {
	told := make(map[string]*entry)
	for i := range j.log.entries {
		if e := &j.log.entries[i]; e.Kind == watch.ValueChanged {
			if told[e.Value] != nil {
				j.add(OnceRule, "the value %q is set by revision %d and by %d", e.Value, told[e.Value].Rev, e.Rev)
			}
			told[e.Value] = e
		}
	}
	for i := range j.values {
		p := &j.values[i]
		e := told[p.other]
		switch {
		case p.outcome != Clean || e == nil && (j.log.unseen > 0 || j.log.unseenBefore()):
		case e == nil || e.Note != p.claim:
			j.add(AskedRule, "%v returned nil, but the log does not show the value %q of %q", p.call, p.other, p.claim)
		default:
			e.cause(&p.call)
		}
	}
}

// resizes: a limit that was set shows in the log at a time that fits.
func (j *judge) resizes() {
	for i := range j.resized {
		c := &j.resized[i]
		if c.outcome == Clean && !j.wasResized(c) && j.log.unseen == 0 && !j.log.unseenBefore() {
			j.add(AskedRule, "%v returned nil, but the log does not show the limit %d set", c.call, c.limit)
		}
	}
}

func (j *judge) wasResized(c *resizeCall) bool {
	for i := range j.log.entries {
		e := &j.log.entries[i]
		if e.Kind == watch.Resized && e.Name == c.lock && e.Permits == c.limit && e.commit.to >= c.from && e.commit.from <= c.to {
			return true
		}
	}
	return false
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

func earliest[K comparable](known map[K]instant, key K, at instant) instant {
	if before, ok := known[key]; ok {
		return min(before, at)
	}
	return at
}
