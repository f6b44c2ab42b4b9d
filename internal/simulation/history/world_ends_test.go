package history

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/watch"
)

// How holds of the world end, and how they move.

func (w *world) unlock() {
	c := w.some(w.settled)
	if c == nil {
		return
	}
	call := w.around(c.lock(), c.given)
	if !c.orphan {
		w.stops(c, call.Start)
		o := []Outcome{Clean, Clean, Clean, Unknown, Lost}[w.rng.IntN(5)]
		w.note(record{kind: kindUnlocked, call: call, id: c.ID, outcome: o})
	}
	w.remove(c)
	w.emit(watch.Released, c, c.ID)
	w.promote()
}

func (w *world) cancel() {
	c := w.some(func(c *worldClaim) bool { return !c.holds })
	if c == nil {
		return
	}
	w.note(record{kind: kindFailed, call: Call{Client: "c", Lock: c.lock(), Start: c.start, End: w.now}, id: c.ID})
	w.remove(c)
	w.emit(watch.Cancelled, c, c.ID)
	w.promote()
}

func (w *world) force() {
	c := w.some(func(c *worldClaim) bool { return c.holds && !c.barred && !w.twins(c) })
	switch {
	case c == nil:
	case !c.drained && w.rng.IntN(3) > 0:
		c.drained = true
		w.emit(watch.Draining, c, "stuck")
	case c.drained && w.rng.IntN(3) > 0:
		w.wait(2 * jitter) // a drain takes longer than any call
		w.fail(c, watch.Forced, "stuck")
		w.promote()
	default:
		w.note(record{kind: kindForcedNow, token: c.token})
		w.remove(c)
		w.emit(watch.Forced, c, "stuck")
		w.note(record{kind: kindHeld, id: c.ID, at: w.now.Add(w.upTo(jitter))}) // the last to know
		w.promote()
	}
}

// twins says that a forced release would mean others as well.
func (w *world) twins(c *worldClaim) bool {
	return slices.ContainsFunc(w.claims, func(d *worldClaim) bool { return d != c && d.holds && d.token == c.token })
}

// fail ends a hold against its owner's will.
func (w *world) fail(c *worldClaim, kind watch.Kind, note string) {
	if c.Delay == 0 {
		w.remove(c)
	}
	c.barred = c.Delay > 0
	w.emit(kind, c, note)
}

// free ends a lock delay.
func (w *world) free() {
	c := w.some(func(c *worldClaim) bool { return c.barred })
	if c == nil {
		return
	}
	w.wait(c.Delay + 2*jitter)
	w.remove(c)
	w.emit(watch.Freed, c, c.ID)
	w.promote()
}

// succeeds puts a claim in the place of a hold.
func (w *world) succeeds(old, next *worldClaim, call Call) {
	w.stops(old, call.Start)
	next.start, next.holds, next.orphan = call.Start, true, old.orphan
	w.remove(next)
	w.claims[slices.Index(w.claims, old)] = next
	w.emit(watch.Released, old, old.ID)
	next.token = w.rev + 1
	if old.Mode == shared {
		next.token = old.token
	}
	w.emit(watch.Granted, next, next.ID)
	w.give(next)
}

func (w *world) downgrade() {
	old := w.some(func(c *worldClaim) bool {
		return w.settled(c) && !c.drained && c.Mode == exclusive && len(c.Names) == 1
	})
	if old == nil {
		return
	}
	next := w.ask(shared, old.Names...)
	next.session, next.Delay, next.From = old.session, old.Delay, old.ID
	w.asked(next)
	w.succeeds(old, next, w.around(old.lock(), old.given))
	w.promote()
}

func (w *world) receive() {
	old := w.some(func(c *worldClaim) bool { return w.settled(c) && !c.drained })
	if old == nil {
		return
	}
	next := w.ask(old.Mode, old.Names...)
	next.Permits, next.Limit, next.Delay, next.From = old.Permits, old.Limit, old.Delay, old.ID
	w.asked(next)
	w.succeeds(old, next, w.around(old.lock(), old.given))
}

func (w *world) handOver() {
	old := w.some(func(c *worldClaim) bool {
		return w.settled(c) && !c.drained && c.Mode == exclusive && len(c.Names) == 1
	})
	if old == nil {
		return
	}
	next := w.some(func(c *worldClaim) bool { return !c.holds && c.Mode == exclusive && slices.Equal(c.Names, old.Names) })
	if next == nil {
		return
	}
	call := w.around(old.lock(), old.given)
	w.note(record{kind: kindHandsOver, id: old.ID})
	start := next.start
	w.remove(next)
	w.stops(old, call.Start)
	w.claims[slices.Index(w.claims, old)] = next
	next.holds, next.token = true, w.rev+1+int64(len(old.Names))
	w.emit(watch.Released, old, old.ID)
	w.emit(watch.Granted, next, next.ID)
	next.start = start
	w.give(next)
	w.note(record{kind: kindHandedOver, call: call, id: old.ID, other: "n", outcome: Clean})
}

func (w *world) proclaim() {
	c := w.some(func(c *worldClaim) bool { return w.settled(c) && len(c.Names) == 1 })
	if c == nil {
		return
	}
	value := fmt.Sprint("value ", w.rev)
	w.note(record{kind: kindProclaimed, call: w.around(c.lock(), c.given), id: c.ID, other: value, outcome: Clean})
	w.tell(watch.Event{
		Kind: watch.ValueChanged, Name: c.lock(), Token: fence.Token(c.token), Session: c.session, Claim: c.number, Note: c.ID, Mode: c.Mode,
		Permits: c.Permits, Value: value,
	})
	if c.Mode == exclusive {
		w.note(record{kind: kindLeads, id: "p", call: Call{Lock: c.lock()}, token: c.token, other: value, at: w.now.Add(jitter)})
	}
}

func (w *world) resize() {
	limit := w.rng.IntN(5)
	if w.fixed = limit > 0; w.fixed {
		w.limit, w.former = limit, w.limit
	}
	w.note(record{kind: kindResized, call: w.around("pool", epoch), waiting: limit, outcome: Clean})
	w.tell(watch.Event{Kind: watch.Resized, Name: "pool", Session: w.sessions[0], Mode: permits, Permits: limit})
	w.promote()
}

// wait lets all end that has begun.
func (w *world) wait(d time.Duration) {
	w.now = w.now.Add(d)
	w.index++
}

func (w *world) inspect() {
	name := append([]string{"pool"}, worldLocks...)[w.rng.IntN(1+len(worldLocks))]
	r := record{kind: kindInspected, call: w.around(name, epoch)}
	for _, c := range w.on(name) {
		if c.holds {
			r.holders = append(r.holders, c.ID)
		} else {
			r.waiting++
		}
	}
	w.note(r)
}

// end ends a session with all it has, when no call under it is left that has not returned.
func (w *world) end(kind, holds watch.Kind) {
	i := w.rng.IntN(len(w.sessions))
	id := w.sessions[i]
	w.sessions = slices.Delete(w.sessions, i, i+1)
	w.wait(2 * jitter)
	w.tell(watch.Event{Kind: kind, Session: id})
	for _, c := range slices.Clone(w.claims) {
		switch {
		case c.session != id || c.barred:
			continue
		case !c.holds:
			w.remove(c)
			w.emit(watch.Cancelled, c, c.ID)
			continue
		case kind == watch.SessionClosed:
			w.remove(c)
			w.emit(holds, c, c.ID)
		default:
			w.fail(c, holds, c.ID)
		}
		if !c.orphan {
			after := w.now.Add(time.Second)
			w.note(record{kind: kindUnlocked, call: Call{Lock: c.lock(), Start: after, End: after}, id: c.ID, outcome: Lost})
		}
	}
	w.promote()
	if kind == watch.SessionClosed {
		w.note(record{kind: kindSessionClosed, call: w.around("", epoch), token: id, outcome: Clean})
	}
}
