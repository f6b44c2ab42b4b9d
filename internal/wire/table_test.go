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
	g := commandSource{rng: rng, tokens: []locktable.Token{1}}
	for index := uint64(2); index < uint64(n+2); index++ {
		c := g.next()
		var eff locktable.Effects
		result := table.Apply(index, 1, int64(index), &c, &eff)
		g.learn(result, eff.Events)
	}
	return table
}

// commandSource makes commands that refer to what earlier ones made.
type commandSource struct {
	rng      *rand.Rand
	sessions []locktable.SessionID
	tokens   []locktable.Token
	seq      uint64
}

func (g *commandSource) learn(r locktable.Result, events []locktable.Event) {
	if r.Session != 0 {
		g.sessions = append(g.sessions, r.Session)
	}
	for _, e := range events {
		if e.Kind == locktable.EventGranted {
			g.tokens = append(g.tokens, e.Token)
		}
	}
}

func (g *commandSource) next() locktable.Command {
	if len(g.sessions) < 3 || g.rng.IntN(20) == 0 {
		return locktable.Command{Op: locktable.OpOpen, Node: "server-1", NodeName: "web-1", TTL: testTTL}
	}
	session := g.sessions[g.rng.IntN(len(g.sessions))]
	token := g.tokens[len(g.tokens)-1-g.rng.IntN(min(6, len(g.tokens)))]
	name := fmt.Sprintf("job-%d", g.rng.IntN(6))
	g.seq++
	switch g.rng.IntN(12) {
	case 0:
		return locktable.Command{Op: locktable.OpUnlock, Session: session, Seq: g.seq, Token: token}
	case 1:
		return locktable.Command{Op: locktable.OpCancel, Session: session, Seq: 1 + g.rng.Uint64N(g.seq)}
	case 2, 3:
		now := g.rng.IntN(2) == 0
		return locktable.Command{Op: locktable.OpForce, Names: []string{name}, Token: token, Now: now, Actor: "ops", Note: "stuck"}
	case 4:
		return locktable.Command{Op: locktable.OpClaim, Session: session, Seq: g.seq, Names: []string{name, "other"}}
	case 5:
		return locktable.Command{Op: locktable.OpClaim, Session: session, Seq: g.seq, Names: []string{name}, Try: true}
	}
	return locktable.Command{Op: locktable.OpClaim, Session: session, Seq: g.seq, Names: []string{name}, Note: "nightly"}
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
}

func newRecords(h locktable.Header) *records { return &records{head: h} }

func (s *records) Header() locktable.Header                     { return s.head }
func (s *records) Sessions() iter.Seq[locktable.SessionRecord]  { return slices.Values(s.sessions) }
func (s *records) Claims() iter.Seq[locktable.ClaimRecord]      { return slices.Values(s.claims) }
func (s *records) Finished() iter.Seq[locktable.FinishedRecord] { return slices.Values(s.finished) }
func (s *records) Lost() iter.Seq[locktable.LostRecord]         { return slices.Values(s.lost) }
func (s *records) Audit() iter.Seq[locktable.AuditRecord]       { return slices.Values(s.audit) }

// recordBuilder is records as a target of reading.
type recordBuilder struct{ *records }

func newRecordBuilder(h locktable.Header) recordBuilder { return recordBuilder{newRecords(h)} }

func (b recordBuilder) Session(r locktable.SessionRecord) error { return add(&b.sessions, r) }
func (b recordBuilder) Claim(r locktable.ClaimRecord) error     { return add(&b.claims, r) }
func (b recordBuilder) Finished(r locktable.FinishedRecord) error {
	return add(&b.finished, r)
}
func (b recordBuilder) Lost(r locktable.LostRecord) error   { return add(&b.lost, r) }
func (b recordBuilder) Audit(r locktable.AuditRecord) error { return add(&b.audit, r) }

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
	h.Lost, h.Audit = len(s.lost), len(s.audit)
}
