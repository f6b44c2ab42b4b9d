package wire

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

const testTTL = 10 * time.Second

// apply applies one command in an entry of its own and asks for the code.
func apply(t testing.TB, table *locktable.Table, c *locktable.Command, want locktable.Code) locktable.Result {
	t.Helper()
	var eff locktable.Effects
	got := table.Apply(table.Header().Index+1, 1, 1_780_000_000_000, c, &eff)
	if got.Code != want {
		t.Fatalf("%+v: code %d (%s), want %d", *c, got.Code, got.Detail, want)
	}
	return got
}

func foundedTable(t testing.TB) *locktable.Table {
	table := locktable.New()
	found := locktable.Command{Op: locktable.OpFound, ClusterID: "cluster-1", Rev: 1_780_000_000_000_000, TTL: time.Minute}
	apply(t, table, &found, locktable.CodeOK)
	return table
}

// randomTable has gone through n random commands, sound ones for the most part, on few names and sessions.
func randomTable(t testing.TB, rng *rand.Rand, n int) *locktable.Table {
	table := foundedTable(t)
	g := commandSource{
		rng: rng, grants: make([]locktable.Event, 1), drains: make([]locktable.Drain, 1), waiting: make([]locktable.Rev, 1),
	}
	for index := uint64(2); index < uint64(n+2); index++ {
		c := g.next()
		var eff locktable.Effects
		result := table.Apply(index, 1, int64(index), &c, &eff)
		g.learn(result, &eff)
	}
	return table
}

// commandSource makes commands that refer to what earlier ones made.
type commandSource struct {
	rng      *rand.Rand
	sessions []locktable.SessionID
	grants   []locktable.Event
	drains   []locktable.Drain
	waiting  []locktable.Rev
	seq      uint64
}

func (g *commandSource) learn(r locktable.Result, eff *locktable.Effects) {
	if r.Session != 0 {
		g.sessions = append(g.sessions, r.Session)
	}
	if r.Code == locktable.CodeWaiting {
		g.waiting = append(g.waiting, r.Rev)
	}
	for _, e := range eff.Events {
		if e.Kind == locktable.EventGranted {
			g.grants = append(g.grants, e)
		}
	}
	for _, d := range eff.Drains {
		if d.Index != 0 {
			g.drains = append(g.drains, d)
		}
	}
}

// recent is one of the last few.
func recent[T any](rng *rand.Rand, all []T) T { return all[len(all)-1-rng.IntN(min(6, len(all)))] }

func (g *commandSource) next() locktable.Command {
	if len(g.sessions) < 3 || g.rng.IntN(20) == 0 {
		return locktable.Command{Op: locktable.OpOpen, Node: "server-1", NodeName: "web-1", TTL: testTTL, Incarnation: "start-1"}
	}
	switch g.rng.IntN(8) {
	case 0:
		return g.internal()
	case 1, 2:
		return g.aboutHold()
	}
	return g.claim()
}

func (g *commandSource) claim() locktable.Command {
	g.seq++
	c := locktable.Command{Op: locktable.OpClaim, Session: g.sessions[g.rng.IntN(len(g.sessions))], Seq: g.seq}
	number := g.rng.IntN(4)
	switch g.rng.IntN(8) {
	case 0:
		c.Names, c.Delay = []string{fmt.Sprintf("job-%d", number)}, testTTL
	case 1:
		c.Names = []string{fmt.Sprintf("job-%d", number), "other"}
	case 2:
		c.Names, c.Try = []string{fmt.Sprintf("job-%d", number)}, true
	case 3, 4:
		c.Names, c.Mode = []string{fmt.Sprintf("table-%d", number)}, locktable.Mode(g.rng.IntN(2))
	case 5, 6:
		c.Names, c.Mode = []string{fmt.Sprintf("pool-%d", number)}, locktable.Permits
		c.Count, c.Limit = 1+g.rng.Uint32N(3), 3
	default:
		c.Names, c.Note, c.Value = []string{fmt.Sprintf("job-%d", number)}, "nightly", "10.0.0.1:8080"
	}
	return c
}

// aboutHold is a request of a holder, or of somebody who has heard of its hold.
func (g *commandSource) aboutHold() locktable.Command {
	e := recent(g.rng, g.grants)
	g.seq++
	c := locktable.Command{Session: e.Session, Seq: g.seq, Of: e.Seq, Token: e.Token}
	switch g.rng.IntN(8) {
	case 0:
		c.Op = locktable.OpDowngrade
	case 1:
		c.Op, c.Value = locktable.OpProclaim, fmt.Sprintf("10.0.0.1:%d", g.seq)
	case 2:
		c.Op, c.Rev = locktable.OpHandOver, recent(g.rng, g.waiting)
	case 3, 4:
		c.Op, c.Secret = locktable.OpOffer, locktable.OfferHash("secret")
	case 5:
		c.Op, c.Secret, c.From, c.Session = locktable.OpAccept, "secret", e.Session, g.sessions[g.rng.IntN(len(g.sessions))]
	default:
		c.Op = locktable.OpUnlock
	}
	return c
}

// internal is a command of the leader or of an operator, or a cancel.
func (g *commandSource) internal() locktable.Command {
	e, d := recent(g.rng, g.grants), recent(g.rng, g.drains)
	g.seq++
	switch g.rng.IntN(6) {
	case 0:
		return locktable.Command{Op: locktable.OpCancel, Session: e.Session, Seq: 1 + g.rng.Uint64N(g.seq)}
	case 1:
		return locktable.Command{Op: locktable.OpDrained, Rev: d.Grant, RenewIndex: d.Index, Term: 1}
	case 2:
		name := fmt.Sprintf("pool-%d", g.rng.IntN(6))
		return locktable.Command{
			Op: locktable.OpResize, Session: g.sessions[g.rng.IntN(len(g.sessions))], Seq: g.seq, Names: []string{name},
			Limit: 1 + g.rng.Uint32N(4), Former: 5 * g.rng.Uint32N(2),
		}
	case 3:
		return locktable.Command{Op: locktable.OpClose, Session: e.Session}
	}
	now := g.rng.IntN(2) == 0
	return locktable.Command{Op: locktable.OpForce, Names: []string{e.Name}, Token: e.Token, Now: now, Actor: "ops", Note: "stuck"}
}

// records is a state as plain slices. It is a builder that believes everything, so that what this package itself checks can be
// told from what the lock table checks.
type records struct {
	head     locktable.Header
	sessions []locktable.SessionRecord
	claims   []locktable.ClaimRecord
	finished []locktable.FinishedRecord
	lost     []locktable.LostRecord
	audit    []locktable.AuditRecord
	limits   []locktable.LimitRecord
}

func newRecords(h locktable.Header) *records { return &records{head: h} }

func (s *records) Header() locktable.Header                     { return s.head }
func (s *records) Sessions() iter.Seq[locktable.SessionRecord]  { return slices.Values(s.sessions) }
func (s *records) Claims() iter.Seq[locktable.ClaimRecord]      { return slices.Values(s.claims) }
func (s *records) Finished() iter.Seq[locktable.FinishedRecord] { return slices.Values(s.finished) }
func (s *records) Lost() iter.Seq[locktable.LostRecord]         { return slices.Values(s.lost) }
func (s *records) Audit() iter.Seq[locktable.AuditRecord]       { return slices.Values(s.audit) }
func (s *records) Limits() iter.Seq[locktable.LimitRecord]      { return slices.Values(s.limits) }

// recordBuilder is records as a target of reading.
type recordBuilder struct{ *records }

func newRecordBuilder(h locktable.Header) recordBuilder { return recordBuilder{newRecords(h)} }

func (b recordBuilder) Session(r locktable.SessionRecord) error { return add(&b.sessions, r) }
func (b recordBuilder) Opened(id locktable.SessionID, wall int64) error {
	for i := range b.sessions {
		if b.sessions[i].ID == id {
			b.sessions[i].Opened = wall
		}
	}
	return nil
}
func (b recordBuilder) Claim(r locktable.ClaimRecord) error { return add(&b.claims, r) }
func (b recordBuilder) Finished(r locktable.FinishedRecord) error {
	return add(&b.finished, r)
}
func (b recordBuilder) Lost(r locktable.LostRecord) error   { return add(&b.lost, r) }
func (b recordBuilder) Audit(r locktable.AuditRecord) error { return add(&b.audit, r) }
func (b recordBuilder) Limit(r locktable.LimitRecord) error { return add(&b.limits, r) }

func add[T any](to *[]T, r T) error {
	*to = append(*to, r)
	return nil
}

// randomRecords is a state that no commands lead to, with every field in use.
func randomRecords(rng *rand.Rand) *records {
	s := newRecords(random[locktable.Header](rng))
	s.head.Level = Level
	s.sessions = randomList[locktable.SessionRecord](rng)
	s.claims = randomList[locktable.ClaimRecord](rng)
	s.finished = randomList[locktable.FinishedRecord](rng)
	s.lost = randomList[locktable.LostRecord](rng)
	s.audit = randomList[locktable.AuditRecord](rng)
	s.limits = randomList[locktable.LimitRecord](rng)
	for i := range s.sessions { // additions find their records by these
		s.sessions[i].ID = locktable.SessionID(i + 1)
	}
	for i := range s.audit {
		s.audit[i].Rev = locktable.Rev(i + 1)
	}
	s.count()
	return s
}

func randomList[T any](rng *rand.Rand) []T {
	var all []T
	for range rng.IntN(4) {
		all = append(all, random[T](rng))
	}
	return all
}

func (s *records) count() {
	h := &s.head
	h.Sessions, h.Claims, h.Finished = len(s.sessions), len(s.claims), len(s.finished)
	h.Lost, h.Audit, h.Limits = len(s.lost), len(s.audit), len(s.limits)
}
