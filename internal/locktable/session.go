package locktable

import "slices"

func (x *step) open(c *Command) Result {
	if !x.ttlAllowed(c.TTL) {
		return malformed(&CommandError{Field: "TTL", Reason: "longer than the cluster's maximum"})
	}
	if x.sessions.Len() >= x.limits.sessions {
		return overloaded("too many sessions")
	}
	o := &owner{node: c.Node, nodeName: c.NodeName, ttl: c.TTL, id: SessionID(x.counter + 1), incarnation: c.Incarnation}
	if x.level >= LevelActs {
		o.opened = x.wall
	}
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
// about a drain would still hold when the drain ends. The exception is a cancel for a session that its node has given up: it is to end when it would have ended.
func (x *step) inSession(c *Command) Result {
	s, ok := x.sessions.Get(c.Session)
	if !ok {
		return x.noSession(c.Session)
	}
	x.raiseFloor(&s, c.Floor)
	if c.Op == OpCancel && c.Now {
		r := x.cancel(&s, c)
		x.sessions.Set(s.owner.id, s)
		return r
	}
	x.renew(&s)
	r := x.sessionCommand(&s, c)
	x.sessions.Set(s.owner.id, s)
	r.Renewed, r.Lost = true, x.unheard(&s)
	return r
}

// sessionCommand may change s; nothing below it may write this session to the tree, or the caller would undo that (borrow).
func (x *step) sessionCommand(s *session, c *Command) Result {
	switch c.Op {
	case OpRenew:
		return x.news(s, c.Since)
	case OpClaim:
		return x.enqueue(s, c)
	case OpCancel:
		return x.cancel(s, c)
	case OpUnlock:
		return x.unlock(s, c)
	case OpDowngrade:
		return x.downgrade(s, c)
	case OpProclaim:
		return x.proclaim(s, c)
	case OpHandOver:
		return x.handOver(s, c)
	case OpResize:
		return x.resize(s, c)
	case OpOffer:
		return x.offer(s, c)
	default: // OpAccept
		return x.accept(s, c)
	}
}

// borrow is the session of a claim that lives, and settle puts it back after a change. It may be own, the one whose command is being applied and which is not
// in the tree meanwhile; own may be nil. They take and give values: a function that changes the session behind a pointer would put every
// session on the heap, also that of a renewal.
func (x *step) borrow(own *session, id SessionID) session {
	if own != nil && own.owner.id == id {
		return *own
	}
	s, _ := x.sessions.Get(id)
	return s
}

func (x *step) settle(own *session, s session) {
	if own != nil && own.owner.id == s.owner.id {
		*own = s
		return
	}
	x.sessions.Set(s.owner.id, s)
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
	x.end(s, EventSessionClosed, EventReleased, c.Now)
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
	x.end(s, EventSessionExpiry, EventExpired, false)
	return Result{Code: CodeOK}
}

// restart ends the sessions that a node opened in a former start, whose process is known to be gone. A session that was renewed after the new start had
// begun to ask, at RenewIndex, shows that it is not, and then nothing is ended.
func (x *step) restart(c *Command) Result {
	var former []session
	alive := false
	x.sessions.Scan(func(_ SessionID, s session) bool {
		if s.owner.node == c.Node && s.owner.incarnation == c.Incarnation {
			former = append(former, s)
			alive = alive || s.renewIndex > c.RenewIndex
		}
		return !alive
	})
	if alive {
		return Result{Code: CodeStale}
	}
	var names []string
	for _, s := range former {
		names = append(names, x.dissolve(s, EventSessionExpiry, EventExpired, false, "")...)
	}
	x.promoteAll(names)
	return Result{Code: CodeOK, Ended: len(former)}
}

// end removes a session and all that belongs to it, and only then promotes: were a waiter of the dead session still queued, the
// promotion could pick it.
func (x *step) end(s session, sessionEvent, holdEvent EventKind, finished bool) {
	x.promoteAll(x.dissolve(s, sessionEvent, holdEvent, finished, ""))
}

// promoteAll promotes on names of which some may come often: a session can have thousands of permits of one semaphore.
func (x *step) promoteAll(names []string) {
	slices.Sort(names)
	x.promote(slices.Compact(names))
}

// dissolve removes a session and all that belongs to it, and returns the names that may be free now. Unless its owner has finished, lock delays apply to
// what it held.
func (x *step) dissolve(s session, sessionEvent, holdEvent EventKind, finished bool, note string) (names []string) {
	id := s.owner.id
	x.sessions.Delete(id)
	deleteWhile(x.finished, FinishedRecord{Session: id}, func(f FinishedRecord) bool { return f.Session == id })
	deleteWhile(x.lost, LostRecord{Session: id}, func(l LostRecord) bool { return l.Session == id })
	x.eff.Ended = append(x.eff.Ended, id)
	x.emit(Event{Kind: sessionEvent, Session: id, Node: s.owner.node, Note: note})

	for _, c := range x.claimsOf(id) {
		switch {
		case c.grant == 0:
			x.release(c, EventCancelled, c.note)
		case finished:
			x.release(c, holdEvent, c.note)
		case !x.fail(c, holdEvent, c.note):
			continue
		}
		names = append(names, c.names...)
	}
	return names
}
