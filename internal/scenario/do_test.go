package scenario_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

var errWork = errors.New("work failed")

// job is one call of Do whose callback, once its context has ended, works on for a while.
type job struct {
	started chan quorumlock.Token
	ended   chan error    // the cause with which the callback's context ended
	over    chan struct{} // closed as the last act of the callback
	result  chan error    // of Do
}

func startJob(o quorumlock.Owner, name string, workOn time.Duration) *job {
	j := &job{started: make(chan quorumlock.Token, 1), ended: make(chan error, 1), over: make(chan struct{}), result: make(chan error, 1)}
	go func() {
		j.result <- quorumlock.NewMutex(o, name).Do(context.Background(), func(ctx context.Context, token quorumlock.Token) error {
			defer close(j.over)
			j.started <- token
			<-ctx.Done()
			j.ended <- context.Cause(ctx)
			time.Sleep(workOn)
			return errWork
		})
	}()
	return j
}

func TestDoReturnsWhatTheFunctionReturned(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		m := quorumlock.NewMutex(c.Node(0), "k")
		var last quorumlock.Token
		for _, want := range []error{nil, errWork} {
			err := m.Do(context.Background(), func(ctx context.Context, token quorumlock.Token) error {
				if token <= last {
					t.Errorf("token %v after %v", token, last)
				}
				last = token
				return want
			})
			if !errors.Is(err, want) || (want == nil) != (err == nil) {
				t.Errorf("Do returned %v, want %v", err, want)
			}
			becomesFree(t, c, "k", 10*time.Millisecond)
		}
		ctx, cancel := context.WithCancel(context.Background())
		err := m.Do(ctx, func(held context.Context, _ quorumlock.Token) error {
			cancel()
			<-held.Done()
			return context.Cause(held)
		})
		if !errors.Is(err, context.Canceled) || errors.Is(err, quorumlock.ErrLost) {
			t.Errorf("Do with a ctx that ended returned %v", err)
		}
		becomesFree(t, c, "k", 10*time.Millisecond)
		c.CheckState()
	})
}

// The loss of the lease ends the callback's context with the cause, and Do's error says that the work may have overlapped.
func TestDoEndsItsContextWhenTheLeaseIsLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		_, f := roles(c)
		j := startJob(c.Node(f[0]), "k", 100*time.Millisecond)
		token := <-j.started
		b := waitQueued(t, c, c.Node(f[1]), "k", 1)
		c.Isolate(f[0])
		start := time.Now()
		cause := <-j.ended
		var lost *quorumlock.LostError
		if !errors.As(cause, &lost) || lost.Cause != quorumlock.CauseNoQuorum || lost.Token != token || lost.Name != "k" {
			t.Errorf("cause %v", cause)
		}
		if took := time.Since(start); took > 8*time.Second+250*time.Millisecond {
			t.Errorf("the context ended after %v", took)
		}
		if b.ended() {
			t.Error("granted before the loss")
		}
		if err := <-j.result; !errors.Is(err, errWork) || !errors.Is(err, quorumlock.ErrLost) {
			t.Errorf("Do returned %v", err)
		}
		if h := b.granted(4 * time.Second); h.Token() <= token {
			t.Errorf("token %v after %v", h.Token(), token)
		} else {
			unlock(t, h)
		}
		c.Heal()
		c.WaitReady()
		c.CheckState()
	})
}

func TestDoReleasesWhenTheFunctionPanics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		s := openSession(t, c.Node(1))
		func() {
			defer func() {
				if r := recover(); r != "boom" {
					t.Errorf("recovered %v", r)
				}
			}()
			_ = quorumlock.NewMutex(s, "k").Do(context.Background(), func(context.Context, quorumlock.Token) error { panic("boom") })
		}()
		becomesFree(t, c, "k", 10*time.Millisecond)
		endsIn(t, "closing the session", 100*time.Millisecond, func() { // no callback is counted as still at work
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		c.CheckState()
	})
}

// closers are the ways in which an owner can pull the rug from under a callback. instance says whose owner it is.
var closers = map[string]func(c *quorumlocktest.Cluster, s *quorumlock.Session, instance int) error{
	"Session.Close": func(_ *quorumlocktest.Cluster, s *quorumlock.Session, _ int) error { return s.Close() },
	"Node.Close":    func(c *quorumlocktest.Cluster, _ *quorumlock.Session, i int) error { return c.Stop(i) },
	"Node.Leave": func(c *quorumlocktest.Cluster, _ *quorumlock.Session, i int) error {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		return c.Leave(ctx, i)
	},
}

// S51: closing the owner ends the callback's context at once and releases nothing until it has returned; then at once. That holds on a leader, too.
func TestNothingIsReleasedWhileACallbackWorks(t *testing.T) {
	for name, closeOwner := range closers {
		for _, leads := range []bool{false, true} {
			t.Run(name+map[bool]string{false: " of a follower", true: " of the leader"}[leads], func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					c := quorumlocktest.New(t, 3)
					l, f := roles(c)
					on, other := f[0], f[1]
					if leads {
						on = l
					}
					s := openSession(t, c.Node(on))
					plain := lockIn(t, s, "plain", time.Second)
					j := startJob(s, "k", 3*time.Second)
					token := <-j.started
					b := waitQueued(t, c, c.Node(other), "k", 1)
					closed := make(chan error, 1)
					go func() { closed <- closeOwner(c, s, on) }()

					var lost *quorumlock.LostError
					if cause := <-j.ended; !errors.As(cause, &lost) || !errors.Is(cause, quorumlock.ErrClosed) {
						t.Errorf("cause %v", cause)
					}
					if err := plain.Err(); !errors.Is(err, quorumlock.ErrClosed) {
						t.Errorf("another hold of the session: %v", err)
					}
					select {
					case <-b.done:
						t.Fatalf("granted beside the callback: %v, %v", b.hold, b.err)
					case err := <-closed:
						t.Fatalf("closed beside the callback: %v", err)
					case <-j.over:
					}
					if h := b.granted(time.Second); h.Token() <= token {
						t.Errorf("token %v after %v", h.Token(), token)
					} else {
						unlock(t, h)
					}
					if err := <-j.result; !errors.Is(err, errWork) || errors.Is(err, quorumlock.ErrLost) {
						t.Errorf("Do, whose work was covered to its end, returned %v", err)
					}
					if err := <-closed; err != nil {
						t.Errorf("close: %v", err)
					}
					becomesFree(t, c, "plain", time.Second)
					c.CheckState()
				})
			})
		}
	}
}

// S51: a callback that outlasts the lease of its closing owner is left to the TTL, and Do says that it may have overlapped.
func TestCallbackThatOutlastsItsClosingOwner(t *testing.T) {
	for name, closeOwner := range closers {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3)
				_, f := roles(c)
				s := openSession(t, c.Node(f[0]))
				j := startJob(s, "k", 15*time.Second)
				<-j.started
				b := waitQueued(t, c, c.Node(f[1]), "k", 1)
				start := time.Now()
				closed := make(chan error, 1)
				go func() { closed <- closeOwner(c, s, f[0]) }()
				<-j.ended
				h := b.granted(12 * time.Second)
				if took := time.Since(start); took < 7*time.Second {
					t.Errorf("granted after %v, beside the callback and before the TTL", took)
				}
				if err := <-closed; !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("close: %v; want word of the callback", err)
				}
				if err := <-j.result; !errors.Is(err, errWork) || !errors.Is(err, quorumlock.ErrLost) {
					t.Errorf("Do, whose work overlapped, returned %v", err)
				}
				unlock(t, h)
				c.CheckState()
			})
		})
	}
}

// I4: calls of Lock that wait while their session closes end at once, and their claims go at once, though a callback holds up the closing.
func TestWaitersOfAClosingSessionLeaveTheQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		l, f := roles(c)
		a := lockIn(t, c.Node(l), "other", 5*time.Second)
		s := openSession(t, c.Node(f[0]))
		j := startJob(s, "k", 5*time.Second)
		<-j.started
		b := waitQueued(t, c, s, "other", 1)
		go func() { _ = s.Close() }()
		b.failed(10*time.Millisecond, quorumlock.ErrClosed)
		queueBecomes(t, c, "other", 0, time.Second)
		unlock(t, a)
		unlock(t, lockIn(t, c.Node(l), "other", time.Second))
		if err := <-j.result; errors.Is(err, quorumlock.ErrLost) {
			t.Errorf("Do: %v", err)
		}
		becomesFree(t, c, "k", time.Second)
		c.CheckState()
	})
}

// Close waits for callbacks and not for their unlocks, which last as long as the lease when there is no quorum. The work was covered, and Do says that only the
// release is unconfirmed.
func TestCloseDoesNotWaitForUnlocks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		_, f := roles(c)
		s := openSession(t, c.Node(f[0]))
		j := startJob(s, "k", 0)
		<-j.started
		c.Isolate(f[0])
		endsIn(t, "close", 2500*time.Millisecond, func() { _ = s.Close() })
		if err := <-j.result; !errors.Is(err, quorumlock.ErrNoQuorum) || errors.Is(err, quorumlock.ErrLost) {
			t.Errorf("Do: %v", err)
		}
		c.Heal()
		c.WaitReady()
		c.CheckState()
	})
}

// Nobody can vouch for work that ends after Close has asked for the release, though the answer is still on its way: the successor may be at work.
func TestUnlockAfterCloseIsALoss(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		l, f := roles(c)
		s := openSession(t, c.Node(f[0]))
		a := lockIn(t, s, "k", time.Second)
		b := waitQueued(t, c, c.Node(l), "k", 1)
		c.Network().HoldReplies(c.Host(l), true)
		closing := make(chan error, 1)
		go func() { closing <- s.Close() }()
		next := b.granted(time.Second)
		select {
		case err := <-closing:
			t.Fatalf("closed without an answer: %v", err)
		default:
		}
		if err := a.Unlock(); !errors.Is(err, quorumlock.ErrLost) {
			t.Errorf("unlock beside the successor: %v", err)
		}
		c.Network().HoldReplies(c.Host(l), false)
		<-closing
		unlock(t, next)
		c.CheckState()
	})
}
