package history

import (
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/watch"
)

// mutation is a fault put into a good tape; it says whether it found a place for it.
type mutation struct {
	name, check string // which check must notice it, "" if that depends on the place
	apply       func(m *mutator) bool
}

var mutations = slices.Concat(callMutations, logMutations, primitiveMutations)

// What callers say is changed.
var callMutations = []mutation{
	{"two callers have each other's token", TokenRule, func(m *mutator) bool {
		i := m.pick(func(_ int, r *record) bool { return r.kind == kindAcquired && m.mode(r) == exclusive })
		k := m.pick(func(_ int, r *record) bool {
			return r.kind == kindAcquired && r.token != m.tape[i].token && m.mode(r) == exclusive
		})
		if k < 0 {
			return false
		}
		m.tape[i].token, m.tape[k].token = m.tape[k].token, m.tape[i].token
		return true
	}},
	{"two callers are given one hold", OnceRule, func(m *mutator) bool {
		return m.change(is(kindAcquired), func(r *record) { m.tape = append(m.tape, *r) })
	}},
	{"a caller has a token that is none", TokenRule, func(m *mutator) bool {
		return m.change(is(kindAcquired), func(r *record) { r.token = 31 })
	}},
	{"a lock is acquired too late", Linearizable, func(m *mutator) bool {
		return m.change(is(kindAcquired), func(r *record) { r.shift(m.seen[m.grantOf(r.id).Rev].Sub(r.call.Start) + 1) })
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
		return m.change(is(kindInspected), func(r *record) { r.holders = append([]string{"nobody"}, r.holders...) })
	}},
	{"an inspection shows a holder too few", Linearizable, func(m *mutator) bool {
		return m.change(func(r *record) bool { return r.kind == kindInspected && len(r.holders) > 1 && r.waiting > 0 },
			func(r *record) { r.holders, r.waiting = nil, r.waiting+20 })
	}},
	{"an inspection shows many waiters", Linearizable, func(m *mutator) bool {
		return m.change(is(kindInspected), func(r *record) { r.waiting += 20 })
	}},
	{"an inspection is stale", Linearizable, func(m *mutator) bool { return m.makeStale(kindInspected) }},
	{"refused for a holder that is gone", Linearizable, func(m *mutator) bool { return m.makeStale(kindRefused) }},
	{"refused while free", Linearizable, refusedWhileFree},
	{"held when the next is granted", HoldInterval, func(m *mutator) bool {
		return m.change(func(r *record) bool {
			if r.kind != kindHeld {
				return false
			}
			end := m.removalOf(r.id)
			return end != nil && end.Kind != watch.Forced && m.nextGrant(end) != nil
		}, func(r *record) { r.at = m.seen[m.nextGrant(m.removalOf(r.id)).Rev].Add(1) })
	}},
	{"held after its end", HoldInterval, func(m *mutator) bool {
		return m.change(func(r *record) bool {
			if r.kind != kindHeld {
				return false
			}
			end := m.removalOf(r.id)
			return end != nil && end.Kind != watch.Forced
		}, func(r *record) { r.at = m.seen[m.removalOf(r.id).Rev].Add(jitter + 1) })
	}},
	{"held after unlock", Finality, func(m *mutator) bool {
		i := m.pick(func(_ int, r *record) bool { return cleanly(r) })
		u := m.tape[i]
		m.tape = append(m.tape, record{kind: kindHeld, id: u.id, at: u.call.End.Add(1)})
		return true
	}},
	{"unlock of a lost hold says nil", UnlockRule, func(m *mutator) bool {
		return m.change(func(r *record) bool {
			return r.kind == kindUnlocked && r.outcome == Lost && r.call.Start.Equal(r.call.End) // the hold ended with its session
		}, func(r *record) { r.outcome = Clean })
	}},
	{"held for longer than its cap", MaxHoldRule, func(m *mutator) bool {
		return m.change(func(r *record) bool { return r.kind == kindHeld && m.asked[r.id].MaxHold > 0 && m.given(r.id) },
			func(r *record) { r.at = r.at.Add(2 * time.Hour) })
	}},
	{"a resize that did nothing says nil", AskedRule, func(m *mutator) bool {
		return m.change(is(kindResized), func(r *record) { r.waiting += 10 })
	}},
	{"a value that was never published", AskedRule, func(m *mutator) bool {
		return m.change(is(kindProclaimed), func(r *record) { r.other = "another" })
	}},
	{"an observer is shown a leader that is none", LeaderRule, func(m *mutator) bool {
		return m.change(is(kindLeads), func(r *record) { r.token++ })
	}},
	{"an observer is shown an old leader", LeaderRule, func(m *mutator) bool {
		i := m.pick(func(i int, r *record) bool { return r.kind == kindLeads && r.id == "o" && i < len(m.tape)/2 })
		if i < 0 {
			return false
		}
		m.tape = append(m.tape, m.tape[i])
		return true
	}},
	{"a hand over to another node says nil", MoveRule, func(m *mutator) bool {
		return m.change(is(kindHandedOver), func(r *record) { r.other = "another" })
	}},
}

// The log is changed, in the same way for all who see it or not.
var logMutations = []mutation{
	{"the log grants an old token", TokenRule, func(m *mutator) bool {
		return m.rewrite(func(e *watch.Event) bool { return e.Kind == watch.Granted && m.alone(e) }, func(e *watch.Event) { e.Token-- })
	}},
	{"a removal is something else", "", func(m *mutator) bool {
		return m.rewrite(func(e *watch.Event) bool { return isRemoval(e) && m.alone(e) && m.nextGrant(e) != nil }, becomes)
	}},
	{"a removal of an exclusive hold is something else", Exclusion, func(m *mutator) bool {
		return m.rewrite(func(e *watch.Event) bool {
			next := m.nextGrant(e)
			return isRemoval(e) && e.Mode == exclusive && m.alone(e) && next != nil && m.asked[next.Note].From == "" && m.asked[m.claimOf(e)].Delay == 0
		}, becomes)
	}},
	{"a claim is granted instead of queued", Exclusion, func(m *mutator) bool {
		return m.rewrite(
			func(e *watch.Event) bool {
				return e.Kind == watch.Queued && e.Mode == exclusive && m.alone(e) && m.heldAt(e)
			},
			func(e *watch.Event) { e.Kind, e.Token = watch.Granted, fence.Token(e.Rev) })
	}},
	{"a cancel is something else", "", func(m *mutator) bool {
		return m.rewrite(func(e *watch.Event) bool { return e.Kind == watch.Cancelled && m.alone(e) && e.Rev+200 < m.last() }, becomes)
	}},
	{"a claim is granted twice", "", func(m *mutator) bool {
		i := m.pick(func(_ int, r *record) bool {
			return r.kind == kindEvent && r.event.Kind == watch.Granted && m.alone(&r.event)
		})
		first := m.tape[i].event
		return m.rewrite(func(e *watch.Event) bool { return e.Kind == watch.Queued && e.Rev > first.Rev && m.alone(e) },
			func(e *watch.Event) {
				e.Kind, e.Note, e.Name, e.Session, e.Token = watch.Granted, first.Note, first.Name, first.Session, fence.Token(e.Rev)
			})
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
}

// What is told of one kind of lock is changed.
var primitiveMutations = []mutation{
	{"a reader overlaps a writer", "", func(m *mutator) bool {
		return m.rewrite(
			func(e *watch.Event) bool { return e.Kind == watch.Queued && e.Mode == shared && m.writerAt(e) },
			func(e *watch.Event) { e.Kind, e.Token = watch.Granted, fence.Token(e.Rev) })
	}},
	{"a reader passes a writer that waits", "", func(m *mutator) bool {
		return m.rewrite(
			func(e *watch.Event) bool { return e.Kind == watch.Queued && e.Mode == shared && !m.writerAt(e) },
			func(e *watch.Event) { e.Kind, e.Token = watch.Granted, fence.Token(e.Rev) })
	}},
	{"a reader has a token of its own beside others", TokenRule, func(m *mutator) bool {
		return m.rewrite(
			func(e *watch.Event) bool {
				return e.Kind == watch.Granted && e.Mode == shared && e.Token != fence.Token(e.Rev) && m.asked[e.Note].From == ""
			},
			func(e *watch.Event) { e.Token = fence.Token(e.Rev) })
	}},
	{"more permits than there are", Exclusion, func(m *mutator) bool {
		return m.rewrite(
			func(e *watch.Event) bool {
				return e.Kind == watch.Queued && e.Mode == permits && m.heldAt(e) && !m.waitedAt(e)
			},
			func(e *watch.Event) { e.Kind, e.Token = watch.Granted, fence.Token(e.Rev) })
	}},
	{"other permits than asked for", AskedRule, func(m *mutator) bool {
		return m.rewrite(func(e *watch.Event) bool { return e.Kind == watch.Granted && e.Mode == permits }, func(e *watch.Event) { e.Permits++ })
	}},
	{"a set is granted in part", SetRule, func(m *mutator) bool {
		return m.rewrite(func(e *watch.Event) bool { return e.Kind == watch.Granted && !m.alone(e) }, becomes)
	}},
	{"a set is granted under two tokens", SetRule, func(m *mutator) bool {
		return m.rewrite(
			func(e *watch.Event) bool {
				return e.Kind == watch.Granted && e.Token != fence.Token(e.Rev) && !m.alone(e)
			},
			func(e *watch.Event) { e.Token = fence.Token(e.Rev) })
	}},
	{"a lock delay is skipped", DelayRule, func(m *mutator) bool {
		return m.rewrite(func(e *watch.Event) bool {
			return e.Kind == watch.Freed && m.alone(e) && m.after(e, isOf(watch.Granted)) != nil && (e.Mode == exclusive || m.writerLater(e))
		}, func(e *watch.Event) { becomes(e) })
	}},
	{"a lock delay is cut short", DelayRule, func(m *mutator) bool {
		// Longer than the whole history, for in that a short delay may be over late by much.
		return m.change(func(r *record) bool { return r.kind == kindAsks && m.freedAfterDelay(r.claim.ID) },
			func(r *record) { r.claim.Delay = time.Hour })
	}},
	{"a hold is received twice", "", func(m *mutator) bool {
		i := m.pick(func(_ int, r *record) bool { return r.kind == kindAsks && r.claim.From != "" })
		if i < 0 {
			return false
		}
		from := m.tape[i].claim.From
		return m.change(func(r *record) bool { return r.kind == kindAsks && r.claim.From == "" && m.granted(r.claim.ID) },
			func(r *record) { r.claim.From = from })
	}},
	{"a hold that was given away is held", "", func(m *mutator) bool {
		i := m.pick(func(_ int, r *record) bool { return r.kind == kindAsks && r.claim.From != "" && m.given(r.claim.From) })
		if i < 0 {
			return false
		}
		m.tape = append(m.tape, record{kind: kindHeld, id: m.tape[i].claim.From, at: m.seen[m.last()].Add(time.Second)})
		return true
	}},
	{"somebody is granted the lock in the middle of a move", MoveRule, func(m *mutator) bool {
		i := m.pick(func(_ int, r *record) bool {
			return r.kind == kindEvent && r.event.Kind == watch.Granted && m.alone(&r.event) && m.asked[r.event.Note].From != ""
		})
		if i < 0 {
			return false
		}
		rev := m.tape[i].event.Rev
		return m.rewrite(func(e *watch.Event) bool { return e.Rev == rev-1 }, becomes)
	}},
}

// leastPlaced is in how many histories a mutant must have found a place, or the test shows too little of its check.
const leastPlaced = 3

// TestMutations: whatever is put into a good history is noticed, by the check that it is for.
func TestMutations(t *testing.T) {
	for _, mutant := range mutations {
		t.Run(mutant.name, func(t *testing.T) {
			placed := 0
			for seed := uint64(0); seed < 10 || placed < leastPlaced && seed < 40; seed++ {
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
			if placed < leastPlaced {
				t.Errorf("only %d places in 40 histories", placed)
			}
		})
	}
}
