package history

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/watch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func ms(n int) time.Time { return epoch.Add(time.Duration(n) * time.Millisecond) }

// stage builds a history by hand. Times are milliseconds. Revisions and log indexes count up; what belongs to one entry is done within entry.
type stage struct {
	*History
	watchers []*Observer
	rev      int64
	index    uint64
	inEntry  bool
}

// newStage has two observers, who see every event at the same time.
func newStage() *stage {
	h := New(epoch)
	return &stage{History: h, watchers: []*Observer{h.Observer("n1"), h.Observer("n2")}, rev: 1000, index: 10}
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
	for _, o := range s.watchers {
		o.Event(e, ms(at))
	}
	return e.Rev
}

func (s *stage) next(kind watch.Kind, lock string, token, session int64, note ...string) watch.Event {
	if !s.inEntry {
		s.index++
	}
	s.rev++
	e := watch.Event{Rev: s.rev, Kind: kind, Name: lock, Token: token, Session: session, NodeID: "n", Index: s.index, Time: ms(0)}
	if token == -1 {
		e.Token = e.Rev
	}
	if session == -1 {
		e.Session = e.Rev
	}
	if len(note) > 0 {
		e.Note = note[0]
	}
	return e
}

func (s *stage) open(at int) int64 { return s.show(at, watch.SessionOpened, "", 0, -1) }

func (s *stage) grant(at int, lock string, session int64) int64 {
	return s.show(at, watch.Granted, lock, -1, session)
}

// lockAndUnlock is one good hold from at to at+4, seen by its caller and the log.
func (s *stage) lockAndUnlock(at int, lock string, session int64) int64 {
	token := s.grant(at+1, lock, session)
	s.Acquired(during(lock, at, at+2), token)
	s.Held(token, ms(at+2))
	s.unlock(at+2, at+4, lock, token, session)
	return token
}

// unlock is a good unlock, whose removal is seen in the middle.
func (s *stage) unlock(from, to int, lock string, token, session int64) {
	s.Ended(token, ms(from))
	s.show((from+to)/2, watch.Released, lock, token, session)
	s.Unlocked(during(lock, from, to), token, Clean)
}
