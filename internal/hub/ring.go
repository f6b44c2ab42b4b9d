package hub

import "github.com/quorumlock/quorumlock/watch"

// ring keeps the newest size events. It grows as they come, so that a small cluster does not pay for a large history.
type ring struct {
	size   int
	events []watch.Event
	oldest int // position of the oldest once full
}

func (r *ring) len() int { return len(r.events) }

// at counts from the oldest.
func (r *ring) at(i int) watch.Event { return r.events[(r.oldest+i)%len(r.events)] }

func (r *ring) add(e watch.Event) {
	switch {
	case r.size == 0:
	case len(r.events) < r.size:
		r.events = append(r.events, e)
	default:
		r.events[r.oldest] = e
		r.oldest = (r.oldest + 1) % r.size
	}
}

func (r *ring) clear() { r.events, r.oldest = nil, 0 }
