package locktable

import (
	"cmp"
	"slices"
	"time"
)

// model is the lock table said once more with slices and maps and no thought for speed. It is meant to be read beside the rules of
// the DESIGN note and to be obviously right. The whole table of claims is one list in the order of their places; whatever happened, a command
// ends by walking it once and granting what can be granted.
type model struct {
	limits     limits
	cluster    string
	counter    Rev
	level      uint32
	maxTTL     time.Duration
	quarantine Quarantine
	sessions   map[SessionID]*modelSession
	claims     []*ClaimRecord // by place, waiting, held and barred
	semaphores map[string]*LimitRecord
	audit      []AuditRecord

	index, term uint64
	wall        int64
	eff         *Effects
	why         string // an operator's reason for the end of a session
}

type modelSession struct {
	SessionRecord
	finished map[uint64]FinishedRecord
	lost     []Lost
}

func newModel(l limits) *model {
	return &model{limits: l, sessions: map[SessionID]*modelSession{}, semaphores: map[string]*LimitRecord{}}
}

func (m *model) apply(index, term uint64, wall int64, c *Command, eff *Effects) Result {
	m.index, m.term, m.wall, m.eff = index, term, wall, eff
	r := m.command(c)
	m.forgetSemaphores()
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
	if c.Op >= OpSessions && m.level < 2 {
		return Result{Code: CodeMalformed, Detail: "command field Op: needs feature level 2"}
	}
	switch c.Op {
	case OpFound:
		if m.cluster != "" {
			return Result{Code: CodeExists}
		}
		m.cluster, m.counter, m.maxTTL = c.ClusterID, c.Rev, c.TTL
	case OpLevel:
		m.level = max(m.level, c.Level)
	case OpBarrier:
	case OpInspect:
		info := m.inspect(c.Names[0], MaxInspect)
		return Result{Code: CodeOK, Info: &info}
	case OpList:
		return m.list(c)
	case OpOpen:
		return m.open(c)
	case OpForce:
		return m.force(c)
	case OpDrained:
		return m.drained(c)
	case OpRestart:
		return m.restart(c)
	case OpSessions:
		return m.listSessions(c)
	case OpAudit:
		return m.listAudit(c)
	case OpAct:
		drained := m.drainedNodes()
		switch {
		case c.Act == ActDrain && drained[c.Node], c.Act == ActUndrain && !drained[c.Node]:
			return Result{Code: CodeOK}
		case c.Act == ActDrain && len(drained) >= m.limits.audit/2:
			return Result{Code: CodeOverloaded, Detail: "too many members are drained"}
		}
		m.keep(AuditRecord{Act: c.Act, Node: c.Node, NodeName: c.NodeName, Actor: c.Actor, Reason: c.Note})
		m.emitEvent(Event{Kind: EventAct, Node: c.Node, Note: c.Note})
	default:
		return m.ofSession(c)
	}
	return Result{Code: CodeOK}
}

// ofSession treats the commands about one session, which must live.
func (m *model) ofSession(c *Command) Result {
	s := m.sessions[c.Session]
	switch {
	case s == nil && (c.Op == OpClose || c.Op == OpExpire):
		return Result{Code: CodeNoSession}
	case s == nil:
		return m.endedBy(c.Session)
	case c.Op == OpEnd:
		m.endByForce(s, c)
		return Result{Code: CodeOK}
	case c.Op == OpExpire && (c.Term != m.term || c.RenewIndex != s.RenewIndex):
		return Result{Code: CodeStale}
	case c.Op == OpExpire:
		m.end(EventSessionExpiry, EventExpired, true, s)
		return Result{Code: CodeOK}
	case c.Op == OpClose:
		m.end(EventSessionClosed, EventReleased, !c.Now, s)
		return Result{Code: CodeOK}
	}
	m.floor(s, c.Floor)
	if c.Op == OpCancel && c.Now {
		return m.cancel(s, c)
	}
	m.renew(s)
	r := m.inSession(s, c)
	r.Renewed = true
	r.Lost = slices.Clone(s.lost)
	return r
}

// inSession: a cancel and a renewal are never remembered; any other request is one that is known, or a new one.
func (m *model) inSession(s *modelSession, c *Command) Result {
	switch c.Op {
	case OpRenew:
		return m.news(s, c)
	case OpCancel:
		return m.cancel(s, c)
	}
	if r, known := m.known(s, c); known {
		return r
	}
	switch c.Op {
	case OpClaim:
		return m.claim(s, c)
	case OpResize:
		return m.resize(s, c)
	}
	return m.aboutHold(s, c)
}

// known answers a request whose sequence is a live claim, is finished, or may not begin.
func (m *model) known(s *modelSession, c *Command) (Result, bool) {
	live := m.live(s.ID, c.Seq)
	f, finished := s.finished[c.Seq]
	makesClaim := c.Op == OpDowngrade || c.Op == OpAccept
	switch {
	case live != nil && c.Op == OpClaim:
		return m.again(live, c), true
	case live != nil && makesClaim && live.Pos != live.Rev && live.Note == c.Note:
		return m.standing(live), true
	case live != nil:
		return Result{Code: CodeMismatch, Detail: "the sequence is a live claim"}, true
	case finished && c.Op == OpClaim && f.Op != OpClaim:
		return Result{Code: CodeMismatch, Detail: "the sequence was not a claim"}, true
	case finished && c.Op == OpClaim && f.Code != CodeCancelled:
		return m.refused(f.Code, c), true
	case finished && c.Op == OpClaim, finished && makesClaim && f.Op == OpClaim && f.Code == CodeCancelled:
		return Result{Code: f.Code, Token: f.Token}, true
	case finished && (f.Op != c.Op || f.Token != c.Token):
		return Result{Code: CodeMismatch, Detail: "the sequence was another request"}, true
	case finished && c.Op == OpResize:
		return m.resized(f.Code, c), true
	case finished:
		return Result{Code: f.Code, Token: f.Token}, true
	case c.Seq < s.Floor:
		return Result{Code: CodeBelowFloor}, true
	}
	return m.fullResult(s, c.Seq)
}

// fullResult refuses a new sequence when too many are remembered; the one at the floor is taken, for it lets the floor rise.
func (m *model) fullResult(s *modelSession, seq uint64) (Result, bool) {
	full := len(s.finished) >= m.limits.finished && seq > s.Floor
	return Result{Code: CodeOverloaded, Detail: "too many finished sequences above the floor"}, full
}

func (m *model) cancel(s *modelSession, c *Command) Result {
	if live := m.live(s.ID, c.Seq); live != nil {
		token := live.Token
		m.retire(live, map[bool]EventKind{true: EventReleased, false: EventCancelled}[live.Grant != 0], live.Note)
		return Result{Code: CodeCancelled, Token: token}
	}
	f, finished := s.finished[c.Seq]
	switch {
	case finished && (f.Op == OpDowngrade || f.Op == OpAccept):
		return Result{Code: f.Code}
	case finished && f.Op != OpClaim:
		return Result{Code: CodeMismatch, Detail: "the sequence was not a claim"}
	case finished:
		return Result{Code: f.Code, Token: f.Token}
	case c.Seq < s.Floor:
		return Result{Code: CodeCancelled}
	}
	if r, full := m.fullResult(s, c.Seq); full {
		return r
	}
	m.finish(s, c.Seq, OpClaim, CodeCancelled, 0)
	return Result{Code: CodeCancelled}
}

// claim takes a new claim, if the names are used in its way, the limit is agreed, and a Try finds them free.
func (m *model) claim(s *modelSession, c *Command) Result {
	made := &ClaimRecord{
		Rev: m.counter + 1, Pos: m.counter + 1, Session: s.ID, Seq: c.Seq, Names: slices.Clone(c.Names), Note: c.Note, Created: m.wall,
		Mode: c.Mode, Count: c.Count, Value: c.Value, Delay: c.Delay,
	}
	if m.quarantine.Rev != 0 {
		return Result{Code: CodeQuarantined, Detail: m.quarantine.Wait.String()}
	}
	limit := c.Limit
	if sem := m.semaphores[c.Names[0]]; sem != nil {
		limit = sem.Limit
		if c.Mode == Permits && (c.Limit != sem.Limit && c.Limit != sem.Former || c.Count > sem.Limit) {
			return m.refuse(s, CodeLimit, c)
		}
	}
	free := m.admissible(made, limit)
	switch {
	case m.misused(c.Names, c.Mode) != "":
		return m.refuse(s, CodeKind, c)
	case c.Try && !free:
		return m.refuse(s, CodeLocked, c)
	case len(m.claims) >= m.limits.claims:
		return Result{Code: CodeOverloaded, Detail: "too many claims"}
	}
	m.claims = append(m.claims, made)
	if c.Mode == Permits && m.semaphores[c.Names[0]] == nil {
		m.semaphores[c.Names[0]] = &LimitRecord{Name: c.Names[0], Limit: c.Limit}
	}
	if !free {
		m.emit(EventQueued, made, made.Note)
		return m.waitingResult(made)
	}
	m.grant(made)
	return Result{Code: CodeGranted, Rev: made.Rev, Token: made.Token}
}

func (m *model) refuse(s *modelSession, code Code, c *Command) Result {
	m.finish(s, c.Seq, OpClaim, code, 0)
	return m.refused(code, c)
}

func (m *model) refused(code Code, c *Command) Result {
	switch code {
	case CodeKind:
		return Result{Code: code, Detail: m.misused(c.Names, c.Mode)}
	case CodeLimit:
		return Result{Code: code, Limit: m.limit(c.Names[0])}
	}
	for _, name := range c.Names {
		if len(m.queue(name)) > 0 {
			return Result{Code: code, Detail: name, Blocker: m.blocker([]string{name}), Waiters: m.waiters(name)}
		}
	}
	return Result{Code: code}
}

// misused is the first name that is a semaphore where a lock is wanted, or the other way round.
func (m *model) misused(names []string, mode Mode) string {
	for _, name := range names {
		isSemaphore := m.semaphores[name] != nil
		if isSemaphore && mode != Permits || !isSemaphore && mode == Permits && len(m.queue(name)) > 0 {
			return name
		}
	}
	return ""
}

func (m *model) limit(name string) uint32 {
	if sem := m.semaphores[name]; sem != nil {
		return sem.Limit
	}
	return 0
}

// queue is every claim on a name, by place.
func (m *model) queue(name string) []*ClaimRecord {
	return slices.DeleteFunc(slices.Clone(m.claims), func(c *ClaimRecord) bool { return !slices.Contains(c.Names, name) })
}

// admissible is the one rule of grants: on each name, all claims that stand before hold, share it with this one, and leave it enough.
func (m *model) admissible(c *ClaimRecord, limit uint32) bool {
	for _, name := range c.Names {
		permits := int64(c.Count)
		for _, before := range m.queue(name) {
			if before.Pos >= c.Pos {
				break
			}
			if before.Grant == 0 || before.Mode != c.Mode || c.Mode == Exclusive {
				return false
			}
			permits += int64(before.Count)
		}
		if c.Mode == Permits && permits > int64(limit) {
			return false
		}
	}
	return true
}

// grant gives a fresh token, or to a reader the token of those who read already.
func (m *model) grant(c *ClaimRecord) {
	c.Grant, c.Granted, c.Token = m.counter+1, m.wall, Token(m.counter+1)
	for _, other := range m.queue(c.Names[0]) {
		if other != c && other.Grant != 0 && c.Mode == Shared {
			c.Token = other.Token
		}
	}
	m.emit(EventGranted, c, c.Note)
}

func (m *model) promote() {
	for _, c := range m.claims {
		if c.Grant == 0 && m.admissible(c, m.limit(c.Names[0])) {
			m.grant(c)
		}
	}
}

// forgetSemaphores: a limit lasts as long as anybody claims the semaphore, unless it was set.
func (m *model) forgetSemaphores() {
	for name, sem := range m.semaphores {
		if !sem.Set && len(m.queue(name)) == 0 {
			delete(m.semaphores, name)
		}
	}
}

func (m *model) emit(kind EventKind, c *ClaimRecord, note string) {
	e := Event{
		Kind: kind, Index: m.index, Wall: m.wall, Session: c.Session, Node: m.holderInfo(c).Node, Seq: c.Seq, Token: c.Token, Note: note,
		Mode: c.Mode, Count: c.Count,
	}
	if kind == EventGranted || kind == EventValue {
		e.Value = c.Value
	}
	for _, e.Name = range c.Names {
		m.emitEvent(e)
	}
}

func (m *model) emitEvent(e Event) {
	m.counter++
	e.Rev, e.Index, e.Wall = m.counter, m.index, m.wall
	m.eff.Events = append(m.eff.Events, e)
}

// remove takes a claim out of the list; a drain or a delay that goes on ends with it.
func (m *model) remove(c *ClaimRecord) {
	m.claims = slices.DeleteFunc(m.claims, func(other *ClaimRecord) bool { return other == c })
	if c.DrainRev != 0 {
		m.eff.Drains = append(m.eff.Drains, Drain{Grant: c.Grant, Wait: m.wait(c)})
	}
}

func (m *model) wait(c *ClaimRecord) time.Duration {
	if c.Barred {
		return c.Delay
	}
	return m.sessions[c.Session].TTL
}

// retire ends a claim of a live session.
func (m *model) retire(c *ClaimRecord, kind EventKind, note string) {
	m.remove(c)
	m.emit(kind, c, note)
	m.finish(m.sessions[c.Session], c.Seq, OpClaim, CodeCancelled, c.Token)
	m.promote()
}

// fail ends a hold against its holder's will: with a lock delay it stays where it is, without a session.
func (m *model) fail(c *ClaimRecord, kind EventKind, note string) {
	if c.Delay == 0 {
		m.remove(c)
		m.emit(kind, c, note)
		return
	}
	s := m.sessions[c.Session]
	c.DrainIndex, c.DrainRev, c.DrainNote, c.DrainActor = m.index, m.counter+1, "", ""
	m.emit(kind, c, note)
	c.Barred, c.Node, c.NodeName = true, s.Node, s.NodeName
	m.eff.Drains = append(m.eff.Drains, Drain{Grant: c.Grant, Wait: c.Delay, Index: m.index})
}

func (m *model) finish(s *modelSession, seq uint64, op Op, code Code, token Token) {
	if seq >= s.Floor {
		s.finished[seq] = FinishedRecord{s.ID, seq, op, code, token}
	}
}

func (m *model) live(id SessionID, seq uint64) *ClaimRecord {
	for _, c := range m.claims {
		if c.Session == id && c.Seq == seq && !c.Barred {
			return c
		}
	}
	return nil
}

// byPlace restores the order of the list after a claim got another place.
func (m *model) byPlace() {
	slices.SortFunc(m.claims, func(a, b *ClaimRecord) int { return cmp.Compare(a.Pos, b.Pos) })
}
