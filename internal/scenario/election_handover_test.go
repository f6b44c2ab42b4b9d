package scenario_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

func handOver(t *testing.T, l *quorumlock.Leadership, node string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), grantBound)
	defer cancel()
	if err := l.HandOver(ctx, node); err != nil {
		t.Fatalf("hand over to %s: %v", node, err)
	}
	if err := l.Err(); err != quorumlock.ErrResigned || !closed(l.Done()) {
		t.Errorf("after HandOver: %v", err)
	}
}

// noCandidate checks that a leader that names nobody who waits leads on.
func noCandidate(t *testing.T, l *quorumlock.Leadership, node string) {
	t.Helper()
	err := l.HandOver(context.Background(), node)
	var none *quorumlock.CandidateError
	if !errors.As(err, &none) || !errors.Is(err, quorumlock.ErrNoCandidate) || none.Node != node || none.Released {
		t.Errorf("hand over to %s: %v", node, err)
	}
	if err := l.Err(); err != nil || closed(l.Done()) {
		t.Errorf("it leads no more: %v", err)
	}
}

// Leadership goes to the candidate that was named, wherever it stands in line, by name or by server id; the others keep their places.
func TestHandOverOutOfLine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		a := leadNow(t, c.Node(0), "e", "a")
		noCandidate(t, a, nodeName(1))
		b := campaign(t, c.Node(1), "e", "b").queued(c, "e", 1)
		first := campaign(t, c.Node(2), "e", "first").queued(c, "e", 2)
		second := campaign(t, c.Node(2), "e", "second").queued(c, "e", 3)
		noCandidate(t, a, nodeName(7))
		noCandidate(t, a, nodeName(0))
		g := observe(t, c.Node(1), "e")
		handOver(t, a, nodeName(2))
		won := first.leads(time.Second)
		info := lockShown(t, c, "e")
		if len(info.Queue) != 2 || info.Queue[0].Node != nodeName(1) || info.Queue[1].Node != nodeName(2) || len(info.Holders) != 1 || info.Holders[0].Value != "first" {
			t.Errorf("after the first: %+v", info)
		}
		handOver(t, won, c.Node(2).ID())
		last := second.leads(time.Second)
		resign(t, last)
		end := b.leads(time.Second)
		g.becomes(t, "the observer", []string{
			line("node-0", "a", a.Token()), "nobody", line("node-2", "first", won.Token()), "nobody", line("node-2", "second", last.Token()), "nobody",
			line("node-1", "b", end.Token()),
		})
		resign(t, end)
		becomesFree(t, c, "e", time.Second)
		c.CheckState()
	})
}

// Within Run leadership passes to the candidate that was named when lead has returned; the one that gave it campaigns again, behind the others. If the candidate has gone by then, whoever is
// next in line leads.
func TestHandOverWithinRun(t *testing.T) {
	for name, vanishes := range map[string]bool{"candidate stays": false, "candidate vanishes": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3)
				r := startRun(c.Node(0), "e", "a", time.Second)
				a := r.leads(t, grantBound)
				noCandidate(t, a, nodeName(2))
				b := campaign(t, c.Node(1), "e", "b").queued(c, "e", 1)
				d := campaign(t, c.Node(2), "e", "d").queued(c, "e", 2)
				handOver(t, a, nodeName(2))
				if vanishes {
					d.cancel()
					queueBecomes(t, c, "e", 1, 500*time.Millisecond)
				}
				if cause := within(t, "the end of lead's context", reportBound, r.ended); cause != quorumlock.ErrResigned {
					t.Errorf("lead's context ended with %v", cause)
				}
				next, waits := d, b
				if vanishes {
					next, waits = b, d
				}
				l := next.leads(2 * time.Second)
				if over := <-r.over; next.at.Before(over) {
					t.Errorf("the successor began %v before lead returned", over.Sub(next.at))
				}
				if closed(waits.done) != vanishes {
					t.Errorf("the other one's campaign ended: %v", waits.err)
				}
				if !vanishes {
					queueBecomes(t, c, "e", 2, time.Second)
					resign(t, l)
					l = b.leads(time.Second)
				} else {
					queueBecomes(t, c, "e", 1, time.Second)
				}
				resign(t, l)
				again := r.leads(t, time.Second)
				if again.Token() <= l.Token() {
					t.Errorf("token %v after %v", again.Token(), l.Token())
				}
				r.stopped(t)
				becomesFree(t, c, "e", time.Second)
				c.CheckState()
			})
		})
	}
}

// The set of a MultiMutex waits for the name too, and can not be given it alone: the next candidate of its node is taken, and the line where there is none.
func TestHandOverPassesOverWhatWaitsForMore(t *testing.T) {
	for name, another := range map[string]bool{"another candidate": true, "no other": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3)
				a := leadNow(t, c.Node(0), "e", "a")
				b := campaign(t, c.Node(1), "e", "b").queued(c, "e", 1)
				ctx, cancel := context.WithCancel(context.Background())
				set := make(chan error, 1)
				go func() {
					_, err := quorumlock.NewMultiMutex(c.Node(2), "e", "f").Lock(ctx)
					set <- err
				}()
				queueBecomes(t, c, "e", 2, time.Second)
				if another {
					d := campaign(t, c.Node(2), "e", "d").queued(c, "e", 3)
					handOver(t, a, nodeName(2))
					resign(t, d.leads(time.Second))
				} else {
					err := a.HandOver(context.Background(), nodeName(2))
					var none *quorumlock.CandidateError
					if !errors.As(err, &none) || !none.Released || a.Err() != quorumlock.ErrResigned {
						t.Errorf("hand over to a set: %v; %v", err, a.Err())
					}
				}
				next := b.leads(time.Second)
				cancel()
				if err := <-set; !errors.Is(err, context.Canceled) {
					t.Errorf("the set: %v", err)
				}
				resign(t, next)
				becomesFree(t, c, "e", ghostBound)
				c.CheckState()
			})
		})
	}
}

// handOverAt hands over to the second in line while something goes wrong that long after the beginning, and checks that somebody leads afterwards, at the latest
// when those that died have expired.
func handOverAt(t *testing.T, after time.Duration, goesWrong func(c *quorumlocktest.Cluster, lead, d int, candidate *candidate)) (result error) {
	t.Helper()
	c := quorumlocktest.New(t, 3, quorumlocktest.Latency(time.Millisecond))
	lead, f := roles(c)
	a := leadNow(t, c.Node(f[0]), "e", "a")
	b := campaign(t, c.Node(f[0]), "e", "b").queued(c, "e", 1)
	d := campaign(t, c.Node(f[1]), "e", "d").queued(c, "e", 2)
	go func() {
		time.Sleep(after)
		goesWrong(c, lead, f[1], d)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), grantBound)
	defer cancel()
	err := a.HandOver(ctx, nodeName(f[1]))
	if end := a.Err(); err == nil && end != quorumlock.ErrResigned || errors.Is(err, quorumlock.ErrLost) {
		t.Errorf("after %v: HandOver returned %v, the leadership is %v", after, err, end)
	}
	time.Sleep(time.Second) // whatever goes wrong has done so
	if a.Err() == nil {
		resign(t, a)
	}
	var leads []*candidate
	for ended := time.Now().Add(2 * deadBound); len(leads) == 0 && time.Now().Before(ended); time.Sleep(10 * time.Millisecond) {
		for _, w := range []*candidate{b, d} {
			if closed(w.done) && w.err == nil && w.leadership.Err() == nil {
				leads = append(leads, w)
			}
		}
	}
	if len(leads) != 1 || leads[0].leadership.Token() <= a.Token() {
		t.Fatalf("after %v: %d lead; HandOver returned %v", after, len(leads), err)
	}
	first := leads[0]
	resign(t, first.leadership)
	if first == d {
		resign(t, b.leads(grantBound))
	} else {
		d.cancel()
		if within(t, "the end of the candidate", deadBound, d.done); d.err == nil && d.leadership.Err() == nil {
			resign(t, d.leadership)
		}
	}
	becomesFree(t, c, "e", 2*deadBound)
	c.CheckState()
	return err
}

// The candidate gives up, its node dies, or the raft leader does, at every moment of a hand over. Somebody leads afterwards, never two.
func TestHandOverWhileItGoesWrong(t *testing.T) {
	for name, way := range map[string]func(c *quorumlocktest.Cluster, lead, d int, candidate *candidate){
		"candidate gives up": func(_ *quorumlocktest.Cluster, _, _ int, d *candidate) { d.cancel() },
		"node dies":          func(c *quorumlocktest.Cluster, _, d int, _ *candidate) { c.Crash(d) },
		"raft leader dies":   func(c *quorumlocktest.Cluster, lead, _ int, _ *candidate) { c.Crash(lead) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outcomes := make(chan error, 5)
			t.Run("moments", func(t *testing.T) {
				for after := time.Duration(0); after <= 8*time.Millisecond; after += 2 * time.Millisecond {
					t.Run(after.String(), func(t *testing.T) {
						bubble(t, func(t *testing.T) { outcomes <- handOverAt(t, after, way) })
					})
				}
			})
			close(outcomes)
			worked := 0
			for err := range outcomes {
				if err == nil {
					worked++
				}
			}
			if worked == 0 || worked == cap(outcomes) && name == "candidate gives up" {
				t.Errorf("%d of %d worked: the moment was missed", worked, cap(outcomes))
			}
		})
	}
}

// When the ctx of HandOver ends, at whatever moment, the leader either leads on or the rest is done in the background.
func TestHandOverWhoseContextEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3, quorumlocktest.Latency(time.Millisecond))
		_, f := roles(c)
		outcomes := make(map[string]int)
		for bound := time.Duration(0); bound <= 16*time.Millisecond; bound += time.Millisecond {
			a := leadNow(t, c.Node(f[0]), "e", "a")
			b := campaign(t, c.Node(f[1]), "e", "b").queued(c, "e", 1)
			ctx, cancel := context.WithTimeout(context.Background(), bound)
			err := a.HandOver(ctx, nodeName(f[1]))
			cancel()
			switch end := a.Err(); {
			case err == nil:
				outcomes["done"]++
			case !errors.Is(err, context.DeadlineExceeded):
				t.Errorf("after %v: %v", bound, err)
			case end == nil:
				outcomes["leads on"]++
				resign(t, a)
			default:
				outcomes["in the background"]++
			}
			resign(t, b.leads(time.Second))
			becomesFree(t, c, "e", time.Second)
		}
		if len(outcomes) != 3 {
			t.Errorf("only %v", outcomes)
		}
		c.CheckState()
	})
}

// Without a quorum nobody can be asked who waits: the leader leads on for as long as its lease lasts.
func TestHandOverWithoutAQuorum(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		_, f := roles(c)
		a := leadNow(t, c.Node(f[0]), "e", "a")
		b := campaign(t, c.Node(f[1]), "e", "b").queued(c, "e", 1)
		c.Isolate(f[0])
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if err := a.HandOver(ctx, nodeName(f[1])); !errors.Is(err, quorumlock.ErrNoQuorum) || a.Err() != nil {
			t.Errorf("HandOver returned %v, the leadership is %v", err, a.Err())
		}
		c.Heal()
		time.Sleep(2 * time.Second)
		handOver(t, a, nodeName(f[1]))
		resign(t, b.leads(grantBound))
		c.CheckState()
	})
}

// The successor's term begins with the commit of the hand over, of which the leader hears later: it must have stopped before.
func TestHandOverEndsTheTermBeforeTheSuccessorsBegins(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3, quorumlocktest.Latency(5*time.Millisecond))
		lead, f := roles(c)
		a := leadNow(t, c.Node(f[0]), "e", "a")
		b := campaign(t, c.Node(lead), "e", "b").queued(c, "e", 1) // hears of its grant first
		result := make(chan error, 1)
		go func() { result <- a.HandOver(context.Background(), nodeName(lead)) }()
		within(t, "the grant", grantBound, b.done)
		if closed(b.done) && a.Err() == nil {
			t.Error("two lead")
		}
		if len(result) > 0 {
			t.Error("the answer came before the successor led: the moment was missed")
		}
		if err := within(t, "HandOver", time.Second, result); err != nil {
			t.Error(err)
		}
		resign(t, b.leads(time.Millisecond))
		c.CheckState()
	})
}

// The same where the answer is lost, and within Run.
func TestHandOverWhoseAnswerIsLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		lead, f := roles(c)
		r := startRun(c.Node(f[0]), "e", "a", 500*time.Millisecond)
		a := r.leads(t, grantBound)
		b := campaign(t, c.Node(lead), "e", "b").queued(c, "e", 1)
		handOver(t, a, nodeName(lead)) // it waits for lead
		c.Cut(lead, f[0])
		next := b.leads(grantBound)
		if a.Err() == nil {
			t.Error("two lead")
		}
		c.Heal()
		within(t, "the end of lead", time.Millisecond, r.over)
		queueBecomes(t, c, "e", 1, grantBound) // and campaigns again
		if err := next.Err(); err != nil {
			t.Errorf("the successor: %v", err)
		}
		resign(t, next)
		r.leads(t, time.Second)
		r.stopped(t)
		c.CheckState()
	})
}
