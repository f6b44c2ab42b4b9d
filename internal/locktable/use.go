package locktable

// use is how a name is held in a mode that several can share. A name that is held by one exclusive claim, or not at all, has
// none, so the common lock costs nothing here. A semaphore has one from its first claim to its last, and longer for as long
// as a limit that was set by a command is not forgotten by another one.
type use struct {
	mode    Mode
	holders int
	// last is the highest place of all claims granted since the use began. All waiting claims stand behind it, since grants are made in the order of the queue.
	last  Rev
	token Token // Shared: the phase's
	// inUse is the sum of the permits held. It exceeds limit for a while when that was lowered.
	inUse  uint32
	limit  uint32
	former uint32 // the limit before the last command that set it, zero if none is known
	set    bool   // the limit was set by a command, and not forgotten since
}

// semaphore is the use of a name that is one.
func (s *state) semaphore(name string) (use, bool) {
	u, ok := s.uses.Get(name)
	return u, ok && u.mode == Permits
}

// setUse keeps the counts of semaphores. The zero use is none.
func (s *state) setUse(name string, u use) {
	old, had := s.uses.Get(name)
	s.countSemaphore(old, -1)
	s.countSemaphore(u, +1)
	switch {
	case u != use{}:
		s.uses.Set(name, u)
	case had:
		s.uses.Delete(name)
	}
}

func (s *state) countSemaphore(u use, by int) {
	if u.mode == Permits {
		s.semaphores += by
	}
	if u.set {
		s.limitsSet += by
	}
}

// countUse takes in that a claim holds its name, or does not any more.
func (s *state) countUse(c *claim, by int) {
	name := c.names[0]
	u, _ := s.uses.Get(name)
	u.mode = c.mode
	u.holders += by
	if by > 0 {
		u.last = max(u.last, c.pos)
	}
	switch {
	case c.mode == Shared:
		u.token = c.token
	case by > 0:
		u.inUse += c.count
	default:
		u.inUse -= c.count
	}
	if u.mode == Shared && u.holders == 0 {
		u = use{}
	}
	s.setUse(name, u)
}

// tidyUse forgets a semaphore that nobody uses, unless its limit was set by a command.
func (s *state) tidyUse(name string) {
	if u, ok := s.semaphore(name); ok && !u.set && u.holders == 0 && s.waiters(name) == 0 {
		s.setUse(name, use{})
	}
}

// holders is the number of claims that hold a name, the barred ones included. They are the first in its queue.
func (s *state) holders(name string) int {
	if u, ok := s.uses.Get(name); ok {
		return u.holders
	}
	if s.holderOf(name) != nil {
		return 1
	}
	return 0
}

// misused is the first of names that is in use as something else than mode: as a lock where permits are wanted, or the other way round.
func (s *state) misused(names []string, mode Mode) (string, bool) {
	for _, name := range names {
		_, semaphore := s.semaphore(name)
		if semaphore != (mode == Permits) && (semaphore || s.first(name) != nil) {
			return name, true
		}
	}
	return "", false
}

// limitAgainst is the limit in force if a claim for permits cannot be served under it, else zero.
func (s *state) limitAgainst(c *Command) uint32 {
	u, ok := s.semaphore(c.Names[0])
	if !ok || (c.Limit == u.limit || c.Limit == u.former) && c.Count <= u.limit {
		return 0
	}
	return u.limit
}

// resize sets the limit of a semaphore, in use or not, or has the limit that was set forgotten.
func (x *step) resize(s *session, c *Command) Result {
	if r, known := x.begun(s, c); known {
		return r
	}
	if _, wrong := x.misused(c.Names, Permits); wrong {
		x.finish(s, c.Seq, OpResize, CodeKind, 0)
		return x.resized(CodeKind, c)
	}
	if c.Limit == 0 {
		x.forgetLimit(s, c.Names[0])
	} else if r, refused := x.setLimit(s, c); refused {
		return r
	}
	x.finish(s, c.Seq, OpResize, CodeOK, 0)
	x.promote(c.Names)
	return x.resized(CodeOK, c)
}

// setLimit: waiting claims for more than the new limit can never be granted, and end. If not all of them can be told yet, those that can end first, and the limit is set by the command
// that finds room for the rest: a claim that could never be granted would block the queue if nobody came back for it.
func (x *step) setLimit(s *session, c *Command) (refusal Result, refused bool) {
	name := c.Names[0]
	u, _ := x.semaphore(name)
	oversized := x.oversized(name, c.Limit)
	switch {
	case !u.set && x.limitsSet >= x.limits.limits:
		return overloaded("too many semaphores with a limit of their own"), true
	}
	if part, all := x.roomForNews(oversized); !all {
		for _, w := range part {
			x.dropOversized(s, w, c.Limit)
		}
		x.promote(c.Names)
		return Result{Code: CodeOverloaded, Detail: "a waiting session has not heard of too many lost claims", More: len(part) > 0}, true
	}
	u.former = u.before(c)
	u.mode, u.limit, u.set = Permits, c.Limit, true
	x.setUse(name, u)
	x.emitResized(s, name, c.Limit)
	for _, w := range oversized {
		x.dropOversized(s, w, c.Limit)
	}
	return Result{}, false
}

// before is the limit that claims may go on to name after a command has set another, so that a deployment that changes it can
// roll on: the one in force until now, and the one that the command tells where there is none. A command that sets what is in
// force already leaves the one before that, if it is known.
func (u use) before(c *Command) uint32 {
	switch {
	case u.limit != 0 && u.limit != c.Limit:
		return u.limit
	case u.former != 0:
		return u.former
	}
	return c.Former
}

// forgetLimit gives the limit back to the claims: that of an idle semaphore is gone with everything else about it, and the
// name is free for locks. While it is in use the limit, and the one before it, stay in force up to the last claim, for claims
// do not remember which limit they named.
func (x *step) forgetLimit(s *session, name string) {
	if u, ok := x.semaphore(name); ok {
		u.set = false
		x.setUse(name, u)
		x.tidyUse(name)
	}
	x.emitResized(s, name, 0)
}

func (x *step) emitResized(s *session, name string, limit uint32) {
	x.emit(Event{Kind: EventResized, Name: name, Session: s.owner.id, Node: s.owner.node, Mode: Permits, Count: limit})
}

// resized answers a resize, the first time or again, with what stands in its way or is in force as it is now.
func (x *step) resized(code Code, c *Command) Result {
	if code == CodeKind {
		name, _ := x.misused(c.Names, Permits)
		return Result{Code: code, Detail: name}
	}
	u, _ := x.semaphore(c.Names[0])
	return Result{Code: code, Limit: u.limit}
}

// oversized are the waiting claims on a semaphore for more permits than limit.
func (s *state) oversized(name string, limit uint32) []*claim {
	var all []*claim
	s.eachWaiting(name, func(c *claim) bool {
		if c.count > limit {
			all = append(all, c)
		}
		return true
	})
	return all
}

// dropOversized ends a waiting claim, and leaves word of it for its session. own is the session whose command is being applied.
func (x *step) dropOversized(own *session, c *claim, limit uint32) {
	s := x.borrow(own, c.owner.id)
	x.leaveWord(&s, Lost{Seq: c.seq, Cause: LostLimit, Rev: x.counter + 1, Limit: limit})
	x.release(c, EventCancelled, c.note)
	x.finish(&s, c.seq, OpClaim, CodeCancelled, 0)
	x.settle(own, s)
}
