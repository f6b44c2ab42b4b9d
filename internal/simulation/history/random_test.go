package history

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/watch"
)

// TestRandomGood: many histories that are right by construction, of which nothing is reported.
func TestRandomGood(t *testing.T) {
	kinds := make(map[kind]int)
	endings := make(map[Ending]int)
	for seed := range uint64(30) {
		tape := generate(seed, 700)
		report := play(tape).Check(0)
		for _, v := range report.Violations {
			t.Errorf("seed %d: %v", seed, v)
		}
		for e := range report.SmallestGap {
			endings[e]++
		}
		for _, r := range tape {
			kinds[r.kind]++
		}
	}
	for k := kindAcquired; k <= kindEvent; k++ {
		if kinds[k] == 0 {
			t.Errorf("no record of kind %d", k)
		}
	}
	if len(endings) != 3 {
		t.Errorf("endings with gaps: %v", endings)
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

// mutation is a fault put into a good tape; it says whether it found a place for it.
type mutation struct {
	name, check string // which check must notice it, "" if that depends on the place
	apply       func(m *mutator) bool
}

// mutator knows a tape well enough to break it in ways that can not be right.
type mutator struct {
	rng  *rand.Rand
	tape []record
	seen map[int64]time.Time // first sighting of a revision
}

func newMutator(seed uint64) *mutator {
	m := &mutator{rng: rand.New(rand.NewPCG(seed, 9)), tape: generate(seed, 500), seen: make(map[int64]time.Time)}
	for _, r := range m.tape {
		if first, ok := m.seen[r.event.Rev]; r.kind == kindEvent && (!ok || r.at.Before(first)) {
			m.seen[r.event.Rev] = r.at
		}
	}
	return m
}

// pick is the position of a random record that is fit, -1 if none is.
func (m *mutator) pick(fit func(i int, r *record) bool) int {
	var list []int
	for i := range m.tape {
		if fit(i, &m.tape[i]) {
			list = append(list, i)
		}
	}
	if len(list) == 0 {
		return -1
	}
	return list[m.rng.IntN(len(list))]
}

// change alters a random record that is fit.
func (m *mutator) change(fit func(r *record) bool, alter func(r *record)) bool {
	i := m.pick(func(_ int, r *record) bool { return fit(r) })
	if i >= 0 {
		alter(&m.tape[i])
	}
	return i >= 0
}

// rewrite alters an event in the same way for all observers.
func (m *mutator) rewrite(fit func(e *watch.Event) bool, alter func(e *watch.Event)) bool {
	i := m.pick(func(_ int, r *record) bool { return r.kind == kindEvent && fit(&r.event) })
	if i < 0 {
		return false
	}
	rev := m.tape[i].event.Rev
	for k := range m.tape {
		if r := &m.tape[k]; r.kind == kindEvent && r.event.Rev == rev {
			alter(&r.event)
		}
	}
	return true
}

// after is the first event on the same lock after a revision that is fit, nil if none is.
func (m *mutator) after(e *watch.Event, fit func(e *watch.Event) bool) *watch.Event {
	for i := range m.tape {
		if r := &m.tape[i]; r.kind == kindEvent && r.event.Rev > e.Rev && r.event.Name == e.Name && fit(&r.event) {
			return &r.event
		}
	}
	return nil
}

func (m *mutator) nextGrant(e *watch.Event) *watch.Event {
	return m.after(e, func(e *watch.Event) bool { return e.Kind == watch.Granted })
}

// removalOf is the event that ended a hold.
func (m *mutator) removalOf(token int64) *watch.Event {
	i := m.pick(func(_ int, r *record) bool {
		return r.kind == kindEvent && r.event.Token == token && isRemoval(&r.event)
	})
	if i < 0 {
		return nil
	}
	return &m.tape[i].event
}

// last is the last revision.
func (m *mutator) last() (rev int64) {
	for i := range m.tape {
		rev = max(rev, m.tape[i].event.Rev)
	}
	return rev
}

func isRemoval(e *watch.Event) bool {
	return e.Kind == watch.Released || e.Kind == watch.Expired || e.Kind == watch.Forced
}

func (r *record) shift(d time.Duration) {
	r.call.Start, r.call.End = r.call.Start.Add(d), r.call.End.Add(d)
}

func is(k kind) func(r *record) bool { return func(r *record) bool { return r.kind == k } }

func cleanly(r *record) bool { return r.kind == kindUnlocked && r.outcome == Clean }

// another is a revision that no event has by right.
const another = 31

var mutations = []mutation{
	{"two callers have each other's token", TokenRule, func(m *mutator) bool {
		i := m.pick(func(_ int, r *record) bool { return r.kind == kindAcquired })
		k := m.pick(func(_ int, r *record) bool { return r.kind == kindAcquired && r.call.Lock != m.tape[i].call.Lock })
		if k < 0 {
			return false
		}
		m.tape[i].token, m.tape[k].token = m.tape[k].token, m.tape[i].token
		return true
	}},
	{"two callers of one lock have each other's token", Linearizable, func(m *mutator) bool {
		i := m.pick(func(_ int, r *record) bool { return r.kind == kindAcquired })
		a := &m.tape[i]
		k := m.pick(func(_ int, r *record) bool {
			return r.kind == kindAcquired && r.call.Lock == a.call.Lock && r.call.Start.After(m.seen[a.token])
		})
		if k < 0 {
			return false
		}
		a.token, m.tape[k].token = m.tape[k].token, a.token
		return true
	}},
	{"two callers have one token", TokenRule, func(m *mutator) bool {
		return m.change(is(kindAcquired), func(r *record) { m.tape = append(m.tape, *r) })
	}},
	{"a caller has a token that is none", TokenRule, func(m *mutator) bool {
		return m.change(is(kindAcquired), func(r *record) { r.token = another })
	}},
	{"the log grants an old token", TokenRule, func(m *mutator) bool {
		return m.rewrite(func(e *watch.Event) bool { return e.Kind == watch.Granted }, func(e *watch.Event) { e.Token-- })
	}},
	{"a removal is something else", Exclusion, func(m *mutator) bool {
		return m.rewrite(
			func(e *watch.Event) bool { return isRemoval(e) && m.nextGrant(e) != nil },
			func(e *watch.Event) { e.Kind, e.Name, e.Token, e.Session = watch.SessionOpened, "", 0, e.Rev })
	}},
	{"a claim is granted instead of queued", Exclusion, func(m *mutator) bool {
		return m.rewrite(
			func(e *watch.Event) bool { return e.Kind == watch.Queued },
			func(e *watch.Event) { e.Kind, e.Token = watch.Granted, e.Rev })
	}},
	{"a cancel is something else", "", func(m *mutator) bool {
		return m.rewrite(
			func(e *watch.Event) bool {
				return e.Kind == watch.Cancelled && e.Rev+200 < m.last()
			},
			func(e *watch.Event) { e.Kind, e.Name, e.Session = watch.SessionOpened, "", e.Rev })
	}},
	{"a grant goes to a session that has ended", SessionRule, func(m *mutator) bool {
		i := m.pick(func(_ int, r *record) bool { return r.kind == kindEvent && r.event.Kind == watch.SessionExpired })
		if i < 0 {
			return false
		}
		ended := m.tape[i].event
		return m.rewrite(
			func(e *watch.Event) bool { return e.Kind == watch.Granted && e.Rev > ended.Rev+20 },
			func(e *watch.Event) { e.Session = ended.Session })
	}},
	{"one observer misses an event", WatchOrder, func(m *mutator) bool {
		i := m.pick(func(i int, r *record) bool { return r.kind == kindEvent && i > 20 && i < len(m.tape)-100 })
		m.tape = slices.Delete(m.tape, i, i+1)
		return true
	}},
	{"all observers miss an event", WatchOrder, func(m *mutator) bool {
		i := m.pick(func(i int, r *record) bool { return r.kind == kindEvent && i > 20 && i < len(m.tape)-100 })
		rev := m.tape[i].event.Rev
		m.tape = slices.DeleteFunc(m.tape, func(r record) bool { return r.kind == kindEvent && r.event.Rev == rev })
		return true
	}},
	{"one observer sees another token", WatchOrder, func(m *mutator) bool {
		return m.change(is(kindEvent), func(r *record) { r.event.Token++ })
	}},
	{"a lock is acquired too late", Linearizable, func(m *mutator) bool {
		return m.change(is(kindAcquired), func(r *record) { r.shift(50 * time.Millisecond) })
	}},
	{"a lock is acquired too early", Linearizable, func(m *mutator) bool {
		i := m.pick(func(i int, r *record) bool { return r.kind == kindAcquired && i > len(m.tape)/2 })
		m.tape[i].shift(-100 * time.Millisecond)
		return true
	}},
	{"an unlock is too late", Linearizable, func(m *mutator) bool {
		return m.change(cleanly, func(r *record) { r.shift(50 * time.Millisecond) })
	}},
	{"an inspection shows another holder", Linearizable, func(m *mutator) bool {
		return m.change(is(kindInspected), func(r *record) { r.token = another })
	}},
	{"an inspection shows many waiters", Linearizable, func(m *mutator) bool {
		return m.change(is(kindInspected), func(r *record) { r.waiting += 20 })
	}},
	{"an inspection is stale", Linearizable, func(m *mutator) bool {
		i := m.pick(func(i int, r *record) bool {
			return r.kind == kindInspected && r.token != 0 && m.removalOf(r.token) != nil
		})
		r := &m.tape[i]
		r.shift(m.seen[m.removalOf(r.token).Rev].Sub(r.call.Start) + 1)
		return true
	}},
	{"refused for a holder that is gone", Linearizable, func(m *mutator) bool {
		i := m.pick(func(i int, r *record) bool {
			return r.kind == kindRefused && r.token != 0 && m.removalOf(r.token) != nil
		})
		if i < 0 {
			return false
		}
		r := &m.tape[i]
		r.shift(m.seen[m.removalOf(r.token).Rev].Sub(r.call.Start) + 1)
		return true
	}},
	{"refused while free", Linearizable, refusedWhileFree},
	{"held when the next is granted", HoldInterval, func(m *mutator) bool {
		return m.change(func(r *record) bool {
			if r.kind != kindHeld {
				return false
			}
			end := m.removalOf(r.token)
			return end != nil && end.Kind != watch.Forced && m.nextGrant(end) != nil
		}, func(r *record) { r.at = m.seen[m.nextGrant(m.removalOf(r.token)).Rev].Add(1) })
	}},
	{"held after unlock", Finality, func(m *mutator) bool {
		i := m.pick(func(_ int, r *record) bool { return cleanly(r) })
		u := m.tape[i]
		m.tape = append(m.tape, record{kind: kindHeld, token: u.token, at: u.call.End.Add(1)})
		return true
	}},
	{"unlock of a lost hold says nil", UnlockRule, func(m *mutator) bool {
		return m.change(func(r *record) bool {
			if r.kind != kindUnlocked || r.outcome != Lost {
				return false
			}
			return r.call.Start.Equal(r.call.End) // the hold ended with its session
		}, func(r *record) { r.outcome = Clean })
	}},
}

// refusedWhileFree finds a time at which a lock was free for certain, from the first sighting of a removal to the begin of the next acquire.
func refusedWhileFree(m *mutator) bool {
	type hole struct {
		lock     string
		from, to time.Time
	}
	var holes []hole
	for i := range m.tape {
		a := &m.tape[i]
		if a.kind != kindAcquired {
			continue
		}
		var last *watch.Event
		for k := range m.tape {
			if e := &m.tape[k].event; m.tape[k].kind == kindEvent && e.Name == a.call.Lock && e.Rev < a.token && (last == nil || e.Rev > last.Rev) {
				last = e
			}
		}
		if last != nil && isRemoval(last) && m.seen[last.Rev].Add(time.Microsecond).Before(a.call.Start) {
			holes = append(holes, hole{last.Name, m.seen[last.Rev].Add(1), a.call.Start.Add(-1)})
		}
	}
	if len(holes) == 0 {
		return false
	}
	h := holes[m.rng.IntN(len(holes))]
	m.tape = append(m.tape, record{kind: kindRefused, call: Call{Client: "c", Lock: h.lock, Start: h.from, End: h.to}})
	return true
}

// TestMutations: whatever is put into a good history is noticed, by the check that it is for.
func TestMutations(t *testing.T) {
	for _, mutant := range mutations {
		t.Run(mutant.name, func(t *testing.T) {
			placed := 0
			for seed := range uint64(12) {
				m := newMutator(seed)
				if !mutant.apply(m) {
					continue
				}
				placed++
				report := play(m.tape).Check(0)
				if len(report.Violations) == 0 || mutant.check != "" && report.Found[mutant.check] == 0 {
					t.Errorf("seed %d: not noticed by %q: %v", seed, mutant.check, report.Violations)
				}
			}
			if placed < 6 {
				t.Errorf("only %d places in 12 histories", placed)
			}
		})
	}
}
