package locktable

import "slices"

// A hold can move: to a weaker mode, to another claim that waits, or to another session. What takes it over stands in its place in the queues from the same
// entry on, so nobody else is granted the names in between, and those that wait keep their order. It is a grant of its own with a token of its
// own (readers of one phase excepted), which a fenced resource holds against what the former holder still has under way.

// downgrade turns the exclusive hold of a name into a shared claim, which is held at once; readers that wait next in line join it.
func (x *step) downgrade(s *session, c *Command) Result {
	if r, known := x.begun(s, c); known {
		return r
	}
	old := x.held(s.owner.id, c)
	switch {
	case old == nil || old.mode != Exclusive || len(old.names) != 1:
		return x.done(s, c, CodeNotHeld)
	case old.drain != nil:
		return x.standing(old)
	}
	next := x.successor(old, s.owner, c)
	next.mode = Shared
	x.succeed(s, old, next)
	x.promote(old.names)
	return Result{Code: CodeGranted, Rev: next.rev, Token: next.token}
}

// accept takes over the hold that another session (or the same) has offered.
func (x *step) accept(s *session, c *Command) Result {
	if r, known := x.begun(s, c); known {
		return r
	}
	old := x.held(c.From, c)
	switch {
	case old == nil || old.terms == nil || old.terms.offer == "" || old.terms.offer != OfferHash(c.Secret):
		return x.done(s, c, CodeNotHeld)
	case old.drain != nil:
		return x.standing(old)
	}
	next := x.successor(old, s.owner, c)
	next.mode, next.count = old.mode, old.count
	from := x.borrow(s, c.From)
	x.succeed(&from, old, next)
	x.settle(s, from)
	return Result{Code: CodeGranted, Rev: next.rev, Token: next.token}
}

// successor is a new claim of the command's sequence in the place of a hold. An offer was of the hold that ends.
func (x *step) successor(old *claim, by *owner, c *Command) *claim {
	return &claim{
		owner: by, pos: old.pos, seq: c.Seq, created: x.wall, names: old.names, note: c.Note,
		terms: old.with(func(t *terms) { t.offer = "" }),
	}
}

// succeed ends the hold old of session s and grants next in its place.
func (x *step) succeed(s *session, old, next *claim) {
	x.emitClaim(EventReleased, old, old.note)
	if next.rev == 0 {
		next.rev = x.counter + 1
	}
	next.grant, next.granted, next.token = x.counter+1, x.wall, Token(x.counter+1)
	if old.mode == Shared {
		next.token = old.token // the phase goes on
	}
	x.replace(old, next)
	x.finish(s, old.seq, OpClaim, CodeCancelled, old.token)
	x.emitGrant(next)
}

// handOver releases an exclusive hold and grants its names to one claim that waits for them, wherever it stands in line.
func (x *step) handOver(s *session, c *Command) Result {
	if r, known := x.begun(s, c); known {
		return r
	}
	old := x.held(s.owner.id, c)
	switch {
	case old == nil || old.mode != Exclusive:
		return x.done(s, c, CodeNotHeld)
	case old.drain != nil:
		return x.standing(old)
	}
	chosen := x.waiterOf(old, c.Rev)
	if chosen == nil {
		return x.done(s, c, CodeNoWaiter)
	}
	next := *chosen
	x.remove(chosen)
	next.pos = old.pos
	x.succeed(s, old, &next)
	return x.done(s, c, CodeReleased)
}

// waiterOf is the waiting claim with a create revision that wants just what a hold has, in whatever order, nil if there is none. It has never moved, so it stands where it
// was created.
func (x *step) waiterOf(hold *claim, rev Rev) *claim {
	e, ok := x.queue.Get(queueEntry{name: hold.names[0], pos: rev})
	if !ok || e.claim.grant != 0 || e.claim.mode != Exclusive || !sameSet(e.claim.names, hold.names) {
		return nil
	}
	return e.claim
}

// sameSet compares lists in which nothing stands twice.
func sameSet(a, b []string) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(name string) bool { return !slices.Contains(b, name) })
}

// offer lets whoever knows a secret take the hold over. A later offer takes the place of an earlier one.
func (x *step) offer(s *session, c *Command) Result {
	return x.amend(s, c, func(t *terms) { t.offer = c.Secret })
}

// proclaim sets what the hold publishes.
func (x *step) proclaim(s *session, c *Command) Result {
	return x.amend(s, c, func(t *terms) { t.value = c.Value })
}

// amend changes the terms of a hold, and tells of another value.
func (x *step) amend(s *session, c *Command, change func(*terms)) Result {
	if r, known := x.begun(s, c); known {
		return r
	}
	old := x.held(s.owner.id, c)
	switch {
	case old == nil:
		return x.done(s, c, CodeNotHeld)
	case old.drain != nil:
		return x.standing(old)
	}
	next := *old
	next.terms = old.with(change)
	x.replace(old, &next)
	if next.value() != old.value() {
		x.emitClaim(EventValue, &next, next.note)
	}
	return x.done(s, c, CodeOK)
}
