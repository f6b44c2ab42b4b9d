package quorumlock

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

const ms = time.Millisecond

// atHeartbeat is what a LAN with this timing measures.
func atHeartbeat(heartbeat time.Duration, voters int) timings {
	return timings{heartbeat: heartbeat, voters: voters, slowest: 2 * ms, trips: leastTrips}
}

func TestShortTTLs(t *testing.T) {
	slow := func(m timings, d time.Duration) timings { m.slowest = d; return m }
	for _, c := range []struct {
		name  string
		m     timings
		least time.Duration
	}{
		// Up to 2 s half of the TTL is left for the change of leader and two round trips, above it 0.6 TTL less 0.2 s.
		{"default timing", atHeartbeat(500*ms, 3), 2850 * ms},
		{"fast timing", atHeartbeat(300*ms, 3), 1850 * ms},
		{"fastest timing", atHeartbeat(150*ms, 3), 950 * ms},
		{"slow timing", atHeartbeat(time.Second, 3), MinSessionTTL},
		{"two voters", atHeartbeat(150*ms, 2), 950 * ms},
		{"voters not known yet", atHeartbeat(150*ms, 0), 950 * ms},
		{"one voter", atHeartbeat(500*ms, 1), ShortestSessionTTL},
		{"one voter, slow disk", slow(atHeartbeat(500*ms, 1), 80*ms), 800 * ms},
		{"fast timing, 50 ms apart", slow(atHeartbeat(300*ms, 5), 50*ms), 2050 * ms},
		{"fastest timing, 120 ms apart", slow(atHeartbeat(150*ms, 3), 120*ms), 1400 * ms},
		{"fastest timing, far apart", slow(atHeartbeat(150*ms, 3), 499*ms), MinSessionTTL},
	} {
		t.Run(c.name, func(t *testing.T) {
			if least := c.m.least(); least != c.least {
				t.Errorf("least %v, want %v", least, c.least)
			}
			for ttl := ShortestSessionTTL; ttl < MinSessionTTL; ttl += ttlStep {
				if err := c.m.judge(ttl); (err == nil) != (ttl >= c.least) {
					t.Errorf("TTL %v: %v", ttl, err)
				}
			}
		})
	}
}

// Whoever is refused is told the numbers, and a TTL that would do.
func TestRefusalOfAShortTTLTellsTheNumbers(t *testing.T) {
	for _, c := range []struct {
		m     timings
		ttl   time.Duration
		parts []string
	}{
		{atHeartbeat(500*ms, 3), time.Second, []string{"ttl 1s: the least is 2.85s in this cluster now.", "leaves 500ms", "up to 1.5s (3 heartbeat timeouts of 500ms)", "2ms (the slowest of 8"}},
		{timings{heartbeat: 500 * ms, voters: 1, slowest: 80 * ms, trips: 9}, 600 * ms, []string{"no successor", "80ms", "least is 800ms"}},
	} {
		err := c.m.judge(c.ttl)
		var field *FieldError
		if !errors.As(err, &field) || !errors.Is(err, ErrInvalid) || field.Value != c.ttl {
			t.Fatalf("error %v", err)
		}
		for _, part := range c.parts {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q lacks %q", err, part)
			}
		}
	}
}

// Who wants a short session from the configuration is told where to get one.
func TestConfigPointsToShortSessions(t *testing.T) {
	_, err := Open(t.Context(), Config{Cluster: "c", Expect: 1, SessionTTL: time.Second})
	var field *FieldError
	if !errors.As(err, &field) || field.Field != "Config.SessionTTL" || !strings.Contains(err.Error(), "NewSession") {
		t.Errorf("error %v", err)
	}
}

func TestStaticRuleOfTTLs(t *testing.T) {
	for ttl, ok := range map[time.Duration]bool{
		0: false, -time.Second: false, ShortestSessionTTL - ms: false, ShortestSessionTTL: true, time.Second + time.Microsecond: false,
		MinSessionTTL: true, MaxSessionTTL: true, MaxSessionTTL + ms: false,
	} {
		if err := checkTTL(ttl); (err == nil) != ok || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%v: %v", ttl, err)
		}
	}
}

// Whatever TTL is accepted: even with a renewal as late as the pacer may be, an ordinary round trip raises no alarm, an attempt leaves the next member time to
// answer too, and two renewals begin in the window.
func TestMarginsOfShortTTLs(t *testing.T) {
	for ttl := ShortestSessionTTL; ttl <= MaxSessionTTL; ttl += 10 * ms {
		look, trip := paceFor(ttl), hedgeDelay(ttl) // the slowest that is accepted
		if ttl >= MinSessionTTL {
			trip = 200 * ms
		}
		if age := renewalInterval(ttl) + look + trip; age > jeopardyAge(ttl) {
			t.Errorf("TTL %v: in order a success is %v old, the alarm is at %v", ttl, age, jeopardyAge(ttl))
		}
		if hedgeDelay(ttl)+trip > renewalAttempt(ttl) {
			t.Errorf("TTL %v: an attempt of %v ends before the second member asked at %v can answer", ttl, renewalAttempt(ttl), hedgeDelay(ttl))
		}
		if begun := 2 * (renewalInterval(ttl) + look); begun+trip > trustWindow(ttl) {
			t.Errorf("TTL %v: the second renewal begins at %v of %v", ttl, begun, trustWindow(ttl))
		}
		if look > pace || look < 25*ms {
			t.Errorf("TTL %v: looked at every %v", ttl, look)
		}
	}
}

func TestPaceIsThatOfTheShortest(t *testing.T) {
	set := newSessionSet(nil)
	sessions := []*Session{{id: 1, ttl: 10 * time.Second}, {id: 2, ttl: time.Second}, {id: 3, ttl: 500 * ms}, {id: 4, ttl: time.Minute}}
	expect := func(what string, want time.Duration) {
		t.Helper()
		if got := set.pace(); got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	expect("none", pace)
	for i, want := range []time.Duration{pace, 50 * ms, 25 * ms, 25 * ms} {
		if err := set.add(sessions[i], 0); err != nil {
			t.Fatal(err)
		}
		expect(fmt.Sprint("with session ", i+1), want)
	}
	for i, want := range []time.Duration{25 * ms, 25 * ms, pace, pace} {
		set.remove(sessions[i], false)
		expect(fmt.Sprint("without session ", i+1), want)
	}
}

// At the edge of A3 the last belief and the first expiry do not overlap by a nanosecond, with short TTLs as with long ones, and however they are rounded.
func TestExclusionIsTightForShortTTLs(t *testing.T) {
	for _, ttl := range []time.Duration{ShortestSessionTTL, 501 * ms, 503 * ms, 777 * ms, 999 * ms, time.Second, 2501 * ms, MinSessionTTL - ms} {
		for _, clocks := range [][2]oscillator{
			{{num: 4, den: 5}, {num: 1, den: 1}},
			{{num: 1, den: 1}, {num: 5, den: 4}},
		} {
			rounds := []round{{}}
			expire, _ := expiryProposed(clocks[1], ttl, rounds)
			if gap := expire - (lostAt(clocks[0], ttl, rounds) - 1); gap <= 0 || gap > 2 {
				t.Errorf("TTL %v, clocks %+v: gap %v between belief and expiry", ttl, clocks, gap)
			}
		}
	}
}

func TestRoundTripsOfTheLastMinute(t *testing.T) {
	var r roundTrips
	start := time.Now()
	check := func(at, slowest time.Duration, n int) {
		t.Helper()
		if d, got := r.lately(start.Add(at)); d != slowest || got != n {
			t.Errorf("at %v: slowest %v of %d, want %v of %d", at, d, got, slowest, n)
		}
	}
	check(0, 0, 0)
	r.note(start, 3*ms)
	r.note(start.Add(time.Second), 40*ms)
	r.note(start.Add(2*time.Second), 2*ms)
	check(2*time.Second, 40*ms, 3)
	for at := 15 * time.Second; at <= 55*time.Second; at += 10 * time.Second {
		r.note(start.Add(at), 5*ms)
	}
	check(59*time.Second, 40*ms, 8)
	check(61*time.Second, 5*ms, 5)
	r.note(start.Add(66*time.Second), 6*ms) // takes the oldest place
	check(66*time.Second, 6*ms, 6)
	check(10*time.Minute, 0, 0)
	for range 100_000 {
		r.note(start.Add(20*time.Minute), ms)
	}
	check(20*time.Minute, ms, 100_000)
}

func TestOnlyAnsweredCommandsAreMeasured(t *testing.T) {
	var r roundTrips
	begun := time.Now().Add(-time.Second)
	r.took(locktable.OpRenew, begun, nil)
	r.took(locktable.OpClaim, begun, errNotLeader)
	if _, n := r.lately(time.Now()); n != 0 {
		t.Errorf("%d measured", n)
	}
	r.took(locktable.OpClaim, begun, nil)
	if d, n := r.lately(time.Now()); n != 1 || d < time.Second {
		t.Errorf("slowest %v of %d", d, n)
	}
}
