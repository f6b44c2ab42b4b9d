package locktable

// force releases what is held under a token against the holders' will: at once, or by beginning drains. What cannot be told to its session yet is left for another
// command, which More asks for. Each part stands by itself: those that join the readers meanwhile share their token, and so the next part means them too.
func (x *step) force(c *Command) Result {
	targets := x.targets(c)
	if len(targets) == 0 {
		if blocker := x.blocker(c.Names...); blocker != nil {
			return Result{Code: CodeMismatch, Blocker: blocker, Waiters: x.waiters(c.Names[0])}
		}
		return Result{Code: CodeNotHeld}
	}
	part, more := x.tellable(c, targets)
	if len(part) == 0 {
		return overloaded("the holder has not heard of too many lost holds")
	}
	r := Result{Code: CodeOK, Token: c.Token, More: more}
	for _, held := range part {
		switch {
		case c.Now:
			x.forceNow(held, c)
		case held.drain != nil:
			r.Code, r.DrainIndex = CodeDraining, held.drain.index
		default:
			r.Code, r.DrainIndex = CodeDraining, x.index
			x.beginDrain(held, c)
		}
	}
	return r
}

// targets are the holds of a name that a forced release means: one, or the readers of a phase, who share a token.
func (x *step) targets(c *Command) []*claim {
	var targets []*claim
	x.eachHolding(c.Names[0], func(held *claim) bool {
		if held.token == c.Token && (c.Session == 0 || c.Session == held.owner.id) {
			targets = append(targets, held)
		}
		return true
	})
	return targets
}

// tellable are the targets of a forced release that it can be done to now, and whether it has to leave some out for want of room for the news.
func (x *step) tellable(c *Command, targets []*claim) (part []*claim, more bool) {
	told := make(map[SessionID]int, 1) // looked up only, never walked
	for _, held := range targets {
		if id := held.owner.id; c.tells(held) {
			if s, _ := x.sessions.Get(id); s.lost+told[id] >= x.limits.lost {
				more = true
				continue
			}
			told[id]++
		}
		part = append(part, held)
	}
	if more && !c.Now && len(told) == 0 {
		return nil, true // nothing but drains that go on
	}
	return part, more
}

// tells says that the target's session has to be told of the forced release: not again of a drain that goes on, and not of a lock delay.
func (c *Command) tells(held *claim) bool { return !held.barred && (c.Now || held.drain == nil) }

// forceNow releases at once, and passes over a lock delay. The former holder may believe in its hold for a while longer: only fencing protects then.
func (x *step) forceNow(held *claim, c *Command) {
	rev := x.counter + 1
	x.note(rev, held, c)
	if held.barred {
		x.release(held, EventFreed, c.Note)
		x.promote(held.names)
		return
	}
	s := x.borrow(nil, held.owner.id)
	x.leaveWord(&s, Lost{Seq: held.seq, Token: held.token, Cause: LostForced, Reason: c.Note, Actor: c.Actor, Rev: rev})
	x.retire(&s, held, EventForced, c.Note)
	x.settle(nil, s)
}

// beginDrain marks the hold. From here on every answer to the session tells that the hold must not be extended, and the leader ends it
// a full TTL later by OpDrained, so the holder has stopped by itself before anybody else is granted the lock.
func (x *step) beginDrain(held *claim, c *Command) {
	next := *held
	next.drain = &drain{index: x.index, rev: x.counter + 1, note: c.Note, actor: c.Actor}
	x.replace(held, &next)
	x.note(next.drain.rev, held, c)
	s := x.borrow(nil, held.owner.id)
	x.leaveWord(&s, Lost{Seq: held.seq, Token: held.token, Cause: LostDrained, Reason: c.Note, Actor: c.Actor, Rev: next.drain.rev})
	x.settle(nil, s)
	x.emitClaim(EventDraining, &next, c.Note)
	x.eff.Drains = append(x.eff.Drains, Drain{Grant: held.grant, Wait: next.wait(), Index: x.index})
}

// note records a forced release for the audit. rev is the revision of the event about to be emitted.
func (x *step) note(rev Rev, held *claim, c *Command) {
	x.keep(AuditRecord{Rev: rev, Name: c.Names[0], Token: held.token, Now: c.Now, Actor: c.Actor, Reason: c.Note})
}

// keep puts a record into the audit, from which the oldest goes.
func (x *step) keep(r AuditRecord) {
	r.Wall = x.wall
	x.audit.Set(r.Rev, r)
	if x.audit.Len() > x.limits.audit {
		x.audit.Delete(x.oldestSpent())
	}
}

// drained ends a drain, a lock delay or the quarantine by compare-and-set on the index at which it began, within the leader's own term.
func (x *step) drained(c *Command) Result {
	if c.Rev == x.quarantine.Rev {
		return x.endQuarantine(c)
	}
	held, ok := x.drains.Get(c.Rev)
	switch {
	case c.Term != x.term:
		return Result{Code: CodeStale}
	case !ok:
		return Result{Code: CodeNotHeld}
	case c.RenewIndex != held.drain.index:
		return Result{Code: CodeStale}
	}
	if held.barred {
		x.release(held, EventFreed, held.note)
		x.promote(held.names)
	} else {
		s := x.borrow(nil, held.owner.id)
		x.finish(&s, held.seq, OpClaim, CodeCancelled, held.token)
		x.settle(nil, s)
		if x.fail(held, EventForced, held.drain.note) {
			x.promote(held.names)
		}
	}
	return Result{Code: CodeOK, Token: held.token}
}

// fail ends a hold against its holder's will and says whether its names are free now. With a lock delay they stay barred, for a holder that cannot be fenced may
// have work under way: the claim leaves its session, and keeps its place in the queues until the leader has waited out the delay.
func (x *step) fail(held *claim, kind EventKind, note string) bool {
	if held.delay() == 0 {
		x.release(held, kind, note)
		return true
	}
	barred := *held
	barred.barred = true
	barred.drain = &drain{index: x.index, rev: x.emitClaim(kind, held, note)}
	x.replace(held, &barred)
	x.eff.Drains = append(x.eff.Drains, Drain{Grant: held.grant, Wait: barred.wait(), Index: x.index})
	return false
}

// leaveWord keeps a loss for the session until its node has heard of it.
func (x *step) leaveWord(s *session, l Lost) {
	x.lost.Set(LostRecord{Session: s.owner.id, Lost: l})
	s.lost++
}

// roomForNews are those of waiting claims whose sessions can be left word, and whether that is all of them. A session hears of a loss for certain, or it is not done: news of a drain that
// was dropped would let a holder go on beside its successor.
func (x *step) roomForNews(claims []*claim) (part []*claim, all bool) {
	told := make(map[SessionID]int, 1) // looked up only, never walked
	for _, c := range claims {
		id := c.owner.id
		if s, _ := x.sessions.Get(id); s.lost+told[id] < x.limits.lost {
			told[id]++
			part = append(part, c)
		}
	}
	return part, len(part) == len(claims)
}
