package history

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/watch"
)

// mutator knows a tape well enough to break it in ways that can not be right.
type mutator struct {
	rng   *rand.Rand
	tape  []record
	seen  map[int64]time.Time // first sighting of a revision
	asked map[string]*Claim
	notes map[uint64]string // of claims, by number
}

func newMutator(seed uint64) *mutator {
	m := &mutator{rng: rand.New(rand.NewPCG(seed, 9)), tape: generate(seed, 500), seen: make(map[int64]time.Time), asked: make(map[string]*Claim), notes: make(map[uint64]string)}
	for _, r := range m.tape {
		if first, ok := m.seen[r.event.Rev]; r.kind == kindEvent && (!ok || r.at.Before(first)) {
			m.seen[r.event.Rev] = r.at
		}
		if e := &r.event; e.Kind == watch.Queued || e.Kind == watch.Granted {
			m.notes[e.Claim] = e.Note
		}
		if r.kind == kindAsks {
			m.asked[r.claim.ID] = &r.claim
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

// removalOf is the event that ended the hold of a claim, nil if it lives on or was given away.
func (m *mutator) removalOf(id string) *watch.Event {
	for i := range m.tape {
		if e := &m.tape[i].event; m.tape[i].kind == kindEvent && isRemoval(e) && m.claimOf(e) == id {
			return e
		}
	}
	return nil
}

// claimOf is the claim that an event is about. The events of a forced release carry the reason.
func (m *mutator) claimOf(e *watch.Event) string { return m.notes[e.Claim] }

// mode is that of the claim that a record is about.
func (m *mutator) mode(r *record) watch.Mode { return m.asked[r.id].Mode }

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

func isOf(k watch.Kind) func(e *watch.Event) bool {
	return func(e *watch.Event) bool { return e.Kind == k }
}

// becomes makes an event something that has nothing to do with any claim.
func becomes(e *watch.Event) {
	*e = watch.Event{Rev: e.Rev, Kind: watch.SessionOpened, Session: e.Rev, ServerID: e.ServerID, Index: e.Index, Time: e.Time}
}

// alone says that an event is the only one of its step.
func (m *mutator) alone(e *watch.Event) bool { return len(m.asked[m.claimOf(e)].Names) == 1 }

// makeStale moves a read that names a holder to where that is gone.
func (m *mutator) makeStale(k kind) bool {
	named := func(r *record) string {
		if k == kindRefused {
			return r.other
		}
		return append(slices.Clone(r.holders), "")[0]
	}
	i := m.pick(func(_ int, r *record) bool { return r.kind == k && named(r) != "" && m.goneAfter(named(r)) != nil })
	if i < 0 {
		return false
	}
	r := &m.tape[i]
	r.shift(m.seen[m.goneAfter(named(r)).Rev].Sub(r.call.Start) + 1)
	return true
}

// goneAfter is the event after which nothing shows the claim any more.
func (m *mutator) goneAfter(id string) *watch.Event {
	end := m.removalOf(id)
	if end == nil {
		return nil
	}
	last := end
	for i := range m.tape {
		if e := &m.tape[i].event; m.tape[i].kind == kindEvent && m.claimOf(e) == id && e.Rev > last.Rev {
			last = e
		}
	}
	if m.asked[id].Delay > 0 && last.Kind != watch.Freed {
		return nil // its delay may go on
	}
	return last
}

func (m *mutator) given(id string) bool {
	return slices.ContainsFunc(m.tape, func(r record) bool { return r.kind == kindAcquired && r.id == id })
}

func (m *mutator) granted(id string) bool { return m.grantOf(id) != nil }

// grantOf is the first event of a claim's grant.
func (m *mutator) grantOf(id string) *watch.Event {
	for i := range m.tape {
		if e := &m.tape[i].event; m.tape[i].kind == kindEvent && e.Kind == watch.Granted && e.Note == id {
			return e
		}
	}
	return nil
}

func (m *mutator) freedAfterDelay(id string) bool {
	return slices.ContainsFunc(m.tape, func(r record) bool { return r.kind == kindEvent && r.event.Kind == watch.Freed && r.event.Note == id })
}

// standing are the claims on an event's lock just before it, by how they stand.
func (m *mutator) standing(before *watch.Event) map[string]watch.Kind {
	list := make(map[string]watch.Kind)
	for i := range m.tape {
		r := &m.tape[i]
		if r.kind != kindEvent || r.observer != 0 || r.event.Name != before.Name || r.event.Rev >= before.Rev {
			continue
		}
		switch e := &r.event; {
		case e.Kind == watch.Queued || e.Kind == watch.Granted:
			list[e.Note] = e.Kind
		case isRemoval(e) || e.Kind == watch.Cancelled:
			delete(list, m.claimOf(e))
		}
	}
	return list
}

func (m *mutator) heldAt(e *watch.Event) bool {
	for _, kind := range m.standing(e) {
		if kind == watch.Granted {
			return true
		}
	}
	return false
}

func (m *mutator) waitedAt(e *watch.Event) bool {
	for _, kind := range m.standing(e) {
		if kind == watch.Queued {
			return true
		}
	}
	return false
}

func (m *mutator) writerLater(e *watch.Event) bool {
	return m.after(e, func(e *watch.Event) bool { return e.Kind == watch.Granted && e.Mode == exclusive }) != nil
}

func (m *mutator) writerAt(e *watch.Event) bool {
	for id, kind := range m.standing(e) {
		if kind == watch.Granted && m.asked[id].Mode == exclusive {
			return true
		}
	}
	return false
}

// refusedWhileFree puts a refusal at a time at which the lock was free for certain: between two events that were seen by all, with nothing on the lock.
func refusedWhileFree(m *mutator) bool {
	var events []*watch.Event
	for i := range m.tape {
		if r := &m.tape[i]; r.kind == kindEvent && r.observer == 0 {
			events = append(events, &r.event)
		}
	}
	m.rng.Shuffle(len(events), func(i, k int) { events[i], events[k] = events[k], events[i] })
	for _, e := range events {
		next := m.after(e, func(*watch.Event) bool { return true })
		if next == nil || next.Kind != watch.Granted || len(m.standing(next)) > 0 || m.barredAt(next) {
			continue
		}
		from, to := m.seen[e.Rev].Add(1), m.seen[next.Rev].Add(-2*jitter)
		a := m.pick(func(_ int, r *record) bool { return r.kind == kindAcquired && r.id == next.Note })
		if a < 0 {
			continue // nobody says when it can have been granted at the earliest
		}
		if start := m.tape[a].call.Start; start.Before(to) {
			to = start.Add(-1)
		}
		if !from.Before(to) {
			continue
		}
		m.tape = append(m.tape,
			record{kind: kindAsks, claim: Claim{ID: "try", Names: []string{e.Name}}},
			record{kind: kindRefused, id: "try", call: Call{Client: "c", Lock: e.Name, Start: from, End: to}})
		return true
	}
	return false
}

// barredAt says that a delay may go on just before an event.
func (m *mutator) barredAt(before *watch.Event) bool {
	barred := make(map[string]bool)
	for i := range m.tape {
		r := &m.tape[i]
		if r.kind != kindEvent || r.observer != 0 || r.event.Name != before.Name || r.event.Rev >= before.Rev {
			continue
		}
		if e := &r.event; isRemoval(e) && m.asked[m.claimOf(e)].Delay > 0 && e.Kind != watch.Released {
			barred[m.claimOf(e)] = true
		} else if e.Kind == watch.Freed {
			delete(barred, m.claimOf(e))
		}
	}
	return len(barred) > 0
}
