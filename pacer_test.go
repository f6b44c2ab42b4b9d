package quorumlock

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/clock"
	"github.com/quorumlock/quorumlock/internal/locktable"
)

// fixedClock gives the reading that the test set.
type fixedClock struct{ now clock.Reading }

func (c *fixedClock) Now() clock.Reading { return c.now }

func (c *fixedClock) advance(raw, boot, jump time.Duration) {
	c.now.Raw += raw
	c.now.Boot += boot
	c.now.Wall = c.now.Wall.Add(boot + jump)
}

// pacedNode is as much of a node as a pacer needs, with one session of 10 s. Renewals are begun and never end, unless the test ends them.
func pacedNode(t *testing.T) (*Node, *Session, *fixedClock, *pacer) {
	t.Helper()
	c := &fixedClock{clock.Reading{Raw: time.Hour, Boot: 2 * time.Hour, Wall: time.Unix(1_800_000_000, 0)}}
	n := &Node{clock: c, sessions: newSessionSet(func(*Session) {})}
	n.tasks.close() // nothing is started
	s := sessionOf(n, 1, 10*time.Second)
	if err := n.sessions.add(s, 0); err != nil {
		t.Fatal(err)
	}
	return n, s, c, &pacer{node: n, every: pace}
}

func sessionOf(n *Node, id locktable.SessionID, ttl time.Duration) *Session {
	now := n.clock.Now()
	s := &Session{node: n, id: id, ttl: ttl, lease: newLease(ttl, now), renewed: now, floor: 1, open: make(map[uint64]struct{}), claims: make(map[uint64]*claim)}
	s.life, s.end = context.WithCancelCause(context.Background())
	s.taking, s.endTaking = context.WithCancel(s.life)
	return s
}

func (p *pacer) look() {
	noticed := p.node.sessions.takeNoticed(nil)
	p.take(noticed)
	p.tick(p.node.clock.Now(), noticed)
}

// What the pacer leaves out changes nothing: beside a session that is looked at at each tick, one that is looked at only when its calm is over renews, is in
// doubt, and is lost at the same ticks, whatever the clocks do and whenever renewals are answered.
func TestCalmHidesNothing(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 0))
		n, calm, c, p := pacedNode(t)
		always := sessionOf(n, 1, calm.ttl) // its twin; not in the set
		p.look()
		looks := 0
		for range 600 {
			step := time.Duration(rng.IntN(200)) * time.Millisecond
			raw, boot, jump := step, step, time.Duration(0)
			switch rng.IntN(60) {
			case 0:
				boot += time.Duration(rng.IntN(9000)) * time.Millisecond // a suspend
			case 1:
				raw += time.Duration(rng.IntN(1000)) * time.Millisecond
			case 2, 3:
				jump = time.Duration(rng.IntN(4000)-2000) * time.Millisecond
			}
			c.advance(raw, boot, jump)
			now := c.Now()
			before := calm.renewed
			p.look()
			if calm.renewed != before {
				looks++
			}
			always.tick(now)
			stateOf := func(s *Session) leaseState {
				if s.life.Err() != nil {
					return leaseLost
				}
				copied := s.lease
				return copied.state(now)
			}
			a, b := stateOf(calm), stateOf(always)
			seen[b.String()]++
			if a != b || calm.renewing != always.renewing || calm.renewed != always.renewed || (calm.life.Err() != nil) != (always.life.Err() != nil) {
				t.Fatalf("seed %d: %v, renewing %v since %v; looked at each time %v, %v since %v", seed, a, calm.renewing, calm.renewed, b, always.renewing, always.renewed)
			}
			if b == leaseLost {
				if n.sessions.get(1) != nil {
					t.Fatal("lost, and still in the set")
				}
				break
			}
			if calm.renewing && rng.IntN(8) > 0 {
				c0 := calm.renewed
				for _, s := range []*Session{calm, always} {
					if rng := rand.New(rand.NewPCG(seed, uint64(looks))); rng.IntN(10) < int(seed%10) {
						s.renewalFailed(false)
					} else {
						s.renewalAnswered(&locktable.Result{Code: locktable.CodeOK, Renewed: true}, c0)
					}
				}
			}
		}
		seen["renewals"] += looks
	}
	for _, what := range []string{"held", "jeopardy", "unsure", "lost", "renewals"} {
		if seen[what] < 100 {
			t.Errorf("%s was seen %d times: the test tests nothing", what, seen[what])
		}
	}
}

// A session in order is looked at once in each renewal interval, and not at each tick.
func TestCalmSessionIsLeftAlone(t *testing.T) {
	_, s, c, p := pacedNode(t)
	p.look()
	looks, renewals := 0, 0
	for range 200 { // 20 s
		c.advance(pace, pace, 0)
		now := c.Now()
		if o := &p.open[0]; o.over(&now, wallOffset(now)) {
			looks++
		}
		p.look()
		if s.renewing {
			renewals++
			s.renewalAnswered(&locktable.Result{Code: locktable.CodeOK, Renewed: true}, s.renewed)
		}
	}
	if looks != 10 || renewals != 10 {
		t.Errorf("looked at %d times and renewed %d times in 20 s, want 10", looks, renewals)
	}
}

// Sessions come and go, and the pacer keeps each one once, none that is over, and knows where it is.
func TestPacerKeepsWhatIsThere(t *testing.T) {
	n, first, c, p := pacedNode(t)
	rng := rand.New(rand.NewPCG(1, 2))
	there := []*Session{first}
	for id := locktable.SessionID(2); id < 300; id++ {
		c.advance(time.Millisecond, time.Millisecond, 0)
		if len(there) > 0 && rng.IntN(3) == 0 {
			i := rng.IntN(len(there))
			there[i].lose(&LostError{Cause: CauseSessionClosed})
			there = append(there[:i], there[i+1:]...)
		} else {
			s := sessionOf(n, id, 10*time.Second)
			if err := n.sessions.add(s, 0); err != nil {
				t.Fatal(err)
			}
			there = append(there, s)
			n.sessions.notice(s)
		}
		p.look()
		if len(p.open) != len(there) {
			t.Fatalf("%d sessions, the pacer has %d", len(there), len(p.open))
		}
		for i := range p.open {
			if p.open[i].session.place != i+1 {
				t.Fatalf("the session at %d believes to be at %d", i+1, p.open[i].session.place)
			}
		}
		for _, s := range there {
			if s.place < 1 || p.open[s.place-1].session != s {
				t.Fatalf("session %d is not where it believes to be", s.id)
			}
		}
	}
}

// BenchmarkPacer is a tick over many sessions of which one in twenty is due, as with a TTL of 10 s.
func BenchmarkPacer(b *testing.B) {
	c := &fixedClock{clock.Reading{Raw: time.Hour, Boot: time.Hour, Wall: time.Unix(1_800_000_000, 0)}}
	n := &Node{clock: c, sessions: newSessionSet(func(*Session) {})}
	n.tasks.close()
	for id := range locktable.SessionID(5000) {
		s := sessionOf(n, id+1, 10*time.Second)
		s.renewed.Raw -= time.Duration(id%20) * pace
		s.renewed.Boot -= time.Duration(id%20) * pace
		_ = n.sessions.add(s, 0)
	}
	p := &pacer{node: n, every: pace}
	p.look()
	b.ReportAllocs()
	for b.Loop() {
		c.advance(pace, pace, 0)
		p.look()
		for i := range p.open {
			if s := p.open[i].session; s.renewing {
				s.renewalAnswered(&locktable.Result{Code: locktable.CodeOK, Renewed: true}, s.renewed)
			}
		}
	}
}
