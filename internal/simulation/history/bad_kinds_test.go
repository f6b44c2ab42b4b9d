package history

import (
	"time"

	"github.com/quorumlock/quorumlock/watch"
)

// badKinds: each breaks one rule of some kind of lock.
var badKinds = []badHistory{
	{"a reader beside a writer", Exclusion, func(s *stage) {
		a := s.open(0)
		s.step(1, watch.Granted, s.ask(writer("w")), -1, a)
		s.step(2, watch.Granted, s.ask(reader("r")), -1, a)
	}},
	{"a writer beside a reader", Exclusion, func(s *stage) {
		a := s.open(0)
		s.step(1, watch.Granted, s.ask(reader("r")), -1, a)
		s.step(2, watch.Granted, s.ask(writer("w")), -1, a)
	}},
	{"a reader passes a writer that waits", QueueRule, func(s *stage) {
		a := s.open(0)
		x := s.step(1, watch.Granted, s.ask(reader("r1")), -1, a)
		s.step(2, watch.Queued, s.ask(writer("w")), 0, a)
		s.step(3, watch.Granted, s.ask(reader("r2")), x, a)
	}},
	{"a reader that could join is left waiting", QueueRule, func(s *stage) {
		a := s.open(0)
		s.step(1, watch.Granted, s.ask(reader("r1")), -1, a)
		s.step(2, watch.Queued, s.ask(reader("r2")), 0, a)
	}},
	{"only one of the readers next in line is let in", QueueRule, func(s *stage) {
		a := s.open(0)
		w := s.step(1, watch.Granted, s.ask(writer("w")), -1, a)
		s.step(2, watch.Queued, s.ask(reader("r1")), 0, a)
		s.step(2, watch.Queued, s.ask(reader("r2")), 0, a)
		s.entry(func() {
			s.step(3, watch.Released, "w", w, a)
			s.step(3, watch.Granted, "r1", -1, a)
		})
		s.open(4)
	}},
	{"a reader that joins has a token of its own", TokenRule, func(s *stage) {
		a := s.open(0)
		s.step(1, watch.Granted, s.ask(reader("r1")), -1, a)
		s.step(2, watch.Granted, s.ask(reader("r2")), -1, a)
	}},
	{"readers of a new phase have the old token", TokenRule, func(s *stage) {
		a := s.open(0)
		x := s.step(1, watch.Granted, s.ask(reader("r1")), -1, a)
		s.step(2, watch.Released, "r1", x, a)
		s.step(3, watch.Granted, s.ask(reader("r2")), x, a)
	}},
	{"a reader is asked for, a writer granted", AskedRule, func(s *stage) {
		s.Asks(reader("r"))
		e := s.next(watch.Granted, "x", -1, s.open(0), "r")
		s.tell(1, e)
	}},
	{"a reader believes beside a writer", HoldInterval, func(s *stage) {
		a, b := s.open(0), s.open(0)
		x := s.step(1, watch.Granted, s.ask(reader("r")), -1, a)
		s.step(2, watch.Queued, s.ask(writer("w")), 0, b)
		s.Held("r", ms(10))
		s.entry(func() {
			s.show(9, watch.SessionExpired, "", 0, a)
			s.step(9, watch.Expired, "r", x, a)
			s.step(9, watch.Granted, "w", -1, b)
		})
	}},
	{"an expired reader believes beside another reader", HoldInterval, func(s *stage) {
		a, b := s.open(0), s.open(0)
		x := s.step(1, watch.Granted, s.ask(reader("r")), -1, a)
		s.step(2, watch.Granted, s.ask(reader("r2")), x, b)
		s.Held("r", ms(10))
		s.entry(func() {
			s.show(9, watch.SessionExpired, "", 0, a)
			s.step(9, watch.Expired, "r", x, a)
		})
	}},
	{"more permits than there are", Exclusion, func(s *stage) {
		a := s.open(0)
		s.step(1, watch.Granted, s.ask(wants("p1", 2, 3)), -1, a)
		s.step(2, watch.Granted, s.ask(wants("p2", 2, 3)), -1, a)
	}},
	{"a small claim passes a large one that waits", QueueRule, func(s *stage) {
		a := s.open(0)
		s.step(1, watch.Granted, s.ask(wants("p1", 2, 3)), -1, a)
		s.step(2, watch.Queued, s.ask(wants("p2", 2, 3)), 0, a)
		s.step(3, watch.Granted, s.ask(wants("p3", 1, 3)), -1, a)
	}},
	{"a claim that fits is left waiting after a resize", QueueRule, func(s *stage) {
		a := s.open(0)
		s.step(1, watch.Granted, s.ask(wants("p1", 2, 3)), -1, a)
		s.step(2, watch.Queued, s.ask(wants("p2", 2, 3)), 0, a)
		s.resize(3, 4)
		s.open(4)
	}},
	{"a limit that was lowered is not kept", Exclusion, func(s *stage) {
		a := s.open(0)
		s.step(1, watch.Granted, s.ask(wants("p1", 2, 4)), -1, a)
		s.resize(2, 2)
		s.step(3, watch.Granted, s.ask(wants("p2", 1, 4)), -1, a)
	}},
	{"a limit that was forgotten ends before the last claim", Exclusion, func(s *stage) {
		a := s.open(0)
		s.step(1, watch.Granted, s.ask(wants("p1", 2, 4)), -1, a)
		s.resize(2, 2)
		s.resize(3, 0)
		s.step(4, watch.Granted, s.ask(wants("p2", 1, 4)), -1, a)
	}},
	{"a limit that was forgotten is kept after the last claim", QueueRule, func(s *stage) {
		a := s.open(0)
		x := s.step(1, watch.Granted, s.ask(wants("p1", 2, 2)), -1, a)
		s.resize(2, 2)
		s.resize(3, 0)
		s.step(4, watch.Released, "p1", x, a)
		s.step(5, watch.Granted, s.ask(wants("p2", 2, 3)), -1, a)
		s.step(6, watch.Queued, s.ask(wants("p3", 1, 3)), 0, a)
	}},
	{"a claim that waited takes its own limit along when it is granted", Exclusion, func(s *stage) {
		a := s.open(0)
		x := s.step(1, watch.Granted, s.ask(wants("p1", 2, 4)), -1, a)
		s.resize(2, 2)
		s.step(3, watch.Queued, s.ask(wants("p2", 2, 4)), 0, a)
		s.resize(4, 0)
		s.entry(func() {
			s.step(5, watch.Released, "p1", x, a)
			s.step(5, watch.Granted, "p2", -1, a)
		})
		s.step(6, watch.Granted, s.ask(wants("p3", 2, 4)), -1, a)
	}},
	{"the limit of an idle semaphore that was forgotten is kept", QueueRule, func(s *stage) {
		a := s.open(0)
		s.resize(1, 2)
		s.resize(2, 0)
		s.step(3, watch.Granted, s.ask(wants("p1", 2, 3)), -1, a)
		s.step(4, watch.Queued, s.ask(wants("p2", 1, 3)), 0, a)
	}},
	{"holders of permits believe in more than there are", HoldInterval, func(s *stage) {
		a, b := s.open(0), s.open(0)
		x := s.step(1, watch.Granted, s.ask(wants("p1", 2, 3)), -1, a)
		s.Held("p1", ms(30))
		s.entry(func() {
			s.show(9, watch.SessionExpired, "", 0, a)
			s.step(9, watch.Expired, "p1", x, a)
		})
		s.step(12, watch.Granted, s.ask(wants("p2", 2, 3)), -1, b)
	}},
	{"the holder of permits is told a token", TokenRule, func(s *stage) {
		x := s.step(2, watch.Granted, s.ask(wants("p1", 2, 3)), -1, s.open(0))
		s.Acquired(during("p", 1, 3), "p1", x)
	}},
	{"a limit is forgotten that nobody sees forgotten", AskedRule, func(s *stage) {
		s.open(0)
		s.resize(9, 4)
		s.Resized(during("p", 8, 10), 0, Clean)
	}},
	{"a resize that nobody sees says nil", AskedRule, func(s *stage) {
		s.open(0)
		s.resize(9, 4)
		s.Resized(during("p", 2, 3), 5, Clean)
	}},
	{"the other one of two readers of a session ends by force", HoldInterval, func(s *stage) {
		a := s.open(0)
		first := s.step(1, watch.Granted, s.ask(reader("r1")), -1, a)
		s.step(2, watch.Granted, s.ask(reader("r2")), first, a)
		s.stepAbout(3, watch.Draining, "r1", first, a, "why")
		s.stepAbout(3, watch.Draining, "r2", first, a, "why")
		s.Held("r1", ms(9))
		s.stepAbout(8, watch.Forced, "r1", first, a, "why")
	}},
	{"two claims of a session go by one number", AskedRule, func(s *stage) {
		a := s.open(0)
		first := s.step(1, watch.Granted, s.ask(reader("r1")), -1, a)
		s.numbers["r2"] = s.number("r1")
		s.step(2, watch.Granted, s.ask(reader("r2")), first, a)
	}},
	{"a claim changes its number", SessionRule, func(s *stage) {
		a := s.open(0)
		x := s.step(1, watch.Granted, s.ask(writer("m")), -1, a)
		s.numbers["m"] = 7
		s.step(2, watch.Released, "m", x, a)
	}},
	{"a set is granted one name", SetRule, func(s *stage) {
		a := s.open(0)
		s.Asks(set("s", "x", "y"))
		s.tell(1, s.next(watch.Granted, "x", -1, a, "s"))
		s.open(2)
	}},
	{"a set is granted one name after the other", "", func(s *stage) {
		a := s.open(0)
		s.Asks(set("s", "x", "y"))
		e := s.next(watch.Granted, "x", -1, a, "s")
		s.tell(1, e)
		f := s.next(watch.Granted, "y", int64(e.Token), a, "s")
		s.tell(1, f)
	}},
	{"a set holds a name that another holds", Exclusion, func(s *stage) {
		a := s.open(0)
		s.step(1, watch.Granted, s.ask(set("m", "y")), -1, a)
		s.step(2, watch.Granted, s.ask(set("s", "x", "y")), -1, a)
	}},
	{"a mutex passes a set that waits", QueueRule, func(s *stage) {
		a := s.open(0)
		s.step(1, watch.Granted, s.ask(set("m", "y")), -1, a)
		s.step(2, watch.Queued, s.ask(set("s", "x", "y")), 0, a)
		s.step(3, watch.Granted, s.ask(set("m2", "x")), -1, a)
	}},
	{"a set is not granted in its turn", QueueRule, func(s *stage) {
		a := s.open(0)
		m := s.step(1, watch.Granted, s.ask(set("m", "y")), -1, a)
		s.step(2, watch.Queued, s.ask(set("s", "x", "y")), 0, a)
		s.step(3, watch.Released, "m", m, a)
		s.open(4)
	}},
	{"a claim is granted twice", OnceRule, func(s *stage) {
		a := s.open(0)
		x := s.step(1, watch.Granted, s.ask(writer("m")), -1, a)
		s.step(2, watch.Released, "m", x, a)
		s.step(3, watch.Granted, "m", -1, a)
	}},
	{"a claim that was cancelled comes back", OnceRule, func(s *stage) {
		a := s.open(0)
		s.step(1, watch.Granted, s.ask(writer("m")), -1, a)
		s.step(2, watch.Queued, s.ask(writer("m2")), 0, a)
		s.step(3, watch.Cancelled, "m2", 0, a)
		s.step(4, watch.Queued, "m2", 0, a)
	}},
	{"the log shows a claim that nobody made", AskedRule, func(s *stage) {
		s.tell(1, s.next(watch.Granted, "x", -1, s.open(0), "who"))
	}},
	{"a downgrade releases in between", MoveRule, func(s *stage) {
		a := s.open(0)
		w := s.step(1, watch.Granted, s.ask(writer("w")), -1, a)
		s.step(2, watch.Released, "w", w, a)
		s.Asks(Claim{ID: "d", Names: []string{"x"}, Mode: shared, From: "w"})
		s.step(3, watch.Granted, "d", -1, a)
	}},
	{"another writer is let in before a downgraded reader", MoveRule, func(s *stage) {
		a := s.open(0)
		w := s.step(1, watch.Granted, s.ask(writer("w")), -1, a)
		s.step(2, watch.Queued, s.ask(writer("w2")), 0, a)
		s.Asks(Claim{ID: "d", Names: []string{"x"}, Mode: shared, From: "w"})
		var w2 int64
		s.entry(func() {
			s.step(3, watch.Released, "w", w, a)
			w2 = s.step(3, watch.Granted, "w2", -1, a)
			s.step(3, watch.Released, "w2", w2, a)
			s.step(3, watch.Granted, "d", -1, a)
		})
	}},
	{"a hold is received twice", MoveRule, func(s *stage) {
		a := s.open(0)
		x := s.step(1, watch.Granted, s.ask(writer("m")), -1, a)
		s.Asks(Claim{ID: "n1", Names: []string{"x"}, From: "m"})
		s.Asks(Claim{ID: "n2", Names: []string{"x"}, From: "m"})
		var y int64
		s.entry(func() {
			s.step(3, watch.Released, "m", x, a)
			y = s.step(3, watch.Granted, "n1", -1, a)
		})
		s.step(4, watch.Released, "n1", y, a)
		s.step(5, watch.Granted, "n2", -1, a)
	}},
	{"a hold is received while its giver keeps it", "", func(s *stage) {
		a := s.open(0)
		s.step(1, watch.Granted, s.ask(writer("m")), -1, a)
		s.Asks(Claim{ID: "n", Names: []string{"x"}, From: "m"})
		s.step(3, watch.Granted, "n", -1, a)
	}},
	{"a hand over says nil, and the one next in line has the hold", "", func(s *stage) {
		a := s.open(0)
		x := s.step(1, watch.Granted, s.ask(writer("m")), -1, a)
		s.step(2, watch.Queued, s.ask(writer("m2")), 0, a)
		s.HandsOver("m")
		s.entry(func() {
			s.step(4, watch.Released, "m", x, a)
			s.step(4, watch.Granted, "m2", -1, a)
		})
		s.HandedOver(during("x", 3, 5), "m", "other", Clean)
	}},
	{"who handed over believes on", "", func(s *stage) {
		a := s.open(0)
		x := s.step(1, watch.Granted, s.ask(writer("m")), -1, a)
		s.step(2, watch.Queued, s.ask(writer("m2")), 0, a)
		s.HandsOver("m")
		s.entry(func() {
			s.step(4, watch.Released, "m", x, a)
			s.step(4, watch.Granted, "m2", -1, a)
		})
		s.HandedOver(during("x", 3, 9), "m", "n", Clean)
		s.Held("m", ms(8))
	}},
	{"a lock delay is skipped", DelayRule, func(s *stage) {
		a, b := s.open(0), s.open(0)
		x := s.step(1, watch.Granted, s.ask(delayed("m")), -1, a)
		s.step(2, watch.Queued, s.ask(writer("m2")), 0, b)
		s.entry(func() {
			s.show(10, watch.SessionExpired, "", 0, a)
			s.step(10, watch.Expired, "m", x, a)
			s.step(10, watch.Granted, "m2", -1, b)
		})
	}},
	{"a lock delay is cut short", DelayRule, func(s *stage) {
		a := s.open(0)
		x := s.step(1, watch.Granted, s.ask(delayed("m")), -1, a)
		s.SessionOpened(during("", 9, 11), s.open(10)) // nothing after it can be older
		s.entry(func() {
			s.show(10, watch.SessionExpired, "", 0, a)
			s.step(10, watch.Expired, "m", x, a)
		})
		s.step(24, watch.Freed, "m", x, a)
	}},
	{"the lock delay after a cap is cut short", DelayRule, func(s *stage) {
		a := s.open(0)
		x := s.step(1, watch.Granted, s.ask(capped("m")), -1, a)
		s.SessionOpened(during("", 9, 11), s.open(10)) // nothing after it can be older
		s.step(10, watch.Released, "m", x, a)
		s.step(24, watch.Freed, "m", x, a)
	}},
	{"somebody is granted beside the lock delay after a cap", DelayRule, func(s *stage) {
		a, b := s.open(0), s.open(0)
		x := s.step(1, watch.Granted, s.ask(capped("m")), -1, a)
		s.step(10, watch.Released, "m", x, a)
		s.step(12, watch.Granted, s.ask(writer("m2")), -1, b)
		s.step(40, watch.Freed, "m", x, a)
	}},
	{"a delay ends that never began", Exclusion, func(s *stage) {
		a := s.open(0)
		x := s.step(1, watch.Granted, s.ask(delayed("m")), -1, a)
		s.step(2, watch.Released, "m", x, a)
		s.step(3, watch.Freed, "m", x, a)
	}},
	{"a hold outlasts its cap", MaxHoldRule, func(s *stage) {
		x := s.step(1, watch.Granted, s.ask(Claim{ID: "m", Names: []string{"x"}, MaxHold: 8 * time.Millisecond}), -1, s.open(0))
		s.Acquired(during("x", 1, 2), "m", x)
		s.Held("m", ms(13))
	}},
	{"a value that was set does not show", AskedRule, func(s *stage) {
		s.step(1, watch.Granted, s.ask(writer("m")), -1, s.open(0))
		s.Proclaimed(during("x", 2, 4), "m", "v", Clean)
	}},
	{"a value is set twice", OnceRule, func(s *stage) {
		a := s.open(0)
		x := s.step(1, watch.Granted, s.ask(writer("m")), -1, a)
		for at := range 2 {
			e := s.next(watch.ValueChanged, "x", x, a, "m")
			e.Value = "v"
			s.tell(3+at, e)
		}
	}},
	{"a value is set by one who does not hold", Exclusion, func(s *stage) {
		a := s.open(0)
		x := s.step(1, watch.Granted, s.ask(writer("m")), -1, a)
		s.step(2, watch.Released, "m", x, a)
		s.tell(3, s.next(watch.ValueChanged, "x", x, a, "m"))
	}},
	{"an observer is shown a leader that is none", LeaderRule, func(s *stage) {
		s.step(1, watch.Granted, s.ask(writer("m")), -1, s.open(0))
		s.Leads("o", "x", 7, "", ms(2))
	}},
	{"an observer is shown a leader before its time", LeaderRule, func(s *stage) {
		x := s.step(4, watch.Granted, s.ask(writer("m")), -1, s.open(0))
		s.Acquired(during("x", 3, 5), "m", x)
		s.Leads("o", "x", x, "", ms(2))
	}},
	{"an observer is shown a value that nobody published", LeaderRule, func(s *stage) {
		x := s.step(1, watch.Granted, s.ask(writer("m")), -1, s.open(0))
		s.Leads("o", "x", x, "v", ms(2))
	}},
	{"an observer is shown an old leader after a new one", LeaderRule, func(s *stage) {
		a := s.open(0)
		x := s.step(1, watch.Granted, s.ask(writer("m")), -1, a)
		s.step(2, watch.Released, "m", x, a)
		y := s.step(3, watch.Granted, s.ask(writer("m2")), -1, a)
		s.Leads("o", "x", y, "", ms(4))
		s.Leads("o", "x", x, "", ms(5))
	}},
	{"an observer is shown an old value after a new one", LeaderRule, func(s *stage) {
		a := s.open(0)
		x := s.step(1, watch.Granted, s.ask(writer("m")), -1, a)
		e := s.next(watch.ValueChanged, "x", x, a, "m")
		e.Value = "v"
		s.tell(3, e)
		s.Leads("o", "x", x, "v", ms(4))
		s.Leads("o", "x", x, "", ms(5))
	}},
	{"an inspection leaves a reader out", Linearizable, func(s *stage) {
		a := s.open(0)
		x := s.step(1, watch.Granted, s.ask(reader("r1")), -1, a)
		s.step(2, watch.Granted, s.ask(reader("r2")), x, a)
		s.Inspected(during("x", 3, 4), []string{"r1"}, 0)
	}},
	{"an inspection sees the middle of a move", Linearizable, func(s *stage) {
		a := s.open(0)
		x := s.step(1, watch.Granted, s.ask(writer("m")), -1, a)
		s.Asks(Claim{ID: "n", Names: []string{"x"}, From: "m"})
		s.entry(func() {
			s.step(5, watch.Released, "m", x, a)
			s.step(5, watch.Granted, "n", -1, a)
		})
		s.Inspected(during("x", 3, 6), nil, 0)
	}},
	{"an inspection shows a name free whose delay goes on", Linearizable, func(s *stage) {
		a := s.open(0)
		x := s.step(1, watch.Granted, s.ask(delayed("m")), -1, a)
		s.entry(func() {
			s.show(10, watch.SessionExpired, "", 0, a)
			s.step(10, watch.Expired, "m", x, a)
		})
		s.Inspected(during("x", 12, 13), nil, 0)
	}},
	{"a set is refused for one who holds none of its names", Linearizable, func(s *stage) {
		s.step(1, watch.Granted, s.ask(writer("m")), -1, s.open(0))
		s.Asks(set("try", "y", "z"))
		s.Refused(during("", 2, 3), "try", "m")
	}},
	{"a set is refused for one who holds another of its names", Linearizable, func(s *stage) {
		s.step(1, watch.Granted, s.ask(writer("m")), -1, s.open(0))
		s.Asks(set("try", "y", "x"))
		s.Refused(during("y", 2, 3), "try", "m")
	}},
	{"a set is refused for a name that is free", Linearizable, func(s *stage) {
		s.step(1, watch.Granted, s.ask(writer("m")), -1, s.open(0))
		s.Asks(set("try", "y", "x"))
		s.Refused(during("y", 2, 3), "try", "")
	}},
	{"a caller has a hold that nobody asked for", AskedRule, func(s *stage) {
		s.Acquired(during("x", 1, 2), "who", 1002)
	}},
	{"a set is refused that nobody asked for", AskedRule, func(s *stage) {
		s.Refused(during("", 1, 2), "who", "")
	}},
	{"a claim is asked for twice", Record, func(s *stage) {
		s.Asks(writer("m"))
		s.Asks(writer("m"))
	}},
}
