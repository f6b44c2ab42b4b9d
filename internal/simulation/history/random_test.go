package history

import (
	"slices"
	"testing"
	"time"
)

// TestRandomGood: many histories that are right by construction, of which nothing is reported.
func TestRandomGood(t *testing.T) {
	kinds := make(map[kind]int)
	endings := make(map[Ending]int)
	var tally Tally
	for seed := range uint64(30) {
		tape := generate(seed, 700)
		report := play(tape).Check(0)
		for _, v := range report.Violations {
			t.Errorf("seed %d: %v", seed, v)
		}
		for e := range report.SmallestGap {
			endings[e]++
		}
		tally.Add(report.Tally)
		for _, r := range tape {
			kinds[r.kind]++
		}
	}
	for k := kindAsks; k <= kindEvent; k++ {
		if kinds[k] == 0 {
			t.Errorf("no record of kind %d", k)
		}
	}
	if len(endings) != 3 {
		t.Errorf("endings with gaps: %v", endings)
	}
	for name, count := range tally.Counts() {
		if count == 0 {
			t.Errorf("no %s: %+v", name, tally)
		}
	}
}

// TestRandomUnseen: what nobody saw, at the beginning or in the middle, is no reason to complain about the rest.
func TestRandomUnseen(t *testing.T) {
	for seed := range uint64(30) {
		m := newMutator(seed)
		first, last := int64(1_000_001), m.last()
		from := first + m.rng.Int64N((last-first)/2)
		to := from + 1 + m.rng.Int64N(30)
		late := seed%3 == 0
		if late {
			from = first
		}
		if late && !m.remembered(to) {
			continue // nothing shows that there was anything before: the run has to see to it that observers come first
		}
		report := play(m.look(from, to)).Check(0)
		for _, v := range report.Violations {
			t.Errorf("seed %d, without revisions %d to %d: %v", seed, from, to, v)
		}
		if report.Late != late && from > first || !report.Late && report.Unseen != int(to-from) {
			t.Errorf("seed %d, without revisions %d to %d: %d unseen, late %v", seed, from, to, report.Unseen, report.Late)
		}
	}
}

// remembered says that some event from a revision on is about a session from before.
func (m *mutator) remembered(rev int64) bool {
	return slices.ContainsFunc(m.tape, func(r record) bool {
		return r.kind == kindEvent && r.event.Rev >= rev && r.event.Session < rev
	})
}

// look is the tape with new observers after the revisions from (included) to (excluded), which nobody sees.
func (m *mutator) look(from, to int64) (tape []record) {
	again := 0
	for _, r := range m.tape {
		switch {
		case r.kind == kindObserver:
			again++
		case r.kind == kindEvent && r.event.Rev >= from && r.event.Rev < to:
			continue
		case r.kind == kindEvent && r.event.Rev >= to:
			r.observer += again
		}
		tape = append(tape, r)
	}
	for i := range again {
		tape = append([]record{{kind: kindObserver, observer: i}}, tape...)
	}
	return tape
}

// TestLarge: the time for a long run is that of reading it.
func TestLarge(t *testing.T) {
	const commands = 30_000
	tape := generate(1, commands)
	began := time.Now()
	h := play(tape)
	recorded := time.Now()
	report := h.Check(0)
	for _, v := range report.Violations {
		t.Error(v)
	}
	t.Logf("%d calls, %d events, %d grants: recorded in %v, checked in %v",
		report.Calls, report.Events, report.Grants, recorded.Sub(began), time.Since(recorded))
}
