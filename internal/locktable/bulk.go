package locktable

import (
	"fmt"
	"slices"

	"github.com/tidwall/btree"
)

// loadClaims fills the empty trees of claims. Sorted items are appended to a tree without a search, so a million claims take a
// fraction of what insert takes for each; sorting them first, once for each order, costs less than the searches saved.
// Two claims of one sequence are an error, and so are two entries of one place in a queue.
func (s *state) loadClaims(claims []*claim) error {
	byRequest := make([]claimEntry, 0, len(claims))
	places := make([]queueEntry, 0, len(claims))
	var held []holdEntry
	for _, c := range claims {
		for _, name := range c.names {
			places = append(places, queueEntry{name, c.pos, c})
		}
		if c.drain != nil {
			s.drains.Set(c.grant, c)
		}
		if c.barred {
			s.barred++
			continue
		}
		byRequest = append(byRequest, claimEntry{c.owner.id, c.seq, c})
		if c.grant != 0 {
			held = append(held, holdEntry{c.owner.id, c.grant, c})
		}
	}
	if e, twice := load(s.claims, byRequest, lessClaim); twice {
		return fmt.Errorf("session %d: sequence %d is two live claims", e.session, e.seq)
	}
	if e, twice := load(s.queue, places, lessQueue); twice {
		return fmt.Errorf("two claims stand at place %d of %q", e.pos, e.name)
	}
	if e, twice := load(s.holds, held, lessHold); twice {
		return fmt.Errorf("revision %d is two grants", e.grant)
	}
	return s.loadUses(places)
}

// load sorts items, fills an empty tree with them, and tells an item whose key came twice.
func load[T any](tree *btree.BTreeG[T], items []T, less func(a, b T) bool) (repeated T, found bool) {
	slices.SortFunc(items, func(a, b T) int {
		switch {
		case less(a, b):
			return -1
		case less(b, a):
			return 1
		}
		return 0
	})
	for _, item := range items {
		if _, twice := tree.Load(item); twice {
			return item, true
		}
	}
	return repeated, false
}

// loadUses counts the waiting claims of each name, and what is held of it in a mode that can be shared, in the sorted places of all queues.
func (s *state) loadUses(places []queueEntry) error {
	for len(places) > 0 {
		name, waiting, end := places[0].name, 0, 0
		var u use
		var inUse uint64
		for ; end < len(places) && places[end].name == name; end++ {
			c := places[end].claim
			if c.mode == Permits {
				u.mode = Permits
			}
			if c.grant == 0 {
				waiting++
				continue
			}
			if c.mode != Exclusive {
				u.mode, u.last, u.holders, u.token = c.mode, c.pos, u.holders+1, c.token
				inUse += uint64(c.count)
			}
		}
		if inUse > MaxPermits {
			return fmt.Errorf("%q: %d permits held", name, inUse)
		}
		if waiting > 0 {
			s.waiting.Load(name, waiting)
		}
		if u != (use{}) {
			u.inUse = uint32(inUse)
			s.loadUse(name, u)
		}
		places = places[end:]
	}
	return nil
}

func (s *state) loadUse(name string, u use) {
	if u.mode == Permits {
		u.token = 0
	}
	s.countSemaphore(u, +1)
	s.uses.Load(name, u)
}
