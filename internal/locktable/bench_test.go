package locktable

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"
)

const residentHolds = 1_000_000

// resident is one table with a million holds over a thousand sessions, built once for all benchmarks, and the heap it takes per hold.
var resident = sync.OnceValues(func() (*Table, float64) {
	before := heapInUse()
	t := New()
	t.Apply(1, 1, 0, &Command{Op: OpFound, ClusterID: "c", Rev: 1_700_000_000_000_000, TTL: time.Minute}, nil)
	first := t.counter + 1
	for i := range 1_000 {
		t.Apply(2, 1, 0, &Command{Op: OpOpen, Node: fmt.Sprintf("node-%d", i), NodeName: "web", TTL: 10 * time.Second}, nil)
	}
	for i := range residentHolds {
		id, seq := SessionID(first)+SessionID(i%1_000), uint64(i/1_000+1)
		name := []string{fmt.Sprintf("tenant/%07d/job-nightly", i*7919%residentHolds)}
		t.Apply(3, 1, 0, &Command{Op: OpClaim, Session: id, Seq: seq, Floor: seq, Names: name, Note: "web"}, nil)
	}
	return t, (heapInUse() - before) / residentHolds
})

// benchmarkTable is the resident table and a session of its own.
func benchmarkTable(b *testing.B) (*Table, SessionID) {
	t, _ := resident()
	if t.claims.Len() < residentHolds {
		b.Fatalf("%d holds", t.claims.Len())
	}
	r := t.Apply(4, 1, 0, &Command{Op: OpOpen, Node: "bench", TTL: 10 * time.Second}, nil)
	b.ReportAllocs()
	return t, r.Session
}

func BenchmarkClaimUnlock(b *testing.B) {
	t, id := benchmarkTable(b)
	var eff Effects
	claim := Command{Op: OpClaim, Session: id, Names: []string{"tenant/0500000/other"}}
	unlock := Command{Op: OpUnlock, Session: id}
	seq, index := uint64(1), uint64(5)
	for b.Loop() {
		claim.Seq, claim.Floor, unlock.Seq, unlock.Of, unlock.Floor = seq, seq, seq+1, seq, seq
		unlock.Token = t.Apply(index, 1, 0, &claim, &eff).Token
		if r := t.Apply(index, 1, 0, &unlock, &eff); r.Code != CodeReleased {
			b.Fatal(r.Code)
		}
		seq += 2
		index++
		eff.Events, eff.Renewed = eff.Events[:0], eff.Renewed[:0]
	}
	_, perHold := resident()
	b.ReportMetric(perHold, "B/hold")
}

func BenchmarkRenew(b *testing.B) {
	t, id := benchmarkTable(b)
	var eff Effects
	renew := Command{Op: OpRenew, Session: id, Since: t.counter}
	index := uint64(5)
	for b.Loop() {
		if r := t.Apply(index, 1, 0, &renew, &eff); !r.Renewed {
			b.Fatal(r.Code)
		}
		index++
		eff.Renewed = eff.Renewed[:0]
	}
}

// BenchmarkContended hands one lock round a queue of ten thousand waiters.
func BenchmarkContended(b *testing.B) {
	t, id := benchmarkTable(b)
	const n = 10_000
	names := []string{"contended"}
	for seq := uint64(1); seq <= n; seq++ {
		t.Apply(5, 1, 0, &Command{Op: OpClaim, Session: id, Seq: seq, Floor: seq, Names: names}, nil)
	}
	holder, next := uint64(1), uint64(n+1)
	var eff Effects
	for b.Loop() {
		token, _ := t.GrantOf(id, holder)
		t.Apply(6, 1, 0, &Command{Op: OpUnlock, Session: id, Seq: next, Floor: next, Of: holder, Token: token}, &eff)
		if r := t.Apply(6, 1, 0, &Command{Op: OpClaim, Session: id, Seq: next + 1, Floor: next + 1, Names: names}, &eff); r.Ahead != n-2 {
			b.Fatal(r)
		}
		holder++
		if holder == n+1 {
			holder = n + 2
		} else if holder > n+1 {
			holder++
		}
		next += 2
		eff.Events, eff.Renewed = eff.Events[:0], eff.Renewed[:0]
	}
	t.Apply(7, 1, 0, &Command{Op: OpClose, Session: id}, nil)
}

// BenchmarkRelink asks again for a place in the middle of a queue of ten thousand, in the million.
func BenchmarkRelink(b *testing.B) {
	t, id := benchmarkTable(b)
	names := []string{"contended"}
	for seq := uint64(1); seq <= 10_000; seq++ {
		t.Apply(5, 1, 0, &Command{Op: OpClaim, Session: id, Seq: seq, Floor: seq, Names: names}, nil)
	}
	var eff Effects
	again := Command{Op: OpClaim, Session: id, Seq: 5_000, Names: names}
	for b.Loop() {
		if r := t.Apply(6, 1, 0, &again, &eff); r.Ahead != 4_998 {
			b.Fatal(r)
		}
		eff.Renewed = eff.Renewed[:0]
	}
	t.Apply(7, 1, 0, &Command{Op: OpClose, Session: id}, nil)
}

func BenchmarkSnapshot(b *testing.B) {
	t, _ := benchmarkTable(b)
	for b.Loop() {
		t.Snapshot()
	}
}

func BenchmarkHash(b *testing.B) {
	t, _ := benchmarkTable(b)
	for b.Loop() {
		t.Snapshot().Hash()
	}
}

func BenchmarkRebuild(b *testing.B) {
	t, _ := benchmarkTable(b)
	r := recordsOf(t.Snapshot())
	before := heapInUse()
	var rebuilt *Table
	for b.Loop() {
		var err error
		if rebuilt, err = rebuild(r); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric((heapInUse()-before)/residentHolds, "B/hold") // beside the texts, which the records share
	runtime.KeepAlive(rebuilt)
	runtime.KeepAlive(r)
}

func heapInUse() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
