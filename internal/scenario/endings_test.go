package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// Every blocking call meets every way in which it can end: what it returns, how the error can be told, within what time, and that of a call that failed nothing
// is left in the cluster 2 s after it could be removed (I4). No call returns neither a result nor an error.

func all(*call) bool { return true }

func boundByContext(c *call) bool { return !c.unbound }

func inSession(c *call) bool { return !c.detached && !c.shared }

// in gives every call a context of its own.
func in(ctx context.Context) func(*trial) context.Context {
	return func(*trial) context.Context { return ctx }
}

// atOnce is what a call that needs nobody's consent may take.
const atOnce = 20 * time.Millisecond

func TestCallsThatAreGranted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t)
		s.newTrials(true, all)
		s.beginAll(in(context.Background()), func() {})
		time.Sleep(500 * time.Millisecond)
		for _, x := range s.trials {
			if x.rival == nil {
				x.within(atOnce).succeeded()
				continue
			}
			select {
			case <-x.done:
				t.Errorf("%s: ended beside its rival: (%v, %v)", x.name, x.gave, x.err)
			default:
			}
			unlock(t, x.rival)
			released := time.Now()
			if x.within(time.Minute).succeeded(); time.Since(released) > atOnce {
				t.Errorf("%s: granted %v after the release", x.name, time.Since(released))
			}
		}
		s.nothingLeft()
	})
}

// A context that had ended before ends the call at once, and nothing has changed: what was held is still held.
func TestCallsWithAnEndedContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t)
		s.newTrials(false, boundByContext)
		reason := errors.New("shutting down")
		over, end := context.WithCancelCause(context.Background())
		end(reason)
		for _, x := range s.trials {
			before := lockShown(t, s.c, x.lock)
			x.begin(over)
			x.within(0).waited(context.Canceled, reason)
			time.Sleep(atOnce)
			after := lockShown(t, s.c, x.lock)
			if len(after.Holders) != len(before.Holders) || after.Waiting != 0 || len(before.Holders) > 0 && after.Holders[0].Token != before.Holders[0].Token {
				t.Errorf("%s: changed %+v to %+v", x.name, before, after)
			}
			if err := x.owner.Close(); err != nil { // releases what prepare took
				t.Error(err)
			}
		}
		s.nothingLeft()
	})
}

// A deadline ends each call, whether it waits for a holder or for an answer that does not come; in the first case it says who is in the way.
func TestCallsAtTheirDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const deadline = 300 * time.Millisecond
		s := newStage(t)
		start := time.Now()
		s.newTrials(true, boundByContext)
		ctx := func(x *trial) context.Context {
			ctx, cancel := context.WithTimeout(context.Background(), deadline)
			t.Cleanup(cancel)
			return ctx
		}
		s.beginAll(ctx, func() { s.holdNews(true) })
		for _, x := range s.trials {
			wait := x.within(deadline).waited(context.DeadlineExceeded)
			if errors.Is(x.err, quorumlock.ErrNoQuorum) {
				t.Errorf("%s: %v, though there is a leader", x.name, x.err)
			}
			if x.rival == nil {
				continue
			}
			h := wait.Holder
			if h == nil || h.Node != fmt.Sprint("node-", s.other) || h.Note != rivalNote || h.Since.Before(start) || h.Since.After(x.began) ||
				h.Session != x.giver.ID() || wait.Queue != 1 || wait.Ahead != 0 || wait.Name == "" {
				t.Errorf("%s: %+v, holder %+v", x.name, wait, h)
			}
			if !strings.Contains(x.err.Error(), h.Node) || !strings.Contains(x.err.Error(), rivalNote) {
				t.Errorf("%s: %q does not say who holds it", x.name, x.err)
			}
		}
		s.holdNews(false)
		s.nothingLeft()
	})
}

// A call that ends in a queue says how many were ahead of it and how many waited in all, and TryLock how many wait.
func TestWaitErrorsTellThePlaceInTheQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		h, err := exclusiveRival(c.Node(0), "k")
		if err != nil {
			t.Fatal(err)
		}
		var queue []*waiter
		for i := range 4 {
			queue = append(queue, waitQueued(t, c, c.Node(i%3), "k", i+1))
		}
		for i, w := range slices.Backward(queue) {
			w.cancel()
			w.failed(time.Nanosecond, context.Canceled)
			var wait *quorumlock.WaitError
			if !errors.As(w.err, &wait) || wait.Ahead != i || wait.Queue != i+1 || wait.Op != "lock" || wait.Name != "k" || wait.Holder.Token != h.Token() {
				t.Errorf("waiter %d: %+v", i, wait)
			}
			var locked *quorumlock.LockedError
			_, err := quorumlock.NewMutex(c.Node(1), "k").TryLock(context.Background())
			if !errors.As(err, &locked) || locked.Queue > i+1 || locked.Queue < i || locked.Holder.Note != rivalNote || !locked.Since.Equal(locked.Holder.Since) {
				t.Errorf("try: %v", err)
			}
			queueBecomes(t, c, "k", i, time.Second)
		}
		unlock(t, h)
		c.CheckState()
	})
}

// No quorum: the others are cut off from everybody. Each call ends by its deadline and says why; Unlock, which has none, ends with the lease.
func TestCallsWithoutAQuorum(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const deadline = 3 * time.Second
		s := newStage(t)
		s.newTrials(false, all)
		isolateAll(s.c)
		time.Sleep(time.Second)
		for _, x := range s.trials {
			ctx, cancel := context.WithTimeout(context.Background(), deadline)
			defer cancel()
			x.begin(ctx)
		}
		for _, x := range s.trials {
			if x.unbound {
				x.within(quorumTTL).waited(quorumlock.ErrNoQuorum)
				continue
			}
			x.within(deadline).waited(quorumlock.ErrNoQuorum, context.DeadlineExceeded)
		}
		s.c.Heal()
		s.c.WaitReady()
		s.nothingLeft()
	})
}

// A call that waited in a queue when the quorum went knows of that, too, when its deadline comes.
func TestWaitingCallsLearnOfTheMissingQuorum(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const deadline = 5 * time.Second
		s := newStage(t)
		s.newTrials(true, func(c *call) bool { return c.rival != nil })
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		s.beginAll(in(ctx), func() { isolateAll(s.c) })
		for _, x := range s.trials {
			if wait := x.within(deadline).waited(quorumlock.ErrNoQuorum, context.DeadlineExceeded); wait.Holder == nil {
				t.Errorf("%s: %v does not say who held it when last heard", x.name, x.err)
			}
		}
		s.c.Heal()
		s.c.WaitReady()
		s.nothingLeft()
	})
}

// The session is lost while the call is under way: its node is cut off for longer than the lease.
func TestCallsWhoseSessionIsLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t)
		s.newTrials(true, func(c *call) bool { return !c.detached })
		s.beginAll(in(context.Background()), func() { s.c.Isolate(s.caller) })
		for _, x := range s.trials {
			x.within(quorumTTL*4/5 + reportBound)
			if x.unbound { // the work was covered to its end
				x.waited(quorumlock.ErrNoQuorum)
				continue
			}
			x.lost(quorumlock.CauseNoQuorum)
			if !errors.Is(x.err, quorumlock.ErrNoQuorum) {
				t.Errorf("%s: %v", x.name, x.err)
			}
		}
		s.c.Heal()
		s.c.WaitReady()
		s.nothingLeft()
	})
}

// The session is closed while the call is under way.
func TestCallsWhoseSessionIsClosed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t)
		s.newTrials(true, inSession)
		s.beginAll(in(context.Background()), func() { s.holdNews(true) })
		closed := make(chan struct{})
		for _, x := range s.trials {
			go func() {
				endsIn(t, x.name+": close", 3*time.Second, func() { _ = x.owner.Close() })
				closed <- struct{}{}
			}()
		}
		synctest.Wait()
		for _, x := range s.trials {
			if x.unbound { // may yet be answered
				continue
			}
			x.within(time.Since(x.began)).lost(quorumlock.CauseSessionClosed)
			x.failed(quorumlock.ErrClosed)
			if err := x.owner.Err(); !errors.Is(err, quorumlock.ErrClosed) {
				t.Errorf("%s: the session: %v", x.name, err)
			}
		}
		for _, x := range s.trials {
			<-closed
			if x.unbound {
				x.within(quorumTTL).waited(quorumlock.ErrNoQuorum)
			}
		}
		s.holdNews(false)
		s.nothingLeft()
	})
}

// The node is closed while the call is under way.
func TestCallsWhoseNodeIsClosed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t)
		s.newTrials(true, all)
		s.beginAll(in(context.Background()), func() { s.holdNews(true) })
		endsIn(t, "close", 5*time.Second, func() { _ = s.c.Stop(s.caller) })
		synctest.Wait()
		for _, x := range s.trials {
			x.within(time.Since(x.began))
			switch {
			case x.unbound:
				x.waited(quorumlock.ErrNoQuorum)
			case x.detached:
				x.waited(quorumlock.ErrClosed)
			default:
				x.lost(quorumlock.CauseNodeClosed)
				x.failed(quorumlock.ErrClosed)
			}
		}
		s.holdNews(false)
		synctest.Wait() // until the write that hung has let go of the disk
		s.c.Start(s.caller)
		s.c.WaitReady()
		s.nothingLeft()
	})
}

// What the call waits for, or what it is about, is released by force. Who waits is granted; who held is told who did it.
func TestCallsAfterAForcedRelease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t)
		s.newTrials(true, func(c *call) bool { return c.rival != nil || c.holds })
		for _, x := range s.trials {
			if x.rival != nil {
				x.begin(context.Background())
			}
			time.Sleep(atOnce)
			opt := quorumlock.ForceOptions{Actor: "ops", Reason: "stuck since noon", Now: true}
			held := lockShown(t, s.c, x.lock).Holders[0].Token
			if err := s.c.Node(s.other).ForceRelease(context.Background(), x.lock, held, opt); err != nil {
				t.Fatal(err)
			}
			forced := time.Now()
			time.Sleep(reportBound)
			if x.rival == nil {
				x.begin(context.Background())
			}
			x.within(time.Since(x.began) + atOnce)
			switch {
			case x.rival != nil:
				if x.succeeded(); x.began.Add(x.took).Sub(forced) > atOnce {
					t.Errorf("%s: granted %v after the release", x.name, x.began.Add(x.took).Sub(forced))
				}
			case x.name == "Receive":
				x.failed(quorumlock.ErrTicket)
			default:
				x.lost(quorumlock.CauseForced)
				if lost := (*quorumlock.LostError)(nil); errors.As(x.err, &lost) && (lost.Actor != "ops" || lost.Token != held) {
					t.Errorf("%s: %+v", x.name, lost)
				}
			}
		}
		s.nothingLeft()
	})
}

// The context is cancelled around the instant at which the call succeeds, at each of many moments of its round trip. It has either its result or the context's
// error, and both come to pass.
func TestCallsCancelledAtTheInstantOfTheirSuccess(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const steps, step = 25, 90 * time.Microsecond
		s := newStage(t)
		owner, giver := openSession(t, s.c.Node(s.caller)), openSession(t, s.c.Node(s.other))
		succeeded, cancelled := make(map[string]int), make(map[string]int)
		for i := range steps {
			var round []*trial
			for j := range calls {
				if calls[j].unbound {
					continue
				}
				a := actors{node: s.c.Node(s.caller), owner: owner, giver: giver, lock: fmt.Sprintf("%s %d", calls[j].name, i)}
				round = append(round, s.newTrial(&calls[j], a, true))
			}
			for j, x := range round {
				if x.rival != nil {
					x.begin(context.Background())
					time.Sleep(2 * time.Millisecond)
					go func() { _ = x.rival.Unlock() }()
				} else {
					x.begin(context.Background())
				}
				time.Sleep(time.Duration(i)*step + time.Duration(j)*time.Microsecond)
				x.cancel()
				after := time.Since(x.began)
				x.within(after + atOnce) // a Do that has worked unlocks first
				if x.err != nil {
					x.within(after).waited(context.Canceled)
					cancelled[x.name]++
				} else {
					succeeded[x.name]++
					x.giveUp()
				}
			}
			s.trials = append(s.trials, round...)
		}
		for i := range calls {
			if name := calls[i].name; !calls[i].unbound && (succeeded[name] == 0 || cancelled[name] == 0) {
				t.Errorf("%s: %d succeeded, %d were cancelled: the moments miss its success", name, succeeded[name], cancelled[name])
			}
		}
		time.Sleep(ghostBound)
		for _, x := range s.trials {
			x.onlyItsOwn(lockShown(t, s.c, x.lock))
		}
		for _, o := range []*quorumlock.Session{owner, giver} {
			if err := o.Close(); err != nil {
				t.Error(err)
			}
		}
		s.c.CheckState()
	})
}

// giveUp takes back what a call gave, in time for the check of what is left.
func (x *trial) giveUp() {
	x.t.Helper()
	switch gave := x.gave.(type) {
	case *quorumlock.Hold:
		if err := gave.Unlock(); err != nil {
			x.t.Errorf("%v: unlock of what it gave: %v", x, err)
		}
		x.gave = nil
	case *quorumlock.Session:
		if err := gave.Close(); err != nil {
			x.t.Errorf("%v: close of what it gave: %v", x, err)
		}
	}
}
