package locktable

import (
	"maps"
	"slices"
	"time"
)

// Operators' acts in the model.

// endByForce: unless it is done now, whatever the session holds stays barred for at least its TTL, in whole milliseconds.
func (m *model) endByForce(s *modelSession, c *Command) {
	m.keep(AuditRecord{Act: ActEnd, Session: s.ID, Node: s.Node, NodeName: s.NodeName, Now: c.Now, Actor: c.Actor, Reason: c.Note})
	ms := (s.TTL + time.Millisecond - 1) / time.Millisecond
	for _, h := range m.claims {
		if !c.Now && h.Session == s.ID && h.Grant != 0 && !h.Barred {
			h.Delay = max(h.Delay, ms*time.Millisecond)
		}
	}
	m.why = c.Note
	m.end(EventSessionClosed, EventForced, !c.Now, s)
	m.why = ""
}

// endedBy tells who ended a session by force, as long as that is remembered.
func (m *model) endedBy(id SessionID) Result {
	r := Result{Code: CodeNoSession}
	for _, a := range m.audit {
		if a.Act == ActEnd && a.Session == id {
			r.Lost = []Lost{{Cause: LostSession, Actor: a.Actor, Reason: a.Reason, Rev: a.Rev}}
		}
	}
	return r
}

func (m *model) listSessions(c *Command) Result {
	r := Result{Code: CodeOK}
	for _, id := range slices.Sorted(maps.Keys(m.sessions)) {
		if id <= SessionID(c.Rev) {
			continue
		}
		if r.More = len(r.Sessions) == int(c.Count); r.More {
			break
		}
		s := m.sessions[id]
		info := SessionInfo{ID: id, Node: s.Node, NodeName: s.NodeName, TTL: s.TTL, Opened: s.Opened}
		for _, h := range m.claims {
			switch {
			case h.Session != id || h.Barred:
			case h.Grant != 0:
				info.Holding++
			default:
				info.Waiting++
			}
		}
		r.Sessions = append(r.Sessions, info)
	}
	return r
}

func (m *model) listAudit(c *Command) Result {
	r := Result{Code: CodeOK}
	for _, a := range m.audit {
		if a.Rev <= c.Rev {
			continue
		}
		if r.More = len(r.Audit) == int(c.Count); r.More {
			break
		}
		r.Audit = append(r.Audit, a)
	}
	return r
}

// drainedNodes are those of which the last word is a drain.
func (m *model) drainedNodes() map[string]bool {
	drained := map[string]bool{}
	for _, a := range m.audit {
		if a.Act == ActDrain {
			drained[a.Node] = true
		}
		if a.Act == ActUndrain {
			delete(drained, a.Node)
		}
	}
	return drained
}
