package hub

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/watch"
)

// watcher is what a subscription should show, said plainly: the events after since under a prefix, until it is told that it fell behind.
type watcher struct {
	sub    *Subscription
	prefix string
	want   []int64
	behind bool
}

// TestHubAgainstModel subscribes, publishes, reads, resets and closes at random and compares with the log of all that was published.
func TestHubAgainstModel(t *testing.T) {
	fell := 0
	for seed := range uint64(12) {
		m := newHubModel(t, rand.New(rand.NewPCG(seed, 2)))
		for range 1500 {
			m.step()
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		m.finish()
		fell += m.fell
	}
	if fell < 50 {
		t.Errorf("only %d subscriptions fell behind: the test did not bite", fell)
	}
}

type hubModel struct {
	t        *testing.T
	rng      *rand.Rand
	hub      *Hub
	kept     int           // events that the hub keeps
	log      []watch.Event // since the last reset
	rev      int64
	watchers []*watcher
	fell     int
}

func newHubModel(t *testing.T, rng *rand.Rand) *hubModel {
	kept := rng.IntN(40)
	m := &hubModel{t: t, rng: rng, hub: NewHub(kept), kept: kept, rev: rng.Int64N(1000)}
	m.hub.Reset(m.rev)
	return m
}

func (m *hubModel) name(alphabet string, most int) string {
	var b strings.Builder
	for range m.rng.IntN(most + 1) {
		b.WriteByte(alphabet[m.rng.IntN(len(alphabet))])
	}
	return b.String()
}

func (m *hubModel) step() {
	switch n := m.rng.IntN(100); {
	case n < 50:
		m.publish()
	case n < 70 && len(m.watchers) < 25:
		m.subscribe()
	case n < 97 && len(m.watchers) > 0:
		m.read(m.watchers[m.rng.IntN(len(m.watchers))], 1+m.rng.IntN(20))
	case n == 97 && len(m.watchers) > 0:
		i := m.rng.IntN(len(m.watchers))
		m.watchers[i].sub.Close()
		m.watchers = slices.Delete(m.watchers, i, i+1)
	case n == 98 && m.rng.IntN(10) == 0:
		m.reset()
	}
}

func (m *hubModel) publish() {
	batch := make([]watch.Event, 1+m.rng.IntN(8))
	for i := range batch {
		m.rev++
		batch[i] = watch.Event{Rev: m.rev, Kind: watch.Granted, Name: m.name("ab", 4)}
	}
	if err := m.hub.Publish(batch); err != nil {
		m.t.Error(err)
	}
	m.log = append(m.log, batch...)
	for _, w := range m.watchers {
		w.offer(batch)
	}
}

func (w *watcher) offer(batch []watch.Event) {
	for _, e := range batch {
		switch {
		case w.behind || !strings.HasPrefix(e.Name, w.prefix):
		case len(w.want) >= w.sub.limit: // the limit alone is taken from the subscription; the golden scripts pin it
			w.behind = true
		default:
			w.want = append(w.want, e.Rev)
		}
	}
}

func (m *hubModel) subscribe() {
	since := int64(0)
	if m.rng.IntN(3) > 0 {
		since = max(m.rev-m.rng.Int64N(60), 1)
	}
	w := &watcher{prefix: m.name("ab", 3)}
	w.sub = m.hub.Subscribe(w.prefix, since)
	oldest := m.rev - int64(min(m.kept, len(m.log)))
	switch {
	case since == 0:
	case since < oldest:
		w.behind = true
	default:
		for _, e := range m.log {
			if e.Rev > since && strings.HasPrefix(e.Name, w.prefix) {
				w.want = append(w.want, e.Rev)
			}
		}
	}
	m.watchers = append(m.watchers, w)
}

// read takes up to n events; what should be there must be there without waiting.
func (m *hubModel) read(w *watcher, n int) {
	for range n {
		if len(w.want) == 0 {
			m.checkEnd(w)
			return
		}
		e, err, ok := w.sub.take()
		if !ok || err != nil || e.Rev != w.want[0] {
			m.t.Errorf("%q got %d, %v, %v; want %d", w.prefix, e.Rev, err, ok, w.want[0])
			return
		}
		w.want = w.want[1:]
	}
}

func (m *hubModel) checkEnd(w *watcher) {
	e, err, ok := w.sub.take()
	if ok != w.behind || ok && !errors.Is(err, watch.ErrFellBehind) {
		m.t.Errorf("%q at its end got %d, %v, %v; behind is %v", w.prefix, e.Rev, err, ok, w.behind)
	}
	if ok {
		m.fell++
		m.watchers = slices.DeleteFunc(m.watchers, func(other *watcher) bool { return other == w })
	}
}

func (m *hubModel) reset() {
	m.rev += m.rng.Int64N(100)
	m.hub.Reset(m.rev)
	m.log = nil
	for _, w := range m.watchers {
		w.behind = true
	}
}

func (m *hubModel) finish() {
	for len(m.watchers) > 0 {
		w := m.watchers[0]
		m.read(w, len(w.want)+1)
		m.watchers = slices.DeleteFunc(m.watchers, func(other *watcher) bool { return other == w })
	}
}

func Example() {
	hub := NewHub(100)
	sub := hub.Subscribe("jobs/", 0)
	defer sub.Close()
	_ = hub.Publish([]watch.Event{
		{Rev: 1, Kind: watch.Granted, Name: "jobs/nightly", Token: 1},
		{Rev: 2, Kind: watch.Granted, Name: "shards/7", Token: 2},
		{Rev: 3, Kind: watch.Released, Name: "jobs/nightly", Token: 1},
	})
	hub.Close(nil)
	for {
		event, err := sub.Next(context.Background())
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(event.Rev, event.Kind, event.Name)
	}
	// Output:
	// 1 granted jobs/nightly
	// 3 released jobs/nightly
	// watch closed
}

// BenchmarkPublish: one event for one of n subscriptions on different prefixes. The cost must not grow with n.
func BenchmarkPublish(b *testing.B) {
	for _, n := range []int{1, 100, 2000} {
		b.Run(fmt.Sprintf("prefixes=%d", n), func(b *testing.B) {
			h := NewHub(1024)
			subs := make([]*Subscription, n)
			names := make([]string, n)
			for i := range subs {
				names[i] = fmt.Sprintf("tenant-%d/jobs/", i)
				subs[i] = h.Subscribe(names[i], 0)
			}
			batch := make([]watch.Event, 1)
			rev := int64(0)
			b.ReportAllocs()
			for b.Loop() {
				i := int(rev) % n
				rev++
				batch[0] = watch.Event{Rev: rev, Kind: watch.Granted, Name: names[i]}
				if err := h.Publish(batch); err != nil {
					b.Fatal(err)
				}
				if _, err := subs[i].Next(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
