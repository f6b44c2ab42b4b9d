package history

import (
	"fmt"
	"slices"

	"github.com/quorumlock/quorumlock/watch"
)

// session is one session while the log is replayed.
type session struct {
	ended  *entry
	older  bool // opened while nobody looked: what it claims is not known
	claims int  // waiting and held
}

// identity is how all events about one claim name it; their notes may be the reasons of forced releases.
type identity struct {
	session int64
	number  uint64
}

func identityOf(e *watch.Event) identity { return identity{e.Session, e.Claim} }

// replay runs the log through the rules of the lock table.
type replay struct {
	*findings
	forcedNow map[int64]struct{}
	handing   map[string]struct{}
	claims    map[string]*claim   // by note
	known     map[identity]*claim // those that the log has shown
	queues    map[string]*queue
	names     []string // of queues, in order of appearance: nothing depends on the order of a map
	sessions  map[int64]*session
	granted   []*claim              // in the order of grants
	freed     map[identity]struct{} // claims the end of whose lock delay shows
	mover     *claim                // its hold goes on to the claim that is granted next
	// ending is the session whose end was the last event but for removals of what it had; they follow at once.
	ending     *session
	endingID   int64
	last       *entry   // the event before
	touched    []*queue // in the last entry
	blindAfter int64    // the last event before which something went unseen
	blindTo    int64    // sessions up to this revision may have been opened unseen
	tally      Tally
}

func newReplay(f *findings, h *History) *replay {
	r := &replay{
		findings: f, forcedNow: h.forcedNow, handing: h.handing, claims: make(map[string]*claim, len(h.claims)),
		known: make(map[identity]*claim), queues: make(map[string]*queue), sessions: make(map[int64]*session), freed: make(map[identity]struct{}),
	}
	for id, c := range h.claims {
		r.claims[id] = &claim{Claim: c}
	}
	return r
}

func (r *replay) run(l *logbook) {
	for i := range l.entries {
		if l.entries[i].unseen {
			r.blindAfter = l.entries[i].Rev
		}
		if e := &l.entries[i]; e.Kind == watch.Freed {
			r.freed[identityOf(&e.Event)] = struct{}{}
		}
	}
	for i := 0; i < len(l.entries); {
		if l.entries[i].unseen {
			r.forget(l, i)
		}
		i += r.apply(l.entries[i:])
	}
}

// forget gives up all that is known, because nobody saw what happened before entry i.
func (r *replay) forget(l *logbook, i int) {
	r.blindTo = l.entries[i].Rev - 1
	r.ending, r.mover, r.touched = nil, nil, nil
	clear(r.sessions)
	for _, name := range r.names { // there are none yet before the first entry
		q := r.queues[name]
		for _, c := range q.claims {
			c.phase, c.missed = hidden, true
		}
		q.forget()
		q.changes = append(q.changes, change{before: &l.entries[i-1], resume: &l.entries[i], after: q.view()})
	}
}

// apply takes in what comes next, and says how many entries that were: a claim on several names has an event for each.
func (r *replay) apply(rest []entry) int {
	e := &rest[0]
	r.awaitRemovals(e)
	r.awaitPromotions(e)
	switch e.Kind {
	case watch.SessionOpened:
		r.open(e)
	case watch.SessionClosed, watch.SessionExpired:
		r.end(e)
	case watch.Resized:
		r.resize(e)
	case watch.Queued, watch.Granted, watch.Draining, watch.Released, watch.Expired, watch.Forced, watch.Cancelled, watch.ValueChanged, watch.Freed:
		c := r.claimOf(e)
		if c == nil {
			return 1
		}
		group := r.group(c, rest)
		r.follow(c, group, rest[len(group):])
		return len(group)
	}
	return 1
}

func (r *replay) complain(check string, e *entry, problem string) {
	r.add(check, "revision %d, %s: %s", e.Rev, describe(&e.Event), problem)
}

// breaks reports a broken rule after which the state of the claim's names means nothing any more.
func (r *replay) breaks(c *claim, check string, e *entry, problem string) {
	r.complain(check, e, problem)
	for _, name := range c.Names {
		r.queue(name).broken = true
	}
}

func (r *replay) queue(name string) *queue {
	q := r.queues[name]
	if q == nil {
		q = newQueue(name, r.blindTo > 0)
		r.queues[name] = q
		r.names = append(r.names, name)
	}
	return q
}

// claimOf is the claim that an event is about. Nil if that is not known, because of what nobody saw; what cannot be is reported.
func (r *replay) claimOf(e *entry) *claim {
	c := r.known[identityOf(&e.Event)]
	if c != nil && (c.ID == e.Note || tellsReason(e.Kind)) {
		return c
	}
	byNote := r.claims[e.Note]
	switch {
	case c != nil:
		r.complain(AskedRule, e, fmt.Sprintf("the claim is that of %q", c.ID))
		return nil
	case byNote != nil:
		r.known[identityOf(&e.Event)] = byNote
		c = byNote
	case !tellsReason(e.Kind):
		r.complain(AskedRule, e, "no call asked for such a claim")
	case !r.queue(e.Name).holdersUnknown:
		r.queue(e.Name).broken = true
		r.complain(Exclusion, e, "there is no such hold")
	}
	return c
}

// tellsReason says that the note of an event may be the reason of a forced release instead of the claim's.
func tellsReason(k watch.Kind) bool {
	return k == watch.Draining || k == watch.Forced || k == watch.Freed
}

// group is the events of one step of a claim: one for each of its names, in its order, with one token, in one entry.
func (r *replay) group(c *claim, rest []entry) []entry {
	first, names := &rest[0], c.Names
	if k := slices.Index(names, first.Name); first.unseen && k > 0 {
		names = names[k:] // what came before was seen by nobody
	}
	for k, name := range names {
		if k == len(rest) || k > 0 && rest[k].unseen {
			return rest[:k] // the rest was seen by nobody
		}
		e := &rest[k]
		if e.Name != name || e.Kind != first.Kind || e.Token != first.Token || e.Session != first.Session || e.Index != first.Index {
			r.breaks(c, SetRule, first, fmt.Sprintf("it is about %q, and the step ends with %q", c.Names, rest[max(k-1, 0)].Name))
			return rest[:max(k, 1)]
		}
	}
	return rest[:len(names)]
}

// session is the session of an event that is not its opening. One that may have been opened while nobody looked is taken to be open.
func (r *replay) session(e *entry) *session {
	s := r.sessions[e.Session]
	if s == nil {
		s = &session{older: e.Session <= r.blindTo}
		r.sessions[e.Session] = s
		if !s.older {
			r.complain(SessionRule, e, "the session was never opened")
		}
	}
	return s
}

func (r *replay) open(e *entry) {
	if e.Session != e.Rev {
		r.complain(SessionRule, e, "a session's id is the revision of its opening")
	}
	if r.sessions[e.Session] != nil {
		r.complain(SessionRule, e, "it was opened before")
	}
	r.sessions[e.Session] = new(session)
}

// end takes in the end of a session. All it has goes with it, in the events that follow at once, and before anybody is promoted.
func (r *replay) end(e *entry) {
	s := r.session(e)
	if s.ended != nil {
		r.complain(SessionRule, e, "it has ended before")
		return
	}
	s.ended = e
	r.ending, r.endingID = s, e.Session
}

// awaitRemovals looks for what is left of a session that has ended, as soon as something else comes.
func (r *replay) awaitRemovals(e *entry) {
	if r.ending == nil {
		return
	}
	removal := e.Kind == watch.Cancelled || e.Kind == watch.Released || e.Kind == watch.Expired
	if removal && e.Session == r.endingID && e.Index == r.ending.ended.Index {
		return
	}
	if r.ending.claims > 0 && !r.ending.older {
		r.complain(SessionRule, r.ending.ended, "it ended, but claims or holds of it did not")
	}
	r.ending = nil
}

// awaitPromotions looks for claims that wait although they could be granted, as soon as the next entry comes: whoever makes room also promotes.
func (r *replay) awaitPromotions(e *entry) {
	if r.last != nil && r.last.Index != e.Index {
		for _, q := range r.touched {
			if c := q.firstWaiting(); c != nil && r.grantable(c) {
				r.breaks(c, QueueRule, r.last, fmt.Sprintf("with this entry nothing is in the way of %q on %q, but it waits", c.ID, c.Names))
			}
		}
		r.touched = r.touched[:0]
	}
	r.last = e
}

// grantable says that a claim that waits certainly could be granted on all its names.
func (r *replay) grantable(c *claim) bool {
	return !slices.ContainsFunc(c.Names, func(name string) bool {
		q := r.queue(name)
		return q.broken || !q.grantable(c)
	})
}

func (r *replay) resize(e *entry) {
	q := r.queue(e.Name)
	q.resize(e.Permits)
	r.touched = append(r.touched, q)
	if r.tally.Resized++; e.Permits == 0 {
		r.tally.Forgotten++
	}
}
