package history

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/watch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func ms(n int) time.Time { return epoch.Add(time.Duration(n) * time.Millisecond) }

// stage builds a history by hand. Times are milliseconds. Revisions and log indexes count up; what belongs to one entry is done within entry.
//
// Claims are called by their tokens here: the stage gives each an id, asks for it, and takes the first one of a session that waits when that is granted something.
type stage struct {
	*History
	watchers []*Observer
	rev      int64
	index    uint64
	inEntry  bool
	ids      map[int64]string // by token
	numbers  map[string]uint64
	waiting  []stageClaim
}

type stageClaim struct {
	Claim
	session int64
}

// newStage has two observers, who see every event at the same time.
func newStage() *stage {
	h := New(epoch)
	return &stage{History: h, watchers: []*Observer{h.Observer("n1"), h.Observer("n2")}, rev: 1000, index: 10, ids: make(map[int64]string), numbers: make(map[string]uint64)}
}

// number is the one of a claim in its session.
func (s *stage) number(id string) uint64 {
	if id != "" && s.numbers[id] == 0 {
		s.numbers[id] = uint64(len(s.numbers) + 1)
	}
	return s.numbers[id]
}

func during(lock string, from, to int) Call {
	return Call{Client: "c", Lock: lock, Start: ms(from), End: ms(to)}
}

// entry puts what do does into one log entry.
func (s *stage) entry(do func()) {
	s.index++
	s.inEntry = true
	do()
	s.inEntry = false
}

// show shows an event to all observers at an instant and returns its revision. Token -1 is the event's own revision.
func (s *stage) show(at int, kind watch.Kind, lock string, token, session int64, note ...string) int64 {
	e := s.next(kind, lock, token, session, note...)
	s.tell(at, e)
	return e.Rev
}

func (s *stage) tell(at int, e watch.Event) {
	for _, o := range s.watchers {
		o.Event(e, ms(at))
	}
}

func (s *stage) next(kind watch.Kind, lock string, token, session int64, note ...string) watch.Event {
	if !s.inEntry {
		s.index++
	}
	s.rev++
	e := watch.Event{Rev: s.rev, Kind: kind, Name: lock, Token: fence.Token(token), Session: session, ServerID: "n", Index: s.index, Time: ms(0)}
	if token == -1 {
		e.Token = fence.Token(e.Rev)
	}
	if session == -1 {
		e.Session = e.Rev
	}
	if len(note) > 0 {
		e.Note = note[0]
	} else if lock != "" {
		e.Note = s.claimFor(&e)
	}
	about := e.Note
	if tellsReason(kind) && s.ids[int64(e.Token)] != "" {
		about = s.ids[int64(e.Token)]
	}
	e.Claim = s.number(about)
	return e
}

// claimFor is the claim that an event is about.
func (s *stage) claimFor(e *watch.Event) string {
	fresh := stageClaim{Claim{ID: fmt.Sprint("c", e.Rev), Names: []string{e.Name}}, e.Session}
	i := slices.IndexFunc(s.waiting, func(c stageClaim) bool { return c.session == e.Session && c.Names[0] == e.Name })
	switch e.Kind {
	case watch.Queued:
		s.waiting = append(s.waiting, fresh)
	case watch.Cancelled, watch.Granted:
		if i >= 0 {
			id := s.waiting[i].ID
			s.waiting = slices.Delete(s.waiting, i, i+1)
			s.ids[int64(e.Token)] = id
			return id
		}
	default:
		if id := s.ids[int64(e.Token)]; id != "" {
			return id
		}
	}
	s.Asks(fresh.Claim)
	s.ids[int64(e.Token)] = fresh.ID
	return fresh.ID
}

// id is the claim with a token, also of one that was never granted.
func (s *stage) id(token int64) string {
	if s.ids[token] == "" {
		s.ids[token] = fmt.Sprint("unknown ", token)
		s.Asks(Claim{ID: s.ids[token], Names: []string{"x"}})
	}
	return s.ids[token]
}

func (s *stage) acquired(c Call, token int64)             { s.Acquired(c, s.id(token), token) }
func (s *stage) unlocked(c Call, token int64, o Outcome)  { s.Unlocked(c, s.id(token), o) }
func (s *stage) held(token int64, at time.Time)           { s.Held(s.id(token), at) }
func (s *stage) endedAt(token int64, at time.Time)        { s.Ended(s.id(token), at) }
func (s *stage) inspected(c Call, holder int64, wait int) { s.Inspected(c, s.holders(holder), wait) }
func (s *stage) refused(c Call, holder int64) {
	s.Asks(Claim{ID: fmt.Sprint("try ", len(s.reads)), Names: []string{c.Lock}})
	s.Refused(c, fmt.Sprint("try ", len(s.reads)), append(s.holders(holder), "")[0])
}

func (s *stage) holders(holder int64) []string {
	if holder == 0 {
		return nil
	}
	return []string{s.id(holder)}
}

func (s *stage) open(at int) int64 { return s.show(at, watch.SessionOpened, "", 0, -1) }

func (s *stage) grant(at int, lock string, session int64) int64 {
	return s.show(at, watch.Granted, lock, -1, session)
}

// lockAndUnlock is one good hold from at to at+4, seen by its caller and the log.
func (s *stage) lockAndUnlock(at int, lock string, session int64) int64 {
	token := s.grant(at+1, lock, session)
	s.acquired(during(lock, at, at+2), token)
	s.held(token, ms(at+2))
	s.unlock(at+2, at+4, lock, token, session)
	return token
}

// unlock is a good unlock, whose removal is seen in the middle.
func (s *stage) unlock(from, to int, lock string, token, session int64) {
	s.endedAt(token, ms(from))
	s.show((from+to)/2, watch.Released, lock, token, session)
	s.unlocked(during(lock, from, to), token, Clean)
}

// ask asks for a claim.
func (s *stage) ask(c Claim) string {
	s.Asks(c)
	return c.ID
}

// step shows a step of a claim that was asked for, on each of its names, in one entry. Token -1 is the revision of the first.
func (s *stage) step(at int, kind watch.Kind, id string, token, session int64) int64 {
	return s.stepAbout(at, kind, id, token, session, id)
}

// stepAbout is a step whose events carry another note: the reason of a forced release.
func (s *stage) stepAbout(at int, kind watch.Kind, id string, token, session int64, note string) int64 {
	if !s.inEntry {
		s.index++
	}
	c := s.claims[id]
	if token == -1 {
		token = s.rev + 1
	}
	for _, name := range c.Names {
		s.rev++
		s.tell(at, watch.Event{
			Rev: s.rev, Kind: kind, Name: name, Token: fence.Token(token), Session: session, Claim: s.number(id), ServerID: "n", Index: s.index, Time: ms(0),
			Note: note, Mode: c.Mode, Permits: c.Permits,
		})
	}
	return token
}

func reader(id string) Claim { return Claim{ID: id, Names: []string{"x"}, Mode: shared} }

func writer(id string) Claim { return Claim{ID: id, Names: []string{"x"}} }

func wants(id string, count, limit int) Claim {
	return Claim{ID: id, Names: []string{"p"}, Mode: permits, Permits: count, Limit: limit}
}

func delayed(id string) Claim {
	return Claim{ID: id, Names: []string{"x"}, Delay: 20 * time.Millisecond}
}

func capped(id string) Claim {
	c := delayed(id)
	c.MaxHold = 8 * time.Millisecond
	return c
}

func set(id string, names ...string) Claim { return Claim{ID: id, Names: names} }

// resize shows that a semaphore's limit was set.
func (s *stage) resize(at, limit int) {
	e := s.next(watch.Resized, "p", 0, 0, "")
	e.Mode, e.Permits = permits, limit
	s.tell(at, e)
}
