package history

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/watch"
)

// TestGoodKinds: histories of all kinds of locks in which nothing is wrong.
func TestGoodKinds(t *testing.T) {
	for name, play := range map[string]func(s *stage){
		"readers share a phase, a writer waits, and the next phase has a token of its own": func(s *stage) {
			a := s.open(0)
			first := s.step(1, watch.Granted, s.ask(reader("r1")), -1, a)
			s.step(2, watch.Granted, s.ask(reader("r2")), first, a)
			s.Inspected(during("x", 3, 3), []string{"r2", "r1"}, 0)
			s.step(4, watch.Queued, s.ask(writer("w")), 0, a)
			s.step(5, watch.Queued, s.ask(reader("r3")), 0, a)
			s.Asks(reader("try"))
			s.Refused(during("x", 6, 6), "try", "r2")
			s.step(7, watch.Released, "r1", first, a)
			s.Inspected(during("x", 8, 8), []string{"r2"}, 2)
			var w int64
			s.entry(func() {
				s.step(9, watch.Released, "r2", first, a)
				w = s.step(9, watch.Granted, "w", -1, a)
			})
			s.entry(func() {
				s.step(10, watch.Released, "w", w, a)
				s.step(10, watch.Granted, "r3", -1, a)
			})
		},
		"permits fit, a large claim waits for room, a small one behind it": func(s *stage) {
			a := s.open(0)
			x := s.step(1, watch.Granted, s.ask(wants("p1", 2, 3)), -1, a)
			y := s.step(2, watch.Granted, s.ask(wants("p2", 1, 3)), -1, a)
			s.Acquired(during("p", 1, 3), "p2", 0)
			s.step(3, watch.Queued, s.ask(wants("p3", 3, 3)), 0, a)
			s.step(4, watch.Queued, s.ask(wants("p4", 1, 3)), 0, a)
			s.step(5, watch.Released, "p1", x, a)
			s.entry(func() {
				s.step(6, watch.Released, "p2", y, a)
				s.step(6, watch.Granted, "p3", -1, a)
			})
			s.Resized(during("p", 7, 9), 4, Clean)
			s.entry(func() {
				s.resize(8, 4)
				s.step(8, watch.Granted, "p4", -1, a)
			})
		},
		"a limit is lowered, nobody loses anything, and a claim that is too large ends": func(s *stage) {
			a := s.open(0)
			x := s.step(1, watch.Granted, s.ask(wants("p1", 3, 3)), -1, a)
			s.step(2, watch.Queued, s.ask(wants("p2", 2, 3)), 0, a)
			s.entry(func() {
				s.resize(3, 1)
				s.step(3, watch.Cancelled, "p2", 0, a)
			})
			s.Held("p1", ms(8))
			s.step(9, watch.Released, "p1", x, a)
			s.step(10, watch.Granted, s.ask(wants("p3", 1, 1)), -1, a)
		},
		"a limit is set while nobody uses it, and forgotten while it is in use": func(s *stage) {
			a := s.open(0)
			s.Resized(during("p", 0, 2), 5, Clean)
			s.resize(1, 5)
			x := s.step(2, watch.Granted, s.ask(wants("p1", 3, 3)), -1, a)
			s.Resized(during("p", 3, 5), 0, Clean)
			s.resize(4, 0)
			s.step(5, watch.Queued, s.ask(wants("p2", 4, 5)), 0, a)
			var y int64
			s.entry(func() {
				s.step(6, watch.Released, "p1", x, a)
				y = s.step(6, watch.Granted, "p2", -1, a)
			})
			s.step(7, watch.Queued, s.ask(wants("p3", 2, 3)), 0, a)
			s.resize(8, 0) // again
			s.step(9, watch.Cancelled, "p3", 0, a)
			s.step(10, watch.Released, "p2", y, a)
			s.step(11, watch.Granted, s.ask(wants("p4", 9, 9)), -1, a)
		},
		"a limit that was forgotten outlasts the moment in which the only claim comes to its turn, or moves": func(s *stage) {
			a := s.open(0)
			x := s.step(1, watch.Granted, s.ask(wants("p1", 2, 4)), -1, a)
			s.resize(2, 2)
			s.step(3, watch.Queued, s.ask(wants("p2", 2, 4)), 0, a) // it names the limit before
			s.resize(4, 0)
			var y int64
			s.entry(func() {
				s.step(5, watch.Released, "p1", x, a)
				y = s.step(5, watch.Granted, "p2", -1, a)
			})
			s.step(6, watch.Queued, s.ask(wants("p3", 1, 2)), 0, a)
			s.step(7, watch.Cancelled, "p3", 0, a)
			s.Asks(Claim{ID: "p4", Names: []string{"p"}, Mode: permits, Permits: 2, Limit: 4, From: "p2"})
			s.entry(func() {
				s.step(8, watch.Released, "p2", y, a)
				s.step(8, watch.Granted, "p4", -1, a)
			})
			s.step(9, watch.Queued, s.ask(wants("p5", 1, 2)), 0, a)
		},
		"permits over a limit that was lowered are given away": func(s *stage) {
			a, b := s.open(0), s.open(0)
			x := s.step(1, watch.Granted, s.ask(wants("p1", 3, 3)), -1, a)
			s.resize(2, 2)
			s.Asks(Claim{ID: "p2", Names: []string{"p"}, Mode: permits, Permits: 3, Limit: 3, From: "p1"})
			s.entry(func() {
				s.step(3, watch.Released, "p1", x, a)
				s.step(3, watch.Granted, "p2", -1, b)
			})
			s.Held("p2", ms(9))
		},
		"readers of one session are released by force one after the other, with a delay and without": func(s *stage) {
			a := s.open(0)
			first := s.step(1, watch.Granted, s.ask(reader("r1")), -1, a)
			s.stepAbout(2, watch.Draining, "r1", first, a, "why")
			late := reader("r2")
			late.Delay = 5 * time.Millisecond
			s.step(3, watch.Granted, s.ask(late), first, a)
			s.stepAbout(4, watch.Draining, "r2", first, a, "why")
			s.Held("r1", ms(5))
			s.stepAbout(6, watch.Forced, "r1", first, a, "why")
			s.Held("r2", ms(7))
			s.Inspected(during("x", 7, 7), []string{"r2"}, 0)
			s.stepAbout(8, watch.Forced, "r2", first, a, "why")
			s.step(20, watch.Freed, "r2", first, a)
		},
		"sets overlap: the second waits for both names, and a mutex behind it": func(s *stage) {
			a := s.open(0)
			one := s.step(1, watch.Granted, s.ask(set("s1", "x", "y")), -1, a)
			s.Acquired(during("", 0, 2), "s1", one)
			s.step(2, watch.Queued, s.ask(set("s2", "z", "y")), 0, a)
			s.step(3, watch.Queued, s.ask(set("m", "z")), 0, a)
			s.Inspected(during("z", 4, 4), nil, 2) // it stands idle until y is free
			s.Asks(set("try", "q", "y"))
			s.Refused(during("", 4, 5), "try", "s1")
			var two int64
			s.entry(func() {
				s.step(5, watch.Released, "s1", one, a)
				two = s.step(5, watch.Granted, "s2", -1, a)
			})
			s.entry(func() {
				s.step(6, watch.Released, "s2", two, a)
				s.step(6, watch.Granted, "m", -1, a)
			})
		},
		"a downgrade lets the readers next in line in, not the writer": func(s *stage) {
			a, b := s.open(0), s.open(0)
			w := s.step(1, watch.Granted, s.ask(writer("w")), -1, a)
			s.step(2, watch.Queued, s.ask(reader("r")), 0, b)
			s.step(2, watch.Queued, s.ask(writer("w2")), 0, b)
			s.Asks(Claim{ID: "d", Names: []string{"x"}, Mode: shared, From: "w"})
			s.Held("w", ms(3))
			s.Ended("w", ms(3))
			var d int64
			s.entry(func() {
				s.step(4, watch.Released, "w", w, a)
				d = s.step(4, watch.Granted, "d", -1, a)
				s.step(4, watch.Granted, "r", d, b)
			})
			s.Acquired(during("x", 3, 5), "d", d)
			s.Inspected(during("x", 3, 4), []string{"w"}, 2)
			s.Inspected(during("x", 4, 5), []string{"d", "r"}, 1)
		},
		"a hold is received by another session, past those that wait": func(s *stage) {
			a, b := s.open(0), s.open(0)
			x := s.step(1, watch.Granted, s.ask(set("m", "x", "y")), -1, a)
			s.step(2, watch.Queued, s.ask(set("m2", "y")), 0, a)
			s.Asks(Claim{ID: "n", Names: []string{"x", "y"}, From: "m"})
			s.entry(func() {
				s.step(3, watch.Released, "m", x, a)
				s.step(3, watch.Granted, "n", -1, b)
			})
			s.Asks(Claim{ID: "late", Names: []string{"x", "y"}, From: "m"})
			s.Failed(during("", 3, 4), "late")
		},
		"a hold is handed over to one who waits further back": func(s *stage) {
			a := s.open(0)
			x := s.step(1, watch.Granted, s.ask(writer("m")), -1, a)
			s.step(2, watch.Queued, s.ask(writer("m2")), 0, a)
			s.step(2, watch.Queued, s.ask(writer("m3")), 0, a)
			s.HandsOver("m")
			var y int64
			s.entry(func() {
				s.step(4, watch.Released, "m", x, a)
				y = s.step(4, watch.Granted, "m3", -1, a)
			})
			s.HandedOver(during("x", 3, 5), "m", "n", Clean)
			s.entry(func() {
				s.step(6, watch.Released, "m3", y, a)
				s.step(6, watch.Granted, "m2", -1, a)
			})
		},
		"a hand over that failed is an unlock": func(s *stage) {
			a := s.open(0)
			x := s.step(1, watch.Granted, s.ask(writer("m")), -1, a)
			s.step(2, watch.Queued, s.ask(writer("m2")), 0, a)
			s.HandsOver("m")
			s.HandedOver(during("x", 3, 4), "m", "n", Unknown)
			s.Unlocked(during("x", 4, 6), "m", Clean)
			s.entry(func() {
				s.step(5, watch.Released, "m", x, a)
				s.step(5, watch.Granted, "m2", -1, a)
			})
		},
		"an expired hold bars its name, which a reader of it shows, until its delay is over": func(s *stage) {
			a, b := s.open(0), s.open(0)
			x := s.step(1, watch.Granted, s.ask(delayed("m")), -1, a)
			s.step(2, watch.Queued, s.ask(writer("m2")), 0, b)
			s.entry(func() {
				s.show(10, watch.SessionExpired, "", 0, a)
				s.step(10, watch.Expired, "m", x, a)
			})
			s.Inspected(during("x", 11, 11), []string{"m"}, 1)
			s.entry(func() {
				s.step(30, watch.Freed, "m", x, a)
				s.step(30, watch.Granted, "m2", -1, b)
			})
		},
		"a closed session calls off its delays, one that was lost before does not": func(s *stage) {
			a, b := s.open(0), s.open(0)
			x := s.step(1, watch.Granted, s.ask(delayed("m")), -1, a)
			s.entry(func() {
				s.show(2, watch.SessionClosed, "", 0, a)
				s.step(2, watch.Released, "m", x, a)
			})
			y := s.step(3, watch.Granted, s.ask(delayed("m2")), -1, b)
			s.entry(func() {
				s.show(4, watch.SessionClosed, "", 0, b)
				s.step(4, watch.Released, "m2", y, b)
			})
			c := s.open(5)
			s.step(6, watch.Queued, s.ask(writer("m3")), 0, c)
			s.entry(func() {
				s.step(30, watch.Freed, "m2", y, b)
				s.step(30, watch.Granted, "m3", -1, c)
			})
		},
		"a hold gives itself back at its cap, and its delay begins": func(s *stage) {
			a, b := s.open(0), s.open(0)
			x := s.step(1, watch.Granted, s.ask(capped("m")), -1, a)
			s.step(2, watch.Queued, s.ask(writer("m2")), 0, b)
			s.step(10, watch.Released, "m", x, a)
			s.Inspected(during("x", 11, 11), []string{"m"}, 1)
			s.entry(func() {
				s.step(40, watch.Freed, "m", x, a)
				s.step(40, watch.Granted, "m2", -1, b)
			})
		},
		"a hold is unlocked before its cap": func(s *stage) {
			a, b := s.open(0), s.open(0)
			x := s.step(1, watch.Granted, s.ask(capped("m")), -1, a)
			s.step(2, watch.Queued, s.ask(writer("m2")), 0, b)
			s.entry(func() {
				s.step(5, watch.Released, "m", x, a)
				s.step(5, watch.Granted, "m2", -1, b)
			})
		},
		"force was to cut a drain short, and came too late for that": func(s *stage) {
			a := s.open(0)
			x := s.step(1, watch.Granted, s.ask(delayed("m")), -1, a)
			s.stepAbout(2, watch.Draining, "m", x, a, "stuck")
			s.ForcedNow(x)
			s.stepAbout(12, watch.Forced, "m", x, a, "stuck")
			s.step(40, watch.Freed, "m", x, a)
		},
		"force cuts a delay short": func(s *stage) {
			a, b := s.open(0), s.open(0)
			x := s.step(1, watch.Granted, s.ask(delayed("m")), -1, a)
			s.entry(func() {
				s.show(10, watch.SessionExpired, "", 0, a)
				s.step(10, watch.Expired, "m", x, a)
			})
			s.stepAbout(11, watch.Freed, "m", x, a, "we know that it is dead")
			s.step(12, watch.Granted, s.ask(writer("m2")), -1, b)
		},
		"readers of one session are drained together, and which one ended first turns out later": func(s *stage) {
			a, b := s.open(0), s.open(0)
			c := reader("r1")
			c.Delay = 20 * time.Millisecond
			x := s.step(1, watch.Granted, s.ask(c), -1, a)
			s.step(1, watch.Granted, s.ask(reader("r2")), x, a)
			s.entry(func() {
				s.stepAbout(2, watch.Draining, "r1", x, a, "stuck")
				s.stepAbout(2, watch.Draining, "r2", x, a, "stuck")
			})
			s.stepAbout(15, watch.Forced, "r2", x, a, "stuck")
			s.Unlocked(during("x", 14, 16), "r1", Clean)
			s.step(16, watch.Released, "r1", x, a)
			s.step(17, watch.Granted, s.ask(writer("w")), -1, b)
		},
		"one of them without a delay, then the session expires and the delay of the other begins": func(s *stage) {
			a, b := s.open(0), s.open(0)
			c := reader("r1")
			c.Delay = 20 * time.Millisecond
			x := s.step(1, watch.Granted, s.ask(c), -1, a)
			s.step(1, watch.Granted, s.ask(reader("r2")), x, a)
			s.entry(func() {
				s.stepAbout(2, watch.Draining, "r1", x, a, "stuck")
				s.stepAbout(2, watch.Draining, "r2", x, a, "stuck")
			})
			s.stepAbout(15, watch.Forced, "r2", x, a, "stuck")
			s.entry(func() {
				s.show(16, watch.SessionExpired, "", 0, a)
				s.step(16, watch.Expired, "r1", x, a)
			})
			s.Inspected(during("x", 17, 17), []string{"r1"}, 0)
			s.step(40, watch.Freed, "r1", x, a)
			s.step(41, watch.Granted, s.ask(writer("w")), -1, b)
		},
		"two of them end by force, in whatever order": func(s *stage) {
			a, b := s.open(0), s.open(0)
			x := s.step(1, watch.Granted, s.ask(reader("r1")), -1, a)
			s.step(1, watch.Granted, s.ask(reader("r2")), x, a)
			s.entry(func() {
				s.stepAbout(2, watch.Draining, "r1", x, a, "stuck")
				s.stepAbout(2, watch.Draining, "r2", x, a, "stuck")
			})
			s.stepAbout(15, watch.Forced, "r2", x, a, "stuck")
			s.Inspected(during("x", 16, 16), []string{"r1"}, 0)
			s.stepAbout(17, watch.Forced, "r1", x, a, "stuck")
			s.Inspected(during("x", 18, 18), nil, 0)
			s.step(19, watch.Granted, s.ask(writer("w")), -1, b)
		},
		"two of them end by force, the later one with a delay that is over first": func(s *stage) {
			a, b := s.open(0), s.open(0)
			c := reader("r2")
			c.Delay = 20 * time.Millisecond
			x := s.step(1, watch.Granted, s.ask(reader("r1")), -1, a)
			s.step(1, watch.Granted, s.ask(c), x, a)
			s.entry(func() {
				s.stepAbout(2, watch.Draining, "r1", x, a, "stuck")
				s.stepAbout(2, watch.Draining, "r2", x, a, "stuck")
			})
			s.stepAbout(15, watch.Forced, "r2", x, a, "stuck")
			s.step(45, watch.Freed, "r2", x, a)
			s.stepAbout(50, watch.Forced, "r1", x, a, "stuck")
			s.step(51, watch.Granted, s.ask(writer("w")), -1, b)
		},
		"a leader proclaims": func(s *stage) {
			a := s.open(0)
			x := s.step(1, watch.Granted, s.ask(writer("m")), -1, a)
			e := s.next(watch.ValueChanged, "x", x, a, "m")
			e.Value = "v"
			s.tell(3, e)
			s.Proclaimed(during("x", 2, 4), "m", "v", Clean)
			s.Proclaimed(during("x", 5, 6), "m", "w", Unknown)
			s.Leads("o", "x", x, "", ms(2))
			s.Leads("o", "x", x, "v", ms(4))
			s.Leads("o", "x", 0, "", ms(9))
			s.Leads("late", "x", x, "", ms(9))
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
