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
		byRequest = append(byRequest, claimEntry{c.owner.id, c.seq, c})
		for _, name := range c.names {
			places = append(places, queueEntry{name, c.rev, c})
		}
		if c.token != 0 {
			held = append(held, holdEntry{c.owner.id, c.token, c})
		}
		if c.drain != nil {
			s.drains.Set(c.token, c)
		}
	}
	if e, twice := load(s.claims, byRequest, lessClaim); twice {
		return fmt.Errorf("session %d: sequence %d is two live claims", e.session, e.seq)
	}
	if e, twice := load(s.queue, places, lessQueue); twice {
		return fmt.Errorf("two claims have revision %d", e.rev)
	}
	if e, twice := load(s.holds, held, lessHold); twice {
		return fmt.Errorf("token %d used twice", e.token)
	}
	s.loadWaiting(places)
	return nil
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

// loadWaiting counts the waiting claims of each name in the sorted places of all queues.
func (s *state) loadWaiting(places []queueEntry) {
	for len(places) > 0 {
		name, n, end := places[0].name, 0, 0
		for ; end < len(places) && places[end].name == name; end++ {
			if places[end].claim.token == 0 {
				n++
			}
		}
		if n > 0 {
			s.waiting.Load(name, n)
		}
		places = places[end:]
	}
}
