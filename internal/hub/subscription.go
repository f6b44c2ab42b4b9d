package hub

import (
	"context"
	"fmt"
	"sync"

	"github.com/quorumlock/quorumlock/watch"
)

// queueLimit is how many events a subscription may be behind before it is told that it fell behind: some seconds of a busy
// prefix, about 150 kB.
const queueLimit = 1024

// Subscription is one watcher's view of a Hub.
type Subscription struct {
	hub    *Hub
	prefix string
	since  int64 // events up to here are not for this subscription; changed only before it is in the hub's index

	// wake has one slot beside the queue, which alone says what there is. A full slot means that somebody should look; whoever
	// looks and leaves something behind fills it again, so that several callers of Next are served too.
	wake chan struct{}

	mu        sync.Mutex
	queue     []watch.Event // from head on
	head      int
	limit     int   // of waiting events: queueLimit beyond what was replayed
	delivered int64 // revision of the newest event that Next returned
	ended     error // told once the queue is empty
	closed    bool  // by Close: the queue does not count any more
}

func newSubscription(h *Hub, prefix string, since int64) *Subscription {
	return &Subscription{hub: h, prefix: prefix, since: since, limit: queueLimit, wake: make(chan struct{}, 1)}
}

// Next waits for the next event; ctx bounds the wait and nothing else. It returns the events in revision order, and when they
// are used up, for good: a *watch.FellBehindError, the hub's cause, or ErrClosed after Close. If ctx has ended, Next says so even when
// events are queued; they are kept for the next call. Several goroutines may call it and share the events.
func (s *Subscription) Next(ctx context.Context) (watch.Event, error) {
	for {
		if err := ctx.Err(); err != nil {
			return watch.Event{}, fmt.Errorf("wait for an event under %q: %w", s.prefix, err)
		}
		if e, err, ok := s.take(); ok {
			return e, err
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
		}
	}
}

// take returns the next event or the end, if there is either.
func (s *Subscription) take() (e watch.Event, err error, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		err, ok = ErrClosed, true
	case s.head < len(s.queue):
		e, ok = s.pop(), true
	case s.ended != nil:
		err, ok = s.ended, true
	}
	if s.closed || s.ended != nil || s.head < len(s.queue) {
		s.signal()
	}
	return e, err, ok
}

func (s *Subscription) pop() watch.Event {
	e := s.queue[s.head]
	s.queue[s.head] = watch.Event{} // lets go of its strings
	s.head++
	s.delivered = e.Rev
	if s.head == len(s.queue) {
		s.queue, s.head = s.queue[:0], 0
	}
	return e
}

// Empty tells that no event is queued.
func (s *Subscription) Empty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.head == len(s.queue)
}

// push queues a live event, or reports that the queue is full.
func (s *Subscription) push(e watch.Event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue)-s.head >= s.limit {
		return false
	}
	s.append(e)
	s.signal()
	return true
}

// replay queues an event of the past before anybody knows the subscription.
func (s *Subscription) replay(e watch.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.append(e)
	s.limit++
	s.signal()
}

// append moves the queue to the front of its array before the array would grow while half of it is used up.
func (s *Subscription) append(e watch.Event) {
	if len(s.queue) == cap(s.queue) && s.head > len(s.queue)/2 {
		n := copy(s.queue, s.queue[s.head:])
		clear(s.queue[n:])
		s.queue, s.head = s.queue[:n], 0
	}
	s.queue = append(s.queue, e)
}

// end tells err after what is queued. The first end counts.
func (s *Subscription) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended == nil {
		s.ended = err
	}
	s.signal()
}

func (s *Subscription) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Seen is the revision up to which the subscriber has been given everything under its prefix, thus where it would resume. It moves on
// with the cluster while nothing happens under the prefix, which the revision of the last event does not; a watcher of a quiet prefix that
// resumed from its last event would be told that it fell behind. Events that Next has returned count as seen.
func (s *Subscription) Seen() int64 {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.head < len(s.queue):
		return max(s.since, s.delivered, s.queue[s.head].Rev-1)
	case s.ended != nil || s.closed:
		return max(s.since, s.delivered)
	}
	return max(s.since, s.hub.last)
}

// Close ends the subscription; calls of Next return ErrClosed, and what was queued is dropped. It may be called more than once.
func (s *Subscription) Close() {
	s.hub.mu.Lock()
	s.hub.subs.remove(s)
	s.hub.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.queue, s.head = true, nil, 0
	s.signal()
}
