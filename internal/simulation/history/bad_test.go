package history

import (
	"slices"
	"testing"

	"github.com/quorumlock/quorumlock/watch"
)

// badHistory breaks one rule. check is the one that says so, and alone, "" if several do.
type badHistory struct {
	name, check string
	play        func(s *stage)
}

// TestBad: each history breaks one rule, and exactly the check of that rule says so.
func TestBad(t *testing.T) {
	for _, test := range slices.Concat(badMutexes, badKinds) {
		t.Run(test.name, func(t *testing.T) {
			s := newStage()
			test.play(s)
			report := s.Check(0)
			if len(report.Violations) == 0 {
				t.Error("not noticed")
			}
			for _, v := range report.Violations {
				if test.check != "" && v.Check != test.check {
					t.Errorf("%v, want %s", v, test.check)
				}
				t.Log(v)
			}
		})
	}
}

// badMutexes are about locks that one holds alone, and about what is common to all.
var badMutexes = []badHistory{
	{"a revision is missing in one subscription", WatchOrder, func(s *stage) {
		s.watchers[0].Event(s.next(watch.SessionOpened, "", 0, -1), ms(1))
		e := s.next(watch.SessionOpened, "", 0, -1)
		s.watchers[1].Event(e, ms(1))
		s.open(2)
	}},
	{"a revision comes twice in one subscription", WatchOrder, func(s *stage) {
		e := s.next(watch.SessionOpened, "", 0, -1)
		s.watchers[0].Event(e, ms(1))
		s.watchers[0].Event(e, ms(2))
	}},
	{"log indexes fall", WatchOrder, func(s *stage) {
		s.open(1)
		s.index = 3
		s.open(2)
	}},
	{"log indexes fall from observer to observer", WatchOrder, func(s *stage) {
		s.watchers[0].Event(s.next(watch.SessionOpened, "", 0, -1), ms(1))
		s.index = 3
		s.watchers[1].Event(s.next(watch.SessionOpened, "", 0, -1), ms(1))
	}},
	{"observers disagree about a note", WatchOrder, func(s *stage) {
		e := s.next(watch.SessionOpened, "", 0, -1)
		s.watchers[0].Event(e, ms(1))
		e.Note = "other"
		s.watchers[1].Event(e, ms(1))
	}},
	{"a token that is not its revision", TokenRule, func(s *stage) {
		s.show(1, watch.Granted, "x", 5000, s.open(0))
	}},
	{"a token twice", TokenRule, func(s *stage) {
		a := s.open(0)
		x := s.lockAndUnlock(1, "x", a)
		s.show(9, watch.Granted, "y", x, a)
	}},
	{"a token that falls", TokenRule, func(s *stage) {
		a := s.open(0)
		s.lockAndUnlock(1, "x", a)
		s.show(9, watch.Granted, "x", 1, a)
	}},
	{"a caller is given a token that was not granted", TokenRule, func(s *stage) {
		x := s.lockAndUnlock(1, "x", s.open(0))
		s.acquired(during("x", 1, 9), x+1)
	}},
	{"a caller is given a token that nobody has seen by the end", TokenRule, func(s *stage) {
		s.lockAndUnlock(1, "x", s.open(0))
		s.acquired(during("x", 1, 9), 2000)
	}},
	{"a caller is given a token from before", TokenRule, func(s *stage) {
		s.lockAndUnlock(1, "x", s.open(0))
		s.acquired(during("x", 1, 9), 12)
	}},
	{"a caller is given no token", TokenRule, func(s *stage) {
		s.lockAndUnlock(1, "x", s.open(0))
		s.acquired(during("x", 1, 9), 0)
	}},
	{"two callers are given one hold", OnceRule, func(s *stage) {
		s.acquired(during("x", 1, 9), s.lockAndUnlock(1, "x", s.open(0)))
	}},
	{"two holders", Exclusion, func(s *stage) {
		a := s.open(0)
		s.grant(1, "x", a)
		s.grant(2, "x", a)
	}},
	{"a release of a hold that is none", Exclusion, func(s *stage) {
		a := s.open(0)
		x := s.lockAndUnlock(1, "x", a)
		s.show(9, watch.Released, "x", x, a)
	}},
	{"a drain of a hold that is none", Exclusion, func(s *stage) {
		a := s.open(0)
		s.show(9, watch.Draining, "x", s.lockAndUnlock(1, "x", a), a)
	}},
	{"drained twice", Exclusion, func(s *stage) {
		a := s.open(0)
		x := s.grant(1, "x", a)
		s.show(2, watch.Draining, "x", x, a)
		s.show(3, watch.Draining, "x", x, a)
	}},
	{"a claim waits for a free lock", QueueRule, func(s *stage) {
		s.show(1, watch.Queued, "x", 0, s.open(0))
	}},
	{"a claim that does not wait is cancelled", QueueRule, func(s *stage) {
		s.show(1, watch.Cancelled, "x", 0, s.open(0))
	}},
	{"another's claim is cancelled", QueueRule, func(s *stage) {
		a, b := s.open(0), s.open(0)
		s.grant(1, "x", a)
		s.show(2, watch.Queued, "x", 0, b)
		s.show(3, watch.Cancelled, "x", 0, a)
	}},
	{"a claim overtakes all that wait", QueueRule, func(s *stage) {
		a, b := s.open(0), s.open(0)
		x := s.grant(1, "x", a)
		s.show(2, watch.Queued, "x", 0, b)
		s.entry(func() {
			s.show(3, watch.Released, "x", x, a)
			s.grant(3, "x", a)
		})
	}},
	{"a waiter overtakes another", QueueRule, func(s *stage) {
		a, b := s.open(0), s.open(0)
		x := s.grant(1, "x", a)
		s.show(2, watch.Queued, "x", 0, b)
		s.show(2, watch.Queued, "x", 0, a)
		s.entry(func() {
			s.show(3, watch.Released, "x", x, a)
			s.grant(3, "x", a)
		})
	}},
	{"nobody is promoted", QueueRule, func(s *stage) {
		a, b := s.open(0), s.open(0)
		x := s.grant(1, "x", a)
		s.show(2, watch.Queued, "x", 0, b)
		s.show(3, watch.Released, "x", x, a)
		s.open(4)
	}},
	{"a grant under a session that has ended", SessionRule, func(s *stage) {
		a := s.open(0)
		s.show(1, watch.SessionExpired, "", 0, a)
		s.grant(2, "x", a)
	}},
	{"the promotion of a waiter whose session is dead", SessionRule, func(s *stage) {
		a, b := s.open(0), s.open(0)
		x := s.grant(1, "x", a)
		s.show(2, watch.Queued, "x", 0, b)
		s.show(3, watch.SessionExpired, "", 0, b)
		s.entry(func() {
			s.show(4, watch.Released, "x", x, a)
			s.grant(4, "x", b)
		})
	}},
	{"a hold outlives its session", SessionRule, func(s *stage) {
		a := s.open(0)
		x := s.grant(1, "x", a)
		s.show(2, watch.SessionClosed, "", 0, a)
		s.show(3, watch.Released, "x", x, a)
	}},
	{"a session that never was", SessionRule, func(s *stage) {
		a := s.open(0)
		s.grant(1, "x", a+50)
	}},
	{"a session whose id is not its revision", SessionRule, func(s *stage) {
		s.show(1, watch.SessionOpened, "", 0, 5000)
	}},
	{"a session is opened twice", SessionRule, func(s *stage) {
		s.show(1, watch.SessionOpened, "", 0, s.open(0))
	}},
	{"a session ends twice", SessionRule, func(s *stage) {
		a := s.open(0)
		s.show(1, watch.SessionClosed, "", 0, a)
		s.show(2, watch.SessionExpired, "", 0, a)
	}},
	{"a hold expires without its session", SessionRule, func(s *stage) {
		a := s.open(0)
		x := s.grant(1, "x", a)
		s.show(2, watch.Expired, "x", x, a)
	}},
	{"a hold is released, although its session expired", SessionRule, func(s *stage) {
		a := s.open(0)
		x := s.grant(1, "x", a)
		s.entry(func() {
			s.show(2, watch.SessionExpired, "", 0, a)
			s.show(2, watch.Released, "x", x, a)
		})
	}},
	{"a hold is released by another session", SessionRule, func(s *stage) {
		a, b := s.open(0), s.open(0)
		s.show(2, watch.Released, "x", s.grant(1, "x", a), b)
	}},
	{"a caller is given a session that the log does not show", SessionRule, func(s *stage) {
		s.SessionOpened(during("", 0, 1), s.open(0)+1)
	}},
	{"two callers are given one session", SessionRule, func(s *stage) {
		a := s.open(0)
		s.SessionOpened(during("", 0, 1), a)
		s.SessionOpened(during("", 0, 1), a)
	}},
	{"a caller takes a lock under a session that it has closed", SessionRule, func(s *stage) {
		a := s.open(0)
		s.SessionClosed(during("", 1, 2), a, Unknown)
		s.acquired(during("x", 3, 5), s.grant(4, "x", a))
	}},
	{"unlock says nil for a hold that expired", UnlockRule, func(s *stage) {
		a := s.open(0)
		x := s.grant(1, "x", a)
		s.entry(func() {
			s.show(2, watch.SessionExpired, "", 0, a)
			s.show(2, watch.Expired, "x", x, a)
		})
		s.unlocked(during("x", 3, 4), x, Clean)
	}},
	{"unlock says nil for a hold that was released by force", UnlockRule, func(s *stage) {
		a := s.open(0)
		x := s.grant(1, "x", a)
		s.show(2, watch.Forced, "x", x, a)
		s.unlocked(during("x", 3, 4), x, Clean)
	}},
	{"unlock says nil for a hold that went with its session", UnlockRule, func(s *stage) {
		a := s.open(0)
		x := s.grant(1, "x", a)
		s.entry(func() {
			s.show(3, watch.SessionClosed, "", 0, a)
			s.show(3, watch.Released, "x", x, a)
		})
		s.unlocked(during("x", 2, 4), x, Clean)
	}},
	{"unlock says nil for a hold that lives on", UnlockRule, func(s *stage) {
		s.unlocked(during("x", 2, 4), s.grant(1, "x", s.open(0)), Clean)
	}},
	{"unlock says nil for what was never granted", UnlockRule, func(s *stage) {
		s.unlocked(during("x", 2, 4), s.open(0), Clean)
	}},
	{"unlock says nil twice", UnlockRule, func(s *stage) {
		a := s.open(0)
		s.unlocked(during("x", 9, 9), s.lockAndUnlock(1, "x", a), Clean)
	}},
	{"a lock is acquired that had been granted before the call", Linearizable, func(s *stage) {
		s.acquired(during("x", 5, 6), s.grant(4, "x", s.open(0)))
	}},
	{"an unlock is seen before it is called", Linearizable, func(s *stage) {
		a := s.open(0)
		x := s.grant(1, "x", a)
		s.show(3, watch.Released, "x", x, a)
		s.unlocked(during("x", 4, 5), x, Clean)
	}},
	{"an acquire ends before the call that freed the lock begins", Linearizable, func(s *stage) {
		a := s.open(0)
		x := s.grant(1, "x", a)
		s.show(8, watch.Released, "x", x, a)
		s.unlocked(during("x", 6, 9), x, Clean)
		s.acquired(during("x", 2, 5), s.grant(8, "x", a))
	}},
	{"a session is seen before it is asked for", Linearizable, func(s *stage) {
		s.SessionOpened(during("", 2, 3), s.open(1))
	}},
	{"refused while the lock is free", Linearizable, func(s *stage) {
		s.lockAndUnlock(1, "x", s.open(0))
		s.refused(during("x", 8, 9), 0)
	}},
	{"refused in the name of who has unlocked", Linearizable, func(s *stage) {
		x := s.lockAndUnlock(1, "x", s.open(0))
		s.refused(during("x", 8, 9), x)
	}},
	{"refused on a lock that nobody ever had", Linearizable, func(s *stage) {
		s.refused(during("x", 8, 9), 0)
	}},
	{"an inspection shows the holder before", Linearizable, func(s *stage) {
		a := s.open(0)
		x := s.lockAndUnlock(1, "x", a)
		s.acquired(during("x", 7, 9), s.grant(8, "x", a))
		s.inspected(during("x", 10, 11), x, 0)
	}},
	{"an inspection shows nobody while somebody holds", Linearizable, func(s *stage) {
		s.grant(1, "x", s.open(0))
		s.inspected(during("x", 2, 3), 0, 0)
	}},
	{"an inspection shows too few waiters", Linearizable, func(s *stage) {
		a := s.open(0)
		x := s.grant(1, "x", a)
		s.show(2, watch.Queued, "x", 0, a)
		s.inspected(during("x", 3, 4), x, 0)
	}},
	{"an inspection sees between a removal and the promotion", Linearizable, func(s *stage) {
		a := s.open(0)
		x := s.grant(1, "x", a)
		s.show(2, watch.Queued, "x", 0, a)
		s.entry(func() {
			s.show(5, watch.Released, "x", x, a)
			s.grant(5, "x", a)
		})
		s.inspected(during("x", 3, 6), 0, 1)
	}},
	{"two inspections, each possible, show the present before the past", Linearizable, func(s *stage) {
		a := s.open(0)
		x := s.grant(1, "x", a)
		s.show(20, watch.Released, "x", x, a)
		s.inspected(during("x", 3, 4), 0, 0)
		s.inspected(during("x", 5, 6), x, 0)
	}},
	{"a hold is held when the next grant is known after an expiry", HoldInterval, func(s *stage) {
		a, b := s.open(0), s.open(0)
		x := s.grant(1, "x", a)
		s.entry(func() {
			s.show(2, watch.SessionExpired, "", 0, a)
			s.show(2, watch.Expired, "x", x, a)
		})
		s.held(x, ms(3))
		s.grant(3, "x", b)
	}},
	{"a hold is held when the next caller has the lock, though no observer has seen it yet", HoldInterval, func(s *stage) {
		a, b := s.open(0), s.open(0)
		x := s.grant(1, "x", a)
		s.entry(func() {
			s.show(2, watch.SessionExpired, "", 0, a)
			s.show(2, watch.Expired, "x", x, a)
		})
		s.held(x, ms(4))
		s.acquired(during("x", 1, 3), s.grant(9, "x", b))
	}},
	{"a hold is held after its drain", HoldInterval, func(s *stage) {
		a, b := s.open(0), s.open(0)
		x := s.grant(1, "x", a)
		s.show(2, watch.Draining, "x", x, a, "stuck")
		s.show(4, watch.Forced, "x", x, a, "stuck")
		s.grant(5, "x", b)
		s.held(x, ms(6))
	}},
	{"released by force at once excuses that one hold alone", HoldInterval, func(s *stage) {
		a, b := s.open(0), s.open(0)
		x := s.grant(1, "x", a)
		s.show(2, watch.Forced, "x", x, a)
		y := s.grant(3, "x", b)
		s.entry(func() {
			s.show(4, watch.SessionExpired, "", 0, b)
			s.show(4, watch.Expired, "x", y, b)
		})
		s.grant(5, "x", a)
		s.held(y, ms(6))
	}},
	{"a hold is held when it has been unlocked and granted anew", HoldInterval, func(s *stage) {
		a := s.open(0)
		x := s.grant(1, "x", a)
		s.show(3, watch.Released, "x", x, a)
		s.grant(4, "x", a)
		s.held(x, ms(5))
	}},
	{"an unlock begins after the next grant", HoldInterval, func(s *stage) {
		a := s.open(0)
		x := s.grant(1, "x", a)
		s.show(3, watch.Released, "x", x, a)
		s.grant(4, "x", a)
		s.endedAt(x, ms(5))
	}},
	{"held after its unlock, which no observer has seen", Finality, func(s *stage) {
		a := s.open(0)
		x := s.grant(1, "x", a)
		s.endedAt(x, ms(2))
		s.unlocked(during("x", 2, 3), x, Unknown)
		s.held(x, ms(4))
		s.show(5, watch.Released, "x", x, a)
	}},
	{"held after its session's close", Finality, func(s *stage) {
		a := s.open(0)
		x := s.grant(1, "x", a)
		s.SessionClosed(during("", 1, 2), a, Clean)
		s.held(x, ms(3))
	}},
	{"a call that ends before it begins", Record, func(s *stage) { s.Failed(during("x", 2, 1), "") }},
}
