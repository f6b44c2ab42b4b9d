package scenario_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// S54: an instance that takes the lock again whenever it has lost it loses it three times in a row: to a partition, to an
// operator, to the restart of the quorum. Each loss is reported with its cause, each time the lock is taken again with a later
// token, and when its context ends it stops.
func TestLostThreeTimesAndTakenAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		_, f := roles(c)
		leads := newLeading(c.Node(f[0]), "k")
		defer leads.stop()
		token := within(t, "grant", grantBound, leads.began)
		for _, loss := range []struct {
			name  string
			cause quorumlock.Cause
			begin func(token quorumlock.Token)
			end   func()
		}{
			{"partition", quorumlock.CauseNoQuorum, func(quorumlock.Token) { c.Isolate(f[0]) }, c.Heal},
			{"revoke", quorumlock.CauseForced, func(token quorumlock.Token) { revoke(t, c.Node(f[1]), "k", token) }, func() {}},
			{
				"restart of the quorum", quorumlock.CauseNoQuorum,
				func(quorumlock.Token) { crashAllBut(c, f[0]) }, func() { startAllBut(c, f[0]) },
			},
		} {
			loss.begin(token)
			ended := within(t, loss.name, quorumTTL, leads.ended)
			var lost *quorumlock.LostError
			if !errors.As(ended.cause, &lost) || lost.Cause != loss.cause || lost.Token != token {
				t.Errorf("%s: the work's context ended with %v", loss.name, ended.cause)
			}
			if !errors.Is(ended.result, quorumlock.ErrLost) {
				t.Errorf("%s: Do returned %v", loss.name, ended.result)
			}
			loss.end()
			again := within(t, "the grant after the "+loss.name, deadBound, leads.began)
			if again <= token {
				t.Errorf("%s: token %v after %v", loss.name, again, token)
			}
			token = again
		}
		leads.stop()
		ended := within(t, "stopping", grantBound, leads.ended)
		if errors.Is(ended.result, quorumlock.ErrLost) || !errors.Is(ended.cause, context.Canceled) {
			t.Errorf("stopped: %+v", ended)
		}
		becomesFree(t, c, "k", time.Second)
		c.CheckState()
	})
}

// leading is an instance that works under a lock, over and over, until it is stopped.
type leading struct {
	began chan quorumlock.Token
	ended chan spellEnd
	stop  context.CancelFunc
}

// spellEnd is how one call of Do ended: the cause of its context, and what it returned.
type spellEnd struct{ cause, result error }

func newLeading(o quorumlock.Owner, name string) *leading {
	ctx, stop := context.WithCancel(context.Background())
	l := &leading{began: make(chan quorumlock.Token, 8), ended: make(chan spellEnd, 8), stop: stop}
	go func() {
		for ctx.Err() == nil {
			var cause error
			result := quorumlock.NewMutex(o, name).Do(ctx, func(held context.Context, token quorumlock.Token) error {
				l.began <- token
				<-held.Done()
				cause = context.Cause(held)
				return nil
			})
			if cause != nil { // else it was not granted: without a quorum a session can not be opened
				l.ended <- spellEnd{cause, result}
			}
		}
	}()
	return l
}

// within receives what must come within bound.
func within[T any](t *testing.T, what string, bound time.Duration, ch <-chan T) T {
	t.Helper()
	var v T
	select {
	case v = <-ch:
	case <-time.After(bound):
		t.Fatalf("%s: nothing within %v", what, bound)
	}
	return v
}

func revoke(t *testing.T, n *quorumlock.Node, name string, token quorumlock.Token) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), grantBound)
	defer cancel()
	if err := n.ForceRelease(ctx, name, token, quorumlock.ForceOptions{Actor: "operator", Reason: "test", Now: true}); err != nil {
		t.Errorf("force release: %v", err)
	}
}

func crashAllBut(c *quorumlocktest.Cluster, i int) {
	for _, j := range others(c, i) {
		c.Crash(j)
	}
}

func startAllBut(c *quorumlocktest.Cluster, i int) {
	for _, j := range others(c, i) {
		c.Start(j)
	}
}

// S52: a context that has ended stops no release that must run after it, and a release that obeys one changes nothing when it
// has ended: it says so, and a second call with a good one works.
func TestEndedContextsAndReleases(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		_, f := roles(c)
		over, end := context.WithCancel(context.Background())
		h, err := quorumlock.NewMutex(c.Node(f[0]), "k").Lock(over)
		if err != nil {
			t.Fatal(err)
		}
		end()

		kept := lockIn(t, c.Node(f[0]), "kept", time.Second)
		for _, now := range []bool{false, true} {
			opt := quorumlock.ForceOptions{Actor: "operator", Reason: "test", Now: now}
			if err := c.Node(f[1]).ForceRelease(over, "kept", kept.Token(), opt); !errors.Is(err, context.Canceled) {
				t.Errorf("force release with a context that has ended: %v", err)
			}
		}
		work := func(context.Context, quorumlock.Token) error {
			t.Error("worked under a context that had ended")
			return nil
		}
		if err := quorumlock.NewMutex(c.Node(f[1]), "free").Do(over, work); !errors.Is(err, context.Canceled) {
			t.Errorf("Do with a context that has ended: %v", err)
		}
		time.Sleep(time.Second)
		calm(t, kept)
		if info := lockShown(t, c, "kept"); len(info.Holders) != 1 || info.Holders[0].Draining {
			t.Errorf("kept: %+v", info)
		}
		becomesFree(t, c, "free", time.Second)

		endsIn(t, "unlock", 10*time.Millisecond, func() { unlock(t, h) })
		becomesFree(t, c, "k", 10*time.Millisecond)
		force(t, c.Node(f[1]), kept, true)
		<-kept.Done()
		forced(t, kept)
		becomesFree(t, c, "kept", 10*time.Millisecond)
		c.CheckState()
	})
}

// S52: Leave with a context that has ended says that the node is still a member, and that is true: it comes back as itself, and
// leaves with a good one. What it held is free both times.
func TestLeaveWithAnEndedContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 4)
		members := func() int { return len(groupOf(t, c.Node(c.Leader()))) }
		_, f := roles(c)
		id := c.Node(f[0]).ID()
		lockIn(t, c.Node(f[0]), "k", time.Second)
		over, end := context.WithCancel(context.Background())
		end()
		if err := c.Leave(over, f[0]); !errors.Is(err, context.Canceled) {
			t.Errorf("leave with a context that has ended: %v", err)
		}
		becomesFree(t, c, "k", time.Second)
		if c.Start(f[0]).ID() != id {
			t.Error("the node that is still a member came back as another one")
		}
		c.WaitReady()
		if n := members(); n != 4 {
			t.Errorf("%d members", n)
		}
		lockIn(t, c.Node(f[0]), "k", time.Second)
		good, cancel := context.WithTimeout(context.Background(), leaveBound)
		defer cancel()
		if err := c.Leave(good, f[0]); err != nil {
			t.Errorf("leave: %v", err)
		}
		becomesFree(t, c, "k", time.Second)
		if n := members(); n != 3 {
			t.Errorf("%d members after one has left", n)
		}
		c.CheckState()
	})
}
