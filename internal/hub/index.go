package hub

import "slices"

// index finds the subscriptions whose prefix a name begins with. A name of n bytes has n+1 prefixes, but only those as long as some
// subscription's are looked up, so that an event costs a few map look-ups however many subscriptions there are. A trie would
// do with one walk, for more code and more memory for each byte of prefix; real prefixes come in a handful of lengths.
type index struct {
	byPrefix map[string]map[*Subscription]struct{}
	lengths  []int       // of the prefixes present, ascending
	count    map[int]int // distinct prefixes of each length
}

func newIndex() index {
	return index{byPrefix: make(map[string]map[*Subscription]struct{}), count: make(map[int]int)}
}

func (x *index) add(s *Subscription) {
	set := x.byPrefix[s.prefix]
	if set == nil {
		set = make(map[*Subscription]struct{})
		x.byPrefix[s.prefix] = set
		x.lengthAdded(len(s.prefix))
	}
	set[s] = struct{}{}
}

// remove ignores a subscription that is not there, as one may end in more than one way.
func (x *index) remove(s *Subscription) {
	set := x.byPrefix[s.prefix]
	if _, ok := set[s]; !ok {
		return
	}
	delete(set, s)
	if len(set) == 0 {
		delete(x.byPrefix, s.prefix)
		x.lengthRemoved(len(s.prefix))
	}
}

func (x *index) lengthAdded(n int) {
	x.count[n]++
	if at, found := slices.BinarySearch(x.lengths, n); !found {
		x.lengths = slices.Insert(x.lengths, at, n)
	}
}

func (x *index) lengthRemoved(n int) {
	x.count[n]--
	if x.count[n] > 0 {
		return
	}
	delete(x.count, n)
	if at, found := slices.BinarySearch(x.lengths, n); found {
		x.lengths = slices.Delete(x.lengths, at, at+1)
	}
}

// match calls visit for each subscription under which name falls. visit may remove the subscription it was given, which can change the
// lengths: hence the copy-free walk from the longest down, where a removal moves only what was visited.
func (x *index) match(name string, visit func(*Subscription)) {
	for i := len(x.lengths) - 1; i >= 0; i-- {
		if n := x.lengths[i]; n <= len(name) {
			for s := range x.byPrefix[name[:n]] {
				visit(s)
			}
		}
	}
}

// all visits every subscription; visit may remove it: Go lets a map lose elements while it is ranged over.
func (x *index) all(visit func(*Subscription)) {
	for _, set := range x.byPrefix {
		for s := range set {
			visit(s)
		}
	}
}
