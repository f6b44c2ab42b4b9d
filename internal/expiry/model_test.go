package expiry

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/clock"
	"github.com/quorumlock/quorumlock/internal/locktable"
)

// model is the Tracker said plainly: a list of stamps, each looked at for each question.
type model struct {
	sessions map[locktable.SessionID]stamp
	drains   map[locktable.Rev]stamp
}

type stamp struct {
	ttl   time.Duration
	index uint64
	at    clock.Reading
}

func newModel() *model {
	return &model{make(map[locktable.SessionID]stamp), make(map[locktable.Rev]stamp)}
}

func (s stamp) due(now clock.Reading) bool {
	return now.Raw-s.at.Raw >= s.ttl && now.Boot-s.at.Boot >= s.ttl
}

func (m *model) due(now clock.Reading) (expire []Expiry, drained []DrainDue) {
	for id, s := range m.sessions {
		if s.due(now) {
			expire = append(expire, Expiry{id, s.index})
		}
	}
	for grant, s := range m.drains {
		if s.due(now) {
			drained = append(drained, DrainDue{grant, s.index})
		}
	}
	return expire, drained
}

// soonest is the earliest moment at which anything that is not due yet can be, if both clocks run at the same rate from now on.
func (m *model) soonest(now clock.Reading) time.Duration {
	soonest := Never
	look := func(s stamp) {
		if left := max(s.ttl-(now.Raw-s.at.Raw), s.ttl-(now.Boot-s.at.Boot)); left > 0 {
			soonest = min(soonest, left)
		}
	}
	for _, s := range m.sessions {
		look(s)
	}
	for _, s := range m.drains {
		look(s)
	}
	return soonest
}

func bySession(a, b Expiry) int { return cmp.Compare(a.Session, b.Session) }
func byGrant(a, b DrainDue) int { return cmp.Compare(a.Grant, b.Grant) }

// world drives a Tracker and a model with the same random calls over clocks that do all that clocks may do.
type world struct {
	rng     *rand.Rand
	tracker *Tracker
	model   *model
	now     clock.Reading
	index   uint64
	nextID  int64
}

func TestTrackerAgainstModel(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			w := &world{rng: rand.New(rand.NewPCG(seed, 7)), tracker: New(), model: newModel()}
			expired := 0
			for range 6_000 {
				w.passTime()
				w.change()
				expired += w.ask(t)
				if t.Failed() {
					return
				}
			}
			if expired < 100 {
				t.Errorf("only %d expiries: the test did not bite", expired)
			}
		})
	}
}

func (w *world) passTime() {
	d := time.Duration(w.rng.Int64N(int64(100 * time.Millisecond)))
	switch w.rng.IntN(40) {
	case 0: // suspend
		w.now.Boot += time.Duration(w.rng.Int64N(int64(20 * time.Second)))
	case 1: // a Raw that runs ahead of Boot: no machine does it for long, the Tracker must not care
		w.now.Raw += time.Duration(w.rng.Int64N(int64(5 * time.Second)))
	case 2: // a long stall
		d = time.Duration(w.rng.Int64N(int64(15 * time.Second)))
	}
	w.now.Raw += d
	w.now.Boot += d * time.Duration(95+w.rng.IntN(11)) / 100
}

func (w *world) change() {
	switch w.rng.IntN(12) {
	case 0, 1:
		w.nextID++
		w.renew(locktable.SessionID(w.nextID))
	case 2:
		w.end(w.anySession())
	case 3:
		w.nextID++
		w.beginDrain(locktable.Rev(w.nextID))
	case 4:
		grant := locktable.Rev(w.rng.Int64N(w.nextID + 1))
		w.tracker.DrainEnded(grant)
		delete(w.model.drains, grant)
	case 5:
		if w.rng.IntN(100) == 0 {
			w.reset()
		}
	default:
		if s := w.anySession(); s != 0 {
			w.renew(s)
		}
	}
}

func (w *world) ttl() time.Duration { return time.Duration(1+w.rng.IntN(10)) * time.Second }

func (w *world) renew(s locktable.SessionID) {
	w.index++
	st := stamp{w.ttl(), w.index, w.now}
	w.tracker.Renewed(s, st.ttl, st.index, st.at)
	w.model.sessions[s] = st
}

func (w *world) end(s locktable.SessionID) {
	w.tracker.Ended(s)
	delete(w.model.sessions, s)
}

func (w *world) beginDrain(grant locktable.Rev) {
	w.index++
	st := stamp{w.ttl(), w.index, w.now}
	w.tracker.DrainBegan(grant, st.ttl, st.index, st.at)
	w.model.drains[grant] = st
}

func (w *world) reset() {
	w.tracker.Reset(func(yield func(locktable.Renewal) bool) {
		for id, s := range w.model.sessions {
			if !yield(locktable.Renewal{Session: id, TTL: s.ttl, Index: s.index}) {
				return
			}
		}
	}, w.now)
	for id, s := range w.model.sessions {
		s.at = w.now
		w.model.sessions[id] = s
	}
	clear(w.model.drains)
}

// anySession is a random live one, 0 if there is none.
func (w *world) anySession() locktable.SessionID {
	ids := make([]locktable.SessionID, 0, len(w.model.sessions))
	for id := range w.model.sessions {
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return 0
	}
	slices.Sort(ids)
	return ids[w.rng.IntN(len(ids))]
}

// ask compares all answers, then lets some of what is due end, as a leader would.
func (w *world) ask(t *testing.T) int {
	t.Helper()
	expire, drained, next := w.tracker.Due(w.now, 1<<30)
	slices.SortFunc(expire, bySession)
	slices.SortFunc(drained, byGrant)
	wantExpire, wantDrained := w.model.due(w.now)
	slices.SortFunc(wantExpire, bySession)
	slices.SortFunc(wantDrained, byGrant)
	if !slices.Equal(expire, wantExpire) || !slices.Equal(drained, wantDrained) {
		t.Errorf("at %+v due are\n%v %v, want\n%v %v", w.now, expire, drained, wantExpire, wantDrained)
	}
	if soonest := w.model.soonest(w.now); next > soonest || next <= 0 {
		t.Errorf("next question after %v, something can be due after %v", next, soonest)
	}
	if n := w.tracker.Sessions(); n != len(w.model.sessions) {
		t.Errorf("%d sessions timed, want %d", n, len(w.model.sessions))
	}
	for _, e := range expire {
		if w.rng.IntN(2) == 0 {
			w.end(e.Session)
		}
	}
	for _, d := range drained {
		if w.rng.IntN(2) == 0 {
			w.tracker.DrainEnded(d.Grant)
			delete(w.model.drains, d.Grant)
		}
	}
	return len(expire)
}
