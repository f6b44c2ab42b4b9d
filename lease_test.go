package quorumlock

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/clock"
)

func TestTrustWindowIsExactlyFourFifths(t *testing.T) {
	for _, c := range []struct{ ttl, want time.Duration }{
		{0, 0}, {1, 0}, {2, 1}, {4, 3}, {5, 4}, {9, 7}, {10, 8},
		{100 * time.Millisecond, 80 * time.Millisecond},
		{10 * time.Second, 8 * time.Second},
		{60 * time.Second, 48 * time.Second},
		{math.MaxInt64, math.MaxInt64/5*4 + 1},
	} {
		if got := trustWindow(c.ttl); got != c.want {
			t.Errorf("trustWindow(%d) = %d, want %d", c.ttl, got, c.want)
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 20_000 {
		ttl := time.Duration(rng.Int64N(math.MaxInt64 / 8))
		if w := trustWindow(ttl); w*5 > ttl*4 || (w+1)*5 <= ttl*4 {
			t.Fatalf("trustWindow(%d) = %d is not 4/5 rounded down", ttl, w)
		}
	}
}

func TestMargins(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct{ ttl, renewal, attempt, hedge, jeopardy time.Duration }{
		{60 * time.Second, 12 * time.Second, time.Second, 500 * ms, 24 * time.Second},
		{10 * time.Second, 2 * time.Second, time.Second, 500 * ms, 4 * time.Second},
		{5 * time.Second, time.Second, time.Second, 500 * ms, 2 * time.Second},
		{time.Second, 200 * ms, 200 * ms, 100 * ms, 400 * ms},
		{100 * ms, 20 * ms, 20 * ms, 10 * ms, 40 * ms},
	} {
		got := [...]time.Duration{renewalInterval(c.ttl), renewalAttempt(c.ttl), hedgeDelay(c.ttl), jeopardyAge(c.ttl)}
		if want := [...]time.Duration{c.renewal, c.attempt, c.hedge, c.jeopardy}; got != want {
			t.Errorf("TTL %v: renewal, attempt, hedge, jeopardy are %v, want %v", c.ttl, got, want)
		}
		if w := trustWindow(c.ttl); jeopardyAge(c.ttl)+renewalInterval(c.ttl)+renewalAttempt(c.ttl) > w {
			t.Errorf("TTL %v: no whole attempt of a renewal fits between jeopardy and loss", c.ttl)
		}
	}
	// A holder whose renewal fails as its leader dies tries again an interval later and needs an attempt; a new leader has to wait for that.
	const defaultTTL = 10 * time.Second
	if need := renewalInterval(defaultTTL) + attemptLimit + hedgeLimit; promotionGrace < need {
		t.Errorf("a grace of %v is over before a live session has renewed, in %v", promotionGrace, need)
	}
	if stallGap >= promotionGrace {
		t.Errorf("a stall of %v is only noticed after the grace of %v", stallGap, promotionGrace)
	}
}

// sec is a reading some seconds after an origin: by Raw, by Boot, and what the wall clock was set forward besides.
func sec(raw, boot, stepped float64) clock.Reading {
	d := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	return clock.Reading{
		Raw:  time.Hour + d(raw),
		Boot: 2*time.Hour + d(boot),
		Wall: time.Unix(1_700_000_000, 0).Add(d(boot) + d(stepped)),
	}
}

func at(s float64) clock.Reading { return sec(s, s, 0) }

// leaseStep is either an answer to a command begun at extend, or a look.
type leaseStep struct {
	extend *clock.Reading
	now    clock.Reading
	state  leaseState
	left   float64
}

func answer(c0 clock.Reading) leaseStep { return leaseStep{extend: &c0} }

func look(now clock.Reading, state leaseState, left float64) leaseStep {
	return leaseStep{now: now, state: state, left: left}
}

func TestLease(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps []leaseStep
	}{
		{"runs out", []leaseStep{
			look(at(0), leaseHeld, 8), look(at(3.99), leaseHeld, 4.01), look(at(4), leaseJeopardy, 4),
			look(at(7.99), leaseJeopardy, 0.01), look(at(8), leaseLost, 0), look(at(9), leaseLost, -1),
		}},
		{"is counted from before the question, not from the answer", []leaseStep{
			look(at(3), leaseHeld, 5), answer(at(2)), look(at(3), leaseHeld, 7), look(at(6), leaseJeopardy, 4), look(at(10), leaseLost, 0),
		}},
		{"recovers from jeopardy", []leaseStep{
			look(at(5), leaseJeopardy, 3), answer(at(4.5)), look(at(5), leaseHeld, 7.5),
		}},
		{"a late answer to an old question takes nothing back", []leaseStep{
			answer(at(4)), answer(at(2)), look(at(5), leaseHeld, 7),
		}},
		{"loss is final once seen", []leaseStep{
			look(at(8), leaseLost, 0), answer(at(7)), look(at(8.5), leaseLost, -0.5),
		}},
		{"an answer begun before the deadline that comes after it, before anybody looked", []leaseStep{
			answer(at(7)), look(at(9), leaseHeld, 6),
		}},
		{"a command begun after the deadline never extends", []leaseStep{
			answer(at(8)), look(at(8), leaseLost, 0), look(at(1), leaseLost, 0),
		}},
		{"suspend counts by Boot", []leaseStep{
			look(sec(1, 7, 0), leaseJeopardy, 1), look(sec(1.5, 61.5, 0), leaseLost, -53.5),
		}},
		{"a Boot slewed slow is overruled by Raw", []leaseStep{
			look(sec(8, 7.2, 0), leaseLost, 0),
		}},
		{"each clock has its own deadline", []leaseStep{
			answer(sec(2, 6, 0)), look(sec(9.9, 13, 0), leaseJeopardy, 0.1), look(sec(10, 13, 0), leaseLost, 0),
		}},
		{"wall set forward", []leaseStep{
			look(sec(1, 1, 1), leaseHeld, 7), look(sec(1, 1, 1.01), leaseUnsure, 7), look(sec(2, 2, 1.01), leaseUnsure, 6),
			answer(sec(2.5, 2.5, 1.01)), look(sec(3, 3, 1.01), leaseHeld, 7.5),
		}},
		{"wall set back is harmless", []leaseStep{
			look(sec(1, 1, -3600), leaseHeld, 7), answer(sec(2, 2, -3600)), look(sec(3, 3, -3600), leaseHeld, 7),
		}},
		{"unsure is not cured by setting the wall back", []leaseStep{
			look(sec(1, 1, 30), leaseUnsure, 7), look(sec(2, 2, 0), leaseUnsure, 6), answer(sec(3, 3, 0)), look(sec(3, 3, 0), leaseHeld, 8),
		}},
		{"nor by an answer to a question from before the jump", []leaseStep{
			look(sec(2, 2, 30), leaseUnsure, 6), answer(at(1)), look(sec(2, 2, 30), leaseUnsure, 7),
			answer(sec(2.5, 2.5, 30)), look(sec(3, 3, 30), leaseHeld, 7.5),
		}},
		{"nor by one from before the jump that nobody looked at", []leaseStep{
			answer(at(1)), look(sec(2, 2, 30), leaseUnsure, 7),
		}},
		{"nor by one from the very instant of the jump", []leaseStep{
			look(sec(2, 2, 30), leaseUnsure, 6), answer(at(2)), look(sec(2, 2, 30), leaseUnsure, 8),
			answer(sec(2, 2, 30)), look(sec(2, 2, 30), leaseHeld, 8),
		}},
		{"a jump that only the next question saw is over", []leaseStep{
			answer(sec(2, 2, 30)), look(sec(3, 3, 30), leaseHeld, 7),
		}},
		{"a second jump while unsure", []leaseStep{
			look(sec(1, 1, 30), leaseUnsure, 7), look(sec(3, 3, 60), leaseUnsure, 5), answer(sec(2, 2, 30)),
			look(sec(3, 3, 30), leaseUnsure, 7), answer(sec(4, 4, 30)), look(sec(4, 4, 30), leaseHeld, 8),
		}},
		{"an old question from before a step back is no jump", []leaseStep{
			answer(sec(3, 3, -30)), answer(at(1)), look(sec(4, 4, -30), leaseHeld, 7),
		}},
		{"small jumps between successes do not add up", []leaseStep{
			look(sec(1, 1, 0.9), leaseHeld, 7), answer(sec(1, 1, 0.9)), look(sec(2, 2, 1.8), leaseHeld, 7),
		}},
		{"small jumps without a success do", []leaseStep{
			look(sec(1, 1, 0.9), leaseHeld, 7), look(sec(2, 2, 1.8), leaseUnsure, 6),
		}},
		{"S21: 60 s of suspend are a loss and not a doubt", []leaseStep{
			look(sec(0.1, 60.1, 0), leaseLost, -52.1),
		}},
		{"a frozen guest put right is in doubt", []leaseStep{
			look(sec(0.1, 0.1, 60), leaseUnsure, 7.9), look(sec(8, 8, 60), leaseLost, 0),
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLease(10*time.Second, at(0))
			for i, s := range c.steps {
				if s.extend != nil {
					l.extend(*s.extend)
					continue
				}
				checkLook(t, &l, i, s)
			}
		})
	}
}

func checkLook(t *testing.T, l *lease, i int, s leaseStep) {
	t.Helper()
	if state := l.state(s.now); state != s.state {
		t.Errorf("step %d: state is %v, want %v", i, state, s.state)
	}
	left, want := l.left(s.now), time.Duration(math.Round(s.left*1e3))*time.Millisecond
	if s.state == leaseLost {
		want = min(want, 0)
	}
	if left.Round(time.Millisecond) != want {
		t.Errorf("step %d: %v left, want %v", i, left, want)
	}
	if d := l.deadline(s.now); !d.Equal(s.now.Wall.Add(left)) {
		t.Errorf("step %d: deadline %v, want %v after %v", i, d, left, s.now.Wall)
	}
}

func TestLeaseStateNames(t *testing.T) {
	want := map[leaseState]string{leaseHeld: "held", leaseJeopardy: "jeopardy", leaseUnsure: "unsure", leaseLost: "lost", 9: "invalid"}
	for s, name := range want {
		if s.String() != name {
			t.Errorf("%d prints as %q, want %q", s, s, name)
		}
	}
}

// TestDrainedHold: a copy of the lease keeps its deadline, and a doubt, through whatever the session's own lease gets afterwards.
func TestDrainedHold(t *testing.T) {
	l := newLease(10*time.Second, at(0))
	drained := l
	l.extend(at(5))
	if left := drained.left(at(6)); left != 2*time.Second {
		t.Errorf("%v left of the drained hold, want 2s", left)
	}
	if state := drained.state(at(8)); state != leaseLost {
		t.Errorf("the drained hold is %v at its deadline", state)
	}
	if state := l.state(at(8)); state != leaseHeld {
		t.Errorf("the session is %v", state)
	}
}

// TestLossIsSeenInTime: whoever looks at each pace finds the loss within reportSlack of the deadline by its own clocks, or of waking up,
// at any rate of the clocks, with as much again left for telling it.
func TestLossIsSeenInTime(t *testing.T) {
	for _, rate := range []float64{0.8, 1, 1.25} {
		for _, sleeps := range []bool{false, true} {
			t.Run(fmt.Sprintf("rate %v suspended %v", rate, sleeps), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := clock.NewFake()
					f.SetRate(rate)
					l := newLease(10*time.Second, f.Now())
					lossAt := time.Now().Add(time.Duration(8 / rate * float64(time.Second)))
					if sleeps {
						time.AfterFunc(3*time.Second+time.Millisecond, func() { f.Slept(time.Minute) })
						lossAt = time.Now().Add(3*time.Second + time.Millisecond)
					}
					for l.state(f.Now()) != leaseLost {
						time.Sleep(pace)
					}
					if late := time.Since(lossAt); late < 0 || late > reportSlack/2 {
						t.Errorf("loss seen %v after it", late)
					}
				})
			})
		}
	}
}

// leaseModel is the lease said plainly: it keeps all that ever happened and judges from the whole of it at each look.
type leaseModel struct {
	ttl     time.Duration
	answers []clock.Reading // c0 of all committed answers
	jumps   []jump          // what readings showed
	lost    bool
}

type jump struct {
	seen  clock.Reading
	after int // answers that had come by then
}

func (m *leaseModel) ends() (raw, boot time.Duration) {
	for _, c0 := range m.answers {
		raw, boot = max(raw, c0.Raw+m.ttl*4/5), max(boot, c0.Boot+m.ttl*4/5)
	}
	return raw, boot
}

func (m *leaseModel) newest() clock.Reading {
	newest := m.answers[0]
	for _, c0 := range m.answers {
		if c0.Boot >= newest.Boot {
			newest = c0
		}
	}
	return newest
}

// unsure tells whether some jump has no answer whose question came after it, and the last such jump.
func (m *leaseModel) unsure() (last clock.Reading, unsure bool) {
	for _, j := range m.jumps {
		cured := false
		for _, c0 := range m.answers[j.after:] {
			cured = cured || c0.Boot > j.seen.Boot || c0.Boot == j.seen.Boot && !c0.Wall.Before(j.seen.Wall)
		}
		if !cured {
			last, unsure = j.seen, true
		}
	}
	return last, unsure
}

func (m *leaseModel) see(now clock.Reading) {
	raw, boot := m.ends()
	m.lost = m.lost || now.Raw >= raw || now.Boot >= boot
	since := m.newest()
	if j, unsure := m.unsure(); unsure {
		since = j
	}
	forward := now.Wall.Sub(since.Wall) - (now.Boot - since.Boot)
	if now.Boot >= since.Boot && forward > time.Second {
		m.jumps = append(m.jumps, jump{now, len(m.answers)})
	}
}

func (m *leaseModel) extend(c0 clock.Reading) {
	m.see(c0)
	if !m.lost {
		m.answers = append(m.answers, c0)
	}
}

func (m *leaseModel) state(now clock.Reading) leaseState {
	m.see(now)
	_, unsure := m.unsure()
	newest := m.newest()
	switch {
	case m.lost:
		return leaseLost
	case unsure:
		return leaseUnsure
	case max(now.Raw-newest.Raw, now.Boot-newest.Boot) >= 2*(m.ttl/5):
		return leaseJeopardy
	}
	return leaseHeld
}

func (m *leaseModel) left(now clock.Reading) time.Duration {
	m.see(now)
	raw, boot := m.ends()
	left := min(raw-now.Raw, boot-now.Boot)
	if m.lost {
		return min(left, 0)
	}
	return left
}

// TestLeaseAgainstModel: random looks, and renewals whose answers come late, out of order or never, over clocks with rates, suspends and steps.
func TestLeaseAgainstModel(t *testing.T) {
	seen := make(map[leaseState]int)
	for seed := range uint64(150) {
		synctest.Test(t, func(t *testing.T) { runLeaseModel(t, rand.New(rand.NewPCG(seed, 3)), seen) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	for s := leaseHeld; s <= leaseLost; s++ {
		if seen[s] < 100 {
			t.Errorf("%v was seen %d times only: the test did not bite", s, seen[s])
		}
	}
}

func runLeaseModel(t *testing.T, rng *rand.Rand, seen map[leaseState]int) {
	f := clock.NewFake()
	ttl := time.Duration(100+rng.IntN(60_000)) * time.Millisecond
	c0 := f.Now()
	l := newLease(ttl, c0)
	m := &leaseModel{ttl: ttl, answers: []clock.Reading{c0}}
	var pending []clock.Reading
	for step := range 300 {
		time.Sleep(time.Duration(rng.Int64N(int64(ttl / 6))))
		turnKnob(f, rng, ttl)
		now := f.Now()
		if rng.IntN(3) > 0 {
			pending = append(pending, now)
		}
		if n := len(pending); n > 0 && rng.IntN(3) > 0 {
			i := rng.IntN(n)
			l.extend(pending[i])
			m.extend(pending[i])
			pending = append(pending[:i], pending[i+1:]...)
		}
		if rng.IntN(4) == 0 {
			continue // nobody looked
		}
		state, left := l.state(now), l.left(now)
		if want := m.state(now); state != want || left != m.left(now) {
			t.Errorf("step %d: %v with %v left, want %v with %v", step, state, left, want, m.left(now))
			return
		}
		seen[state]++
		if state == leaseLost && step > 20 {
			return
		}
	}
}

func turnKnob(f *clock.Fake, rng *rand.Rand, ttl time.Duration) {
	switch rng.IntN(60) {
	case 0:
		f.SetRate(0.8 + rng.Float64()*0.45)
	case 1:
		f.Suspend(time.Duration(rng.Int64N(int64(ttl / 2))))
	case 2:
		f.Slept(time.Duration(rng.Int64N(int64(ttl / 2))))
	case 3, 4:
		f.StepWall(time.Duration(rng.Int64N(int64(6*time.Second))) - 2*time.Second)
	case 5:
		f.Freeze(time.Duration(rng.Int64N(int64(ttl / 2))))
	}
}
