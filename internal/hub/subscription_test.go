package hub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/watch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNextWaitsUntilItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewHub(0).Subscribe("a", 0)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		if _, err := s.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err is %v", err)
		}
		if d := time.Since(began); d != 3*time.Second {
			t.Errorf("Next took %v", d)
		}
	})
}

// TestCancelAgainstEvent shows both sides of the race: an ended context takes no event, and the event is there for the next call.
func TestCancelAgainstEvent(t *testing.T) {
	h := NewHub(0)
	s := h.Subscribe("a", 0)
	publish(t, h, 1, "a")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Next(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context gave %v", err)
	}
	if e, err := s.Next(t.Context()); err != nil || e.Rev != 1 {
		t.Errorf("after a cancelled call: %v, %v", e.Rev, err)
	}
}

func TestNextWakesUp(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(*Hub, *Subscription)
		want error
	}{
		{"an event", func(h *Hub, _ *Subscription) { _ = h.Publish(events(1, "a")) }, nil},
		{"closed by its owner", func(_ *Hub, s *Subscription) { s.Close() }, ErrClosed},
		{"hub closed", func(h *Hub, _ *Subscription) { h.Close(nil) }, ErrClosed},
		{"snapshot", func(h *Hub, _ *Subscription) { h.Reset(5) }, watch.ErrFellBehind},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := NewHub(0)
				s := h.Subscribe("a", 0)
				const callers = 3
				got := make(chan error, callers)
				for range callers {
					go func() {
						_, err := s.Next(t.Context())
						got <- err
					}()
				}
				synctest.Wait()
				c.do(h, s)
				if err := <-got; !errors.Is(err, c.want) {
					t.Errorf("the first caller got %v, want %v", err, c.want)
				}
				if c.want == nil {
					s.Close() // one event is for one caller; the others still wait
				}
				for range callers - 1 {
					if err := <-got; err == nil {
						t.Error("one event was given twice")
					}
				}
			})
		})
	}
}

// TestSeveralCallersShareABurst: the wake-up channel has one slot, so each caller has to pass it on.
func TestSeveralCallersShareABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHub(0)
		s := h.Subscribe("", 0)
		got := make(chan int64, 3)
		for range 3 {
			go func() {
				e, _ := s.Next(t.Context())
				got <- e.Rev
			}()
		}
		synctest.Wait()
		s.mu.Lock() // three events and one wake-up, as when the publisher is faster than all of them
		for _, e := range events(1, "a", "b", "c") {
			s.append(e)
		}
		s.signal()
		s.mu.Unlock()
		revs := []int64{<-got, <-got, <-got}
		slices.Sort(revs)
		if !slices.Equal(revs, []int64{1, 2, 3}) {
			t.Errorf("three callers got %v", revs)
		}
	})
}

func TestErrors(t *testing.T) {
	h := NewHub(0)
	publish(t, h, 1, "a", "a")
	_, err := h.Subscribe("a", 1).Next(t.Context())
	var behind *watch.FellBehindError
	if !errors.As(err, &behind) || *behind != (watch.FellBehindError{Since: 1, Now: 2}) || !errors.Is(err, watch.ErrFellBehind) {
		t.Errorf("err is %#v", err)
	}
	if errors.Is(err, ErrClosed) {
		t.Error("it is ErrClosed too")
	}
	if err := h.Publish(events(2, "a")); !errors.Is(err, ErrOutOfOrder) {
		t.Errorf("a repeat gave %v", err)
	}
	if err := h.Publish(nil); err != nil {
		t.Errorf("nothing to publish gave %v", err)
	}
	if rev := h.Rev(); rev != 2 {
		t.Errorf("Rev is %d", rev)
	}
	cause := fmt.Errorf("leaving: %w", context.DeadlineExceeded)
	s := h.Subscribe("a", 0)
	h.Close(cause)
	h.Close(errors.New("a second cause"))
	if _, err := s.Next(t.Context()); err != cause {
		t.Errorf("the hub's cause came as %v", err)
	}
}

// TestEndedSubscriptionsLeaveTheIndex: whatever ends one, the hub holds no more of it.
func TestEndedSubscriptionsLeaveTheIndex(t *testing.T) {
	h := NewHub(0)
	for range 3 {
		h.Subscribe("slow", 0)
	}
	closed := h.Subscribe("other", 0)
	kept := h.Subscribe("keep", 0)
	closed.Close()
	for rev := range int64(queueLimit + 1) {
		publish(t, h, rev+1, "slow")
	}
	if n := len(h.subs.byPrefix); n != 1 || !slices.Equal(h.subs.lengths, []int{4}) || h.subs.count[4] != 1 {
		t.Errorf("index has %d prefixes, lengths %v, %v; want that of %q only", n, h.subs.lengths, h.subs.count, kept.prefix)
	}
	h.Reset(9000)
	if len(h.subs.byPrefix) != 0 || len(h.subs.lengths) != 0 || len(h.subs.count) != 0 {
		t.Errorf("index after Reset: %+v", h.subs)
	}
}

func TestQueueReusesItsArray(t *testing.T) {
	h := NewHub(0)
	s := h.Subscribe("", 0)
	publish(t, h, 1, "a", "a", "a")
	for rev := int64(4); rev < 10_000; rev++ {
		publish(t, h, rev, "a")
		if e, err := s.Next(t.Context()); err != nil || e.Rev != rev-3 {
			t.Fatalf("got %d, %v; want %d", e.Rev, err, rev-3)
		}
	}
	if c := cap(s.queue); c > 64 {
		t.Errorf("a queue of 3 events takes room for %d", c)
	}
}

// TestStress: a publisher, subscribers that come, resume and go, and slow ones. Each checks for itself: revisions in order, all that
// match, no gap where it resumed. Whoever falls behind starts again from what the error names.
func TestStress(t *testing.T) {
	const last = 20_001
	names := []string{"a/1", "a/2", "b/1", "b/2", ""}
	h := NewHub(4000)
	publish(t, h, 1, "a/1")
	var group sync.WaitGroup
	for i, prefix := range []string{"", "a/", "b/1", "a/2", "none"} {
		group.Go(func() { follow(t, h, prefix, names, 1+int64(i)*7, last) })
	}
	group.Go(func() {
		for rev := int64(2); rev <= last; rev += 2 {
			if err := h.Publish(events(rev, names[rev%5], names[(rev+1)%5])); err != nil {
				t.Error(err)
			}
		}
		h.Close(nil)
	})
	group.Go(func() {
		for range 500 {
			s := h.Subscribe("a/", 0)
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			_, _ = s.Next(ctx)
			cancel()
			s.Seen()
			s.Close()
		}
	})
	group.Wait()
}

// follow reads everything under a prefix, leaving and resuming all the time, and counts against what was published.
func follow(t *testing.T, h *Hub, prefix string, names []string, patience, last int64) {
	since, reads := int64(1), int64(0)
	for {
		s := h.Subscribe(prefix, since)
		for reads++; reads%(patience*100) != 0; reads++ {
			e, err := s.Next(t.Context())
			if errors.Is(err, watch.ErrFellBehind) {
				var behind *watch.FellBehindError
				errors.As(err, &behind)
				checkSkipped(t, prefix, names, since, behind.Since)
				since = max(since, h.Rev()) // what was missed is missed; go on from now
				break
			}
			if err != nil {
				return
			}
			checkSkipped(t, prefix, names, since, e.Rev-1)
			if e.Rev <= since || e.Rev > last || e.Name != names[e.Rev%5] || !matches(e.Name, prefix) {
				t.Errorf("%q got revision %d %q after %d", prefix, e.Rev, e.Name, since)
			}
			since = e.Rev
		}
		s.Close()
	}
}

// checkSkipped: between two events that a subscriber got, none of its own was published.
func checkSkipped(t *testing.T, prefix string, names []string, from, to int64) {
	for rev := from + 1; rev <= to; rev++ {
		if matches(names[rev%5], prefix) {
			t.Errorf("%q missed revision %d", prefix, rev)
		}
	}
}

func matches(name, prefix string) bool {
	return len(name) >= len(prefix) && name[:len(prefix)] == prefix
}

func publish(t *testing.T, h *Hub, first int64, names ...string) {
	t.Helper()
	if err := h.Publish(events(first, names...)); err != nil {
		t.Fatal(err)
	}
}
