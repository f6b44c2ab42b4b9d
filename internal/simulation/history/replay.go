package history

import (
	"fmt"
	"slices"

	"github.com/quorumlock/quorumlock/watch"
)

// grant is one hold in the log.
type grant struct {
	*entry
	drain   *entry // nil if it never began to drain
	removal *entry // nil while it is live
	ending  Ending
	byClose bool   // released by the end of its session, not by an unlock or a cancel
	missed  bool   // it was live when nobody looked: its end may have been missed
	next    *entry // the next grant of the lock
}

// change is something that changed a lock, and the lock after it: an event, or what nobody saw between two events.
type change struct {
	*entry          // nil for what nobody saw
	promoted bool   // a grant to a claim that had waited
	before   *entry // of what nobody saw: the last event before
	resumed  *entry // and the first one after
	after    lockState
}

// lock is one lock while the log is replayed.
type lock struct {
	name    string
	first   lockState
	now     lockState
	queue   []int64 // sessions of the claims known to wait, in order of arrival
	mixed   bool    // a session had several claims in the queue and one was cancelled, which the event does not tell
	broken  bool    // a rule was broken: the state means nothing any more
	changes []change
	live    *grant
	last    *grant
}

// session is one session while the log is replayed.
type session struct {
	ended  *entry
	older  bool // opened while nobody looked: what it claims is not known
	claims int  // waiting and held
}

// replay runs the log through the rules of the lock table.
type replay struct {
	*findings
	forcedNow map[int64]struct{}
	locks     map[string]*lock
	names     []string // of locks, in order of appearance: nothing depends on the order of a map
	sessions  map[int64]*session
	grants    map[int64]*grant
	ordered   []*grant
	lastToken int64
	// ending is the session whose end was the last event but for removals of what it had; they follow at once.
	ending   *session
	endingID int64
	last     *entry  // the event before
	freed    []*lock // they lost their holder in the last entry
	blindTo  int64   // sessions up to this revision may have been opened unseen
	// report's counts
	lost, forced int
}

func newReplay(f *findings, forcedNow map[int64]struct{}) *replay {
	return &replay{
		findings: f, forcedNow: forcedNow,
		locks: make(map[string]*lock), sessions: make(map[int64]*session), grants: make(map[int64]*grant),
	}
}

func (r *replay) run(l *logbook) {
	for i := range l.entries {
		e := &l.entries[i]
		if e.unseen {
			r.forget(l, i)
		}
		r.apply(e)
	}
}

// forget gives up all that is known, because nobody saw what happened before entry i.
func (r *replay) forget(l *logbook, i int) {
	r.blindTo = l.entries[i].Rev - 1
	r.ending, r.freed = nil, nil
	clear(r.sessions)
	for _, name := range r.names { // there are none yet before the first entry
		k := r.locks[name]
		if k.live != nil {
			k.live.missed = true
		}
		k.queue, k.mixed, k.live, k.last = nil, false, nil, nil
		k.now = k.now.unseen()
		k.changes = append(k.changes, change{before: &l.entries[i-1], resumed: &l.entries[i], after: k.now})
	}
}

func (r *replay) apply(e *entry) {
	r.awaitRemovals(e)
	r.awaitPromotions(e)
	switch e.Kind {
	case watch.SessionOpened:
		r.open(e)
	case watch.SessionClosed, watch.SessionExpired:
		r.end(e)
	case watch.Queued, watch.Granted, watch.Draining:
		r.claims(e)
	case watch.Released, watch.Expired, watch.Forced, watch.Cancelled:
		r.removes(e)
	}
}

func (r *replay) complain(check string, e *entry, problem string) {
	r.add(check, "revision %d, %s: %s", e.Rev, describe(&e.Event), problem)
}

func (r *replay) lock(name string) *lock {
	k := r.locks[name]
	if k == nil {
		k = &lock{name: name, now: freshLock(r.blindTo > 0)}
		k.first = k.now
		r.locks[name] = k
		r.names = append(r.names, name)
	}
	return k
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

// awaitPromotions looks for locks that were left free in an entry while claims wait for them, as soon as the next entry comes. A claim is on one lock,
// so whoever removes its holder promotes the next at once.
func (r *replay) awaitPromotions(e *entry) {
	if r.last != nil && r.last.Index != e.Index {
		for _, k := range r.freed {
			if k.now.between() && !k.broken {
				k.broken = true
				r.complain(QueueRule, r.last, fmt.Sprintf("with this entry nobody holds %q, but %d claims wait", k.name, k.now.waiting))
			}
		}
		r.freed = r.freed[:0]
	}
	r.last = e
}

// claims takes in an event of a claim that lives on.
func (r *replay) claims(e *entry) {
	s, k := r.session(e), r.lock(e.Name)
	if s.ended != nil {
		r.complain(SessionRule, e, "the session has ended")
	}
	promoted := false
	switch e.Kind {
	case watch.Queued:
		k.queue = append(k.queue, e.Session)
		s.claims++
	case watch.Granted:
		if promoted = r.dequeue(k, e); !promoted {
			s.claims++
		}
		r.grant(k, e)
	case watch.Draining:
		r.drain(k, e)
	}
	r.step(k, e, promoted)
}

// dequeue takes the claim of a grant out of the queue, if it waited.
func (r *replay) dequeue(k *lock, e *entry) bool {
	i := slices.Index(k.queue, e.Session)
	if i < 0 {
		return false // granted at once, or it began to wait while nobody looked
	}
	if i > 0 && !k.mixed && !k.now.blurred {
		r.complain(QueueRule, e, "another session's claim came first")
	}
	r.remove(k, i)
	return true
}

func (r *replay) remove(k *lock, i int) {
	k.queue = slices.Delete(k.queue, i, i+1)
	if len(k.queue) == 0 {
		k.mixed = false
	}
}

func (r *replay) grant(k *lock, e *entry) {
	switch {
	case e.Token != e.Rev:
		r.complain(TokenRule, e, "a token is the revision of its grant")
	case e.Token <= r.lastToken:
		r.complain(TokenRule, e, "tokens do not rise")
	}
	r.lastToken = max(r.lastToken, e.Token)
	if r.grants[e.Token] != nil {
		r.complain(TokenRule, e, "the token was granted before")
		return
	}
	g := &grant{entry: e}
	if k.last != nil {
		k.last.next = e
	}
	k.last, k.live = g, g
	r.grants[e.Token] = g
	r.ordered = append(r.ordered, g)
}

func (r *replay) drain(k *lock, e *entry) {
	if g := k.live; g != nil && g.Token == e.Token {
		if g.drain != nil {
			r.complain(Exclusion, e, "it is being drained already")
		}
		g.drain = e
	}
}

// removes takes in the end of a claim.
func (r *replay) removes(e *entry) {
	s, k := r.session(e), r.lock(e.Name)
	s.claims--
	r.checkReason(s, e)
	if e.Kind == watch.Cancelled {
		r.cancel(k, e)
	} else {
		r.release(k, e, s)
	}
	r.step(k, e, false)
}

// checkReason: a hold expires with its session and not otherwise, and what ends with a session ends in the same entry.
func (r *replay) checkReason(s *session, e *entry) {
	switch {
	case s.ended != nil && s != r.ending:
		r.complain(SessionRule, e, "the session has ended before")
	case s.ended == nil && e.Kind == watch.Expired && !s.older:
		r.complain(SessionRule, e, "the session has not expired")
	case s.ended != nil && s.ended.Kind == watch.SessionExpired && e.Kind == watch.Released,
		s.ended != nil && s.ended.Kind == watch.SessionClosed && e.Kind == watch.Expired:
		r.complain(SessionRule, e, "the session ended otherwise: "+s.ended.Kind.String())
	}
}

func (r *replay) cancel(k *lock, e *entry) {
	i := slices.Index(k.queue, e.Session)
	if i < 0 {
		if !k.now.blurred && k.now.waiting > 0 {
			r.complain(QueueRule, e, "no claim of the session waits")
		}
		return
	}
	if slices.Index(k.queue[i+1:], e.Session) >= 0 {
		k.mixed = true
	}
	r.remove(k, i)
}

func (r *replay) release(k *lock, e *entry, s *session) {
	switch e.Kind {
	case watch.Expired:
		r.lost++
	case watch.Forced:
		r.forced++
	}
	r.freed = append(r.freed, k)
	g := k.live
	k.live = nil
	if g == nil || g.Token != e.Token {
		return // told by step, unless nobody saw the grant
	}
	g.removal, g.byClose = e, s.ended != nil
	g.ending = r.endingOf(g)
	if g.Session != e.Session {
		r.complain(SessionRule, e, "the hold was granted under another session")
	}
}

// endingOf tells how a hold ended. Released by force in the middle of a drain is told from the end of the drain by the reason, or by what the
// caller said.
func (r *replay) endingOf(g *grant) Ending {
	_, now := r.forcedNow[g.Token]
	switch {
	case g.removal.Kind == watch.Released:
		return Released
	case g.removal.Kind == watch.Expired:
		return Expired
	case g.drain == nil || now || g.drain.Note != g.removal.Note:
		return Forced
	}
	return Drained
}

// step applies the rule of the lock and keeps the change.
func (r *replay) step(k *lock, e *entry, promoted bool) {
	next, check, problem := k.now.step(&e.Event, promoted)
	if problem != "" {
		k.broken = true
		r.complain(check, e, problem)
	}
	if next != k.now {
		k.now = next
		k.changes = append(k.changes, change{entry: e, promoted: promoted, after: next})
	}
}
