package locktable

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// rich is a table with every kind of record in it. Its last two claims are a hold of zz and zzz and a waiter for zz.
func rich(t testing.TB) *Table {
	t.Helper()
	table := New()
	table.limits = limits{sessions: 40, claims: 200, finished: 64, lost: 8, audit: 20}
	g := newChaos(10)
	for range 20_000 {
		var eff Effects
		r := table.Apply(g.index, g.term, int64(g.index), g.command(), &eff)
		g.advance(r, &eff)
		h := table.Header()
		if h.Sessions > 5 && h.Claims > 20 && h.Finished > 20 && h.Lost > 1 && h.Audit == 20 && table.drains.Len() > 1 && multiName(table) {
			hold := Command{Op: OpClaim, Session: g.sessions[0], Seq: 1 << 20, Names: []string{"zz", "zzz"}}
			mustApply(t, table, CodeGranted, &hold)
			hold.Session, hold.Names = g.sessions[1], []string{"zz"}
			mustApply(t, table, CodeWaiting, &hold)
			return table
		}
	}
	t.Fatalf("no rich state came up: %+v", table.Header())
	return nil
}

func multiName(t *Table) bool { return t.queue.Len() > t.claims.Len() }

func TestSnapshotStandsStill(t *testing.T) {
	table := rich(t)
	snap := table.Snapshot()
	before, hash := recordsOf(snap), snap.Hash()

	// Readers and the writer run at once; the race detector judges the sharing.
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for range 20 {
				if snap.Hash() != hash {
					t.Error("the hash of a snapshot changed")
				}
			}
		})
	}
	g := newChaos(8)
	g.index, g.sessions = table.index+1, []SessionID{before.sessions[0].ID}
	for range 2_000 {
		var eff Effects
		g.advance(table.Apply(g.index, g.term, 0, g.command(), &eff), &eff)
	}
	readers.Wait()
	if table.Snapshot().Hash() == hash {
		t.Fatal("the table did not change meanwhile")
	}
	if got := recordsOf(snap); fmt.Sprint(got) != fmt.Sprint(before) {
		t.Errorf("a snapshot changed\n got %v\nwant %v", got, before)
	}
}

func TestReadsChangeNothing(t *testing.T) {
	table := rich(t)
	hash, header := table.Snapshot().Hash(), table.Header()
	for _, c := range []*Command{{Op: OpInspect, Names: []string{"a"}}, {Op: OpBarrier}, {Op: OpClaim}, {}, nil} {
		var eff Effects
		table.Apply(table.index+1, 1, 99, c, &eff)
		if len(eff.Events)+len(eff.Renewed)+len(eff.Ended)+len(eff.Drains) != 0 || table.Snapshot().Hash() != hash {
			t.Errorf("%+v changed the table", c)
		}
	}
	header.Index += 5
	if table.Header() != header {
		t.Errorf("header %+v, want %+v", table.Header(), header)
	}
}

// TestHashSeesEveryField changes one field of one record at a time.
func TestHashSeesEveryField(t *testing.T) {
	base := recordsOf(rich(t).Snapshot())
	draining := slices.IndexFunc(base.claims, func(c ClaimRecord) bool { return c.DrainRev != 0 && c.Seq > 0 })
	changes := map[string]func(r *records){
		"cluster id":   func(r *records) { r.header.ClusterID += "x" },
		"counter":      func(r *records) { r.header.Counter++ },
		"level":        func(r *records) { r.header.Level++ },
		"max TTL":      func(r *records) { r.header.MaxTTL++ },
		"node":         func(r *records) { r.sessions[0].Node += "x" },
		"node name":    func(r *records) { r.sessions[0].NodeName += "x" },
		"TTL":          func(r *records) { r.sessions[0].TTL -= time.Millisecond },
		"renew index":  func(r *records) { r.sessions[0].RenewIndex-- },
		"floor":        func(r *records) { r.sessions[0].Floor-- },
		"note":         func(r *records) { r.claims[0].Note += "x" },
		"created":      func(r *records) { r.claims[0].Created++ },
		"sequence":     func(r *records) { r.claims[0].Seq += 1 << 40 },
		"names":        func(r *records) { r.claims[len(r.claims)-2].Names = []string{"zz", "zzy"} },
		"granted":      func(r *records) { r.claims[draining].Granted++ },
		"drain index":  func(r *records) { r.claims[draining].DrainIndex-- },
		"drain note":   func(r *records) { r.claims[draining].DrainNote += "x" },
		"drain actor":  func(r *records) { r.claims[draining].DrainActor += "x" },
		"lost seq":     func(r *records) { r.lost[0].Lost.Seq++ },
		"lost cause":   func(r *records) { r.lost[0].Lost.Cause ^= 3 },
		"lost reason":  func(r *records) { r.lost[0].Lost.Reason += "x" },
		"lost actor":   func(r *records) { r.lost[0].Lost.Actor += "x" },
		"audit wall":   func(r *records) { r.audit[0].Wall++ },
		"audit now":    func(r *records) { r.audit[0].Now = !r.audit[0].Now },
		"audit name":   func(r *records) { r.audit[0].Name += "x" },
		"audit actor":  func(r *records) { r.audit[0].Actor += "x" },
		"audit reason": func(r *records) { r.audit[0].Reason += "x" },
		"audit gone":   func(r *records) { r.audit = r.audit[1:]; r.header.Audit-- },
		"last answer":  func(r *records) { r.finished = r.finished[:len(r.finished)-1]; r.header.Finished-- },
	}
	seen := map[[32]byte]string{mustRebuild(t, base).Snapshot().Hash(): "unchanged"}
	for name, change := range changes {
		r := clone(base)
		change(&r)
		hash := mustRebuild(t, r).Snapshot().Hash()
		if other, ok := seen[hash]; ok {
			t.Errorf("%s: same hash as %s", name, other)
		}
		seen[hash] = name
	}
	base.header.Index++
	if seen[mustRebuild(t, base).Snapshot().Hash()] != "unchanged" {
		t.Error("the applied index is hashed")
	}
}

func mustRebuild(t *testing.T, r records) *Table {
	t.Helper()
	table, err := rebuild(r)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func clone(r records) records {
	r.sessions, r.claims, r.finished = slices.Clone(r.sessions), slices.Clone(r.claims), slices.Clone(r.finished)
	r.lost, r.audit = slices.Clone(r.lost), slices.Clone(r.audit)
	return r
}

// TestBuilderRefuses tampers with a sound snapshot in one place at a time.
func TestBuilderRefuses(t *testing.T) {
	base := recordsOf(rich(t).Snapshot())
	held, waiting := len(base.claims)-2, len(base.claims)-1
	draining := slices.IndexFunc(base.claims, func(c ClaimRecord) bool { return c.DrainRev != 0 })
	type edit struct {
		name   string
		change func(r *records)
	}
	for _, e := range []edit{
		{"unfounded with a counter", func(r *records) { r.header.ClusterID = "" }},
		{"counter zero", func(r *records) { r.header.Counter = 0 }},
		{"counter behind", func(r *records) { r.header.Counter = r.claims[held].Rev - 1 }},
		{"index behind", func(r *records) { r.header.Index = 1 }},
		{"no max TTL", func(r *records) { r.header.MaxTTL = 0 }},
		{"too many announced", func(r *records) { r.header.Sessions = MaxSessions + 1 }},
		{"negative count", func(r *records) { r.header.Lost = -1 }},
		{"cluster id not UTF-8", func(r *records) { r.header.ClusterID = "\xff" }},
		{"session missing", func(r *records) { r.sessions = r.sessions[1:]; r.header.Sessions-- }},
		{"session twice", func(r *records) { r.sessions = append(r.sessions, r.sessions[0]); r.header.Sessions++ }},
		{"session order", func(r *records) { r.sessions[0], r.sessions[1] = r.sessions[1], r.sessions[0] }},
		{"session not announced", func(r *records) { r.header.Sessions-- }},
		{"session missing, still announced", func(r *records) { r.header.Sessions++ }},
		{"session id zero", func(r *records) { r.sessions[0].ID = 0 }},
		{"session node", func(r *records) { r.sessions[0].Node = "" }},
		{"session TTL", func(r *records) { r.sessions[0].TTL = time.Hour }},
		{"renewed in the future", func(r *records) { r.sessions[0].RenewIndex = r.header.Index + 1 }},
		{"claim order", func(r *records) { r.claims[0], r.claims[1] = r.claims[1], r.claims[0] }},
		{"claim without names", func(r *records) { r.claims[0].Names = nil }},
		{"claim with a name twice", func(r *records) { r.claims[0].Names = []string{"a", "a"} }},
		{"claim with a long note", func(r *records) { r.claims[0].Note = string(make([]byte, MaxNoteLen+1)) }},
		{"claim of an unknown mode", func(r *records) { r.claims[0].Mode = 9 }},
		{"claim of nobody", func(r *records) { r.claims[0].Session++ }},
		{"claim sequence zero", func(r *records) { r.claims[0].Seq = 0 }},
		{"claim sequence twice", func(r *records) {
			r.claims[held].Session, r.claims[held].Seq = r.claims[waiting].Session, r.claims[waiting].Seq
		}},
		{"claim older than its session", func(r *records) { r.claims[0].Rev = 1 }},
		{"claim not announced", func(r *records) { r.header.Claims-- }},
		{"holder missing", func(r *records) { r.claims = slices.Delete(r.claims, held, held+1); r.header.Claims-- }},
		{"hold without a token", func(r *records) { r.claims[held].Token = 0 }},
		{"granted while waiting", func(r *records) { r.claims[waiting].Granted = 5 }},
		{"waiting with a token", func(r *records) { r.claims[waiting].Token = Token(r.header.Counter) }},
		{"waiting with a drain", func(r *records) { r.claims[waiting].DrainRev = r.header.Counter }},
		{"free lock waiting", func(r *records) {
			r.header.Counter, r.header.Claims = r.header.Counter+1, r.header.Claims+1
			r.claims = append(r.claims, ClaimRecord{
				Rev: r.header.Counter, Session: r.sessions[0].ID, Seq: 1 << 40, Names: []string{"zzzz"},
			})
		}},
		{"token before its claim", func(r *records) { r.claims[held].Token = Token(r.claims[held].Rev) - 1 }},
		{"token from the future", func(r *records) { r.claims[held].Token = Token(r.header.Counter) + 1 }},
		{"token twice", func(r *records) { r.claims[held].Token = Token(r.claims[draining].DrainRev) }},
		{"drain before its grant", func(r *records) { r.claims[draining].DrainRev = Rev(r.claims[draining].Token) - 1 }},
		{"drain without a revision", func(r *records) { r.claims[draining].DrainRev = 0 }},
		{"drain in the future", func(r *records) { r.claims[draining].DrainIndex = r.header.Index + 1 }},
		{"answer of nobody", func(r *records) { r.finished[0].Session = 1 }},
		{"answer order", func(r *records) { r.finished[0], r.finished[1] = r.finished[1], r.finished[0] }},
		{"answer twice", func(r *records) { r.finished[1] = r.finished[0] }},
		{"answer below the floor", func(r *records) {
			i := slices.IndexFunc(r.sessions, func(s SessionRecord) bool { return s.ID == r.finished[0].Session })
			r.sessions[i].Floor = r.finished[0].Seq + 1
		}},
		{"answer never given", func(r *records) { r.finished[0].Code = CodeGranted }},
		{"answer to a renewal", func(r *records) { r.finished[0].Op = OpRenew }},
		{"answer not announced", func(r *records) { r.header.Finished-- }},
		{"answer to a live claim", func(r *records) {
			r.finished, r.header.Finished = []FinishedRecord{
				{Session: r.claims[held].Session, Seq: r.claims[held].Seq, Op: OpClaim, Code: CodeCancelled},
			}, 1
			for i := range r.sessions {
				r.sessions[i].Floor = 0
			}
		}},
		{"lost of nobody", func(r *records) { r.lost[0].Session = 1 }},
		{"lost twice", func(r *records) { r.lost[1] = r.lost[0] }},
		{"lost in the future", func(r *records) { r.lost[len(r.lost)-1].Lost.Rev = r.header.Counter + 1 }},
		{"lost without a cause", func(r *records) { r.lost[0].Lost.Cause = 0 }},
		{"lost not announced", func(r *records) { r.header.Lost-- }},
		{"audit order", func(r *records) { r.audit[0], r.audit[1] = r.audit[1], r.audit[0] }},
		{"audit without a name", func(r *records) { r.audit[0].Name = "" }},
		{"audit in the future", func(r *records) { r.audit[len(r.audit)-1].Rev = r.header.Counter + 1 }},
		{"audit with a bad actor", func(r *records) { r.audit[0].Actor = "a\nb" }},
		{"audit not announced", func(r *records) { r.header.Audit-- }},
		{"audit missing", func(r *records) { r.audit = r.audit[1:] }},
	} {
		t.Run(e.name, func(t *testing.T) {
			r := clone(base)
			e.change(&r)
			if table, err := rebuild(r); !errors.Is(err, ErrBadSnapshot) || table != nil {
				t.Errorf("table %v, error %v", table != nil, err)
			}
		})
	}
}

func TestBuilderIsSpentAfterUse(t *testing.T) {
	b := NewBuilder(Header{})
	if _, err := b.Table(); err != nil {
		t.Fatal(err)
	}
	if table, err := b.Table(); err == nil || table != nil {
		t.Error("a second table from one builder")
	}
	if b.Audit(AuditRecord{}) == nil {
		t.Error("a spent builder took a record")
	}
}

// TestBuilderOrder gives records of one kind after those that may refer to them.
func TestBuilderOrder(t *testing.T) {
	r := recordsOf(rich(t).Snapshot())
	last := len(r.claims) - 1
	late := func(add func(b *Builder) error) error {
		b := NewBuilder(r.header)
		addAll(r.sessions[:len(r.sessions)-1], b.Session)
		_ = b.Finished(FinishedRecord{Session: r.sessions[0].ID, Seq: 1 << 40, Op: OpUnlock, Code: CodeReleased, Token: 1})
		if b.err != nil {
			t.Fatal(b.err)
		}
		return add(b)
	}
	if err := late(func(b *Builder) error { return b.Claim(r.claims[last]) }); !errors.Is(err, ErrBadSnapshot) {
		t.Errorf("claim after answers: %v", err)
	}
	if err := late(func(b *Builder) error { return b.Session(r.sessions[len(r.sessions)-1]) }); !errors.Is(err, ErrBadSnapshot) {
		t.Errorf("session after answers: %v", err)
	}
}

func TestHashOfAnUnfoundedTable(t *testing.T) {
	one, two := New().Snapshot().Hash(), New().Snapshot().Hash()
	if one != two || bytes.Equal(one[:], make([]byte, 32)) {
		t.Errorf("hashes %x and %x", one, two)
	}
}
