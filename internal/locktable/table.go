package locktable

import (
	"fmt"
	"iter"
	"time"
)

// Table is the state machine. It is not safe for concurrent use: whoever applies the log owns it. What others may read while
// the log goes on is a Snapshot.
type Table struct {
	state
	limits limits
}

// limits are the sizes of the package as a value, so that tests reach them with small states.
type limits struct {
	sessions, claims, finished, lost, audit, limits int
}

// New is a table before its founding: it answers CodeNotFounded to everything but OpFound.
func New() *Table {
	return &Table{
		state: newState(),
		limits: limits{
			sessions: MaxSessions, claims: MaxClaims, finished: MaxFinished, lost: MaxLost, audit: MaxAudit, limits: MaxLimits,
		},
	}
}

// step is one command being applied: the table, what the log says about the command, and where its effects go.
type step struct {
	*Table
	index, term uint64
	wall        int64
	eff         *Effects
}

// Apply applies one command of the log entry at index, which was proposed in raft term term. wall is the leader's wall clock in
// Unix milliseconds; it is kept for display and decides nothing. Several commands of one entry share index. Effects are appended
// to eff, which may be nil if nobody wants them. Apply keeps the command's strings but not its Names slice, and never panics,
// whatever the command holds.
func (t *Table) Apply(index, term uint64, wall int64, c *Command, eff *Effects) Result {
	if eff == nil {
		eff = new(Effects)
	}
	t.index = max(t.index, index)
	x := step{Table: t, index: index, term: term, wall: wall, eff: eff}
	r := x.apply(c)
	r.Index = index
	if r.Rev == 0 {
		r.Rev = t.counter
	}
	return r
}

func (x *step) apply(c *Command) Result {
	if x.clusterID == "" && (c == nil || c.Op != OpFound) {
		return Result{Code: CodeNotFounded}
	}
	if err := check(c); err != nil {
		return malformed(err)
	}
	if need := LevelOf(c.Op); need > max(x.level, 1) { // nobody proposes it: an older member could not follow
		return malformed(&CommandError{Field: "Op", Reason: fmt.Sprintf("needs feature level %d", need)})
	}
	switch c.Op {
	case OpFound:
		return x.found(c)
	case OpOpen:
		return x.open(c)
	case OpRenew, OpClaim, OpCancel, OpUnlock, OpDowngrade, OpProclaim, OpHandOver, OpResize, OpOffer, OpAccept:
		return x.inSession(c)
	case OpClose:
		return x.close(c)
	case OpExpire:
		return x.expire(c)
	case OpForce:
		return x.force(c)
	case OpDrained:
		return x.drained(c)
	case OpInspect:
		info := x.Inspect(c.Names[0])
		info.Index = x.index
		return Result{Code: CodeOK, Info: &info}
	case OpList:
		return x.list(c)
	case OpRestart:
		return x.restart(c)
	case OpSessions:
		return x.listSessions(c)
	case OpAudit:
		return x.listAudit(c)
	case OpEnd:
		return x.endByForce(c)
	case OpAct:
		return x.act(c)
	case OpBarrier:
		return Result{Code: CodeOK}
	case OpLevel:
		x.level = max(x.level, c.Level)
		return Result{Code: CodeOK}
	}
	return malformed(&CommandError{Field: "Op", Reason: "unknown operation"})
}

func malformed(err *CommandError) Result {
	return Result{Code: CodeMalformed, Detail: err.Error()}
}

func (x *step) found(c *Command) Result {
	if x.clusterID != "" {
		return Result{Code: CodeExists}
	}
	x.clusterID, x.counter, x.maxTTL = c.ClusterID, c.Rev, c.TTL
	return Result{Code: CodeOK}
}

// emit takes the next value of the counter for an event and returns it. It is the only place where the counter moves, which is
// why revisions have no gaps.
func (x *step) emit(e Event) Rev {
	x.counter++
	e.Rev, e.Index, e.Wall = x.counter, x.index, x.wall
	x.eff.Events = append(x.eff.Events, e)
	return e.Rev
}

// emitClaim emits one event for each name of the claim and returns the first one's revision.
func (x *step) emitClaim(kind EventKind, c *claim, note string) Rev {
	first := x.counter + 1
	for _, name := range c.names {
		e := Event{
			Kind: kind, Name: name, Session: c.owner.id, Seq: c.seq, Node: c.owner.node, Token: c.token, Note: note, Mode: c.mode, Count: c.count,
		}
		if kind == EventGranted || kind == EventValue {
			e.Value = c.value()
		}
		x.emit(e)
	}
	return first
}

// Header is the part of the state that exists once. Index is where the table stands in the log; it moves with every applied
// command, also with those that change nothing.
func (s *state) Header() Header {
	return Header{
		ClusterID: s.clusterID, Counter: s.counter, Index: s.index, Level: s.level, MaxTTL: s.maxTTL, Quarantine: s.quarantine,
		Sessions: s.sessions.Len(), Claims: s.claims.Len() + s.barred, Finished: s.finished.Len(), Lost: s.lost.Len(), Audit: s.audit.Len(),
		Limits: s.semaphores,
	}
}

// Sessions are all sessions, by id.
func (s *state) Sessions() iter.Seq[SessionRecord] {
	return func(yield func(SessionRecord) bool) {
		s.sessions.Scan(func(_ SessionID, v session) bool { return yield(v.record()) })
	}
}

// Drains are the drains and lock delays going on, by grant, or the quarantine, which excludes both. A member stamps them after it restored a snapshot.
func (t *Table) Drains() iter.Seq[Drain] {
	return func(yield func(Drain) bool) {
		if q := t.quarantine; q != (Quarantine{}) && !yield(q.drain()) {
			return
		}
		t.drains.Scan(func(grant Rev, c *claim) bool {
			return yield(Drain{Grant: grant, Wait: c.wait(), Index: c.drain.index})
		})
	}
}

// GrantOf is the token of a live claim that is held. A hold that is being drained is not reported: nobody may begin to believe in it.
func (t *Table) GrantOf(session SessionID, seq uint64) (Token, bool) {
	c := t.claim(session, seq)
	if c == nil || c.grant == 0 || c.drain != nil {
		return 0, false
	}
	return c.token, true
}

// TTL is that of a live session.
func (t *Table) TTL(id SessionID) (time.Duration, bool) {
	s, ok := t.sessions.Get(id)
	if !ok {
		return 0, false
	}
	return s.owner.ttl, true
}

// list answers with a page of names.
func (x *step) list(c *Command) Result {
	prefix := ""
	if len(c.Names) > 0 {
		prefix = c.Names[0]
	}
	infos, more := x.List(prefix, c.After, int(c.Count))
	return Result{Code: CodeOK, Infos: infos, More: more}
}

// ttlAllowed says whether a session may ask for ttl in this cluster; the lower bound is a static rule of Check.
func (s *state) ttlAllowed(ttl time.Duration) bool { return ttl >= MinTTL && ttl <= s.maxTTL }
