package quorumlock

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/quorumlock/quorumlock/internal/clock"
	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// machine is an fsm whose upcalls are counted.
type machine struct {
	*fsm
	failures []error
	events   []locktable.Event
	founded  int
	index    uint64
}

func newMachine() *machine {
	m := &machine{fsm: newFSM(clock.NewFake(), wire.Binary{})}
	m.fsm.fail = func(err error) { m.failures = append(m.failures, err) }
	m.fsm.publish = func(e []locktable.Event) { m.events = append(m.events, e...) }
	m.fsm.founded = func() { m.founded++ }
	m.fsm.reset = func(locktable.Header) {}
	return m
}

func (m *machine) entry(data []byte) any {
	m.index++
	return m.Apply(&raft.Log{Index: m.index, Term: 1, Data: data})
}

// resultsOf takes the results out of an answer of Apply.
func resultsOf(answer any) (results []locktable.Result, ok bool) {
	a, ok := answer.(*answered)
	if !ok {
		return nil, false
	}
	return a.take(), true
}

// Whoever keeps the answer, as raft's log cache does, keeps no results that were taken.
func TestTakenResultsAreNotKept(t *testing.T) {
	m := newMachine()
	a, ok := m.entry(wire.AppendBatch(nil, 1, []*locktable.Command{found()})).(*answered)
	if !ok || len(a.take()) != 1 || a.results != nil {
		t.Errorf("%+v", a)
	}
}

// Results that somebody waits for are his own; only those of entries in between may share their place.
func TestAwaitedResultsAreKept(t *testing.T) {
	m := newMachine()
	waits := true
	m.awaited = func() bool { return waits }
	m.commands(t, found())
	own := m.commands(t, open("a"), open("b"))
	first, second := own[0].Session, own[1].Session
	waits = false
	last := m.commands(t, open("c"), open("d"))
	if next := m.commands(t, open("e"), open("f")); &next[0] != &last[0] {
		t.Error("results that nobody waits for were given a place of their own")
	}
	if own[0].Session != first || own[1].Session != second || first == second {
		t.Errorf("%+v", own)
	}
}

// Buffers are used again from entry to entry, and what an entry left in the state is not touched by the next.
func TestNextEntryLeavesTheLastAlone(t *testing.T) {
	m := newMachine()
	m.commands(t, found())
	s := m.commands(t, open("a"))[0].Session
	claim := func(seq uint64, name string) *locktable.Command {
		return &locktable.Command{Op: locktable.OpClaim, Session: s, Seq: seq, Floor: 1, Names: []string{name}, Note: "note of " + name}
	}
	m.commands(t, claim(1, "first"), claim(2, "second"))
	m.commands(t, claim(3, "other"))
	for seq, name := range []string{1: "first", 2: "second", 3: "other"} {
		if seq == 0 {
			continue
		}
		res := m.commands(t, &locktable.Command{Op: locktable.OpInspect, Names: []string{name}})[0]
		if res.Info == nil || res.Info.Name != name || len(res.Info.Holders) != 1 || res.Info.Holders[0].Note != "note of "+name {
			t.Errorf("%s: %+v", name, res.Info)
		}
	}
}

func (m *machine) commands(t *testing.T, cmds ...*locktable.Command) []locktable.Result {
	t.Helper()
	results, ok := resultsOf(m.entry(wire.AppendBatch(nil, 1, cmds)))
	if !ok || len(results) != len(cmds) {
		t.Fatalf("%d commands got %v", len(cmds), results)
	}
	return results
}

func found() *locktable.Command {
	return &locktable.Command{Op: locktable.OpFound, ClusterID: "c", Rev: 1000, TTL: MaxSessionTTL}
}

func open(node string) *locktable.Command {
	return &locktable.Command{Op: locktable.OpOpen, Node: node, NodeName: node, TTL: MinSessionTTL}
}

// An entry that needs a newer binary stops the member before it applies anything further: what it would apply next rests on what it cannot read.
func TestEntryOfANewerLevelStopsTheMember(t *testing.T) {
	m := newMachine()
	m.commands(t, found())
	newer := wire.AppendBatch(nil, 1, []*locktable.Command{{Op: locktable.OpLevel, Level: wire.Level + 1}})
	before := m.view().Hash()
	if err, _ := m.entry(newer).(error); !errors.Is(err, wire.ErrLevel) {
		t.Errorf("entry of a newer level: %v", err)
	}
	if len(m.failures) != 1 || !errors.Is(m.failures[0], wire.ErrLevel) {
		t.Errorf("failures %v", m.failures)
	}
	if err, _ := m.entry(wire.AppendBatch(nil, 1, []*locktable.Command{open("a")})).(error); err == nil {
		t.Error("an entry after it was applied")
	}
	if m.view().Hash() != before {
		t.Error("the state changed")
	}
	if _, err := m.Snapshot(); err == nil {
		t.Error("a member that has stopped gives a snapshot")
	}
}

// Bytes that are no entry are an error result, the same on every member, and the member goes on.
func TestMalformedEntryIsAnErrorResult(t *testing.T) {
	m := newMachine()
	m.commands(t, found())
	before := m.view().Hash()
	for _, data := range [][]byte{nil, {0}, {1}, {1, 1, 0xff, 0xff}, bytes.Repeat([]byte{0xff}, 100)} {
		results, ok := resultsOf(m.entry(data))
		if !ok || len(results) != 1 || results[0].Code != locktable.CodeMalformed {
			t.Errorf("%x: %v", data, results)
		}
	}
	if m.view().Hash() != before || len(m.failures) > 0 {
		t.Errorf("the state changed, or failures %v", m.failures)
	}
	if r := m.commands(t, open("a")); r[0].Code != locktable.CodeOK {
		t.Errorf("after malformed entries: %+v", r)
	}
}

// A snapshot that cannot be read in full changes nothing but the member's willingness to go on.
func TestRestoreTakesAllOrNothing(t *testing.T) {
	from := newMachine()
	from.commands(t, found(), open("a"))
	var b bytes.Buffer
	if err := wire.WriteSnapshot(&b, from.view()); err != nil {
		t.Fatal(err)
	}
	good := newMachine()
	if err := good.Restore(io.NopCloser(bytes.NewReader(b.Bytes()))); err != nil {
		t.Fatal(err)
	}
	if good.view().Hash() != from.view().Hash() {
		t.Error("the restored state differs")
	}
	bad := newMachine()
	bad.commands(t, found())
	before := bad.view().Hash()
	cut := b.Bytes()[:b.Len()-1]
	if err := bad.Restore(io.NopCloser(bytes.NewReader(cut))); err == nil {
		t.Error("a snapshot that was cut short was taken")
	}
	if bad.view().Hash() != before || len(bad.failures) != 1 {
		t.Errorf("state changed, or failures %v", bad.failures)
	}
}
