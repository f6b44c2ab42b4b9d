package hub

import (
	"fmt"
	"strings"
	"sync"

	"github.com/quorumlock/quorumlock/watch"
)

// Hub spreads events to subscriptions. One goroutine publishes; everything else may be called from anywhere.
type Hub struct {
	mu      sync.Mutex // taken before a Subscription's
	history ring
	started bool  // whether last is known: a revision was published or set by Reset
	last    int64 // newest revision
	subs    index
	closed  bool
	cause   error
}

// NewHub keeps the last history events for subscribers that resume; 0 keeps none. The first revision published, or Reset, says where
// the hub begins.
func NewHub(history int) *Hub {
	return &Hub{history: ring{size: max(history, 0)}, subs: newIndex()}
}

// Publish hands on events in revision order and never waits for a subscriber: one whose queue is full falls behind. If the revisions
// do not follow each other and the last one published, nothing is published and the error is an ErrOutOfOrder. After Close
// it does nothing.
//
// The cost grows with the subscriptions whose prefix matches, not with all of them.
func (h *Hub) Publish(events []watch.Event) error {
	if len(events) == 0 {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	if err := h.checkOrder(events); err != nil {
		return err
	}
	if !h.started {
		h.start(events[0].Rev - 1)
	}
	h.last = events[len(events)-1].Rev
	for _, e := range events {
		h.history.add(e)
		h.subs.match(e.Name, func(s *Subscription) { h.offer(s, e) })
	}
	return nil
}

func (h *Hub) checkOrder(events []watch.Event) error {
	next := h.last + 1
	if !h.started {
		next = events[0].Rev
	}
	for _, e := range events {
		if e.Rev != next {
			return fmt.Errorf("publish revision %d where %d is due: %w", e.Rev, next, ErrOutOfOrder)
		}
		next++
	}
	return nil
}

// start fixes where the hub begins. Whoever asked before for a time that lies before the beginning has missed something.
func (h *Hub) start(rev int64) {
	h.started, h.last = true, rev
	h.subs.all(func(s *Subscription) {
		if s.since != 0 && s.since < rev {
			h.drop(s, &watch.FellBehindError{Since: s.since, Now: rev})
		}
	})
}

func (h *Hub) offer(s *Subscription, e watch.Event) {
	if e.Rev > s.since && !s.push(e) {
		h.drop(s, &watch.FellBehindError{Since: e.Rev - 1, Now: h.last})
	}
}

func (h *Hub) drop(s *Subscription, cause error) {
	h.subs.remove(s)
	s.end(cause)
}

// Subscribe watches the names that begin with prefix; "" is all of them, and the events about sessions, which have no name. The
// subscription begins after revision since: 0 is from now on, a revision in the kept history replays what followed, one that
// the hub has not reached yet skips up to it. If since is older than the history, the subscription has fallen behind from the start,
// which Next tells. Close must be called when done.
func (h *Hub) Subscribe(prefix string, since int64) *Subscription {
	s := newSubscription(h, prefix, since)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		s.end(h.cause)
	case since == 0:
		s.since = h.last
		h.subs.add(s)
	case since < 0 || h.started && since < h.oldest():
		s.end(&watch.FellBehindError{Since: since, Now: h.last})
	default:
		h.replay(s)
		h.subs.add(s)
	}
	return s
}

// oldest is the lowest revision from which the history replays all that followed.
func (h *Hub) oldest() int64 { return h.last - int64(h.history.len()) }

// replay queues what is kept beyond s.since. It is not bound by the queue's limit, which counts what the subscriber is slow at, and
// nothing can be slow yet; the history's own size bounds it.
func (h *Hub) replay(s *Subscription) {
	skip := max(s.since-h.oldest(), 0)
	for i := int(min(skip, int64(h.history.len()))); i < h.history.len(); i++ {
		if e := h.history.at(i); strings.HasPrefix(e.Name, s.prefix) {
			s.replay(e)
		}
	}
}

// Rev is the newest revision published or set by Reset, 0 before the first.
func (h *Hub) Rev() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// Reset says that the state now is that of revision rev without the events in between, as after the installation of a snapshot. The
// history is gone, every subscription falls behind, and the next event has revision rev+1.
func (h *Hub) Reset(rev int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	missed := h.last
	h.history.clear()
	h.started, h.last = true, rev
	h.subs.all(func(s *Subscription) {
		h.drop(s, &watch.FellBehindError{Since: max(s.since, missed), Now: rev})
	})
}

// MovedError ends the subscriptions of a hub that is not told of events any more; others may be. Up to Rev everything has been delivered by then.
type MovedError struct{ Rev int64 }

func (e *MovedError) Error() string {
	return fmt.Sprintf("no more events here after revision %d", e.Rev)
}

// Move ends every subscription there is with a *MovedError after what is queued for it: no more events will come here, at least for a while. The hub itself goes on.
func (h *Hub) Move() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	h.subs.all(func(s *Subscription) { h.drop(s, &MovedError{Rev: max(s.since, h.last)}) })
}

// Reaches tells whether a subscription from revision since on would miss nothing.
func (h *Hub) Reaches(since int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.started && since >= h.oldest()
}

// Close ends every subscription, present and future, with cause after what is queued for it; nil is ErrClosed. Only the first call
// counts.
func (h *Hub) Close(cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	if cause == nil {
		cause = ErrClosed
	}
	h.closed, h.cause = true, cause
	h.history.clear()
	h.subs.all(func(s *Subscription) { h.drop(s, cause) })
}
