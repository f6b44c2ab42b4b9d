package history

import (
	"fmt"
	"slices"

	"github.com/quorumlock/quorumlock/watch"
)

// follow takes in one step of a claim. rest is what comes after it.
func (r *replay) follow(c *claim, group, rest []entry) {
	e := &group[0]
	s := r.session(e)
	r.checkIdentity(c, e)
	switch e.Kind {
	case watch.Queued:
		r.checkAlive(s, e)
		r.queued(c, e, s)
	case watch.Granted:
		r.checkAlive(s, e)
		r.grant(c, e, s)
	case watch.Draining:
		r.checkAlive(s, e)
		r.drain(c, e)
	case watch.ValueChanged:
		r.checkAlive(s, e)
		r.expect(c, e, holding)
		r.tally.Proclaimed++
	case watch.Cancelled:
		r.leaves(s, e)
		r.expect(c, e, waiting)
		r.retire(c, gone)
	case watch.Released, watch.Expired, watch.Forced:
		r.leaves(s, e)
		r.release(c, e, s, rest)
	case watch.Freed:
		if r.expect(c, e, barred) {
			c.freed = e
			r.retire(c, gone)
			r.tally.Freed++
		}
	}
	r.show(c, group)
}

// checkIdentity: a claim stays what its call asked for.
func (r *replay) checkIdentity(c *claim, e *entry) {
	if e.Mode != c.Mode || e.Permits != c.Permits {
		r.breaks(c, AskedRule, e, fmt.Sprintf("mode %d, permits %d; asked for were mode %d, permits %d", e.Mode, e.Permits, c.Mode, c.Permits))
	}
	if c.session == 0 {
		c.session, c.number = e.Session, e.Claim
	}
	if c.session != e.Session || c.number != e.Claim {
		r.complain(SessionRule, e, fmt.Sprintf("the claim is number %d of session %d", c.number, c.session))
	}
}

func (r *replay) checkAlive(s *session, e *entry) {
	if s.ended != nil {
		r.complain(SessionRule, e, "the session has ended")
	}
}

// leaves takes in that a session has one claim less. A hold expires with its session and not otherwise, and what ends with a session ends in the same entry.
func (r *replay) leaves(s *session, e *entry) {
	s.claims--
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

// expect checks how far the claim has come. What nobody saw may have brought it there.
func (r *replay) expect(c *claim, e *entry, want phase) bool {
	switch {
	case c.phase == want:
		return true
	case r.inTheDark(c):
		if want == holding {
			r.find(c, e)
		}
		return true
	}
	check := Exclusion
	if want == waiting {
		check = QueueRule
	}
	r.breaks(c, check, e, map[phase]string{waiting: "no such claim waits", holding: "there is no such hold", barred: "no delay of it goes on"}[want])
	return false
}

// inTheDark says that a claim may have come further than was seen.
func (r *replay) inTheDark(c *claim) bool {
	return r.blindTo > 0 && (c.phase == hidden || c.phase == unborn)
}

// find takes in a hold that began, or may have ended, while nobody looked, and is there.
func (r *replay) find(c *claim, e *entry) {
	c.phase, c.token = holding, int64(e.Token)
	r.put(c, (*queue).insert)
	for _, name := range c.Names {
		r.queue(name).alone(c)
	}
}

func (r *replay) queued(c *claim, e *entry, s *session) {
	if c.phase != unborn {
		r.breaks(c, OnceRule, e, "the claim was there before")
		return
	}
	s.claims++
	c.phase, c.place = waiting, e.Rev
	r.put(c, (*queue).admit)
	if r.grantable(c) {
		r.breaks(c, QueueRule, e, "nothing is in its way, but it waits")
	}
}

func (r *replay) drain(c *claim, e *entry) {
	switch {
	case !r.expect(c, e, holding):
	case c.drain != nil:
		r.breaks(c, Exclusion, e, "a drain of it goes on")
	default:
		c.drain = e
	}
}

// put puts a claim into its queues.
func (r *replay) put(c *claim, into func(*queue, *claim)) {
	for _, name := range c.Names {
		into(r.queue(name), c)
	}
}

// retire takes a claim out of its queues.
func (r *replay) retire(c *claim, to phase) {
	c.phase = to
	for _, name := range c.Names {
		q := r.queue(name)
		if to == gone {
			q.remove(c)
		}
		r.touched = append(r.touched, q)
	}
}

// grant takes in that a claim holds all its names.
func (r *replay) grant(c *claim, e *entry, s *session) {
	if c.granted != nil || c.holds() || c.phase == gone {
		r.breaks(c, OnceRule, e, "the claim was granted before, or had ended")
		return
	}
	waited := c.phase == waiting
	if waited {
		r.retire(c, gone)
	} else {
		s.claims++
	}
	c.from = r.takesOver(c, e, waited)
	switch {
	case c.from != nil:
		c.place = c.from.place
	case !waited && c.place == 0 && !r.waitersUnknown(c): // else it may have waited while nobody looked
		c.place = e.Rev
	}
	c.phase, c.granted, c.token = holding, e, int64(e.Token)
	if waited || c.from != nil {
		r.put(c, (*queue).insert)
	} else {
		r.put(c, (*queue).admit)
	}
	r.checkGrant(c, e)
	r.granted = append(r.granted, c)
	r.tally.grant(c)
}

func (r *replay) waitersUnknown(c *claim) bool {
	for _, name := range c.Names {
		if r.queue(name).waitersUnknown {
			return true
		}
	}
	return false
}

// takesOver is the claim whose hold goes on in this grant, nil if it is a new one. The hold must have been given up in the step before, so that nobody can
// have had it in between.
func (r *replay) takesOver(c *claim, e *entry, waited bool) *claim {
	from := r.mover
	r.mover = nil
	switch {
	case from != nil && (c.From == from.ID || waited):
		return from
	case c.From != "" && r.blindTo == 0:
		r.breaks(c, MoveRule, e, fmt.Sprintf("it takes over the hold of %q, which was not given up for it just before", c.From))
	}
	return nil
}

// checkGrant checks a grant on each of its names.
func (r *replay) checkGrant(c *claim, e *entry) {
	for _, name := range c.Names {
		q := r.queue(name)
		check, problem := q.hindrance(c)
		if check == "" {
			check, problem = q.wrongToken(c, e)
		}
		if check != "" {
			r.breaks(c, check, e, problem)
		}
		q.last = max(q.last, c.token)
		q.alone(c)
		q.inTurn(c, r.blindTo)
		q.grants = append(q.grants, c)
		if c.from == nil {
			c.limit = q.limit
		}
	}
}

// wrongToken: a token is the revision of its grant, but readers that join others share theirs.
func (q *queue) wrongToken(c *claim, e *entry) (check, problem string) {
	want := e.Rev - int64(max(slices.Index(c.Names, e.Name), 0)) // the first of its names may have gone unseen
	if c.Mode == shared {
		if phase := q.phaseToken(c); phase != 0 {
			want = phase
		} else if c.from != nil && c.from.Mode == shared {
			want = c.from.token
		} else if q.holdersUnknown {
			return "", ""
		}
	}
	switch {
	case c.token != want && c.Mode == shared:
		return TokenRule, fmt.Sprintf("the token of the readers of this phase is %d", want)
	case c.token != want:
		return TokenRule, "a token is the revision of its grant"
	case c.token < q.last || c.token == q.last && c.Mode != shared:
		return TokenRule, fmt.Sprintf("%d was granted before on %q", q.last, q.name)
	}
	return "", ""
}

// release takes in the end of a hold for its holder.
func (r *replay) release(c *claim, e *entry, s *session, rest []entry) {
	if !r.expect(c, e, holding) {
		return
	}
	c.removal, c.byClose = e, s.ended != nil
	c.ending = r.endingOf(c)
	r.tally.end(c)
	moved := r.movesOn(c, e, rest)
	to := gone
	if !moved && r.bars(c) {
		to = barred
	}
	r.retire(c, to)
}

// bars says that the lock delay of a hold begins with its end. It does for certain when the hold expires or its drain is over. For the end of a session the events do not tell whether its
// owner had finished, which calls off all delays, nor for a drain whether it was cut short: then the delay began if its end shows.
func (r *replay) bars(c *claim) bool {
	if c.Delay == 0 {
		return false
	}
	_, shows := r.freed[identity{c.session, c.number}]
	if c.ending == Released && !c.byClose && c.MaxHold > 0 {
		if !shows {
			r.notAtCap(c)
		}
		return shows
	}
	certain := c.ending == Expired || c.ending == Drained
	perhaps := c.byClose || c.ending == Forced && c.drain != nil
	return certain || perhaps && shows
}

// notAtCap takes in that no end of a lock delay shows of a hold with a cap. The events do not tell whether it was unlocked or gave itself back at the cap, so it is taken for unlocked; if the end may have gone unseen it is not known who holds the names meanwhile.
func (r *replay) notAtCap(c *claim) {
	for _, name := range c.Names {
		q := r.queue(name)
		q.holdersUnknown = q.holdersUnknown || r.blindAfter > c.removal.Rev
	}
}

// movesOn says that the hold goes on to the claim that is granted in the next step, by whose call it was given up.
func (r *replay) movesOn(c *claim, e *entry, rest []entry) bool {
	r.mover = nil
	if e.Kind != watch.Released || len(rest) == 0 || rest[0].unseen || rest[0].Kind != watch.Granted || rest[0].Index != e.Index {
		return false
	}
	next := r.claims[rest[0].Note]
	if next == nil || next.From != c.ID && !r.handedOver(c, next) {
		return false
	}
	r.mover, c.next = c, next
	return true
}

// handedOver says that a hold that is to be handed over goes to a claim that waits for just the same names. When the call failed it may as well have been released in line.
func (r *replay) handedOver(c, next *claim) bool {
	_, meant := r.handing[c.ID]
	return meant && (next.phase == waiting || r.inTheDark(next)) && next.Mode == exclusive && slices.Equal(next.Names, c.Names)
}

// endingOf tells how a hold ended. Released by force in the middle of a drain is told from the end of the drain by the reason, or by what the
// caller said.
func (r *replay) endingOf(c *claim) Ending {
	_, now := r.forcedNow[c.token]
	switch {
	case c.removal.Kind == watch.Released:
		return Released
	case c.removal.Kind == watch.Expired:
		return Expired
	case c.drain == nil || now || c.drain.Note != c.removal.Note:
		return Forced
	}
	return Drained
}

// show keeps what a reader can see from now on. In the middle of a move nobody sees anything.
func (r *replay) show(c *claim, group []entry) {
	if r.mover != nil {
		return
	}
	for k := range group {
		q := r.queue(group[k].Name)
		v := q.view()
		if w := q.firstWaiting(); w != nil && r.grantable(w) {
			v.between = true
		}
		if before := q.now(); !v.equal(before) {
			q.changes = append(q.changes, change{entry: &group[k], after: v})
		}
	}
}
