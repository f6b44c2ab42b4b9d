package locktable

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// What docs/SCALING.md promises of memory. Measured on 64 bits: 332 bytes for a hold, 264 for a waiter, 183 for a session; the bounds leave room for other versions of
// Go. Names, notes and node names count.
func TestFootprint(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	const n = 20_000
	for _, test := range []struct {
		what  string
		most  float64 // bytes for each
		begin func() *Table
		add   func(t *Table, i int) Result
		code  Code
	}{
		{"a hold", 600, func() *Table { return populated(0, 1) }, func(t *Table, i int) Result {
			return t.Apply(3, 1, 0, claimOf(t, i, fmt.Sprintf("tenant/%07d/job-nightly", i*7919%n)), nil)
		}, CodeGranted},
		{"a waiter", 600, func() *Table {
			t := populated(0, 1)
			t.Apply(3, 1, 0, claimOf(t, n, "tenant/contended/job-nightly"), nil)
			return t
		}, func(t *Table, i int) Result {
			return t.Apply(3, 1, 0, claimOf(t, i, "tenant/contended/job-nightly"), nil)
		}, CodeWaiting},
		{"a session", 400, func() *Table { return populated(0, 1) }, func(t *Table, i int) Result {
			return t.Apply(2, 1, 0, &Command{Op: OpOpen, Node: fmt.Sprintf("node-%d", i%3), NodeName: "web", TTL: 10 * time.Second}, nil)
		}, CodeOK},
	} {
		table := test.begin()
		before := heapInUse()
		for i := range n {
			if r := test.add(table, i); r.Code != test.code {
				t.Fatalf("%s: %v, want %v", test.what, r.Code, test.code)
			}
		}
		each := (heapInUse() - before) / n
		runtime.KeepAlive(table)
		t.Logf("%s takes %.0f bytes", test.what, each)
		if each > test.most || each < 30 { // less would mean that nothing was kept
			t.Errorf("%s takes %.0f bytes, at most %.0f", test.what, each, test.most)
		}
	}
}

// claimOf is the claim number i of the table's only session, of which all claims before live.
func claimOf(t *Table, i int, name string) *Command {
	for s := range t.Sessions() {
		return &Command{Op: OpClaim, Session: s.ID, Seq: uint64(i + 1), Floor: 1, Names: []string{name}, Note: "web"}
	}
	return nil
}

// A command's cost must not grow with what else is held: allocations of a cycle are those of a small table, but for the nodes that the first writes after a snapshot copy.
func TestACycleAllocatesLittle(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	const most = 12 // measured: 7
	for _, holds := range []int{100, 50_000} {
		table := populated(holds, 10)
		r := table.Apply(4, 1, 0, &Command{Op: OpOpen, Node: "n", TTL: 10 * time.Second}, nil)
		c := newCycle(table, r.Session)
		var err error
		n := testing.AllocsPerRun(200, func() {
			if e := c.turn(); e != nil {
				err = e
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if n > most {
			t.Errorf("with %d holds a cycle makes %v allocations, at most %d", holds, n, most)
		}
	}
}
