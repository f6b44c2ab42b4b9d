package locktable

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// TestBuilderRefuses tampers with a sound snapshot in one place at a time.
func TestBuilderRefuses(t *testing.T) {
	base := recordsOf(rich(t).Snapshot())
	held, waiting := len(base.claims)-2, len(base.claims)-1
	draining := slices.IndexFunc(base.claims, func(c ClaimRecord) bool { return c.DrainRev != 0 && !c.Barred })
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
		{"too many claims announced", func(r *records) { r.header.Claims = MaxClaims + 1 }},
		{"too many announced", func(r *records) { r.header.Sessions = MaxSessions + 1 }},
		{"negative count", func(r *records) { r.header.Lost = -1 }},
		{"cluster id not UTF-8", func(r *records) { r.header.ClusterID = "\xff" }},
		{"session missing", func(r *records) { r.sessions = r.sessions[1:]; r.header.Sessions-- }},
		{"session twice", func(r *records) { r.sessions = append(r.sessions, r.sessions[0]); r.header.Sessions++ }},
		{"session order", func(r *records) { r.sessions[0], r.sessions[1] = r.sessions[1], r.sessions[0] }},
		{"session not announced", func(r *records) { r.header.Sessions-- }},
		{"session missing, still announced", func(r *records) { r.header.Sessions++ }},
		{"session id zero", func(r *records) { r.sessions[0].ID = 0 }},
		{"session incarnation", func(r *records) { r.sessions[0].Incarnation = "\n" }},
		{"session node", func(r *records) { r.sessions[0].Node = "" }},
		{"session TTL", func(r *records) { r.sessions[0].TTL = time.Hour }},
		{"renewed in the future", func(r *records) { r.sessions[0].RenewIndex = r.header.Index + 1 }},
		{"claim order", func(r *records) { r.claims[0], r.claims[1] = r.claims[1], r.claims[0] }},
		{"claim without names", func(r *records) { r.claims[0].Names = nil }},
		{"claim with a name twice", func(r *records) { r.claims[0].Names = []string{"a", "a"} }},
		{"claim with a long note", func(r *records) { r.claims[0].Note = string(make([]byte, MaxNoteLen+1)) }},
		{"claim of an unknown mode", func(r *records) { r.claims[0].Mode = 9 }},
		{"claim of nobody", func(r *records) { r.claims[held].Session = 1 }},
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
		{"grant twice", func(r *records) {
			r.claims[held].Grant = r.claims[draining].DrainRev
			r.claims[held].Token = Token(r.claims[held].Grant)
		}},
		{"token of another grant", func(r *records) { r.claims[held].Token-- }},
		{"token without a grant", func(r *records) { r.claims[held].Grant = 0 }},
		{"offer of a waiting claim", func(r *records) { r.claims[waiting].Offer = OfferHash("s") }},
		{"offer with a newline", func(r *records) { r.claims[held].Offer = "a\n" }},
		{"value not UTF-8", func(r *records) { r.claims[held].Value = "\xff" }},
		{"value too long", func(r *records) { r.claims[held].Value = string(make([]byte, MaxValueLen+1)) }},
		{"delay too long", func(r *records) { r.claims[held].Delay = MaxDelay + time.Millisecond }},
		{"delay not in milliseconds", func(r *records) { r.claims[held].Delay = time.Microsecond }},
		{"place zero", func(r *records) { r.at("y-moved", 0).Pos = 0 }},
		{"place behind the claim", func(r *records) { r.header.Counter++; r.claims[waiting].Pos = r.header.Counter }},
		{"place taken while waiting", func(r *records) { r.claims[waiting].Pos-- }},
		{"place twice", func(r *records) { r.at("y-moved", 0).Pos = r.at("y-offered", 0).Rev }},
		{"two readers' names", func(r *records) { r.at("y-doc", 0).Names = []string{"y-doc", "y-doc2"} }},
		{"readers of two phases", func(r *records) { r.at("y-doc", 1).Token = Token(r.at("y-doc", 1).Grant) }},
		{"reader with a later token", func(r *records) { r.at("y-doc", 0).Token = Token(r.header.Counter) }},
		{"reader without a token", func(r *records) { r.at("y-doc", 0).Token = 0 }},
		{"reader beside a writer", func(r *records) { c := r.at("y-doc", 1); c.Mode, c.Token = Exclusive, Token(c.Grant) }},
		{"reader past a waiting writer", func(r *records) {
			r.at("y-doc", 0).Grant, r.at("y-doc", 0).Token, r.at("y-doc", 0).Granted = 0, 0, 0
		}},
		{"reader waiting with readers", func(r *records) { r.at("y-doc", 2).Mode = Shared }},
		{"lock on a semaphore", func(r *records) { c := r.at("y-sem", 1); c.Mode, c.Count = Exclusive, 0 }},
		{"semaphore on a lock", func(r *records) { c := r.at("y-doc", 2); c.Mode, c.Count = Permits, 1 }},
		{"lock with permits", func(r *records) { r.claims[held].Count = 1 }},
		{"semaphore without permits", func(r *records) { r.at("y-sem", 1).Count = 0 }},
		{"too many permits", func(r *records) { r.at("y-sem", 1).Count = MaxPermits + 1 }},
		{"more permits wanted than there are", func(r *records) { r.at("y-sem", 1).Count = 5 }},
		{"more permits held than there are", func(r *records) { r.at("y-sem-fresh", 0).Count = 5 }},
		{"permits free, yet waiting", func(r *records) { r.at("y-sem-fresh", 0).Count = 1 }},
		{"barred without a delay", func(r *records) { r.at("y-barred", 0).Delay = 0 }},
		{"barred without a beginning", func(r *records) { c := r.at("y-barred", 0); c.DrainRev, c.DrainIndex = 0, 0 }},
		{"barred without a node", func(r *records) { r.at("y-barred", 0).Node = "" }},
		{"barred session zero", func(r *records) { r.at("y-barred", 0).Session = 0 }},
		{"node of a claim that has a session", func(r *records) { r.at("y-offered", 0).Node = "n" }},
		{"limit missing", func(r *records) { r.limits = r.limits[:len(r.limits)-1] }},
		{"limit missing, and not announced", func(r *records) {
			at := slices.IndexFunc(r.limits, func(l LimitRecord) bool { return l.Name == "y-sem" })
			r.limits = slices.Delete(r.limits, at, at+1)
			r.header.Limits--
		}},
		{"limit of a lock", func(r *records) { r.limit("y-sem-idle").Name = "zz" }},
		{"limit that nobody set", func(r *records) { r.limit("y-sem-idle").Set = false }},
		{"limit zero", func(r *records) { r.limit("y-sem-idle").Limit = 0 }},
		{"limit too high", func(r *records) { r.limit("y-sem-idle").Limit = MaxPermits + 1 }},
		{"limit of no name", func(r *records) { r.limit("y-sem-idle").Name = "" }},
		{"limit with a bad name", func(r *records) { r.limit("y-sem-idle").Name = "z\n" }},
		{"limit not announced", func(r *records) { r.header.Limits-- }},
		{"limit twice", func(r *records) { r.limits = append(r.limits, r.limits[len(r.limits)-1]) }},
		{"limit order", func(r *records) { r.limits[0], r.limits[1] = r.limits[1], r.limits[0] }},
		{"former limit the same", func(r *records) { r.limit("y-sem").Former = r.limit("y-sem").Limit }},
		{"former limit too high", func(r *records) { r.limit("y-sem").Former = MaxPermits + 1 }},
		{"former limit of an idle one that is not set", func(r *records) { *r.limit("y-sem-idle") = LimitRecord{Name: "y-sem-idle", Limit: 7, Former: 9} }},
		{"lowered without a former limit", func(r *records) { r.limit("y-sem").Former = 0 }},
		{"lowered and forgotten without a former limit", func(r *records) { r.limit("y-sem-left").Former = 0 }},
		{"drain before its grant", func(r *records) { r.claims[draining].DrainRev = r.claims[draining].Grant - 1 }},
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
		{"answer to a downgrade that became a claim", func(r *records) {
			r.finished[0].Op, r.finished[0].Code, r.finished[0].Token = OpDowngrade, CodeGranted, 1
		}},
		{"answer to a resize with a token", func(r *records) {
			r.finished[0].Op, r.finished[0].Code, r.finished[0].Token = OpResize, CodeOK, 1
		}},
		{"answer to a refused claim with a token", func(r *records) {
			r.finished[0].Op, r.finished[0].Code, r.finished[0].Token = OpClaim, CodeKind, 1
		}},
		{"answer to an unlock without a token", func(r *records) {
			r.finished[0].Op, r.finished[0].Code, r.finished[0].Token = OpUnlock, CodeReleased, 0
		}},
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
		{"lost waiting claim with a token", func(r *records) { r.word().Token = 1 }},
		{"lost waiting claim without a limit", func(r *records) { r.word().Limit = 0 }},
		{"lost hold with a limit", func(r *records) { r.lost[0].Lost.Limit = 1 }},
		{"lost of an unknown cause", func(r *records) { r.lost[0].Lost.Cause = 9 }},
		{"lost not announced", func(r *records) { r.header.Lost-- }},
		{"audit order", func(r *records) { r.audit[0], r.audit[1] = r.audit[1], r.audit[0] }},
		{"opened before time began", func(r *records) { r.sessions[0].Opened = -1 }},
		{"act of no kind", func(r *records) { r.audit[0].Act = lastAct + 1 }},
		{"drain of nobody", func(r *records) {
			r.audit[0] = AuditRecord{Rev: r.audit[0].Rev, Act: ActDrain, Actor: "a", Reason: "r"}
		}},
		{"act with a lock", func(r *records) { r.audit[0].Act = ActRemove }},
		{"force with a session", func(r *records) { r.audit[0].Session = 1 }},
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
