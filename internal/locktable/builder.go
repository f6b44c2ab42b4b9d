package locktable

import (
	"errors"
	"fmt"
	"slices"
)

// ErrBadSnapshot is the root of every error of a Builder.
var ErrBadSnapshot = errors.New("snapshot breaks a rule of the lock table")

// Builder makes a table from the records of a snapshot. It trusts nothing: a record out of order, a reference to nothing, a wrong
// count or a state that no sequence of commands leads to is an error, and after the first error there is no table.
type Builder struct {
	table *Table
	want  Header
	err   error
	revs  []Rev // counter values that may each be used once

	// claims gather here and are put into the trees all at once, when the first record of another kind or the end comes.
	claims []*claim
	loaded bool

	last struct {
		claim    queueEntry
		finished FinishedRecord
		lost     LostRecord
		limit    string
		opened   SessionID
	}
}

// NewBuilder begins with the header. Sessions must come before what refers to them, claims before finished sequences; within each
// kind records come in the order in which a Snapshot gives them.
func NewBuilder(h Header) *Builder {
	b := &Builder{table: New(), want: h}
	t := b.table
	t.clusterID, t.counter, t.index, t.level, t.maxTTL = h.ClusterID, h.Counter, h.Index, h.Level, h.MaxTTL
	t.quarantine = h.Quarantine
	b.fail(checkHeader(h, t.limits))
	b.fail(b.checkQuarantine())
	return b
}

func checkHeader(h Header, l limits) error {
	founded := h.ClusterID != ""
	switch {
	case checkText(h.ClusterID, MaxNodeLen) != "":
		return errors.New("cluster id")
	case founded != (h.Counter > 0), founded && h.MaxTTL < MinTTL, !founded && (h.MaxTTL != 0 || h.Level != 0):
		return errors.New("header neither of a founded nor of an unfounded cluster")
	case h.Sessions > l.sessions || h.Claims > l.claims || h.Audit > l.audit:
		return errors.New("more records than the state machine allows")
	}
	return nil
}

// checkQuarantine: it began with a state without sessions and claims, and no claim is taken while it lasts.
func (b *Builder) checkQuarantine() error {
	q := b.want.Quarantine
	if q == (Quarantine{}) {
		return nil
	}
	return require("quarantine", q.Rev,
		rule{b.used(q.Rev), "revision not from the counter"},
		rule{q.Index <= b.want.Index, "began in the future"},
		rule{q.Wait > 0, "without an end"},
		rule{b.want.Claims == 0, "claims in spite of it"},
	)
}

// fail keeps the first error and returns what is kept.
func (b *Builder) fail(err error) error {
	if b.err == nil && err != nil {
		b.err = fmt.Errorf("%w: %w", ErrBadSnapshot, err)
	}
	return b.err
}

// require is nil if every condition holds, else an error that names the record and the first that does not.
func require(kind string, id Rev, rules ...rule) error {
	for _, r := range rules {
		if !r.holds {
			return fmt.Errorf("%s %d: %s", kind, id, r.name)
		}
	}
	return nil
}

type rule struct {
	holds bool
	name  string
}

// used notes a counter value that no other record may have taken, and says whether it can have been taken at all.
func (b *Builder) used(r Rev) bool {
	if r <= 0 || r > b.want.Counter {
		return false
	}
	b.revs = append(b.revs, r)
	return true
}

func nodeTexts(id, name string) bool {
	return id != "" && checkText(id, MaxNodeLen) == "" && checkText(name, MaxNodeLen) == ""
}

// Session adds a session; ids must rise.
func (b *Builder) Session(r SessionRecord) error {
	if b.err != nil {
		return b.err
	}
	t := b.table
	previous, _, _ := t.sessions.Max()
	if err := require("session", Rev(r.ID),
		rule{!b.loaded, "after the claims"},
		rule{r.ID > previous, "out of order"},
		rule{b.used(Rev(r.ID)) && Rev(r.ID) > b.want.Quarantine.Rev, "id not from the counter"},
		rule{nodeTexts(r.Node, r.NodeName) && checkText(r.Incarnation, MaxNodeLen) == "", "node"},
		rule{t.ttlAllowed(r.TTL), "TTL"},
		rule{r.RenewIndex <= b.want.Index, "renewed in the future"},
		rule{r.Opened >= 0 && (r.Opened == 0 || b.want.Level >= LevelActs), "opened"},
		rule{t.sessions.Len() < b.want.Sessions, "more sessions than announced"},
	); err != nil {
		return b.fail(err)
	}
	o := &owner{id: r.ID, node: r.Node, nodeName: r.NodeName, ttl: r.TTL, incarnation: r.Incarnation, opened: r.Opened}
	t.sessions.Load(r.ID, session{owner: o, renewIndex: r.RenewIndex, floor: r.Floor})
	return nil
}

// Claim adds a live claim; (first name, place) must rise.
func (b *Builder) Claim(r ClaimRecord) error {
	if b.err != nil {
		return b.err
	}
	s, hasSession := b.table.sessions.Get(r.Session)
	if err := b.checkClaim(&r, hasSession); err != nil {
		return b.fail(err)
	}
	c := &claim{
		owner: s.owner, rev: r.Rev, pos: r.Pos, seq: r.Seq, grant: r.Grant, token: r.Token, created: r.Created, granted: r.Granted,
		names: slices.Clone(r.Names), note: r.Note, mode: r.Mode, count: r.Count, barred: r.Barred,
	}
	c.terms = c.with(func(t *terms) { t.value, t.delay, t.offer = r.Value, r.Delay, r.Offer })
	if r.DrainRev != 0 {
		c.drain = &drain{index: r.DrainIndex, rev: r.DrainRev, note: r.DrainNote, actor: r.DrainActor}
	}
	if r.Barred {
		c.owner = &owner{id: r.Session, node: r.Node, nodeName: r.NodeName}
	}
	b.claims = append(b.claims, c)
	b.last.claim = queueEntry{name: c.names[0], pos: c.pos}
	return nil
}

// closeClaims puts the claims into the trees. What comes after them may refer to them; no claim may come any more.
func (b *Builder) closeClaims() error {
	if b.err != nil || b.loaded {
		return b.err
	}
	b.loaded = true
	err := b.table.loadClaims(b.claims)
	b.claims = nil
	return b.fail(err)
}

func (b *Builder) checkClaim(r *ClaimRecord, hasSession bool) error {
	if err := require("claim", r.Rev,
		rule{len(r.Names) >= 1 && len(r.Names) <= MaxNames && checkNameList(r.Names) == nil, "names"},
		rule{checkText(r.Note, MaxNoteLen) == "" && checkValue(r.Value) && checkText(r.Offer, MaxNodeLen) == "", "note, value or offer"},
		rule{r.Mode <= Permits && (r.Mode == Exclusive || len(r.Names) == 1), "mode"},
		rule{(r.Mode == Permits) == (r.Count != 0) && r.Count <= MaxPermits, "permits"},
		rule{checkDelay(r.Delay) == nil, "delay"},
		rule{hasSession || r.Barred, "no such session"},
		rule{r.Rev > Rev(r.Session) && r.Session > 0, "older than its session"},
		rule{r.Seq > 0, "sequence zero"},
		rule{!b.loaded, "after what refers to claims"},
		rule{len(b.claims) < b.want.Claims, "more claims than announced"},
	); err != nil {
		return err
	}
	at := queueEntry{name: r.Names[0], pos: r.Pos}
	return require("claim", r.Rev,
		rule{lessQueue(b.last.claim, at), "out of order"},
		rule{r.Pos > 0 && (r.Pos == r.Rev || r.Pos < r.Rev && r.Grant != 0), "place"},
		rule{b.usedByClaim(r), "revisions not from the counter"},
		grantRule(r),
		drainRule(r, b.want.Index),
		barredRule(r),
	)
}

// usedByClaim notes the counter values that a claim took: one for a grant at once, a second for a later grant, one more for a drain, and the one that the hold
// whose place it took had.
func (b *Builder) usedByClaim(r *ClaimRecord) bool {
	later := r.Grant != 0 && r.Grant != r.Rev
	moved := r.Pos != r.Rev
	return b.used(r.Rev) && (!later || b.used(r.Grant)) && (!moved || b.used(r.Pos)) && (r.DrainRev == 0 || b.used(r.DrainRev))
}

// grantRule: only readers have the token of an earlier grant.
func grantRule(r *ClaimRecord) rule {
	if r.Grant == 0 {
		return rule{r.Token == 0 && r.Granted == 0 && r.Offer == "", "granted without a grant"}
	}
	token := Rev(r.Token)
	return rule{r.Grant >= r.Rev && (token == r.Grant || r.Mode == Shared && token > 0 && token < r.Grant), "grant or token"}
}

func drainRule(r *ClaimRecord, index uint64) rule {
	if r.DrainRev == 0 {
		return rule{r.DrainIndex == 0 && r.DrainNote == "" && r.DrainActor == "", "drain without a revision"}
	}
	texts := checkText(r.DrainNote, MaxNoteLen) == "" && checkText(r.DrainActor, MaxNoteLen) == ""
	return rule{r.Grant != 0 && r.DrainRev > r.Grant && r.DrainIndex <= index && texts, "drain"}
}

func barredRule(r *ClaimRecord) rule {
	if !r.Barred {
		return rule{r.Node == "" && r.NodeName == "", "node beside its session's"}
	}
	return rule{r.DrainRev != 0 && r.Delay > 0 && nodeTexts(r.Node, r.NodeName), "barred"}
}

// Finished adds a remembered answer; (session, sequence) must rise.
func (b *Builder) Finished(r FinishedRecord) error {
	if err := b.closeClaims(); err != nil {
		return err
	}
	t := b.table
	s, ok := t.sessions.Get(r.Session)
	if err := require("finished sequence of session", Rev(r.Session),
		rule{ok, "no such session"},
		rule{lessFinished(b.last.finished, r), "out of order"},
		rule{r.Seq > 0 && r.Seq >= s.floor, "below the floor"},
		rule{t.claim(r.Session, r.Seq) == nil, "live as well"},
		rule{possibleAnswer(&r, b.want.Counter), "an answer that is never remembered"},
		rule{t.finished.Len() < b.want.Finished, "more finished sequences than announced"},
	); err != nil {
		return b.fail(err)
	}
	t.finished.Load(r)
	s.finished++
	t.sessions.Set(r.Session, s)
	b.last.finished = r
	return nil
}

// answers are the codes that are remembered of each operation. Those of claims are of refused ones, and CodeCancelled of all others.
var answers = map[Op][]Code{
	OpClaim:     {CodeCancelled, CodeLocked, CodeKind, CodeLimit},
	OpUnlock:    {CodeReleased, CodeNotHeld},
	OpDowngrade: {CodeNotHeld},
	OpAccept:    {CodeNotHeld},
	OpHandOver:  {CodeReleased, CodeNotHeld, CodeNoWaiter},
	OpProclaim:  {CodeOK, CodeNotHeld},
	OpOffer:     {CodeOK, CodeNotHeld},
	OpResize:    {CodeOK, CodeKind},
}

// possibleAnswer bounds the token of a claim by the counter; that of another request is whatever the caller said.
func possibleAnswer(r *FinishedRecord, counter Rev) bool {
	if !slices.Contains(answers[r.Op], r.Code) {
		return false
	}
	switch {
	case r.Op == OpClaim && r.Code == CodeCancelled:
		return r.Token >= 0 && Rev(r.Token) <= counter
	case r.Op == OpClaim, r.Op == OpResize:
		return r.Token == 0
	}
	return r.Token > 0
}

// Lost adds a lost hold; (session, revision) must rise.
func (b *Builder) Lost(r LostRecord) error {
	if err := b.closeClaims(); err != nil {
		return err
	}
	t := b.table
	s, ok := t.sessions.Get(r.Session)
	l := &r.Lost
	if err := require("lost hold", Rev(l.Token),
		rule{ok, "no such session"},
		rule{lessLost(b.last.lost, r), "out of order"},
		rule{l.Rev > Rev(l.Token) && l.Rev <= b.want.Counter, "revision"},
		rule{l.Seq > 0 && possibleLoss(l), "sequence or cause"},
		rule{checkText(l.Reason, MaxNoteLen) == "" && checkText(l.Actor, MaxNoteLen) == "", "reason or actor"},
		rule{s.lost < t.limits.lost && t.lost.Len() < b.want.Lost, "more lost holds than announced or allowed"},
	); err != nil {
		return b.fail(err)
	}
	t.lost.Load(r)
	s.lost++
	t.sessions.Set(r.Session, s)
	b.last.lost = r
	return nil
}

func possibleLoss(l *Lost) bool {
	switch l.Cause {
	case LostForced, LostDrained:
		return l.Token > 0 && l.Limit == 0
	case LostLimit:
		return l.Token == 0 && l.Limit > 0
	}
	return false
}

// Audit adds an act; revisions must rise.
func (b *Builder) Audit(r AuditRecord) error {
	if err := b.closeClaims(); err != nil {
		return err
	}
	t := b.table
	previous, _, _ := t.audit.Max()
	if err := require("audit record", r.Rev,
		rule{r.Rev > previous, "out of order"},
		rule{r.Rev > Rev(r.Token) && r.Rev <= b.want.Counter, "revision"},
		b.actRule(&r),
		rule{checkText(r.Actor, MaxNoteLen) == "" && checkText(r.Reason, MaxNoteLen) == "", "actor or reason"},
		rule{t.audit.Len() < b.want.Audit, "more audit records than announced"},
	); err != nil {
		return b.fail(err)
	}
	t.audit.Set(r.Rev, r)
	return nil
}

// Limit adds the limit of a semaphore; names must rise.
func (b *Builder) Limit(r LimitRecord) error {
	if err := b.closeClaims(); err != nil {
		return err
	}
	t := b.table
	u, used := t.semaphore(r.Name)
	if err := require("limit of a semaphore", Rev(r.Limit),
		rule{r.Name > b.last.limit, "out of order"},
		rule{checkName(r.Name) == "", "name"},
		rule{used || r.Set && t.first(r.Name) == nil, "no such semaphore"},
		rule{r.Limit > 0 && r.Limit <= MaxPermits && r.Former <= MaxPermits && r.Former != r.Limit, "limit"},
		rule{r.Former != 0 || u.inUse <= r.Limit, "more permits held than there are"},
		rule{!r.Set || t.limitsSet < t.limits.limits, "more limits set than the state machine allows"},
	); err != nil {
		return b.fail(err)
	}
	u.mode, u.limit, u.former, u.set = Permits, r.Limit, r.Former, r.Set
	t.setUse(r.Name, u)
	b.last.limit = r.Name
	return nil
}

// Table is the finished table, if the snapshot was complete and sound. The Builder is spent afterwards.
func (b *Builder) Table() (*Table, error) {
	if b.closeClaims() == nil && b.table.Header() != b.want {
		b.fail(errors.New("fewer records than announced"))
	}
	if b.err == nil {
		b.fail(b.checkRevs())
	}
	if b.err == nil {
		b.fail(b.table.checkQueues())
	}
	if b.err != nil {
		return nil, b.err
	}
	b.err = errors.New("builder already used")
	return b.table, nil
}

// checkRevs finds a counter value that was used for two things.
func (b *Builder) checkRevs() error {
	slices.Sort(b.revs)
	for i := 1; i < len(b.revs); i++ {
		if b.revs[i] == b.revs[i-1] {
			return fmt.Errorf("revision %d used twice", b.revs[i])
		}
	}
	return nil
}
