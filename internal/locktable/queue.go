package locktable

import (
	"cmp"
	"slices"
	"sort"
)

// A queue is the entries of one name in the order of create revisions. All claims are exclusive, so the claim that holds a name is
// always the first in its queue: it was granted when nothing stood before it, and what came later has a higher revision.
// Two rules follow, and the whole package rests on them:
//
//   - a claim is grantable exactly when it is the first in the queue of each of its names;
//   - when a claim goes, only claims that thereby became the first of some queue can have become grantable.

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

// holderOf is the claim that holds a name, or nil.
func (s *state) holderOf(name string) *claim {
	if c := s.first(name); c != nil && c.token != 0 {
		return c
	}
	return nil
}

// free says whether a new claim on names would be granted at once.
func (s *state) free(names []string) bool {
	for _, name := range names {
		if s.first(name) != nil {
			return false
		}
	}
	return true
}

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
		n = max(n, s.position(name, c.rev))
	}
	return n
}

// position counts the waiting claims on name with a lower revision than rev by two binary searches over the tree's order statistics,
// because a queue may be ten thousand long.
func (s *state) position(name string, rev Rev) int {
	start := s.rank(0, s.queue.Len(), queueEntry{name: name})
	if s.holderOf(name) != nil {
		start++
	}
	end := min(start+s.waiters(name), s.queue.Len())
	return s.rank(start, end, queueEntry{name: name, rev: rev}) - start
}

// rank is the index of the first entry in [low, high) that is not below at, or high.
func (s *state) rank(low, high int, at queueEntry) int {
	return low + sort.Search(high-low, func(i int) bool {
		e, _ := s.queue.GetAt(low + i)
		return !lessQueue(e, at)
	})
}

// blocker is the holder of the first of names that is held, nil if none is.
func (s *state) blocker(names []string) *Holder {
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
		Session: c.owner.id, Node: c.owner.node, NodeName: c.owner.nodeName, Note: c.note,
		Token: c.token, Since: c.granted, Draining: c.drain != nil,
	}
}

func (c *claim) waiter() Waiter {
	return Waiter{
		Session: c.owner.id, Node: c.owner.node, NodeName: c.owner.nodeName, Note: c.note, Rev: c.rev, Since: c.created,
	}
}

// release takes a claim out of the table and tells it; the caller promotes when all that has to go is gone.
func (x *step) release(c *claim, kind EventKind, note string) Rev {
	x.remove(c)
	if c.drain != nil {
		x.eff.Drains = append(x.eff.Drains, Drain{Token: c.token, TTL: c.owner.ttl})
	}
	return x.emitClaim(kind, c, note)
}

// promote grants the waiting claims that became grantable when claims on names went, in the order of their create revisions.
// Two of them never want the same name, for each is the first in all its queues.
func (x *step) promote(names []string) {
	if len(names) == 1 {
		if c := x.promotable(names[0]); c != nil {
			x.grant(c)
		}
		return
	}
	var next []*claim
	for _, name := range names {
		if c := x.promotable(name); c != nil {
			next = append(next, c)
		}
	}
	slices.SortFunc(next, func(a, b *claim) int { return cmp.Compare(a.rev, b.rev) })
	for _, c := range slices.Compact(next) {
		x.grant(c)
	}
}

// promotable is the claim at the head of a name's queue if it waits and nothing stands before it anywhere.
func (x *step) promotable(name string) *claim {
	c := x.first(name)
	if c == nil || c.token != 0 || !x.foremost(c) {
		return nil
	}
	return c
}

// grant turns a waiting claim into a hold. Its token is the revision of its first event.
func (x *step) grant(c *claim) {
	held := *c
	held.token, held.granted = Token(x.counter+1), x.wall
	x.replace(c, &held)
	x.emitClaim(EventGranted, &held, held.note)
}
