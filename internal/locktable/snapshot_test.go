package locktable

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// rich is a table with every kind of record in it; what enrich adds comes last. Its very last claims are a hold of zz and zzz and a waiter for zz.
func rich(t testing.TB) *Table {
	t.Helper()
	table := New()
	table.limits = limits{sessions: 40, claims: 200, finished: 64, lost: 8, audit: 20, limits: 9}
	g := newChaos(7 * 5)
	for range 20_000 {
		var eff Effects
		r := table.Apply(g.index, g.term, int64(g.index), g.command(), &eff)
		g.advance(r, &eff)
		h := table.Header()
		if h.Sessions > 5 && h.Claims > 20 && h.Finished > 20 && h.Lost > 1 && h.Audit == 20 && table.drains.Len() > 1 && multiName(table) {
			enrich(t, table)
			return table
		}
	}
	t.Fatalf("no rich state came up: %+v", table.Header())
	return nil
}

// enrich adds, under names that begin with y, what a snapshot knows of each kind of claim, and the holds and the waiter under z.
func enrich(t testing.TB, table *Table) {
	t.Helper()
	table.limits.sessions += 2
	var ids [2]SessionID
	for i := range ids {
		open := Command{Op: OpOpen, Node: fmt.Sprint("rich", i), NodeName: "rich", TTL: time.Minute, Incarnation: "i"}
		ids[i] = mustApply(t, table, CodeOK, &open).Session
	}
	seq := uint64(0)
	do := func(want Code, session int, c Command) Result {
		if seq++; c.Op != OpForce && c.Op != OpDrained {
			c.Session, c.Seq = ids[session], seq
		}
		return mustApply(t, table, want, &c)
	}
	barred := do(CodeGranted, 0, Command{Op: OpClaim, Names: []string{"y-barred"}, Delay: time.Second, Note: "x"})
	drain := do(CodeDraining, 0, Command{Op: OpForce, Names: []string{"y-barred"}, Token: barred.Token})
	do(CodeOK, 0, Command{Op: OpDrained, Rev: Rev(barred.Token), RenewIndex: drain.DrainIndex, Term: 1})

	do(CodeGranted, 0, Command{Op: OpClaim, Names: []string{"y-doc"}, Mode: Shared})
	do(CodeGranted, 1, Command{Op: OpClaim, Names: []string{"y-doc"}, Mode: Shared})
	do(CodeWaiting, 0, Command{Op: OpClaim, Names: []string{"y-doc"}})

	moved := do(CodeGranted, 0, Command{Op: OpClaim, Names: []string{"y-moved"}, Value: "v", Delay: time.Second})
	do(CodeGranted, 0, Command{Op: OpDowngrade, Of: seq, Token: moved.Token})
	do(CodeWaiting, 1, Command{Op: OpClaim, Names: []string{"y-moved"}, Value: "w"})
	offered := do(CodeGranted, 0, Command{Op: OpClaim, Names: []string{"y-offered"}})
	do(CodeOK, 0, Command{Op: OpOffer, Of: seq, Token: offered.Token, Secret: OfferHash("s")})

	do(CodeGranted, 0, Command{Op: OpClaim, Names: []string{"y-sem"}, Mode: Permits, Count: 5, Limit: 6})
	do(CodeWaiting, 1, Command{Op: OpClaim, Names: []string{"y-sem"}, Mode: Permits, Count: 6, Limit: 6})
	do(CodeWaiting, 1, Command{Op: OpClaim, Names: []string{"y-sem"}, Mode: Permits, Count: 2, Limit: 6})
	do(CodeOK, 0, Command{Op: OpResize, Names: []string{"y-sem"}, Limit: 4})
	do(CodeGranted, 0, Command{Op: OpClaim, Names: []string{"y-sem-fresh"}, Mode: Permits, Count: 3, Limit: 4})
	do(CodeWaiting, 1, Command{Op: OpClaim, Names: []string{"y-sem-fresh"}, Mode: Permits, Count: 2, Limit: 4})
	do(CodeOK, 0, Command{Op: OpResize, Names: []string{"y-sem-idle"}, Limit: 7})
	do(CodeGranted, 0, Command{Op: OpClaim, Names: []string{"y-sem-left"}, Mode: Permits, Count: 3, Limit: 4})
	do(CodeOK, 0, Command{Op: OpResize, Names: []string{"y-sem-left"}, Limit: 2})
	do(CodeOK, 0, Command{Op: OpResize, Names: []string{"y-sem-left"}})

	do(CodeGranted, 0, Command{Op: OpClaim, Names: []string{"zz", "zzz"}})
	do(CodeWaiting, 1, Command{Op: OpClaim, Names: []string{"zz"}})
}

// at is the nth claim of a name.
func (r *records) at(name string, n int) *ClaimRecord {
	for i := range r.claims {
		if r.claims[i].Names[0] != name {
			continue
		}
		if n--; n < 0 {
			return &r.claims[i]
		}
	}
	panic("no claim of " + name)
}

func (r *records) limit(name string) *LimitRecord {
	return &r.limits[slices.IndexFunc(r.limits, func(l LimitRecord) bool { return l.Name == name })]
}

// word is the lost waiting claim.
func (r *records) word() *Lost {
	return &r.lost[slices.IndexFunc(r.lost, func(l LostRecord) bool { return l.Lost.Cause == LostLimit })].Lost
}

func multiName(t *Table) bool { return t.queue.Len() > t.claims.Len()+t.barred }

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
		"lost cause":   func(r *records) { r.lost[0].Lost.Cause ^= LostForced ^ LostDrained },
		"lost reason":  func(r *records) { r.lost[0].Lost.Reason += "x" },
		"lost actor":   func(r *records) { r.lost[0].Lost.Actor += "x" },
		"incarnation":  func(r *records) { r.sessions[0].Incarnation += "x" },
		"mode":         func(r *records) { r.at("y-offered", 0).Mode = Shared },
		"place":        func(r *records) { r.at("y-moved", 0).Pos = r.at("y-barred", 0).Rev + 1 },
		"grant":        func(r *records) { r.at("y-doc", 1).Grant = r.at("y-moved", 0).Rev - 1 },
		"phase":        func(r *records) { r.at("y-doc", 0).Token--; r.at("y-doc", 1).Token-- },
		"permits":      func(r *records) { r.at("y-sem", 0).Count++ },
		"value":        func(r *records) { r.at("y-moved", 0).Value += "x" },
		"delay":        func(r *records) { r.at("y-moved", 0).Delay += time.Second },
		"offer":        func(r *records) { r.at("y-offered", 0).Offer += "x" },
		"no offer":     func(r *records) { r.at("y-offered", 0).Offer = "" },
		"barred node":  func(r *records) { r.at("y-barred", 0).Node += "x" },
		"barred name":  func(r *records) { r.at("y-barred", 0).NodeName += "x" },
		"barred since": func(r *records) { r.at("y-barred", 0).DrainIndex-- },
		"limit":        func(r *records) { r.limit("y-sem").Limit++ },
		"former limit": func(r *records) { r.limit("y-sem").Former++ },
		"limit set":    func(r *records) { r.limit("y-sem-fresh").Set = true },
		"limit's name": func(r *records) { r.limit("y-sem-idle").Name += "x" },
		"lost limit":   func(r *records) { r.word().Limit++ },
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
	r.lost, r.audit, r.limits = slices.Clone(r.lost), slices.Clone(r.audit), slices.Clone(r.limits)
	return r
}

func TestHashOfAnUnfoundedTable(t *testing.T) {
	one, two := New().Snapshot().Hash(), New().Snapshot().Hash()
	if one != two || bytes.Equal(one[:], make([]byte, 32)) {
		t.Errorf("hashes %x and %x", one, two)
	}
}
