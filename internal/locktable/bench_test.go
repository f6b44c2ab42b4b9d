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
	t := populated(residentHolds, 1_000)
	return t, (heapInUse() - before) / residentHolds
})

// small is what most services have.
var small = sync.OnceValue(func() *Table { return populated(1_000, 10) })

// populated is a table of that many holds, spread over sessions, whose names come in no order.
func populated(holds, sessions int) *Table {
	t := New()
	t.Apply(1, 1, 0, &Command{Op: OpFound, ClusterID: "c", Rev: 1_700_000_000_000_000, TTL: time.Minute}, nil)
	first := t.counter + 1
	for i := range sessions {
		t.Apply(2, 1, 0, &Command{Op: OpOpen, Node: fmt.Sprintf("node-%d", i), NodeName: "web", TTL: 10 * time.Second}, nil)
	}
	for i := range holds {
		id, seq := SessionID(first)+SessionID(i%sessions), uint64(i/sessions+1)
		name := []string{fmt.Sprintf("tenant/%07d/job-nightly", i*7919%holds)}
		t.Apply(3, 1, 0, &Command{Op: OpClaim, Session: id, Seq: seq, Floor: seq, Names: name, Note: "web"}, nil)
	}
	return t
}

// eachSize runs f on a table of a thousand holds and on one of a million, with a session of its own that is gone afterwards.
func eachSize(b *testing.B, f func(b *testing.B, t *Table, id SessionID)) {
	b.Run("holds=1k", func(b *testing.B) { onTable(b, small(), 1_000, f) })
	b.Run("holds=1M", func(b *testing.B) { onMillion(b, f) })
}

func onMillion(b *testing.B, f func(b *testing.B, t *Table, id SessionID)) {
	t, _ := resident()
	onTable(b, t, residentHolds, f)
}

func onTable(b *testing.B, t *Table, holds int, f func(b *testing.B, t *Table, id SessionID)) {
	if t.claims.Len() != holds {
		b.Fatalf("%d holds", t.claims.Len())
	}
	r := t.Apply(4, 1, 0, &Command{Op: OpOpen, Node: "bench", TTL: 10 * time.Second}, nil)
	b.ReportAllocs()
	f(b, t, r.Session)
	t.Apply(4, 1, 0, &Command{Op: OpClose, Session: r.Session}, nil)
}

// BenchmarkClaim claims free locks; what they hold is given back beside the clock, by the end of their session.
func BenchmarkClaim(b *testing.B) {
	eachSize(b, func(b *testing.B, t *Table, id SessionID) {
		var eff Effects
		names := make([][]string, 1_000)
		for i := range names {
			names[i] = []string{fmt.Sprintf("tenant/%07d/other", i*997)}
		}
		claim := Command{Op: OpClaim}
		for i := 0; b.Loop(); i++ {
			if i%len(names) == 0 {
				b.StopTimer()
				t.Apply(4, 1, 0, &Command{Op: OpClose, Session: claim.Session}, nil)
				claim.Session = t.Apply(4, 1, 0, &Command{Op: OpOpen, Node: "bench", TTL: 10 * time.Second}, nil).Session
				b.StartTimer()
			}
			claim.Seq, claim.Names = uint64(i%len(names)+1), names[i%len(names)]
			claim.Floor = claim.Seq
			if r := t.Apply(5, 1, 0, &claim, &eff); r.Code != CodeGranted {
				b.Fatal(r.Code)
			}
			eff.Events, eff.Renewed = eff.Events[:0], eff.Renewed[:0]
		}
		t.Apply(4, 1, 0, &Command{Op: OpClose, Session: claim.Session}, nil)
	})
}

// BenchmarkClaimUnlock is a whole cycle.
func BenchmarkClaimUnlock(b *testing.B) {
	eachSize(b, func(b *testing.B, t *Table, id SessionID) {
		cycle := newCycle(t, id)
		for b.Loop() {
			if err := cycle.turn(); err != nil {
				b.Fatal(err)
			}
		}
		if t.claims.Len() == residentHolds {
			_, perHold := resident()
			b.ReportMetric(perHold, "B/hold")
		}
	})
}

// cycle claims and unlocks one free lock again and again, with commands that it uses again, as raft's goroutine has them decoded.
type cycle struct {
	table         *Table
	eff           Effects
	claim, unlock Command
	seq           uint64
}

func newCycle(t *Table, id SessionID) *cycle {
	return &cycle{
		table: t, seq: 1,
		claim:  Command{Op: OpClaim, Session: id, Names: []string{"tenant/0500000/other"}},
		unlock: Command{Op: OpUnlock, Session: id},
	}
}

func (c *cycle) turn() error {
	c.claim.Seq, c.claim.Floor = c.seq, c.seq
	c.unlock.Seq, c.unlock.Of, c.unlock.Floor = c.seq+1, c.seq, c.seq
	c.unlock.Token = c.table.Apply(5, 1, 0, &c.claim, &c.eff).Token
	if r := c.table.Apply(5, 1, 0, &c.unlock, &c.eff); r.Code != CodeReleased {
		return fmt.Errorf("unlock: %v", r.Code)
	}
	c.seq += 2
	c.eff.Events, c.eff.Renewed = c.eff.Events[:0], c.eff.Renewed[:0]
	return nil
}

func BenchmarkRenew(b *testing.B) {
	eachSize(b, func(b *testing.B, t *Table, id SessionID) {
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
	})
}

// BenchmarkContended hands one lock round a queue: the holder unlocks, the next one is granted, and the former holder stands in line again.
func BenchmarkContended(b *testing.B) {
	for _, waiters := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("waiters=%d", waiters), func(b *testing.B) {
			eachSize(b, func(b *testing.B, t *Table, id SessionID) { handRound(b, t, id, waiters) })
		})
	}
}

func handRound(b *testing.B, t *Table, id SessionID, waiters int) {
	queue := make([]uint64, 0, waiters+1) // a ring of sequences, the holder's at head
	names := []string{"contended"}
	claim := Command{Op: OpClaim, Session: id, Names: names}
	for seq := uint64(1); seq <= uint64(waiters+1); seq++ {
		claim.Seq, claim.Floor = seq, seq
		t.Apply(5, 1, 0, &claim, nil)
		queue = append(queue, seq)
	}
	unlock := Command{Op: OpUnlock, Session: id}
	head, next := 0, uint64(waiters+2)
	var eff Effects
	for b.Loop() {
		token, _ := t.GrantOf(id, queue[head])
		unlock.Seq, unlock.Floor, unlock.Of, unlock.Token = next, next, queue[head], token
		if r := t.Apply(6, 1, 0, &unlock, &eff); r.Code != CodeReleased {
			b.Fatal(r.Code)
		}
		claim.Seq, claim.Floor = next+1, next+1
		if r := t.Apply(6, 1, 0, &claim, &eff); r.Ahead != waiters-1 {
			b.Fatal(r)
		}
		queue[head] = next + 1
		head = (head + 1) % len(queue)
		next += 2
		eff.Events, eff.Renewed = eff.Events[:0], eff.Renewed[:0]
	}
}

// BenchmarkRelink asks again for a place in the middle of a queue of ten thousand, in the million.
func BenchmarkRelink(b *testing.B) {
	onMillion(b, func(b *testing.B, t *Table, id SessionID) {
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
	})
}

func BenchmarkSnapshot(b *testing.B) {
	onMillion(b, func(b *testing.B, t *Table, _ SessionID) {
		for b.Loop() {
			t.Snapshot()
		}
	})
}

func BenchmarkHash(b *testing.B) {
	onMillion(b, func(b *testing.B, t *Table, _ SessionID) {
		for b.Loop() {
			t.Snapshot().Hash()
		}
	})
}

func BenchmarkRebuild(b *testing.B) {
	t, _ := resident()
	b.ReportAllocs()
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
