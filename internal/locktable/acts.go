package locktable

import "time"

// Operators' acts beside the forced release of one lock, what is recorded of them, and the listings by which they are prepared.

// LevelOf is the lowest feature level at which an operation has its meaning.
func LevelOf(op Op) uint32 {
	if op >= OpSessions {
		return LevelActs
	}
	return 1
}

// LevelActs is the feature level from which operators' acts are recorded, and sessions know when they were opened.
const LevelActs = 2

// Act is what an operator did. The list is append-only: values are written to logs and snapshots.
type Act uint8

const (
	ActForce    Act = 0 // released a lock by force: OpForce
	ActEnd      Act = 1 // ended a session: OpEnd
	ActTransfer Act = 2 // had leadership handed over
	ActRemove   Act = 3 // took a member out of the group
	ActDrain    Act = 4 // drained a member: Node gives up leadership and vote, and gets neither until it is undrained
	ActUndrain  Act = 5

	lastAct = ActUndrain
)

// endByForce ends a session against its owner's will. Without Now nobody can hold beside the former owner, as with a drain: the session takes no more
// answers, so its node's leases run out, and its names stay barred for a full TTL from here on (or for its lock delay, if that is longer), which the leader
// waits out like any other bar. So it needs no state of its own, and no word to a session that is gone. With Now only fencing protects.
func (x *step) endByForce(c *Command) Result {
	s, ok := x.sessions.Get(c.Session)
	if !ok {
		return x.noSession(c.Session)
	}
	x.keep(AuditRecord{
		Rev: x.counter + 1, Act: ActEnd, Session: s.owner.id, Node: s.owner.node, NodeName: s.owner.nodeName, Now: c.Now, Actor: c.Actor, Reason: c.Note,
	})
	if !c.Now {
		x.barFor(s.owner)
	}
	x.promoteAll(x.dissolve(s, EventSessionClosed, EventForced, c.Now, c.Note))
	return Result{Code: CodeOK}
}

// barFor gives all holds of a session a lock delay of at least its TTL.
func (x *step) barFor(o *owner) {
	least := o.ttl.Truncate(time.Millisecond)
	if least < o.ttl {
		least += time.Millisecond
	}
	for _, held := range x.claimsOf(o.id) {
		if held.grant == 0 || held.delay() >= least {
			continue
		}
		next := *held
		next.terms = held.with(func(t *terms) { t.delay = least })
		x.replace(held, &next)
	}
}

// noSession answers for a session that is not there. If an operator ended it, as the audit may still know, it says who and why.
func (x *step) noSession(id SessionID) Result {
	r := Result{Code: CodeNoSession}
	x.audit.Reverse(func(_ Rev, a AuditRecord) bool {
		if a.Act != ActEnd || a.Session != id {
			return true
		}
		r.Lost = []Lost{{Cause: LostSession, Reason: a.Reason, Actor: a.Actor, Rev: a.Rev}}
		return false
	})
	return r
}

// act records what an operator has done elsewhere. A member that is drained once more, or undrained without need, is left as it is.
func (x *step) act(c *Command) Result {
	if c.Act.aboutDrains() {
		aside := Aside(x.audits)
		switch {
		case aside[c.Node] == (c.Act == ActDrain):
			return Result{Code: CodeOK}
		case c.Act == ActDrain && len(aside) >= x.limits.audit/2: // their records are kept, and others need room
			return overloaded("too many members are drained")
		}
	}
	x.keep(AuditRecord{Rev: x.counter + 1, Act: c.Act, Node: c.Node, NodeName: c.NodeName, Actor: c.Actor, Reason: c.Note})
	x.emit(Event{Kind: EventAct, Node: c.Node, Note: c.Note})
	return Result{Code: CodeOK}
}

// maxVisited bounds how many claims a page of sessions counts, for as long as Apply waits for it; one session always fits.
const maxVisited = 10_000

func (x *step) listSessions(c *Command) Result {
	r := Result{Code: CodeOK}
	r.Sessions, r.More = x.ListSessions(SessionID(c.Rev), int(c.Count))
	return r
}

// ListSessions shows the sessions after one, by id: at most limit, and fewer if they have many claims. more says that there are others behind them.
func (s *state) ListSessions(after SessionID, limit int) (infos []SessionInfo, more bool) {
	visited := 0
	s.sessions.Ascend(after+1, func(_ SessionID, v session) bool {
		if more = len(infos) == limit || len(infos) > 0 && visited > maxVisited; more {
			return false
		}
		info := s.sessionInfo(v.owner)
		visited += info.Holding + info.Waiting
		infos = append(infos, info)
		return true
	})
	return infos, more
}

func (s *state) sessionInfo(o *owner) SessionInfo {
	info := SessionInfo{ID: o.id, Node: o.node, NodeName: o.nodeName, TTL: o.ttl, Opened: o.opened}
	s.claims.Ascend(claimEntry{session: o.id}, func(e claimEntry) bool {
		switch {
		case e.session != o.id:
			return false
		case e.claim.grant != 0:
			info.Holding++
		default:
			info.Waiting++
		}
		return true
	})
	return info
}

func (x *step) listAudit(c *Command) Result {
	r := Result{Code: CodeOK}
	r.Audit, r.More = x.ListAudit(c.Rev, int(c.Count))
	return r
}

// ListAudit shows the records after a revision, oldest first: at most limit. more says that there are others behind them.
func (s *state) ListAudit(after Rev, limit int) (records []AuditRecord, more bool) {
	s.audit.Ascend(after+1, func(_ Rev, r AuditRecord) bool {
		if more = len(records) == limit; more {
			return false
		}
		records = append(records, r)
		return true
	})
	return records, more
}

func (a Act) aboutDrains() bool { return a == ActDrain || a == ActUndrain }

// Aside are the members that are drained, by server id, as the records of the audit say, which come in their order. There is no other state of it: the record of a
// drain that is in force stays in the audit.
func Aside(records func(yield func(AuditRecord) bool)) map[string]bool {
	aside := make(map[string]bool)
	for r := range records {
		switch r.Act {
		case ActDrain:
			aside[r.Node] = true
		case ActUndrain:
			delete(aside, r.Node)
		}
	}
	return aside
}

func (s *state) audits(yield func(AuditRecord) bool) {
	s.audit.Scan(func(_ Rev, r AuditRecord) bool { return yield(r) })
}

// Aside are the members that are drained.
func (t *Table) Aside() map[string]bool { return Aside(t.audits) }

// oldestSpent is the oldest record that is not the last word on a drain in force.
func (s *state) oldestSpent() (oldest Rev) {
	aside := Aside(s.audits)
	s.audit.Scan(func(rev Rev, r AuditRecord) bool {
		if r.Act == ActDrain && aside[r.Node] {
			return true
		}
		oldest = rev
		return false
	})
	return oldest
}
