package history

import (
	"time"

	"github.com/quorumlock/quorumlock/watch"
)

// Observer is one subscription to one node's Watch with an empty prefix. After a restart, or when the subscription fell behind, a new one begins.
type Observer struct {
	history *History
	id      int64
	name    string
	last    watch.Event // Rev 0 before the first
}

// Observer begins a subscription. The name is for people and need not be unique.
func (h *History) Observer(name string) *Observer {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.observers++
	h.digestObserver(h.observers, name)
	return &Observer{history: h, id: h.observers, name: name}
}

// Event records what the subscription delivered, in the order of delivery.
func (o *Observer) Event(e watch.Event, at time.Time) {
	h := o.history
	h.mu.Lock()
	defer h.mu.Unlock()
	i := h.at(at)
	h.digestEvent(o.id, &e, i)
	o.follows(&e)
	o.last = e
	h.sight(o, &e, i)
}

// follows checks an event against the one before it in this subscription. Nothing is filtered by an empty prefix, so no revision may be missing.
func (o *Observer) follows(e *watch.Event) {
	if o.last.Rev == 0 {
		return
	}
	if e.Rev != o.last.Rev+1 {
		o.history.order.add(WatchOrder, "%s: revision %d after %d", o.name, e.Rev, o.last.Rev)
	}
	if e.Index < o.last.Index {
		o.history.order.add(WatchOrder, "%s: revision %d has log index %d, the one before has %d", o.name, e.Rev, e.Index, o.last.Index)
	}
}

// sight takes an event into the log that all observers share; whoever sees a revision again must see the same event.
func (h *History) sight(o *Observer, e *watch.Event, at instant) {
	known := h.seen[e.Rev]
	if known == nil {
		h.seen[e.Rev] = &sighting{Event: *e, by: o.name, first: at}
		return
	}
	known.first = min(known.first, at)
	if !sameEvent(&known.Event, e) {
		h.forked = true
		h.order.add(WatchOrder, "revision %d is %s for %s, and %s for %s", e.Rev, describe(&known.Event), known.by, describe(e), o.name)
	}
}

// sameEvent compares all that is replicated. Time is the clock of whoever led, and Node what the observer calls the server: they are for display.
func sameEvent(a, b *watch.Event) bool {
	x, y := *a, *b
	x.Time, y.Time = time.Time{}, time.Time{}
	x.Node, y.Node = "", ""
	return x == y
}
