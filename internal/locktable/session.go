package locktable

func (x *step) open(c *Command) Result {
	if !x.ttlAllowed(c.TTL) {
		return malformed(&CommandError{Field: "TTL", Reason: "longer than the cluster's maximum"})
	}
	if x.sessions.Len() >= x.limits.sessions {
		return overloaded("too many sessions")
	}
	o := &owner{node: c.Node, nodeName: c.NodeName, ttl: c.TTL, id: SessionID(x.counter + 1)}
	x.emit(Event{Kind: EventSessionOpen, Session: o.id, Node: o.node})
	s := session{owner: o}
	x.renew(&s)
	x.sessions.Set(o.id, s)
	return Result{Code: CodeOK, Session: o.id, Renewed: true}
}

func overloaded(detail string) Result { return Result{Code: CodeOverloaded, Detail: detail} }

// inSession applies a command of a session. That it was applied while the session lives is news in itself: the node knows from the
// answer that its lease goes on, so the answer and the renewal are one step, whatever the command comes to. For the same reason every
// such answer lists the lost holds that the session has not heard of: a node that extended its holds by an answer that was silent
// about a drain would still hold when the drain ends.
func (x *step) inSession(c *Command) Result {
	s, ok := x.sessions.Get(c.Session)
	if !ok {
		return Result{Code: CodeNoSession}
	}
	x.raiseFloor(&s, c.Floor)
	x.renew(&s)
	r := x.sessionCommand(&s, c)
	x.sessions.Set(s.owner.id, s)
	r.Renewed, r.Lost = true, x.unheard(&s)
	return r
}

// sessionCommand may change s; nothing below it may write a session to the tree, or the caller would undo that.
func (x *step) sessionCommand(s *session, c *Command) Result {
	switch c.Op {
	case OpRenew:
		return x.news(s, c.Since)
	case OpClaim:
		return x.enqueue(s, c)
	case OpCancel:
		return x.cancel(s, c)
	default: // OpUnlock
		return x.unlock(s, c)
	}
}

func (x *step) renew(s *session) {
	s.renewIndex = x.index
	x.eff.Renewed = append(x.eff.Renewed, Renewal{Session: s.owner.id, TTL: s.owner.ttl, Index: x.index})
}

// raiseFloor forgets the answers below floor. Each was remembered once and is dropped once, so the cost is amortised. Live claims
// below it stay: a waiter that was told to wait has its answer, and comes back for the claim later.
func (x *step) raiseFloor(s *session, floor uint64) {
	if floor <= s.floor {
		return
	}
	s.floor = floor
	if s.finished == 0 {
		return
	}
	id := s.owner.id
	s.finished -= deleteWhile(x.finished, FinishedRecord{Session: id}, func(f FinishedRecord) bool {
		return f.Session == id && f.Seq < floor
	})
}

// news answers a renewal: what the session was granted since the node last heard. The lost holds that it has heard of are dropped.
func (x *step) news(s *session, since Rev) Result {
	if since > x.counter {
		return malformed(&CommandError{Field: "Since", Reason: "ahead of the counter"})
	}
	if id := s.owner.id; s.lost > 0 {
		s.lost -= deleteWhile(x.lost, LostRecord{Session: id}, func(l LostRecord) bool {
			return l.Session == id && l.Lost.Rev <= since
		})
	}
	return Result{Code: CodeOK, Grants: x.grantsSince(s.owner.id, since)}
}

// unheard are the lost holds that the session's node has not said it heard of.
func (x *step) unheard(s *session) []Lost {
	if s.lost == 0 {
		return nil
	}
	news := make([]Lost, 0, s.lost)
	x.lost.Ascend(LostRecord{Session: s.owner.id}, func(l LostRecord) bool {
		if l.Session != s.owner.id {
			return false
		}
		news = append(news, l.Lost)
		return true
	})
	return news
}

// finish remembers the answer of a sequence, so that a copy of the request gets it again. Below the floor nothing is remembered:
// there the absence is the answer.
func (x *step) finish(s *session, seq uint64, op Op, code Code, token Token) {
	if seq < s.floor {
		return
	}
	x.finished.Set(FinishedRecord{Session: s.owner.id, Seq: seq, Op: op, Code: code, Token: token})
	s.finished++
}

// full says that the session may not begin this new sequence before it raises its floor. The sequence at the floor is always taken: it is what
// holds the floor down, and refusing it would leave the session full for ever. The end of a live claim is never refused for want
// of room: there is at most one record for each claim that was accepted.
func (x *step) full(s *session, seq uint64) bool {
	return s.finished >= x.limits.finished && seq > s.floor
}

func (x *step) close(c *Command) Result {
	s, ok := x.sessions.Get(c.Session)
	if !ok {
		return Result{Code: CodeNoSession}
	}
	x.end(s, EventSessionClosed, EventReleased)
	return Result{Code: CodeOK}
}

// expire ends a session that nobody renewed since the leader decided so. A leader's decision does not outlive its term.
func (x *step) expire(c *Command) Result {
	s, ok := x.sessions.Get(c.Session)
	switch {
	case !ok:
		return Result{Code: CodeNoSession}
	case c.Term != x.term || c.RenewIndex != s.renewIndex:
		return Result{Code: CodeStale}
	}
	x.end(s, EventSessionExpiry, EventExpired)
	return Result{Code: CodeOK}
}

// end removes a session and all that belongs to it, and only then promotes: were a waiter of the dead session still queued, the
// promotion could pick it.
func (x *step) end(s session, sessionEvent, holdEvent EventKind) {
	id := s.owner.id
	x.sessions.Delete(id)
	deleteWhile(x.finished, FinishedRecord{Session: id}, func(f FinishedRecord) bool { return f.Session == id })
	deleteWhile(x.lost, LostRecord{Session: id}, func(l LostRecord) bool { return l.Session == id })
	x.eff.Ended = append(x.eff.Ended, id)
	x.emit(Event{Kind: sessionEvent, Session: id, Node: s.owner.node})

	var names []string
	for _, c := range x.claimsOf(id) {
		kind := holdEvent
		if c.token == 0 {
			kind = EventCancelled
		}
		x.release(c, kind, c.note)
		names = append(names, c.names...)
	}
	x.promote(names)
}
