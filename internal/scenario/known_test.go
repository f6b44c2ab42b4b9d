package scenario_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// The grant is known from the node's own state machine while the answer hangs with the leader: the call returns with it, and does not wait for the answer.
func TestGrantIsTakenFromWhicheverTellsFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		l, f := roles(c)
		s := openSession(t, c.Node(f[0]))
		c.Network().HoldReplies(c.Host(l), true)
		h := asked(t, quorumlock.NewMutex(s, "k").Lock).granted(500 * time.Millisecond)
		shared := asked(t, quorumlock.NewRWMutex(s, "rw").Lock).granted(500 * time.Millisecond)
		read := asked(t, func(ctx context.Context) (*quorumlock.Hold, error) {
			return quorumlock.NewRWMutex(s, "rw").Downgrade(ctx, shared)
		}).granted(500 * time.Millisecond)
		if err := errors.Join(h.Err(), read.Err()); err != nil {
			t.Error(err)
		}
		c.Network().HoldReplies(c.Host(l), false)
		unlock(t, h)
		unlock(t, read)
		becomesFree(t, c, "k", time.Second)
		becomesFree(t, c, "rw", time.Second)
		c.CheckState()
	})
}

// Its session is closed or lost as soon as the grant is known, and the answer still hangs: the loss is told as such, and Run of a node campaigns again.
func TestLossBetweenGrantAndAnswer(t *testing.T) {
	for name, end := range map[string]struct {
		end  func(c *quorumlocktest.Cluster, i int, s *quorumlock.Session)
		want error
	}{
		"closed":  {func(_ *quorumlocktest.Cluster, _ int, s *quorumlock.Session) { go s.Close() }, quorumlock.ErrClosed},
		"expired": {func(c *quorumlocktest.Cluster, i int, _ *quorumlock.Session) { c.Expire(i) }, quorumlock.ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3)
				l, f := roles(c)
				s := openSession(t, c.Node(f[0]))
				c.Network().HoldReplies(c.Host(l), true)
				h := asked(t, quorumlock.NewMutex(s, "k").Lock).granted(500 * time.Millisecond)
				end.end(c, f[0], s)
				time.Sleep(10 * time.Millisecond)
				if err := h.Err(); !errors.Is(err, quorumlock.ErrLost) || !errors.Is(err, end.want) {
					t.Errorf("the hold: %v", err)
				}
				_, err := quorumlock.NewMutex(s, "other").Lock(context.Background())
				if !errors.Is(err, end.want) || errors.Is(err, context.Canceled) {
					t.Errorf("a claim: %v", err)
				}
				c.Network().HoldReplies(c.Host(l), false)
				becomesFree(t, c, "k", deadBound)
			})
		})
	}
}

func TestRunGoesOnAfterALossBetweenGrantAndAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		l, f := roles(c)
		unlock(t, lockIn(t, c.Node(f[0]), "warm", time.Second))
		c.Network().HoldReplies(c.Host(l), true)
		ctx, cancel := context.WithCancel(context.Background())
		terms := make(chan quorumlock.Token, 8)
		done := make(chan error, 1)
		go func() {
			done <- quorumlock.NewElection(c.Node(f[0]), "e").Run(ctx, "v", func(ctx context.Context, l *quorumlock.Leadership) error {
				terms <- l.Token()
				<-ctx.Done()
				return nil
			})
		}()
		first := <-terms
		c.Expire(f[0])
		c.Network().HoldReplies(c.Host(l), false)
		select {
		case next := <-terms:
			if next <= first {
				t.Errorf("token %v after %v", next, first)
			}
		case err := <-done:
			t.Fatalf("Run gave up: %v", err)
		case <-time.After(deadBound):
			t.Fatal("Run leads no more")
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// A claim is granted while the clocks of its machine leave everything in doubt: nobody begins to work before a round trip has cleared it up. If that shows that the hold is gone, the call says so.
func TestNobodyBeginsToWorkUnderAnUnsureHold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		l, f := roles(c)
		h := lockIn(t, c.Node(l), "k", time.Second)
		w := waitQueued(t, c, c.Node(f[0]), "k", 1)
		c.Clock(f[0]).StepWall(5 * time.Second)
		unlock(t, h)
		g := w.granted(2 * time.Second)
		if err := g.Err(); err != nil {
			t.Errorf("Lock returned a hold that says %v", err)
		}
		unlock(t, g)
	})
}

// A guest is frozen with all of its clocks, so that A4 does not hold, while its grant is on the way; its session has ended when it goes on.
func TestFrozenGuestBeginsNoWork(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		l, f := roles(c)
		h := lockIn(t, c.Node(l), "k", time.Second)
		done := make(chan error, 1)
		go func() {
			s := openSession(t, c.Node(f[0]))
			done <- quorumlock.NewMutex(s, "k").Do(context.Background(), func(context.Context, quorumlock.Token) error {
				t.Error("the callback runs beside the next holder")
				return nil
			})
		}()
		queueBecomes(t, c, "k", 1, time.Second)
		w := waitQueued(t, c, c.Node(l), "k", 2)
		c.Pause(f[0])
		c.Clock(f[0]).SetRate(1e-9)
		unlock(t, h)
		third := w.granted(deadBound)
		c.Clock(f[0]).SetRate(1)
		c.Clock(f[0]).StepWall(30 * time.Second)
		c.Resume(f[0])
		if err := <-done; !errors.Is(err, quorumlock.ErrLost) {
			t.Error(err)
		}
		if err := third.Err(); err != nil {
			t.Error(err)
		}
		unlock(t, third)
	})
}

// MaxHold ends while the answer to an unlock is on its way: the work was over before, so nothing is amiss.
func TestUnlockAtTheEndOfMaxHold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3, quorumlocktest.Latency(2*time.Millisecond))
		_, f := roles(c)
		h, err := quorumlock.NewMutex(c.Node(f[0]), "k", quorumlock.MaxHold(time.Second)).Lock(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second - 3*time.Millisecond)
		unlock(t, h)
		becomesFree(t, c, "k", time.Second)
	})
}

// Who waits for the warning alone hears of a loss without one, and a hold that was lost is never said to have been unlocked.
func TestLossWithoutWarning(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		h := lockIn(t, c.Node(0), "k", time.Second)
		warned := h.Jeopardy()
		c.Expire(0)
		time.Sleep(time.Second)
		if !closed(warned) || !closed(h.Jeopardy()) {
			t.Error("no word of the loss on Jeopardy")
		}
		for range 2 {
			if err := h.Unlock(); !errors.Is(err, quorumlock.ErrLost) || errors.Is(err, quorumlock.ErrUnlocked) {
				t.Errorf("unlock: %v", err)
			}
		}
	})
}

// The caller's own reason for ending its context is found in the error, whatever the call was waiting for.
func TestErrorsCarryTheCauseOfTheContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		h := lockIn(t, c.Node(0), "k", time.Second)
		reason := errors.New("shutting down")
		inspect := func(ctx context.Context) error { _, err := c.Node(1).Inspect(ctx, "k"); return err }
		lock := func(ctx context.Context) error { _, err := quorumlock.NewMutex(c.Node(1), "k").Lock(ctx); return err }
		tell := func(what string, call func(ctx context.Context) error) {
			t.Helper()
			ctx, cancel := context.WithCancelCause(context.Background())
			time.AfterFunc(1500*time.Millisecond, func() { cancel(reason) })
			if err := call(ctx); !errors.Is(err, reason) || !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", what, err)
			}
		}
		tell("lock, in a queue", lock)
		isolateAll(c)
		tell("lock, without a quorum", lock)
		tell("inspect, without a quorum", inspect)
		c.Heal()
		_ = h.Unlock()
	})
}

// A variable that holds one Mutex, and then another, leaves the holds of the first as they are.
func TestHoldIsOfTheMutexThatItWasTakenWith(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		var m quorumlock.Mutex
		var holds []*quorumlock.Hold
		for _, name := range []string{"a", "b"} {
			m = *quorumlock.NewMutex(c.Node(0), name)
			h, err := m.Lock(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			holds = append(holds, h)
		}
		received := receive(t, c.Node(1), give(t, holds[0]))
		for h, want := range map[*quorumlock.Hold]string{received: "a", holds[1]: "b"} {
			if names := h.Names(); h.Name() != want || len(names) != 1 || names[0] != want {
				t.Errorf("hold of %q: %v", want, names)
			}
			unlock(t, h)
		}
	})
}

// wrapper has the methods of an owner without being one.
type wrapper struct{ *quorumlock.Node }

// What is missing or of the wrong kind is refused before anything is asked of the cluster.
func TestBadArgumentsLockNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		ctx := context.Background()
		n := c.Node(0)
		unlock(t, lockIn(t, n, "semaphore", time.Second))
		for name, call := range map[string]func() error{
			"nil callback":      func() error { return quorumlock.NewMutex(n, "k").Do(ctx, nil) },
			"nil callback, set": func() error { return quorumlock.NewMultiMutex(n, "k").Do(ctx, nil) },
			"nil callback, read-write": func() error {
				return errors.Join(quorumlock.NewRWMutex(n, "k").Do(ctx, nil), quorumlock.NewRWMutex(n, "k").RDo(ctx, nil))
			},
			"nil callback, semaphore": func() error { return quorumlock.NewSemaphore(n, "k", 1).Do(ctx, 1, nil) },
			"nil callback, election":  func() error { return quorumlock.NewElection(n, "k").Run(ctx, "v", nil) },
			"nil option":              func() error { _, err := quorumlock.NewMutex(n, "k", nil).Lock(ctx); return err },
			"wrapped node":            func() error { _, err := quorumlock.NewMutex(wrapper{n}, "k").Lock(ctx); return err },
			"wrapped nil node":        func() error { _, err := quorumlock.NewMutex(wrapper{}, "k").Lock(ctx); return err },
			"wrapped node, leader":    func() error { _, err := quorumlock.NewElection(wrapper{n}, "k").Leader(ctx); return err },
			"note with a line break":  func() error { _, err := quorumlock.NewMutex(n, "k", quorumlock.Note("a\nb")).Lock(ctx); return err },
			"watched prefix": func() (err error) {
				for _, err = range n.Watch(ctx, "\xff") {
				}
				return err
			},
		} {
			if err := call(); !errors.Is(err, quorumlock.ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
		becomesFree(t, c, "k", 0)
	})
}

// Of a semaphore both questions of an election are refused alike.
func TestElectionOfASemaphoresName(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		h, err := quorumlock.NewSemaphore(c.Node(0), "s", 2).Acquire(context.Background(), 1)
		if err != nil {
			t.Fatal(err)
		}
		e := quorumlock.NewElection(c.Node(1), "s")
		if _, err := e.Leader(context.Background()); !errors.Is(err, quorumlock.ErrKind) {
			t.Error(err)
		}
		if _, err := e.Candidates(context.Background()); !errors.Is(err, quorumlock.ErrKind) {
			t.Error(err)
		}
		unlock(t, h)
	})
}
