package history

import (
	"testing"

	"github.com/quorumlock/quorumlock/watch"
)

// TestGood: histories in which nothing is wrong, among them those that look as if something were.
func TestGood(t *testing.T) {
	for name, play := range map[string]func(s *stage){
		"nothing at all": func(*stage) {},
		"lock and unlock": func(s *stage) {
			a := s.open(1)
			s.SessionOpened(during("", 0, 2), a)
			s.lockAndUnlock(10, "x", a)
			s.lockAndUnlock(20, "x", a)
			s.inspected(during("x", 30, 31), 0, 0)
		},
		"everything at one instant": func(s *stage) {
			a := s.open(5)
			x := s.grant(5, "x", a)
			s.show(5, watch.Queued, "x", 0, a)
			s.entry(func() {
				s.show(5, watch.Released, "x", x, a)
				s.held(s.grant(5, "x", a), ms(5))
			})
			s.acquired(during("x", 5, 5), x)
			s.held(x, ms(5))
			s.endedAt(x, ms(5))
			s.unlocked(during("x", 5, 5), x, Clean)
			s.inspected(during("x", 5, 5), 0, 0)
			s.inspected(during("x", 5, 5), x, 1)
			s.refused(during("x", 5, 5), x)
		},
		"a queue, served in order, with a cancel": func(s *stage) {
			a, b, c := s.open(0), s.open(0), s.open(0)
			x := s.grant(1, "x", a)
			s.show(2, watch.Queued, "x", 0, b)
			s.show(3, watch.Queued, "x", 0, c)
			s.show(4, watch.Queued, "x", 0, b)
			s.inspected(during("x", 5, 6), x, 3)
			s.show(7, watch.Cancelled, "x", 0, c)
			s.inspected(during("x", 8, 9), x, 2)
			s.entry(func() {
				s.show(10, watch.Released, "x", x, a)
				s.grant(10, "x", b)
			})
		},
		"a cancel of one of several claims of a session leaves their order open": func(s *stage) {
			a, b, c := s.open(0), s.open(0), s.open(0)
			x := s.grant(1, "x", a)
			s.show(2, watch.Queued, "x", 0, b)
			s.show(3, watch.Queued, "x", 0, c)
			s.show(4, watch.Queued, "x", 0, b)
			s.show(5, watch.Cancelled, "x", 0, b) // the first one
			s.entry(func() {
				s.show(6, watch.Released, "x", x, a)
				s.grant(6, "x", c)
			})
		},
		"a session expires with a hold and a waiter, and then the next is promoted": func(s *stage) {
			a, b := s.open(0), s.open(0)
			x := s.grant(1, "x", a)
			y := s.grant(2, "y", b)
			s.show(3, watch.Queued, "y", 0, a)
			s.show(4, watch.Queued, "x", 0, b)
			s.held(x, ms(5))
			s.entry(func() {
				s.show(9, watch.SessionExpired, "", 0, a)
				s.show(9, watch.Expired, "x", x, a)
				s.show(9, watch.Cancelled, "y", 0, a)
				s.grant(9, "x", b)
			})
			s.unlocked(during("x", 20, 20), x, Lost) // its holder was away
			s.endedAt(x, ms(20))
			s.inspected(during("y", 21, 22), y, 0)
		},
		"a session is closed: its holds are released, and Close may be called again": func(s *stage) {
			a := s.open(0)
			x := s.grant(1, "x", a)
			s.acquired(during("x", 1, 1), x)
			s.held(x, ms(2))
			s.endedAt(x, ms(30)) // by its own account, much later
			s.entry(func() {
				s.show(3, watch.SessionClosed, "", 0, a)
				s.show(3, watch.Released, "x", x, a)
			})
			s.SessionClosed(during("", 2, 4), a, Clean)
			s.SessionClosed(during("", 5, 5), a, Clean)
			s.grant(10, "x", s.open(9))
		},
		"Close of a session that was lost is nil as well, and its waiter may still be granted": func(s *stage) {
			a, b := s.open(0), s.open(0)
			y := s.grant(1, "x", b)
			s.show(2, watch.Queued, "x", 0, a)
			s.SessionClosed(during("", 3, 3), a, Clean)
			var z int64
			s.entry(func() {
				s.show(4, watch.Released, "x", y, b)
				z = s.grant(4, "x", a)
			})
			s.entry(func() {
				s.show(9, watch.SessionExpired, "", 0, a)
				s.show(9, watch.Expired, "x", z, a)
			})
		},
		"drained": func(s *stage) {
			a := s.open(0)
			x := s.grant(1, "x", a)
			s.show(2, watch.Draining, "x", x, a, "stuck")
			s.held(x, ms(3))
			s.refused(during("x", 4, 5), x) // a draining hold still holds
			s.show(8, watch.Forced, "x", x, a, "stuck")
			s.grant(9, "x", a)
		},
		"released by force at once may overlap": func(s *stage) {
			a, b := s.open(0), s.open(0)
			x := s.grant(1, "x", a)
			s.show(2, watch.Forced, "x", x, a)
			s.grant(3, "x", b)
			s.held(x, ms(5))
		},
		"so may a drain that is cut short, as its reason tells": func(s *stage) {
			a, b := s.open(0), s.open(0)
			x := s.grant(1, "x", a)
			s.show(2, watch.Draining, "x", x, a, "stuck")
			s.show(2, watch.Forced, "x", x, a, "can not wait")
			s.grant(3, "x", b)
			s.held(x, ms(5))
		},
		"or its caller": func(s *stage) {
			a, b := s.open(0), s.open(0)
			x := s.grant(1, "x", a)
			s.show(2, watch.Draining, "x", x, a, "stuck")
			s.ForcedNow(x)
			s.show(2, watch.Forced, "x", x, a, "stuck")
			s.grant(3, "x", b)
			s.held(x, ms(5))
		},
		"a grant nobody was given, taken back": func(s *stage) {
			a := s.open(0)
			s.Failed(during("x", 1, 2), "")
			x := s.grant(3, "x", a)
			s.show(4, watch.Released, "x", x, a)
		},
		"an unlock without an answer works later": func(s *stage) {
			a := s.open(0)
			x := s.grant(1, "x", a)
			s.held(x, ms(2))
			s.endedAt(x, ms(2))
			s.unlocked(during("x", 2, 5), x, Unknown)
			s.show(8, watch.Released, "x", x, a)
			s.lockAndUnlock(10, "x", a)
		},
		"an unlock that says lost, though it was what released": func(s *stage) {
			a := s.open(0)
			x := s.grant(1, "x", a)
			s.endedAt(x, ms(2))
			s.show(3, watch.Released, "x", x, a)
			s.unlocked(during("x", 2, 5), x, Lost)
		},
		"refused while the lock passes on": func(s *stage) {
			a, b := s.open(0), s.open(0)
			x := s.grant(1, "x", a)
			s.show(2, watch.Queued, "x", 0, b)
			s.entry(func() {
				s.show(4, watch.Released, "x", x, a)
				s.grant(4, "x", b)
			})
			s.refused(during("x", 3, 5), 0)
			s.refused(during("x", 3, 5), x)
			s.refused(during("x", 3, 5), s.rev)
		},
		"observers lag, restart, and see the past again": func(s *stage) {
			a := s.next(watch.SessionOpened, "", 0, -1)
			x := s.next(watch.Granted, "x", -1, a.Session)
			y := s.next(watch.Released, "x", int64(x.Token), a.Session)
			for k, o := range s.watchers {
				for n, e := range []watch.Event{a, x, y} {
					o.Event(e, ms(10*k+n))
				}
			}
			late := s.Observer("n1 again")
			y.Time = ms(7777) // for display only
			late.Event(x, ms(50))
			late.Event(y, ms(50))
			s.unlocked(during("x", 2, 3), int64(x.Token), Clean)
		},
		"nobody looked while the cluster was down": func(s *stage) {
			a := s.open(0)
			x := s.grant(1, "x", a)
			s.acquired(during("x", 0, 2), x)
			s.rev += 7
			s.watchers = []*Observer{s.Observer("n3")}
			s.inspected(during("x", 3, 4), 1007, 5)
			s.acquired(during("x", 2, 4), 1006)
			s.unlocked(during("x", 2, 4), x, Clean)
			s.SessionOpened(during("", 2, 4), 1004)
			y := s.grant(5, "x", a)
			s.show(6, watch.Cancelled, "x", 0, a)
			s.show(7, watch.Released, "x", y, a)
			s.lockAndUnlock(10, "z", 1004)
			s.show(15, watch.Released, "y", 1003, 1004)
			s.show(16, watch.SessionExpired, "", 0, 1004)
		},
		"the observers were late": func(s *stage) {
			s.lockAndUnlock(10, "x", 77)
			s.lockAndUnlock(20, "x", 77)
			s.show(30, watch.Expired, "y", 99, 77)
			s.acquired(during("z", 1, 2), 500)
		},
		"an event of a kind that is not known": func(s *stage) {
			s.lockAndUnlock(10, "x", s.open(0))
			s.show(20, watch.Kind(99), "x", 5, 6)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage()
			play(s)
			for _, v := range s.Check(0).Violations {
				t.Error(v)
			}
		})
	}
}
