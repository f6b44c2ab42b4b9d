package locktable

// force releases a hold against its holder's will: at once, or by beginning a drain.
func (x *step) force(c *Command) Result {
	name := c.Names[0]
	held := x.holderOf(name)
	switch {
	case held == nil:
		return Result{Code: CodeNotHeld}
	case held.token != c.Token:
		return Result{Code: CodeMismatch, Blocker: x.blocker(c.Names)}
	case held.drain != nil && !c.Now:
		return Result{Code: CodeDraining, Token: held.token, DrainIndex: held.drain.index}
	}
	s, _ := x.sessions.Get(held.owner.id)
	if s.lost >= x.limits.lost {
		return overloaded("the holder has not heard of too many lost holds")
	}
	if c.Now {
		return x.forceNow(s, held, c)
	}
	return x.beginDrain(s, held, c)
}

// forceNow releases at once. The former holder may believe in its hold for a while longer: only fencing protects then.
func (x *step) forceNow(s session, held *claim, c *Command) Result {
	x.lose(&s, held, LostForced, x.counter+1, c)
	x.retire(&s, held, EventForced, c.Note)
	x.sessions.Set(s.owner.id, s)
	return Result{Code: CodeOK, Token: held.token}
}

// beginDrain marks the hold. From here on every answer to the session tells that the hold must not be extended, and the leader ends it
// a full TTL later by OpDrained, so the holder has stopped by itself before anybody else is granted the lock.
func (x *step) beginDrain(s session, held *claim, c *Command) Result {
	next := *held
	next.drain = &drain{index: x.index, rev: x.counter + 1, note: c.Note, actor: c.Actor}
	x.replace(held, &next)
	x.lose(&s, held, LostDrained, next.drain.rev, c)
	x.sessions.Set(s.owner.id, s)
	x.emitClaim(EventDraining, &next, c.Note)
	x.eff.Drains = append(x.eff.Drains, Drain{Token: held.token, TTL: held.owner.ttl, Index: x.index})
	return Result{Code: CodeDraining, Token: held.token, DrainIndex: x.index}
}

// lose records a forced release twice: for the session, until its node has heard of it, and for the audit. rev is the revision of the
// event about to be emitted.
func (x *step) lose(s *session, held *claim, cause LostCause, rev Rev, c *Command) {
	x.lost.Set(LostRecord{Session: s.owner.id, Lost: Lost{
		Seq: held.seq, Token: held.token, Cause: cause, Reason: c.Note, Actor: c.Actor, Rev: rev,
	}})
	s.lost++
	x.audit.Set(rev, AuditRecord{
		Rev: rev, Wall: x.wall, Name: c.Names[0], Token: held.token, Now: c.Now, Actor: c.Actor, Reason: c.Note,
	})
	for x.audit.Len() > x.limits.audit {
		x.audit.PopMin()
	}
}

// drained ends a drain by compare-and-set on the index at which it began, within the leader's own term.
func (x *step) drained(c *Command) Result {
	held, ok := x.drains.Get(c.Token)
	switch {
	case c.Term != x.term:
		return Result{Code: CodeStale}
	case !ok:
		return Result{Code: CodeNotHeld}
	case c.RenewIndex != held.drain.index:
		return Result{Code: CodeStale}
	}
	s, _ := x.sessions.Get(held.owner.id)
	x.retire(&s, held, EventForced, held.drain.note)
	x.sessions.Set(s.owner.id, s)
	return Result{Code: CodeOK, Token: held.token}
}
