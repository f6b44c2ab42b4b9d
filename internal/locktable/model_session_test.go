package locktable

import (
	"cmp"
	"maps"
	"slices"
)

// Sessions in the model: their beginning, their news and their end.

func (m *model) renew(s *modelSession) {
	s.RenewIndex = m.index
	m.eff.Renewed = append(m.eff.Renewed, Renewal{s.ID, s.TTL, m.index})
}

func (m *model) floor(s *modelSession, floor uint64) {
	s.Floor = max(s.Floor, floor)
	maps.DeleteFunc(s.finished, func(seq uint64, _ FinishedRecord) bool { return seq < s.Floor })
}

func (m *model) open(c *Command) Result {
	if c.TTL > m.maxTTL {
		return Result{Code: CodeMalformed, Detail: "command field TTL: longer than the cluster's maximum"}
	}
	if len(m.sessions) >= m.limits.sessions {
		return Result{Code: CodeOverloaded, Detail: "too many sessions"}
	}
	s := &modelSession{finished: map[uint64]FinishedRecord{}}
	s.ID, s.Node, s.NodeName, s.TTL, s.Incarnation = SessionID(m.counter+1), c.Node, c.NodeName, c.TTL, c.Incarnation
	if m.level >= 2 {
		s.Opened = m.wall
	}
	m.emitEvent(Event{Kind: EventSessionOpen, Session: s.ID, Node: s.Node})
	m.renew(s)
	m.sessions[s.ID] = s
	return Result{Code: CodeOK, Session: s.ID, Renewed: true}
}

func (m *model) news(s *modelSession, c *Command) Result {
	if c.Since > m.counter {
		return Result{Code: CodeMalformed, Detail: "command field Since: ahead of the counter"}
	}
	s.lost = slices.DeleteFunc(s.lost, func(l Lost) bool { return l.Rev <= c.Since })
	held := slices.DeleteFunc(slices.Clone(m.claims), func(h *ClaimRecord) bool {
		return h.Session != s.ID || h.Grant <= c.Since || h.DrainRev != 0
	})
	slices.SortFunc(held, func(a, b *ClaimRecord) int { return cmp.Compare(a.Grant, b.Grant) })
	r := Result{Code: CodeOK}
	for _, h := range held {
		r.Grants = append(r.Grants, Grant{h.Seq, h.Token})
	}
	return r
}

// end removes sessions and all that they claim, and only then grants to others. delays: their holders may have work under way.
func (m *model) end(kind, holdKind EventKind, delays bool, sessions ...*modelSession) {
	for _, s := range sessions {
		m.eff.Ended = append(m.eff.Ended, s.ID)
		m.emitEvent(Event{Kind: kind, Session: s.ID, Node: s.Node, Note: m.why})
		own := slices.DeleteFunc(slices.Clone(m.claims), func(c *ClaimRecord) bool { return c.Session != s.ID || c.Barred })
		slices.SortFunc(own, func(a, b *ClaimRecord) int { return cmp.Compare(a.Seq, b.Seq) })
		for _, c := range own {
			switch {
			case c.Grant == 0:
				m.remove(c)
				m.emit(EventCancelled, c, c.Note)
			case delays:
				m.fail(c, holdKind, c.Note)
			default:
				m.remove(c)
				m.emit(holdKind, c, c.Note)
			}
		}
		delete(m.sessions, s.ID)
	}
	m.promote()
}

// restart ends the sessions of a start of a node, if none of them shows a sign of life after RenewIndex.
func (m *model) restart(c *Command) Result {
	var former []*modelSession
	for _, id := range slices.Sorted(maps.Keys(m.sessions)) {
		s := m.sessions[id]
		if s.Node != c.Node || s.Incarnation != c.Incarnation {
			continue
		}
		if s.RenewIndex > c.RenewIndex {
			return Result{Code: CodeStale}
		}
		former = append(former, s)
	}
	m.end(EventSessionExpiry, EventExpired, true, former...)
	return Result{Code: CodeOK, Ended: len(former)}
}

// force releases all holds of a name under the token, of one session if one is named.
func (m *model) force(c *Command) Result {
	var targets []*ClaimRecord
	word := map[SessionID]int{} // losses that a session is told of
	r := Result{Code: CodeOK, Token: c.Token}
	found := false
	for _, h := range m.queue(c.Names[0]) {
		if h.Grant == 0 || h.Token != c.Token || c.Session != 0 && h.Session != c.Session {
			continue
		}
		found = true
		if !h.Barred && (c.Now || h.DrainRev == 0) {
			if len(m.sessions[h.Session].lost)+word[h.Session] >= m.limits.lost {
				r.More = true
				continue
			}
			word[h.Session]++
		}
		targets = append(targets, h)
	}
	if !found {
		if blocker := m.blocker(c.Names); blocker != nil {
			return Result{Code: CodeMismatch, Blocker: blocker, Waiters: m.waiters(c.Names[0])}
		}
		return Result{Code: CodeNotHeld}
	}
	if r.More && len(word) == 0 && (!c.Now || len(targets) == 0) {
		return Result{Code: CodeOverloaded, Detail: "the holder has not heard of too many lost holds"}
	}
	for _, h := range targets {
		switch {
		case c.Now:
			m.forceNow(h, c)
			continue
		case h.DrainRev == 0:
			m.drain(h, c)
		}
		r.Code, r.DrainIndex = CodeDraining, h.DrainIndex
	}
	return r
}

func (m *model) note(h *ClaimRecord, c *Command) {
	m.keep(AuditRecord{Name: c.Names[0], Token: h.Token, Now: c.Now, Actor: c.Actor, Reason: c.Note})
}

func (m *model) keep(r AuditRecord) {
	r.Rev, r.Wall = m.counter+1, m.wall
	m.audit = append(m.audit, r)
	if len(m.audit) > m.limits.audit {
		at := slices.IndexFunc(m.audit, func(r AuditRecord) bool { return r.Act != ActDrain || !m.drainedNodes()[r.Node] })
		m.audit = slices.Delete(slices.Clone(m.audit), at, at+1)
	}
}

func (m *model) forceNow(h *ClaimRecord, c *Command) {
	m.note(h, c)
	if h.Barred {
		m.free(h, c.Note)
		return
	}
	s := m.sessions[h.Session]
	s.lost = append(s.lost, Lost{Seq: h.Seq, Token: h.Token, Cause: LostForced, Reason: c.Note, Actor: c.Actor, Rev: m.counter + 1})
	m.retire(h, EventForced, c.Note)
}

// free ends a lock delay.
func (m *model) free(c *ClaimRecord, note string) {
	m.remove(c)
	m.emit(EventFreed, c, note)
	m.promote()
}

func (m *model) drain(h *ClaimRecord, c *Command) {
	m.note(h, c)
	s := m.sessions[h.Session]
	s.lost = append(s.lost, Lost{Seq: h.Seq, Token: h.Token, Cause: LostDrained, Reason: c.Note, Actor: c.Actor, Rev: m.counter + 1})
	h.DrainIndex, h.DrainRev, h.DrainNote, h.DrainActor = m.index, m.counter+1, c.Note, c.Actor
	m.emit(EventDraining, h, c.Note)
	m.eff.Drains = append(m.eff.Drains, Drain{h.Grant, s.TTL, m.index})
}

// drained ends the drain, or the lock delay, that began at the index named.
func (m *model) drained(c *Command) Result {
	if c.Term != m.term {
		return Result{Code: CodeStale}
	}
	if q := m.quarantine; q.Rev == c.Rev {
		if q.Index != c.RenewIndex {
			return Result{Code: CodeStale}
		}
		m.quarantine = Quarantine{}
		m.eff.Drains = append(m.eff.Drains, Drain{Grant: q.Rev, Wait: q.Wait})
		return Result{Code: CodeOK}
	}
	at := slices.IndexFunc(m.claims, func(h *ClaimRecord) bool { return h.Grant == c.Rev && h.DrainRev != 0 })
	if at < 0 {
		return Result{Code: CodeNotHeld}
	}
	h := m.claims[at]
	switch {
	case h.DrainIndex != c.RenewIndex:
		return Result{Code: CodeStale}
	case h.Barred:
		m.free(h, h.Note)
	default:
		s := m.sessions[h.Session]
		m.fail(h, EventForced, h.DrainNote)
		m.finish(s, h.Seq, OpClaim, CodeCancelled, h.Token)
		m.promote()
	}
	return Result{Code: CodeOK, Token: h.Token}
}
