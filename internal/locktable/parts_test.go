package locktable

import (
	"testing"
	"time"
)

// parted is a table that has room for two lost holds of a session, and a session with the readers or waiters that a test gives it.
func parted(t *testing.T) (table *Table, id SessionID, do func(c Command) Result) {
	table = New()
	table.limits.lost = 2
	index := uint64(0)
	do = func(c Command) Result {
		t.Helper()
		index++
		r := table.Apply(index, 1, 0, &c, nil)
		if err := checkInvariants(table); err != nil {
			t.Fatal(err)
		}
		return r
	}
	do(Command{Op: OpFound, ClusterID: "c", Rev: 100, TTL: time.Minute})
	return table, do(Command{Op: OpOpen, Node: "n", TTL: time.Second}).Session, do
}

// A forced release of more readers than their session has room to be told of is done in parts: each says that there is more, none is done again, and the next one waits until
// the session has heard.
func TestForceInParts(t *testing.T) {
	for _, now := range []bool{false, true} {
		table, id, do := parted(t)
		for seq := range uint64(5) {
			do(Command{Op: OpClaim, Session: id, Seq: seq + 1, Names: []string{"x"}, Mode: Shared})
		}
		force := Command{Op: OpForce, Names: []string{"x"}, Token: table.Inspect("x").Holders[0].Token, Now: now}
		done := func() (n int) {
			for _, h := range table.Inspect("x").Holders {
				if !h.Draining {
					n++
				}
			}
			return 5 - n
		}
		for _, want := range []int{2, 4} {
			r := do(force)
			if r.Code == CodeOverloaded || !r.More || done() != want {
				t.Fatalf("now=%v: %v, more: %v, %d done, want %d", now, r.Code, r.More, done(), want)
			}
			if r := do(force); r.Code != CodeOverloaded || done() != want {
				t.Errorf("now=%v: before the session has heard: %v, %d done", now, r.Code, done())
			}
			do(Command{Op: OpRenew, Session: id, Since: r.Rev})
		}
		if r := do(force); r.Code == CodeOverloaded || r.More || done() != 5 {
			t.Errorf("now=%v: the last part: %v, more: %v, %d done", now, r.Code, r.More, done())
		}
	}
}

// A limit below what waiting claims want is set when all of them could be told; before, they end in parts, and what waits behind them is not held up.
func TestResizeInParts(t *testing.T) {
	table, id, do := parted(t)
	claim := func(seq uint64, count uint32) {
		do(Command{Op: OpClaim, Session: id, Seq: seq, Names: []string{"x"}, Mode: Permits, Count: count, Limit: 10})
	}
	claim(1, 8)
	for seq := range uint64(5) {
		claim(seq+2, 5)
	}
	claim(7, 2)
	for round, want := range []int{4, 2} {
		r := do(Command{Op: OpResize, Session: id, Seq: uint64(20 + round), Names: []string{"x"}, Limit: 3})
		if info := table.Inspect("x"); r.Code != CodeOverloaded || !r.More || info.Limit != 10 || info.Waiting != want {
			t.Fatalf("part %d: %v, more: %v, %+v", round, r.Code, r.More, info)
		}
		again := do(Command{Op: OpResize, Session: id, Seq: uint64(30 + round), Names: []string{"x"}, Limit: 3})
		if info := table.Inspect("x"); again.Code != CodeOverloaded || again.More || info.Waiting != want {
			t.Errorf("part %d before the session has heard: %v, more: %v, %+v", round, again.Code, again.More, info)
		}
		do(Command{Op: OpRenew, Session: id, Since: r.Rev})
	}
	r := do(Command{Op: OpResize, Session: id, Seq: 40, Names: []string{"x"}, Limit: 3})
	if info := table.Inspect("x"); r.Code != CodeOK || r.More || info.Limit != 3 || info.Waiting != 1 {
		t.Errorf("the last part: %v, more: %v, %+v", r.Code, r.More, info)
	}
}
