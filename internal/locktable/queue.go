package locktable

import (
	"cmp"
	"slices"
	"sort"
)

// A queue is the entries of one name in the order of their places. A claim's place is its create revision, unless it took the place of a hold. Grants
// are made strictly in that order, so the claims that hold a name are always the first in its queue, and the whole package rests on this:
//
//   - an exclusive claim is grantable exactly when it is the first in the queue of each of its names;
//   - a shared one exactly when only shared claims that hold stand before it;
//   - one for permits exactly when only claims that hold stand before it, and its permits fit under the limit;
//   - when a claim goes, or asks for less, or a limit rises, only claims that stand right behind the holders of such a name can have become grantable.
//
// A waiting writer thus keeps later readers out, a large claim for permits later small ones, and a waiting set of names later claims on each of them:
// nobody is starved. The waiting claim with the lowest place is never blocked by a waiting one, so there is no deadlock.

// nextInQueue is the first entry at or after the position at, of whatever name.
func (s *state) nextInQueue(at queueEntry) (next queueEntry, ok bool) {
	s.queue.Ascend(at, func(e queueEntry) bool {
		next, ok = e, true
		return false
	})
	return next, ok
}

// first is the first claim in the queue of a name, nil if nobody claims it.
func (s *state) first(name string) *claim {
	e, ok := s.nextInQueue(queueEntry{name: name})
	if !ok || e.name != name {
		return nil
	}
	return e.claim
}

// holderOf is the first claim that holds a name, or nil.
func (s *state) holderOf(name string) *claim {
	if c := s.first(name); c != nil && c.grant != 0 {
		return c
	}
	return nil
}

// eachHolding visits the claims that hold a name, in the order of the queue, until visit says no.
func (s *state) eachHolding(name string, visit func(*claim) bool) {
	s.queue.Ascend(queueEntry{name: name}, func(e queueEntry) bool {
		return e.name == name && e.claim.grant != 0 && visit(e.claim)
	})
}

// eachWaiting visits the claims that wait for a name, in the order of the queue, until visit says no.
func (s *state) eachWaiting(name string, visit func(*claim) bool) {
	if s.waiters(name) == 0 {
		return
	}
	from := queueEntry{name: name}
	if u, ok := s.uses.Get(name); ok {
		from.pos = u.last + 1
	}
	s.queue.Ascend(from, func(e queueEntry) bool {
		if e.name == name && e.claim.grant != 0 {
			return true // the one exclusive holder
		}
		return e.name == name && visit(e.claim)
	})
}

// free says whether a claim would be granted at once.
func (s *state) free(c *Command) bool {
	switch c.Mode {
	case Shared:
		holder := s.first(c.Names[0])
		return holder == nil || holder.mode == Shared && s.waiters(c.Names[0]) == 0
	case Permits:
		u, ok := s.semaphore(c.Names[0])
		return !ok || s.waiters(c.Names[0]) == 0 && u.fits(c.Count)
	}
	for _, name := range c.Names {
		if s.first(name) != nil {
			return false
		}
	}
	return true
}

// fits says whether that many more permits are free. A limit that was lowered may leave less than none.
func (u use) fits(count uint32) bool { return uint64(u.inUse)+uint64(count) <= uint64(u.limit) }

// foremost says whether a claim is the first in the queue of each of its names.
func (s *state) foremost(c *claim) bool {
	for _, name := range c.names {
		if s.first(name) != c {
			return false
		}
	}
	return true
}

func (s *state) waiters(name string) int {
	n, _ := s.waiting.Get(name)
	return n
}

// mostWaiters is the length of the longest queue of waiters among names: what a new claim on them finds ahead of it.
func (s *state) mostWaiters(names []string) int {
	n := 0
	for _, name := range names {
		n = max(n, s.waiters(name))
	}
	return n
}

// ahead is how many waiting claims stand before a waiting one, on the name where they are most.
func (s *state) ahead(c *claim) int {
	n := 0
	for _, name := range c.names {
		n = max(n, s.position(name, c.pos))
	}
	return n
}

// position counts the waiting claims on name before the place pos by two binary searches over the tree's order statistics,
// because a queue may be ten thousand long.
func (s *state) position(name string, pos Rev) int {
	start := s.rank(0, s.queue.Len(), queueEntry{name: name}) + s.holders(name)
	end := min(start+s.waiters(name), s.queue.Len())
	return s.rank(start, end, queueEntry{name: name, pos: pos}) - start
}

// rank is the index of the first entry in [low, high) that is not below at, or high.
func (s *state) rank(low, high int, at queueEntry) int {
	return low + sort.Search(high-low, func(i int) bool {
		e, _ := s.queue.GetAt(low + i)
		return !lessQueue(e, at)
	})
}

// taken is the first of names that somebody holds or waits for, "" if they are all free.
func (s *state) taken(names []string) string {
	for _, name := range names {
		if s.first(name) != nil {
			return name
		}
	}
	return ""
}

// blocker is the first holder of the first of names that is held, nil if none is.
func (s *state) blocker(names ...string) *Holder {
	for _, name := range names {
		if c := s.holderOf(name); c != nil {
			h := c.holder()
			return &h
		}
	}
	return nil
}

func (c *claim) holder() Holder {
	return Holder{
		Session: c.owner.id, Node: c.owner.node, NodeName: c.owner.nodeName, Note: c.note, Token: c.token, Since: c.granted,
		Draining: c.drain != nil && !c.barred, Barred: c.barred, Offered: c.offered(), Mode: c.mode, Count: c.count, Value: c.value(),
	}
}

func (c *claim) waiter() Waiter {
	return Waiter{
		Session: c.owner.id, Node: c.owner.node, NodeName: c.owner.nodeName, Note: c.note, Rev: c.rev, Since: c.created,
		Mode: c.mode, Count: c.count,
	}
}

// release takes a claim out of the table and tells it; the caller promotes when all that has to go is gone.
func (x *step) release(c *claim, kind EventKind, note string) Rev {
	x.remove(c)
	if c.drain != nil {
		x.eff.Drains = append(x.eff.Drains, Drain{Grant: c.grant, Wait: c.wait()})
	}
	return x.emitClaim(kind, c, note)
}

// promote grants the waiting claims that became grantable on names, in the order of their places. Two of them never get in each other's way: an exclusive
// one is the first in all its queues, and the others of one name were judged together.
func (x *step) promote(names []string) {
	var next []*claim
	for _, name := range names {
		next = x.promotable(next, name)
	}
	if len(next) > 1 {
		slices.SortFunc(next, func(a, b *claim) int { return cmp.Compare(a.pos, b.pos) })
		next = slices.Compact(next)
	}
	for _, c := range next {
		x.grant(c)
	}
}

// promotable appends the grantable claims of a name's queue to next.
func (s *state) promotable(next []*claim, name string) []*claim {
	u, _ := s.uses.Get(name)
	s.eachWaiting(name, func(c *claim) bool {
		if !s.grantable(c, name, u) {
			return false
		}
		next = append(next, c)
		u.inUse += c.count
		if c.mode == Shared {
			u.mode, u.holders = Shared, u.holders+1
		}
		return c.mode != Exclusive
	})
	return next
}

// grantable judges the first waiting claim of a name under the use that it would join.
func (s *state) grantable(c *claim, name string, u use) bool {
	switch c.mode {
	case Shared:
		return u.mode == Shared && u.holders > 0 || s.first(name) == c
	case Permits:
		return u.fits(c.count)
	}
	return s.foremost(c)
}

// grant turns a waiting claim into a hold.
func (x *step) grant(c *claim) {
	held := *c
	x.hold(&held)
	x.replace(c, &held)
	x.emitGrant(&held)
}

// hold makes a claim one that holds, by the grant that is told next. Its token is the grant's revision; readers that join others share theirs, for the
// mark that the last one leaves on a fenced resource must not refuse the first.
func (x *step) hold(c *claim) {
	c.grant, c.granted = x.counter+1, x.wall
	c.token = Token(c.grant)
	if c.mode != Shared {
		return
	}
	if u, ok := x.uses.Get(c.names[0]); ok {
		c.token = u.token
	}
}

func (x *step) emitGrant(c *claim) { x.emitClaim(EventGranted, c, c.note) }
