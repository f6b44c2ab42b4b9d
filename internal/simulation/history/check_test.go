package history

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/watch"
)

// TestUndecided: what is not decided within the bound is a violation.
func TestUndecided(t *testing.T) {
	s := newStage()
	s.lockAndUnlock(1, "x", s.open(0))
	s.inspected(during("x", 8, 9), 0, 0)
	for name, report := range map[string]*Report{
		"steps": s.check(time.Time{}, 1),
		"time":  s.Check(1), // a nanosecond is over by then
	} {
		if report.Found[Undecided] != 1 || len(report.Violations) != 1 {
			t.Errorf("%s: %v", name, report.Violations)
		}
	}
	if report := s.Check(time.Minute); len(report.Violations) != 0 {
		t.Error(report.Violations)
	}
}

func TestReport(t *testing.T) {
	s := newStage()
	a, b := s.open(0), s.open(0)
	s.lockAndUnlock(10, "x", a) // released, seen at 13
	x := s.grant(20, "x", a)    // 8 ms after it was ended
	s.held(x, ms(25))
	s.entry(func() {
		s.show(30, watch.SessionExpired, "", 0, a)
		s.show(30, watch.Expired, "x", x, a)
	})
	y := s.grant(40, "x", b) // 15 ms
	s.held(y, ms(50))
	s.show(51, watch.Draining, "x", y, b)
	s.show(60, watch.Forced, "x", y, b)
	z := s.grant(75, "x", b) // 25 ms
	s.held(z, ms(90))
	s.show(80, watch.Forced, "x", z, b) // at once: not measured
	s.grant(85, "x", b)
	s.Failed(during("x", 0, 99), "")

	r := s.Check(0)
	if len(r.Violations) != 0 {
		t.Error(r.Violations)
	}
	want := map[Ending]time.Duration{Released: 8 * time.Millisecond, Expired: 15 * time.Millisecond, Drained: 25 * time.Millisecond}
	if len(r.SmallestGap) != len(want) {
		t.Errorf("gaps %v, want %v", r.SmallestGap, want)
	}
	for e, gap := range want {
		if r.SmallestGap[e] != gap {
			t.Errorf("gap when %v: %v, want %v", e, r.SmallestGap[e], gap)
		}
	}
	if r.Calls != 3 || r.Failed != 1 || r.Grants != 5 || r.Abandoned != 4 || r.Lost != 1 || r.Forced != 2 || r.Unseen != 0 || r.Late {
		t.Errorf("%+v", *r)
	}
	if r.Events != int(s.rev-1000) {
		t.Errorf("%d events of %d", r.Events, s.rev-1000)
	}
}

// TestManyViolations: one fault that shows everywhere does not bury the others.
func TestManyViolations(t *testing.T) {
	s := newStage()
	for range 100 {
		s.refused(during("x", 1, 2), 0)
	}
	s.grant(3, "y", s.open(2)+50)
	r := s.Check(0)
	if r.Found[Linearizable] != 100 || r.Found[SessionRule] != 1 || len(r.Violations) != perCheck+1 {
		t.Errorf("%d listed, found %v", len(r.Violations), r.Found)
	}
}
