package scenario_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// runner is one call of Run, whose lead goes on for a while after its context has ended.
type runner struct {
	began  chan *quorumlock.Leadership
	ended  chan error     // the cause with which lead's context ended
	over   chan time.Time // when lead returned
	result chan error     // of Run
	stop   context.CancelFunc
}

func startRun(o quorumlock.Owner, name, value string, workOn time.Duration) *runner {
	r := &runner{
		began: make(chan *quorumlock.Leadership, 64), ended: make(chan error, 64), over: make(chan time.Time, 64), result: make(chan error, 1),
	}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(context.Background())
	go func() {
		r.result <- quorumlock.NewElection(o, name).Run(ctx, value, func(ctx context.Context, l *quorumlock.Leadership) error {
			r.began <- l
			<-ctx.Done()
			r.ended <- context.Cause(ctx)
			time.Sleep(workOn)
			r.over <- time.Now()
			return ctx.Err()
		})
	}()
	return r
}

func (r *runner) leads(t *testing.T, bound time.Duration) *quorumlock.Leadership {
	t.Helper()
	return within(t, "a term", bound, r.began)
}

// stopped ends the run, which must leave nothing behind.
func (r *runner) stopped(t *testing.T) {
	t.Helper()
	r.stop()
	if err := within(t, "the end of Run", grantBound, r.result); !errors.Is(err, context.Canceled) || errors.Is(err, quorumlock.ErrLost) {
		t.Errorf("Run that was stopped returned %v", err)
	}
}

// S54: the leader loses three times: to a partition, to an operator, to the restart of the quorum. Run goes on by itself, lead is told each cause, each term has a later token
// and the value that Run was given, and when its context ends Run stops and leaves nothing behind.
func TestRunCampaignsAgainAfterEachLoss(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		_, f := roles(c)
		r := startRun(c.Node(f[0]), "e", "v", 0)
		l := r.leads(t, grantBound)
		for _, loss := range []struct {
			name       string
			cause      quorumlock.Cause
			begin, end func()
		}{
			{"partition", quorumlock.CauseNoQuorum, func() { c.Isolate(f[0]) }, c.Heal},
			{"revoke", quorumlock.CauseForced, func() { revoke(t, c.Node(f[1]), "e", l.Token()) }, func() {}},
			{"restart of the quorum", quorumlock.CauseNoQuorum, func() { crashAllBut(c, f[0]) }, func() { startAllBut(c, f[0]) }},
		} {
			if err := l.Proclaim(context.Background(), "changed"); err != nil {
				t.Error(err)
			}
			loss.begin()
			var lost *quorumlock.LostError
			if cause := within(t, loss.name, quorumTTL, r.ended); !errors.As(cause, &lost) || lost.Cause != loss.cause || lost.Token != l.Token() {
				t.Errorf("%s: lead's context ended with %v", loss.name, cause)
			}
			if err := l.Err(); !errors.Is(err, quorumlock.ErrLost) || !closed(l.Done()) {
				t.Errorf("%s: Err is %v", loss.name, err)
			}
			if err := l.Proclaim(context.Background(), "late"); !errors.Is(err, quorumlock.ErrLost) {
				t.Errorf("%s: Proclaim returned %v", loss.name, err)
			}
			if err := l.Resign(); err == nil {
				t.Errorf("%s: Resign returned nil", loss.name)
			}
			loss.end()
			again := r.leads(t, deadBound)
			if again.Token() <= l.Token() {
				t.Errorf("%s: token %v after %v", loss.name, again.Token(), l.Token())
			}
			l = again
			if shown, err := leaderShown(t, c.Node(f[0]), "e"); err != nil || shown.Token != l.Token() || shown.Value != "v" {
				t.Errorf("%s: shown as %+v, %v", loss.name, shown, err)
			}
		}
		r.stopped(t)
		if cause := <-r.ended; !errors.Is(cause, context.Canceled) {
			t.Errorf("stopped: %v", cause)
		}
		becomesFree(t, c, "e", time.Second)
		c.CheckState()
	})
}

// What lead returns ends Run while it leads, and does not while the leadership is lost.
func TestRunReturnsWhatLeadReturned(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		e := quorumlock.NewElection(c.Node(0), "e")
		for _, want := range []error{nil, errWork} {
			err := e.Run(context.Background(), "v", func(context.Context, *quorumlock.Leadership) error { return want })
			if !errors.Is(err, want) || (err == nil) != (want == nil) {
				t.Errorf("Run returned %v, want %v", err, want)
			}
			becomesFree(t, c, "e", 10*time.Millisecond)
		}
		terms := 0
		err := e.Run(context.Background(), "v", func(ctx context.Context, l *quorumlock.Leadership) error {
			if terms++; terms <= 2 {
				revoke(t, c.Node(1), "e", l.Token())
				<-ctx.Done()
				if terms == 1 {
					return nil
				}
			}
			return errWork
		})
		if terms != 3 || !errors.Is(err, errWork) || errors.Is(err, quorumlock.ErrLost) {
			t.Errorf("%d terms, %v", terms, err)
		}
		c.CheckState()
	})
}

// When ctx ends Run says so, with what lead has to say beside it: while it campaigns, while it leads, and before it has begun.
func TestRunEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		why := errors.New("the service stops")
		for name, says := range map[string]func(ctx context.Context) error{
			"nothing": func(context.Context) error { return nil }, "the ctx error": context.Context.Err, "the cause": context.Cause,
			"an error": func(context.Context) error { return errWork },
		} {
			ctx, stop := context.WithCancelCause(context.Background())
			err := quorumlock.NewElection(c.Node(0), "e").Run(ctx, "v", func(ctx context.Context, l *quorumlock.Leadership) error {
				stop(why)
				<-ctx.Done()
				if err := l.Err(); err != nil { // what is left to do may still be done
					t.Errorf("the leadership ended with Run's ctx: %v", err)
				}
				return says(ctx)
			})
			var wait *quorumlock.WaitError
			if !errors.As(err, &wait) || !errors.Is(err, context.Canceled) || errors.Is(err, errWork) != (name == "an error") || strings.Count(err.Error(), "\n") > 1 {
				t.Errorf("lead returned %s: %v", name, err)
			}
			becomesFree(t, c, "e", 10*time.Millisecond)
		}
		l := leadNow(t, c.Node(1), "e", "other")
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		never := func(context.Context, *quorumlock.Leadership) error { t.Error("lead was called"); return nil }
		for range 2 { // the second time it has ended before
			endsIn(t, "Run", 1100*time.Millisecond, func() {
				err := quorumlock.NewElection(c.Node(0), "e").Run(ctx, "v", never)
				var wait *quorumlock.WaitError
				if !errors.As(err, &wait) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Run returned %v", err)
				}
			})
		}
		queueBecomes(t, c, "e", 0, ghostBound)
		resign(t, l)
		c.CheckState()
	})
}

func TestRunResignsWhenLeadPanics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		s := openSession(t, c.Node(1))
		var kept *quorumlock.Leadership
		func() {
			defer func() {
				if r := recover(); r != "boom" {
					t.Errorf("recovered %v", r)
				}
			}()
			_ = quorumlock.NewElection(s, "e").Run(context.Background(), "v", func(_ context.Context, l *quorumlock.Leadership) error {
				kept = l
				panic("boom")
			})
		}()
		if err := kept.Err(); err != quorumlock.ErrResigned {
			t.Errorf("after the panic: %v", err)
		}
		if err := kept.Resign(); err != quorumlock.ErrResigned {
			t.Errorf("Resign after the panic: %v", err)
		}
		becomesFree(t, c, "e", 10*time.Millisecond)
		endsIn(t, "closing the session", 100*time.Millisecond, func() { // no callback is counted as still at work
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		c.CheckState()
	})
}

// S51: a lead that needs three seconds to stop is told at once that it leads no more, and its successor begins after it has returned: after Resign and HandOver, and when the node
// closes or leaves. The one that resigned campaigns again, behind the others.
func TestSuccessorBeginsAfterLeadHasReturned(t *testing.T) {
	const workOn = 3 * time.Second
	for name, way := range map[string]struct {
		end   func(t *testing.T, c *quorumlocktest.Cluster, l *quorumlock.Leadership)
		cause error
		goes  bool // the node is gone afterwards
	}{
		"resign":    {end: func(t *testing.T, _ *quorumlocktest.Cluster, l *quorumlock.Leadership) { resign(t, l) }, cause: quorumlock.ErrResigned},
		"hand over": {end: func(t *testing.T, _ *quorumlocktest.Cluster, l *quorumlock.Leadership) { handOver(t, l, nodeName(1)) }, cause: quorumlock.ErrResigned},
		"close": {
			end: func(t *testing.T, c *quorumlocktest.Cluster, _ *quorumlock.Leadership) { go func() { _ = c.Stop(0) }() }, cause: quorumlock.ErrClosed, goes: true,
		},
		"leave": {
			end: func(t *testing.T, c *quorumlocktest.Cluster, _ *quorumlock.Leadership) {
				go func() { _ = c.Leave(context.Background(), 0) }()
			}, cause: quorumlock.ErrClosed, goes: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3)
				a := startRun(c.Node(0), "e", "a", workOn)
				l := a.leads(t, grantBound)
				b := campaign(t, c.Node(1), "e", "b").queued(c, "e", 1)
				began := time.Now()
				endsIn(t, name, time.Second, func() { way.end(t, c, l) })
				if cause := within(t, "the end of lead's context", reportBound, a.ended); !errors.Is(cause, way.cause) {
					t.Errorf("lead's context ended with %v", cause)
				}
				if err := l.Err(); !errors.Is(err, way.cause) || !closed(l.Done()) {
					t.Errorf("while lead still works: %v", err)
				}
				next := b.leads(grantBound)
				if over := <-a.over; b.at.Before(over) || over.Sub(began) < workOn {
					t.Errorf("the successor began at %v, lead returned at %v", b.at.Sub(began), over.Sub(began))
				}
				if b.at.Sub(began) > workOn+time.Second {
					t.Errorf("the successor began only after %v", b.at.Sub(began))
				}
				if way.goes {
					if err := within(t, "the end of Run", closeBound, a.result); !errors.Is(err, quorumlock.ErrClosed) || errors.Is(err, context.Canceled) {
						t.Errorf("Run returned %v", err)
					}
					time.Sleep(closeBound) // Close ends in the background
				} else {
					queueBecomes(t, c, "e", 1, time.Second) // it campaigns again
				}
				resign(t, next)
				if !way.goes {
					if again := a.leads(t, time.Second); again.Token() <= next.Token() {
						t.Errorf("token %v after %v", again.Token(), next.Token())
					}
					a.stopped(t)
				}
				becomesFree(t, c, "e", grantBound)
				c.CheckState()
			})
		})
	}
}

// A lead that ignores its context keeps others out until the TTL decides, and Run neither campaigns nor returns before it has returned.
func TestLeadThatIgnoresItsContextKeepsOthersOutUntilTheTTL(t *testing.T) {
	for name, end := range map[string]func(c *quorumlocktest.Cluster, a int){
		"close": func(c *quorumlocktest.Cluster, a int) { go func() { _ = c.Stop(a) }() },
		"cut":   func(c *quorumlocktest.Cluster, a int) { c.Isolate(a) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3)
				_, f := roles(c)
				r := startRun(c.Node(f[0]), "e", "a", time.Minute)
				l := r.leads(t, grantBound)
				b := campaign(t, c.Node(f[1]), "e", "b").queued(c, "e", 1)
				began := time.Now()
				end(c, f[0])
				within(t, "the end of lead's context", quorumTTL, r.ended)
				next := b.leads(2 * deadBound)
				if took := b.at.Sub(began); took < quorumTTL-quorumTTL/5 {
					t.Errorf("the successor began after %v", took)
				}
				if next.Token() <= l.Token() {
					t.Errorf("token %v after %v", next.Token(), l.Token())
				}
				c.Heal()
				time.Sleep(30 * time.Second)
				queueBecomes(t, c, "e", 0, time.Second) // it does not campaign while lead works
				if err := next.Err(); err != nil {
					t.Error(err)
				}
				<-r.over
				if name == "close" {
					if err := within(t, "the end of Run", time.Second, r.result); !errors.Is(err, quorumlock.ErrClosed) {
						t.Errorf("Run returned %v", err)
					}
				} else {
					queueBecomes(t, c, "e", 1, 2*time.Second)
					r.stopped(t)
				}
				resign(t, next)
				becomesFree(t, c, "e", ghostBound)
				c.CheckState()
			})
		})
	}
}

// Run of a session ends with it: with the loss, or because it was closed, while it leads and while it waits.
func TestRunOfASessionEndsWithIt(t *testing.T) {
	for name, end := range map[string]func(c *quorumlocktest.Cluster, s *quorumlock.Session, a int){
		"lost":   func(c *quorumlocktest.Cluster, _ *quorumlock.Session, a int) { c.Isolate(a) },
		"closed": func(_ *quorumlocktest.Cluster, s *quorumlock.Session, _ int) { _ = s.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3)
				_, f := roles(c)
				s := openSession(t, c.Node(f[0]))
				leads := startRun(s, "e", "a", 0)
				l := leads.leads(t, grantBound)
				waits := startRun(s, "e", "b", 0)
				queueBecomes(t, c, "e", 1, time.Second)
				end(c, s, f[0])
				for what, r := range map[string]*runner{"leading": leads, "waiting": waits} {
					var lost *quorumlock.LostError
					if err := within(t, "Run", quorumTTL, r.result); !errors.As(err, &lost) || errors.Is(err, quorumlock.ErrClosed) != (name == "closed") {
						t.Errorf("%s: Run returned %v", what, err)
					}
				}
				if err := l.Err(); !errors.Is(err, quorumlock.ErrLost) {
					t.Errorf("the leadership: %v", err)
				}
				endsIn(t, "a campaign on a dead session", 0, func() {
					if _, err := quorumlock.NewElection(s, "e").Campaign(context.Background(), "v"); !errors.Is(err, quorumlock.ErrLost) {
						t.Errorf("it returned %v", err)
					}
				})
				c.Heal()
				becomesFree(t, c, "e", 2*deadBound)
				c.CheckState()
			})
		})
	}
}

// A forced release does not end a session, so its candidate campaigns again; one that resigns whenever it is called does so at a human pace.
func TestRunGoesOnAtAHumanPace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		s := openSession(t, c.Node(0))
		terms := 0
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err := quorumlock.NewElection(s, "e").Run(ctx, "v", func(ctx context.Context, l *quorumlock.Leadership) error {
			if terms++; terms%2 == 0 {
				revoke(t, c.Node(1), "e", l.Token())
				return ctx.Err()
			}
			return l.Resign()
		})
		if !errors.Is(err, context.DeadlineExceeded) || terms < 50 || terms > 100 {
			t.Errorf("%d terms in 10 s, %v", terms, err)
		}
		if err := s.Err(); err != nil {
			t.Errorf("the session: %v", err)
		}
		c.CheckState()
	})
}

// MaxHold ends a term and not the run.
func TestRunWithMaxHold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		terms := 0
		err := quorumlock.NewElection(c.Node(0), "e", quorumlock.MaxHold(2*time.Second)).Run(ctx, "v", func(ctx context.Context, l *quorumlock.Leadership) error {
			terms++
			<-ctx.Done()
			var lost *quorumlock.LostError
			if cause := context.Cause(ctx); terms < 5 && (!errors.As(cause, &lost) || lost.Cause != quorumlock.CauseMaxHold) {
				t.Errorf("term %d ended with %v", terms, cause)
			}
			return nil
		})
		if !errors.Is(err, context.DeadlineExceeded) || terms != 5 {
			t.Errorf("%d terms, %v", terms, err)
		}
		becomesFree(t, c, "e", time.Second)
		c.CheckState()
	})
}
