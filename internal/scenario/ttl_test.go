package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
	"github.com/quorumlock/quorumlock/watch"
)

// fastest is the shortest timing that Config takes.
var fastest = quorumlock.Timing{Heartbeat: 150 * time.Millisecond, Election: 150 * time.Millisecond, Lease: 75 * time.Millisecond}

func timed(timing quorumlock.Timing, voters int) quorumlocktest.Option {
	return quorumlocktest.Configure(func(_ int, cfg *quorumlock.Config) { cfg.Timing, cfg.Voters = timing, voters })
}

// shortSession opens one that must be accepted, with exactly the TTL asked for.
func shortSession(t *testing.T, n *quorumlock.Node, ttl time.Duration) *quorumlock.Session {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s, err := n.NewSession(ctx, ttl)
	if err != nil {
		t.Fatalf("TTL %v: %v", ttl, err)
	}
	if s.TTL() != ttl {
		t.Fatalf("TTL %v became %v", ttl, s.TTL())
	}
	return s
}

// A TTL below 5 s is taken or refused by what the cluster's timing, its voters and its measured round trips allow. Who is refused is told why, and nothing was opened.
func TestShortTTLIsMeasured(t *testing.T) {
	const far = 25 * time.Millisecond // one way; with a follower behind the leader a command takes four of it
	for _, c := range []struct {
		name   string
		opts   []quorumlocktest.Option
		ttl    time.Duration
		reason string // "" is accepted
	}{
		{"1 s, default timing", nil, time.Second, "up to 1.5s (3 heartbeat timeouts of 500ms)"},
		{"3 s, default timing", nil, 3 * time.Second, ""},
		{"1 s, fastest timing", []quorumlocktest.Option{timed(fastest, 3)}, time.Second, ""},
		{"0.9 s, fastest timing", []quorumlocktest.Option{timed(fastest, 3)}, 900 * time.Millisecond, "the least is 950ms"},
		{"1 s, fastest timing, far apart", []quorumlocktest.Option{timed(fastest, 3), quorumlocktest.Latency(far)}, time.Second, "the slowest of"},
		{"0.5 s, one voter", []quorumlocktest.Option{timed(quorumlock.TimingDefault, 1)}, quorumlock.ShortestSessionTTL, ""},
		{"0.5 s, one voter, far apart", []quorumlocktest.Option{timed(quorumlock.TimingDefault, 1), quorumlocktest.Latency(2 * far)}, quorumlock.ShortestSessionTTL, "no successor"},
		{"5 s, far apart", []quorumlocktest.Option{quorumlocktest.Latency(2 * far)}, quorumlock.MinSessionTTL, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				cl := quorumlocktest.New(t, 3, c.opts...)
				on := cl.Node(others(cl, cl.Leader())[0])
				opened := sessionsOpened(on)
				if c.reason == "" {
					s := shortSession(t, on, c.ttl)
					time.Sleep(3 * c.ttl)
					if err := s.Err(); err != nil {
						t.Errorf("lost although accepted: %v", err)
					}
					return
				}
				s, err := on.NewSession(context.Background(), c.ttl)
				if s != nil || !errors.Is(err, quorumlock.ErrInvalid) || !errors.As(err, new(*quorumlock.FieldError)) || !strings.Contains(err.Error(), c.reason) {
					t.Errorf("TTL %v: %v, %v; want a reason with %q", c.ttl, s, err, c.reason)
				}
				t.Log(err)
				time.Sleep(time.Second)
				if n := opened(); n != 0 {
					t.Errorf("%d sessions opened by a refused call", n)
				}
			})
		})
	}
}

// TestLeastTTLs are the figures in the documentation of Node.NewSession.
func TestLeastTTLs(t *testing.T) {
	const step = 50 * time.Millisecond
	for _, c := range []struct {
		timing quorumlock.Timing
		voters int
		least  time.Duration
	}{
		{quorumlock.TimingDefault, 3, 2850 * time.Millisecond},
		{quorumlock.TimingDefault, 5, 2850 * time.Millisecond},
		{quorumlock.TimingFast, 3, 1850 * time.Millisecond},
		{quorumlock.TimingFast, 5, 1850 * time.Millisecond},
		{fastest, 3, 950 * time.Millisecond},
		{fastest, 5, 950 * time.Millisecond},
		{quorumlock.TimingDefault, 1, quorumlock.ShortestSessionTTL},
	} {
		t.Run(fmt.Sprint(c.timing, c.voters), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				cl := quorumlocktest.New(t, c.voters, timed(c.timing, c.voters))
				for i := range c.voters {
					shortSession(t, cl.Node(i), c.least)
					var field *quorumlock.FieldError
					_, err := cl.Node(i).NewSession(context.Background(), c.least-step)
					if !errors.As(err, &field) {
						t.Fatalf("TTL %v on node %d: %v", c.least-step, i, err)
					}
					want := fmt.Sprintf("the least is %v in this cluster now.", c.least)
					if c.least == quorumlock.ShortestSessionTTL {
						want = fmt.Sprintf("must lie between %v ", c.least)
					}
					if !strings.HasPrefix(field.Problem, want) {
						t.Errorf("node %d: %v", i, err)
					}
				}
			})
		})
	}
}

// sessionsOpened counts the sessions that a node opens from now on.
func sessionsOpened(n *quorumlock.Node) func() int {
	opened := make(chan int, 1)
	opened <- 0
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for e := range n.Watch(ctx, "") {
			if e.Kind == watch.SessionOpened && e.ServerID == n.ID() {
				opened <- <-opened + 1
			}
		}
	}()
	return func() int {
		cancel()
		return <-opened
	}
}

// Without a quorum nothing can be measured, and the call ends with its context and says so.
func TestShortTTLWithoutAQuorum(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3, timed(fastest, 3))
		isolateAll(c)
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if _, err := c.Node(0).NewSession(ctx, time.Second); !errors.Is(err, quorumlock.ErrNoQuorum) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
}

// What is accepted lives through the loss of the leader, at each phase of the renewals' rhythm; unless the change took longer than the rule reckons with, as when votes
// are split.
func TestShortSessionsLiveThroughAChangeOfLeader(t *testing.T) {
	for _, set := range []struct {
		timing quorumlock.Timing
		ttl    time.Duration // the least for it
	}{
		{fastest, 950 * time.Millisecond},
		{quorumlock.TimingFast, 1850 * time.Millisecond},
	} {
		t.Run(set.timing.Heartbeat.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3, timed(set.timing, 3))
				ordinary := 0
				for phase := range 8 {
					old := c.Leader()
					on := others(c, old)[phase%2]
					s := shortSession(t, c.Node(on), set.ttl)
					h := lockIn(t, s, fmt.Sprintf("k%d", phase), time.Second)
					time.Sleep(set.ttl + time.Duration(phase)*set.ttl/5/8)
					calm(t, h)
					start := time.Now()
					c.Crash(old)
					c.LeaderExcept(old)
					took := time.Since(start)
					time.Sleep(2 * set.ttl)
					if err := h.Err(); took <= 3*set.timing.Heartbeat {
						if ordinary++; err != nil {
							t.Errorf("phase %d: another leader after %v, and the hold is %v", phase, took, err)
						}
					}
					_ = s.Close()
					c.Start(old)
					c.WaitReady()
					time.Sleep(time.Second)
				}
				if ordinary < 4 {
					t.Errorf("only %d changes of leader took no longer than reckoned", ordinary)
				}
				c.CheckState()
			})
		})
	}
}

// A short session whose instance cannot reach the leader renews through another member, as a long one does: within its short attempts.
func TestShortSessionFindsTheWayAroundACut(t *testing.T) {
	for k := range 2 {
		t.Run(fmt.Sprintf("from instance %d", k), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				const ttl = 1100 * time.Millisecond
				c := quorumlocktest.New(t, 3, timed(fastest, 3))
				lead := c.Leader()
				on := others(c, lead)[k]
				h := lockIn(t, shortSession(t, c.Node(on), ttl), "k", time.Second)
				cutBoth(c, on, lead)
				time.Sleep(30 * time.Second)
				if err := h.Err(); err != nil {
					t.Errorf("hold: %v", err)
				}
				if c.Leader() != lead {
					t.Fatal("leadership has moved: the fault did not bite")
				}
				c.Heal()
				c.WaitReady()
				c.CheckState()
			})
		})
	}
}

// With the shortest TTL all is as with a long one, only shorter: no false alarm in a minute of quiet, a loss that is reported in time, and a successor soon after the TTL.
func TestShortestSession(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3, timed(quorumlock.TimingDefault, 1))
		a, b := others(c, c.Leader())[0], others(c, c.Leader())[1]
		const ttl = quorumlock.ShortestSessionTTL
		h := lockIn(t, shortSession(t, c.Node(a), ttl), "k", time.Second)
		worried := h.Jeopardy()
		time.Sleep(time.Minute)
		if closed(worried) {
			t.Error("an alarm without a reason")
		}
		calm(t, h)
		next := lockLater(t, shortSession(t, c.Node(b), ttl), "k", time.Minute)
		time.Sleep(time.Second)
		cut := time.Now()
		c.Isolate(a)
		<-h.Done()
		if after := time.Since(cut); after > ttl*4/5+reportBound {
			t.Errorf("loss reported after %v", after)
		}
		expired(t, h)
		second := next.get()
		if after := time.Since(cut); after > ttl+time.Second {
			t.Errorf("replaced after %v", after)
		}
		unlock(t, second)
		c.Heal()
		c.CheckState()
	})
}

// What the rule counts on: at each phase of the renewals the shortest session outlasts a gap of nearly half its TTL, since a renewal is never begun later than a
// quarter of the interval. The clocks are a little slow, so that an interval is not a multiple of anything.
func TestShortestSessionOutlastsAGap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3, timed(quorumlock.TimingDefault, 1))
		a := others(c, c.Leader())[0]
		c.Clock(a).SetRate(0.99)
		const gap = 235 * time.Millisecond // of 250
		h := lockIn(t, shortSession(t, c.Node(a), quorumlock.ShortestSessionTTL), "k", time.Second)
		for range 40 {
			time.Sleep(507 * time.Millisecond) // drifts over all phases
			c.Isolate(a)
			time.Sleep(gap)
			c.Heal()
			if err := h.Err(); err != nil {
				t.Fatalf("after a gap of %v: %v", gap, err)
			}
		}
		c.WaitReady()
		c.CheckState()
	})
}

// A3 at work with the shortest TTLs: with rates of 1.2x apart, whichever side is fast, the holder stops before the next one starts.
func TestShortSessionsWithinA3(t *testing.T) {
	for _, ttl := range []time.Duration{quorumlock.ShortestSessionTTL, time.Second, 3 * time.Second} {
		for _, rate := range []float64{1 / 1.2, 1.2} {
			t.Run(fmt.Sprintf("TTL %v, holder at %.2f", ttl, rate), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					t.Logf("margin %v", driftingShort(t, ttl, rate).exclusive(5))
				})
			})
		}
	}
}

// The negative control: beyond A3 the overlap must show.
func TestShortSessionsBeyondA3Overlap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		// Every 100 ms the leader looks for what is due, so that only a wide overlap shows for certain.
		w := driftingShort(t, time.Second, 1/1.8)
		for _, margin := range w.margins() {
			if margin > 0 {
				t.Errorf("no overlap: %v", margin)
			}
		}
		if len(w.margins()) != 5 {
			t.Errorf("%d holds had a successor, want 5", len(w.margins()))
		}
	})
}

// driftingShort gives one instance clocks that run at rate, and five short sessions, each at another phase of its renewals when the instance is cut off; they have
// successors.
func driftingShort(t *testing.T, ttl time.Duration, rate float64) *witness {
	c := quorumlocktest.New(t, 3, timed(quorumlock.TimingDefault, 1))
	a, b := others(c, c.Leader())[0], others(c, c.Leader())[1]
	w := newWitness(t, c)
	c.Clock(a).SetRate(rate)
	var holds []*quorumlock.Hold
	var successors []awaited
	for i := range 5 {
		h := lockIn(t, shortSession(t, c.Node(a), ttl), fmt.Sprintf("k%d", i), time.Second)
		w.see(h)
		holds = append(holds, h)
		time.Sleep(ttl / 5 / 5)
	}
	for _, h := range holds {
		successors = append(successors, lockLater(t, c.Node(b), h.Name(), time.Minute))
	}
	time.Sleep(5 * time.Second) // past the grace of the leader's promotion
	for _, h := range holds {
		calm(t, h)
	}
	c.Isolate(a)
	for i, h := range holds {
		unlock(t, successors[i].get())
		<-h.Done()
		expired(t, h)
	}
	c.Heal()
	c.WaitReady()
	c.CheckState()
	return w
}
