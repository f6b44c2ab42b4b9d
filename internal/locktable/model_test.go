package locktable

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// model is the lock table said once more with slices and maps and no thought for speed. It is meant to be read beside the rules of
// the DESIGN note and to be obviously right.
type model struct {
	limits   limits
	cluster  string
	counter  Rev
	level    uint32
	maxTTL   time.Duration
	sessions map[SessionID]*modelSession
	claims   []*ClaimRecord // by create revision
	audit    []AuditRecord

	index, term uint64
	wall        int64
	eff         *Effects
}

type modelSession struct {
	SessionRecord
	finished map[uint64]FinishedRecord
	lost     []Lost
}

func newModel(l limits) *model { return &model{limits: l, sessions: map[SessionID]*modelSession{}} }

func (m *model) apply(index, term uint64, wall int64, c *Command, eff *Effects) Result {
	m.index, m.term, m.wall, m.eff = index, term, wall, eff
	r := m.command(c)
	r.Index = index
	if r.Rev == 0 {
		r.Rev = m.counter
	}
	return r
}

func (m *model) command(c *Command) Result {
	if m.cluster == "" && c.Op != OpFound {
		return Result{Code: CodeNotFounded}
	}
	if err := Check(c); err != nil { // whether Check is right is said by chaos, which knows the commands that it spoiled
		return Result{Code: CodeMalformed, Detail: err.Error()}
	}
	s := m.sessions[c.Session]
	switch c.Op {
	case OpFound:
		if m.cluster != "" {
			return Result{Code: CodeExists}
		}
		m.cluster, m.counter, m.maxTTL = c.ClusterID, c.Rev, c.TTL
	case OpLevel:
		m.level = max(m.level, c.Level)
	case OpInspect:
		return Result{Code: CodeOK, Info: m.inspect(c.Names[0])}
	case OpOpen:
		return m.open(c)
	case OpForce:
		return m.force(c)
	case OpDrained:
		return m.drained(c)
	case OpExpire, OpClose:
		if s == nil {
			return Result{Code: CodeNoSession}
		}
		if c.Op == OpExpire && (c.Term != m.term || c.RenewIndex != s.RenewIndex) {
			return Result{Code: CodeStale}
		}
		m.end(s, c.Op)
	case OpRenew, OpClaim, OpCancel, OpUnlock:
		if s == nil {
			return Result{Code: CodeNoSession}
		}
		m.renew(s)
		m.floor(s, c.Floor)
		r := m.inSession(s, c)
		r.Renewed = true
		r.Lost = slices.Clone(s.lost)
		return r
	}
	return Result{Code: CodeOK}
}

func (m *model) emit(kind EventKind, s *modelSession, c *ClaimRecord, note string) {
	names := []string{""}
	e := Event{Kind: kind, Index: m.index, Wall: m.wall, Session: s.ID, Node: s.Node, Note: note}
	if c != nil {
		names, e.Seq, e.Token = c.Names, c.Seq, c.Token
	}
	for _, e.Name = range names {
		m.counter++
		e.Rev = m.counter
		m.eff.Events = append(m.eff.Events, e)
	}
}

func (m *model) renew(s *modelSession) {
	s.RenewIndex = m.index
	m.eff.Renewed = append(m.eff.Renewed, Renewal{s.ID, s.TTL, m.index})
}

func (m *model) floor(s *modelSession, floor uint64) {
	s.Floor = max(s.Floor, floor)
	for seq := range s.finished {
		if seq < s.Floor {
			delete(s.finished, seq)
		}
	}
}

func (m *model) open(c *Command) Result {
	if c.TTL > m.maxTTL {
		return Result{Code: CodeMalformed, Detail: "command field TTL: longer than the cluster's maximum"}
	}
	if len(m.sessions) >= m.limits.sessions {
		return Result{Code: CodeOverloaded, Detail: "too many sessions"}
	}
	s := &modelSession{finished: map[uint64]FinishedRecord{}}
	s.ID, s.Node, s.NodeName, s.TTL = SessionID(m.counter+1), c.Node, c.NodeName, c.TTL
	m.emit(EventSessionOpen, s, nil, "")
	m.renew(s)
	m.sessions[s.ID] = s
	return Result{Code: CodeOK, Session: s.ID, Renewed: true}
}

// inSession treats what claim, cancel and unlock have in common: a sequence is live, finished, below the floor, or new.
func (m *model) inSession(s *modelSession, c *Command) Result {
	if c.Op == OpRenew {
		return m.news(s, c)
	}
	live := m.live(s.ID, c.Seq)
	f, finished := s.finished[c.Seq]
	overloaded := Result{Code: CodeOverloaded, Detail: "too many finished sequences above the floor"}
	switch {
	case live != nil && c.Op == OpUnlock:
		return Result{Code: CodeMismatch, Detail: "the sequence is a live claim"}
	case live != nil && c.Op == OpCancel:
		token := live.Token
		m.retire(live, map[bool]EventKind{true: EventReleased, false: EventCancelled}[token != 0], live.Note)
		return Result{Code: CodeCancelled, Token: token}
	case live != nil:
		return m.again(live, c)
	case finished && c.Op == OpUnlock && (f.Op != OpUnlock || f.Token != c.Token):
		return Result{Code: CodeMismatch, Detail: "the sequence was another request"}
	case finished && c.Op != OpUnlock && f.Op != OpClaim:
		return Result{Code: CodeMismatch, Detail: "the sequence was not a claim"}
	case finished && c.Op == OpClaim && f.Code == CodeLocked:
		return Result{Code: CodeLocked, Blocker: m.blocker(c.Names), Waiters: m.waiters(c.Names[0])}
	case finished:
		return Result{Code: f.Code, Token: f.Token}
	case c.Seq < s.Floor && c.Op == OpCancel:
		return Result{Code: CodeCancelled}
	case c.Seq < s.Floor:
		return Result{Code: CodeBelowFloor}
	case len(s.finished) >= m.limits.finished && c.Seq > s.Floor: // the sequence at the floor lets the floor rise
		return overloaded
	}
	switch c.Op {
	case OpClaim:
		return m.claim(s, c)
	case OpCancel:
		m.finish(s, c.Seq, OpClaim, CodeCancelled, 0)
		return Result{Code: CodeCancelled}
	}
	code := CodeNotHeld
	for _, h := range m.claims {
		if h.Session == s.ID && h.Token == c.Token {
			code = CodeReleased
			m.retire(h, EventReleased, h.Note)
			break
		}
	}
	m.finish(s, c.Seq, OpUnlock, code, c.Token)
	return Result{Code: code, Token: c.Token}
}

func (m *model) news(s *modelSession, c *Command) Result {
	if c.Since > m.counter {
		return Result{Code: CodeMalformed, Detail: "command field Since: ahead of the counter"}
	}
	s.lost = slices.DeleteFunc(s.lost, func(l Lost) bool { return l.Rev <= c.Since })
	r := Result{Code: CodeOK}
	for _, h := range m.claims {
		if h.Session == s.ID && Rev(h.Token) > c.Since && h.DrainRev == 0 {
			r.Grants = append(r.Grants, Grant{h.Seq, h.Token})
		}
	}
	slices.SortFunc(r.Grants, func(a, b Grant) int { return cmp.Compare(a.Token, b.Token) })
	return r
}

func (m *model) again(live *ClaimRecord, c *Command) Result {
	switch {
	case !slices.Equal(live.Names, c.Names) || live.Note != c.Note || live.Token == 0 && c.Try:
		return Result{Code: CodeMismatch, Rev: live.Rev, Detail: "the sequence is a live claim with other content"}
	case live.DrainRev != 0:
		return Result{Code: CodeDraining, Rev: live.Rev, Token: live.Token, DrainIndex: live.DrainIndex}
	case live.Token != 0:
		return Result{Code: CodeGranted, Rev: live.Rev, Token: live.Token}
	}
	return m.waitingResult(live)
}

func (m *model) waitingResult(c *ClaimRecord) Result {
	r := Result{Code: CodeWaiting, Rev: c.Rev, Blocker: m.blocker(c.Names), Waiters: m.waiters(c.Names[0])}
	for _, name := range c.Names {
		n := 0
		for _, other := range m.claims {
			if other.Rev < c.Rev && other.Token == 0 && slices.Contains(other.Names, name) {
				n++
			}
		}
		r.Ahead = max(r.Ahead, n)
	}
	return r
}

func (m *model) claim(s *modelSession, c *Command) Result {
	made := &ClaimRecord{
		Rev: m.counter + 1, Session: s.ID, Seq: c.Seq, Names: slices.Clone(c.Names), Note: c.Note, Created: m.wall,
	}
	blocked := m.blocked(made)
	if c.Try && blocked {
		m.finish(s, c.Seq, OpClaim, CodeLocked, 0)
		return Result{Code: CodeLocked, Blocker: m.blocker(c.Names), Waiters: m.waiters(c.Names[0])}
	}
	if len(m.claims) >= m.limits.claims {
		return Result{Code: CodeOverloaded, Detail: "too many claims"}
	}
	m.claims = append(m.claims, made)
	if blocked {
		m.emit(EventQueued, s, made, made.Note)
		return m.waitingResult(made)
	}
	m.grant(made)
	return Result{Code: CodeGranted, Rev: made.Rev, Token: made.Token}
}

// blocked says whether any earlier claim shares a name, be it held or waiting.
func (m *model) blocked(c *ClaimRecord) bool {
	for _, other := range m.claims {
		for _, name := range other.Names {
			if other.Rev < c.Rev && slices.Contains(c.Names, name) {
				return true
			}
		}
	}
	return false
}

func (m *model) grant(c *ClaimRecord) {
	c.Token, c.Granted = Token(m.counter+1), m.wall
	m.emit(EventGranted, m.sessions[c.Session], c, c.Note)
}

func (m *model) promote() {
	for _, c := range m.claims {
		if c.Token == 0 && !m.blocked(c) {
			m.grant(c)
		}
	}
}

func (m *model) release(c *ClaimRecord, kind EventKind, note string) {
	m.claims = slices.DeleteFunc(m.claims, func(other *ClaimRecord) bool { return other == c })
	s := m.sessions[c.Session]
	if c.DrainRev != 0 {
		m.eff.Drains = append(m.eff.Drains, Drain{Token: c.Token, TTL: s.TTL})
	}
	m.emit(kind, s, c, note)
}

func (m *model) retire(c *ClaimRecord, kind EventKind, note string) {
	m.release(c, kind, note)
	m.finish(m.sessions[c.Session], c.Seq, OpClaim, CodeCancelled, c.Token)
	m.promote()
}

func (m *model) finish(s *modelSession, seq uint64, op Op, code Code, token Token) {
	if seq >= s.Floor {
		s.finished[seq] = FinishedRecord{s.ID, seq, op, code, token}
	}
}

func (m *model) end(s *modelSession, op Op) {
	kind, holdKind := EventSessionClosed, EventReleased
	if op == OpExpire {
		kind, holdKind = EventSessionExpiry, EventExpired
	}
	m.eff.Ended = append(m.eff.Ended, s.ID)
	m.emit(kind, s, nil, "")
	own := slices.DeleteFunc(slices.Clone(m.claims), func(c *ClaimRecord) bool { return c.Session != s.ID })
	slices.SortFunc(own, func(a, b *ClaimRecord) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, c := range own {
		if c.Token == 0 {
			m.release(c, EventCancelled, c.Note)
		} else {
			m.release(c, holdKind, c.Note)
		}
	}
	delete(m.sessions, s.ID)
	m.promote()
}

func (m *model) force(c *Command) Result {
	held := m.holder(c.Names[0])
	switch {
	case held == nil:
		return Result{Code: CodeNotHeld}
	case held.Token != c.Token:
		return Result{Code: CodeMismatch, Blocker: m.blocker(c.Names)}
	case held.DrainRev != 0 && !c.Now:
		return Result{Code: CodeDraining, Token: held.Token, DrainIndex: held.DrainIndex}
	}
	s := m.sessions[held.Session]
	if len(s.lost) >= m.limits.lost {
		return Result{Code: CodeOverloaded, Detail: "the holder has not heard of too many lost holds"}
	}
	cause, rev := LostDrained, m.counter+1
	if c.Now {
		cause = LostForced
	}
	s.lost = append(s.lost, Lost{held.Seq, held.Token, cause, c.Note, c.Actor, rev})
	m.audit = append(m.audit, AuditRecord{rev, m.wall, c.Names[0], held.Token, c.Now, c.Actor, c.Note})
	m.audit = m.audit[max(0, len(m.audit)-m.limits.audit):]
	if c.Now {
		m.retire(held, EventForced, c.Note)
		return Result{Code: CodeOK, Token: c.Token}
	}
	held.DrainIndex, held.DrainRev, held.DrainNote, held.DrainActor = m.index, rev, c.Note, c.Actor
	m.emit(EventDraining, s, held, c.Note)
	m.eff.Drains = append(m.eff.Drains, Drain{held.Token, s.TTL, m.index})
	return Result{Code: CodeDraining, Token: c.Token, DrainIndex: m.index}
}

func (m *model) drained(c *Command) Result {
	if c.Term != m.term {
		return Result{Code: CodeStale}
	}
	for _, held := range m.claims {
		if held.Token != c.Token || held.DrainRev == 0 {
			continue
		}
		if held.DrainIndex != c.RenewIndex {
			return Result{Code: CodeStale}
		}
		m.retire(held, EventForced, held.DrainNote)
		return Result{Code: CodeOK, Token: c.Token}
	}
	return Result{Code: CodeNotHeld}
}

func (m *model) live(id SessionID, seq uint64) *ClaimRecord {
	for _, c := range m.claims {
		if c.Session == id && c.Seq == seq {
			return c
		}
	}
	return nil
}

func (m *model) holder(name string) *ClaimRecord {
	for _, c := range m.claims {
		if c.Token != 0 && slices.Contains(c.Names, name) {
			return c
		}
	}
	return nil
}

func (m *model) waiters(name string) int {
	n := 0
	for _, c := range m.claims {
		if c.Token == 0 && slices.Contains(c.Names, name) {
			n++
		}
	}
	return n
}

func (m *model) holderInfo(c *ClaimRecord) Holder {
	s := m.sessions[c.Session]
	return Holder{s.ID, s.Node, s.NodeName, c.Note, c.Token, c.Granted, c.DrainRev != 0}
}

func (m *model) blocker(names []string) *Holder {
	for _, name := range names {
		if c := m.holder(name); c != nil {
			h := m.holderInfo(c)
			return &h
		}
	}
	return nil
}

func (m *model) inspect(name string) *Info {
	info := &Info{Name: name, Waiting: m.waiters(name), Index: m.index, Rev: m.counter}
	for _, c := range m.claims {
		switch s := m.sessions[c.Session]; {
		case !slices.Contains(c.Names, name):
		case c.Token != 0:
			info.Holders = append(info.Holders, m.holderInfo(c))
		case len(info.Waiters) < MaxInspect:
			info.Waiters = append(info.Waiters, Waiter{s.ID, s.Node, s.NodeName, c.Note, c.Rev, c.Created})
		}
	}
	return info
}

func (m *model) grantOf(id SessionID, seq uint64) (Token, bool) {
	if c := m.live(id, seq); c != nil && c.Token != 0 && c.DrainRev == 0 {
		return c.Token, true
	}
	return 0, false
}

func (m *model) drains() []Drain {
	var all []Drain
	for _, c := range m.claims {
		if c.DrainRev != 0 {
			all = append(all, Drain{c.Token, m.sessions[c.Session].TTL, c.DrainIndex})
		}
	}
	slices.SortFunc(all, func(a, b Drain) int { return cmp.Compare(a.Token, b.Token) })
	return all
}

func (m *model) names(prefix, after string, limit int) []string {
	var all []string
	for _, c := range m.claims {
		for _, name := range c.Names {
			if strings.HasPrefix(name, prefix) && (after == "" || name > after) {
				all = append(all, name)
			}
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return all[:min(limit, len(all))]
}
