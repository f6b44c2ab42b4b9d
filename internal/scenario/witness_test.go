package scenario_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
	"github.com/quorumlock/quorumlock/watch"
)

// witness sets, for each lock, the intervals in which a hold said that it is held against the instants of the next grants (I3). A grant counts from when
// the first member has applied it, a fraction of a millisecond after its commit; at that very instant, and every sampling, each hold
// is asked.
type witness struct {
	t    *testing.T
	quit context.CancelFunc

	mu     sync.Mutex
	spells []*spell
	grants map[quorumlock.Token]time.Time
}

// spell is one hold as its owner could see it.
type spell struct {
	hold *quorumlock.Hold
	held time.Time // the last instant at which Err was nil
	open time.Time // the last instant at which it was that or ErrUnsure
	over time.Time // when Done was closed; zero while it is open
	next time.Time // the first later grant of the same lock
}

const sampling = 20 * time.Millisecond

// newWitness follows the events of all instances that are up.
func newWitness(t *testing.T, c *quorumlocktest.Cluster, instances ...int) *witness {
	ctx, cancel := context.WithCancel(context.Background())
	w := &witness{t: t, quit: cancel, grants: make(map[quorumlock.Token]time.Time)}
	t.Cleanup(cancel)
	if len(instances) == 0 {
		instances = others(c, -1)
	}
	for _, i := range instances {
		go w.follow(ctx, c.Node(i))
	}
	synctest.Wait() // all have subscribed
	return w
}

func (w *witness) follow(ctx context.Context, n *quorumlock.Node) {
	for e, err := range n.Watch(ctx, "") {
		if err != nil {
			return
		}
		if e.Kind == watch.Granted {
			w.granted(e.Name, e.Token)
		}
	}
}

// granted notes a grant when the first member shows it.
func (w *witness) granted(name string, token quorumlock.Token) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.grants[token]; known {
		return
	}
	now := time.Now()
	w.grants[token] = now
	for _, s := range w.spells {
		if s.hold.Name() != name || s.hold.Token() >= token {
			continue
		}
		if s.next.IsZero() {
			s.next = now
		}
		s.ask(now)
	}
}

func (s *spell) ask(now time.Time) {
	switch err := s.hold.Err(); {
	case err == nil:
		s.held, s.open = now, now
	case errors.Is(err, quorumlock.ErrUnsure):
		s.open = now
	}
}

// see follows a hold to its end.
func (w *witness) see(h *quorumlock.Hold) *spell {
	s := &spell{hold: h, held: time.Now(), open: time.Now()}
	w.mu.Lock()
	w.spells = append(w.spells, s)
	w.mu.Unlock()
	go w.sample(s)
	return s
}

func (w *witness) sample(s *spell) {
	ticker := time.NewTicker(sampling)
	defer ticker.Stop()
	for {
		select {
		case <-s.hold.Done():
			w.mu.Lock()
			s.over = time.Now()
			w.mu.Unlock()
			return
		case <-ticker.C:
			w.mu.Lock()
			s.ask(time.Now())
			w.mu.Unlock()
		}
	}
}

// exclusive fails the test unless at least want holds were followed by another grant, and all of them had ended by their own word before it. It gives
// the smallest margin.
func (w *witness) exclusive(want int) time.Duration {
	w.t.Helper()
	list := w.margins()
	w.quit()
	if len(list) < want {
		w.t.Errorf("%d holds had a successor, want %d: the fault did not bite", len(list), want)
	}
	least := time.Duration(1 << 62)
	for _, m := range list {
		if least = min(least, m); m <= 0 {
			w.t.Errorf("a holder still said held %v after the next grant", -m)
		}
	}
	return least
}

// margins are the times from the last word "held" of each hold that had a successor to the successor's grant: zero or less if they overlapped. Done, too,
// must have told of each.
func (w *witness) margins() []time.Duration {
	w.t.Helper()
	synctest.Wait() // the next holder may have heard of its grant before the witness, in the same instant
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []time.Duration
	for _, s := range w.spells {
		if s.next.IsZero() {
			continue
		}
		list = append(list, s.next.Sub(s.held))
		if s.over.IsZero() || s.over.Sub(s.open) > reportBound+sampling {
			w.t.Errorf("lock %q: over after %v, Done closed at %v", s.hold.Name(), s.open, s.over)
		}
	}
	return list
}

// reportBound is within what a loss is reported (I9).
const reportBound = 250 * time.Millisecond
