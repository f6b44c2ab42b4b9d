package scenario_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// sessionOf opens a session with a TTL of its own.
func sessionOf(t *testing.T, n *quorumlock.Node, ttl time.Duration) *quorumlock.Session {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s, err := n.NewSession(ctx, ttl)
	if err != nil {
		t.Fatalf("session with a TTL of %v: %v", ttl, err)
	}
	return s
}

// Sessions of one node have nothing in common but the node: each has its id, excludes the others, and when it is closed all that it has ends together, whatever kind it is.
func TestCloseOfASessionReleasesAllOfIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		n := c.Node(0)
		s, other := sessionOf(t, n, 0), sessionOf(t, n, 20*time.Second)
		if s.ID() == other.ID() || s.ID() <= 0 || s.TTL() != quorumTTL || other.TTL() != 20*time.Second {
			t.Errorf("sessions %v with %v and %v with %v", s.ID(), s.TTL(), other.ID(), other.TTL())
		}
		holds := map[string]*quorumlock.Hold{
			"mutex":   lockIn(t, s, "mutex", time.Second),
			"reader":  rlock(t, s, "reader"),
			"permits": permitsIn(t, quorumlock.NewSemaphore(s, "permits", 3), 2, time.Second),
			"set":     asked(t, quorumlock.NewMultiMutex(s, "set").Lock).granted(time.Second),
		}
		_ = give(t, lockIn(t, s, "given", time.Second))
		kept := lockIn(t, other, "kept", time.Second)
		waits := waitQueued(t, c, s, "kept", 1)
		own := lockIn(t, n, "own", time.Second) // of the node's own session
		if _, err := quorumlock.NewMutex(other, "mutex").TryLock(context.Background()); !errors.Is(err, quorumlock.ErrLocked) {
			t.Errorf("another session of the node: %v", err)
		}
		if info := lockShown(t, c, "mutex"); info.Holders[0].Session != s.ID() || info.Holders[0].Node != "node-0" {
			t.Errorf("shown: %+v", info.Holders)
		}
		if s.Err() != nil || closed(s.Done()) {
			t.Errorf("while it lives: %v", s.Err())
		}

		endsIn(t, "close", atOnce, func() {
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
		for name := range holds {
			becomesFree(t, c, name, time.Millisecond)
		}
		becomesFree(t, c, "given", time.Millisecond)
		queueBecomes(t, c, "kept", 0, time.Millisecond)
		waits.failed(time.Millisecond, quorumlock.ErrClosed)
		var lost *quorumlock.LostError
		if err := s.Err(); !errors.As(err, &lost) || lost.Cause != quorumlock.CauseSessionClosed || lost.Name != "" || !closed(s.Done()) {
			t.Errorf("the session: %v", err)
		}
		for name, h := range holds {
			if err := h.Err(); !errors.As(err, &lost) || lost.Cause != quorumlock.CauseSessionClosed || lost.Name != name || lost.Token != h.Token() || !closed(h.Done()) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Errorf("close again: %v", err)
		}
		if _, err := quorumlock.NewMutex(s, "k").Lock(context.Background()); !errors.Is(err, quorumlock.ErrClosed) || !errors.Is(err, quorumlock.ErrLost) {
			t.Errorf("lock for a closed session: %v", err)
		}
		if next := sessionOf(t, n, 0); next.ID() <= other.ID() {
			t.Errorf("session %v after %v", next.ID(), other.ID())
		}
		calm(t, kept)
		calm(t, own)
		unlock(t, kept)
		unlock(t, own)
		c.CheckState()
	})
}

// I4: a call gave its claim up while its node was cut off, and its session, with a long TTL and nothing else, was closed there. The claim does not wait for the TTL when the node is back.
func TestClaimGivenUpBeforeItsSessionIsClosedIsGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		l, f := roles(c)
		a := lockIn(t, c.Node(l), "k", time.Second)
		s := sessionOf(t, c.Node(f[0]), quorumlock.MaxSessionTTL)
		b := waitQueued(t, c, s, "k", 1)
		c.Isolate(f[0])
		b.cancel()
		b.failed(time.Millisecond, context.Canceled)
		if err := s.Close(); !errors.Is(err, quorumlock.ErrNoQuorum) {
			t.Errorf("close: %v", err)
		}
		time.Sleep(time.Second)
		if n := lockShown(t, c, "k").Waiting; n != 1 {
			t.Errorf("%d claims wait: the fault did not bite", n)
		}
		c.Heal()
		c.WaitReady()
		queueBecomes(t, c, "k", 0, ghostBound)
		unlock(t, a)
		c.CheckState()
	})
}

// S56, for sessions: the TTL that the cluster agreed to with the holder decides, whatever the TTL of who waits. A silence that is shorter than the holder's ends nothing.
func TestTheHoldersTTLDecides(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const long, short = 30 * time.Second, quorumlock.MinSessionTTL
		c := quorumlocktest.New(t, 3)
		_, f := roles(c)
		a, b := sessionOf(t, c.Node(f[0]), long), sessionOf(t, c.Node(f[1]), short)
		h := lockIn(t, a, "k", time.Second)
		next := waitQueued(t, c, b, "k", 1)
		c.Isolate(f[0])
		time.Sleep(short + time.Second)
		if next.ended() || h.Err() != nil {
			t.Errorf("after a silence of %v: %v", short+time.Second, h.Err())
		}
		c.Heal()
		time.Sleep(long)
		if next.ended() || h.Err() != nil || a.Err() != nil {
			t.Errorf("long after the silence: %v", h.Err())
		}
		began := time.Now()
		c.Isolate(f[0])
		<-a.Done()
		var lost *quorumlock.LostError
		if err := a.Err(); !errors.As(err, &lost) || lost.Cause != quorumlock.CauseNoQuorum || !errors.Is(err, quorumlock.ErrNoQuorum) {
			t.Errorf("the session: %v", err)
		}
		expired(t, h)
		if took := time.Since(began); took < long/5*3-time.Second || took > long/5*4+reportBound {
			t.Errorf("lost after %v", took)
		}
		next.granted(long)
		if took := next.at.Sub(began); took < long/5*4 || took > long+1500*time.Millisecond {
			t.Errorf("granted after %v", took)
		}
		unlock(t, next.hold)
		if err := b.Err(); err != nil {
			t.Errorf("the other session: %v", err)
		}
		// The node's own session is another one, and is opened again when it is needed.
		c.Heal()
		c.WaitReady()
		unlock(t, lockIn(t, c.Node(f[0]), "k", grantBound))
		c.CheckState()
	})
}

// A ticket of another cluster is told as such, and takes nothing.
func TestTicketOfAnotherCluster(t *testing.T) {
	bubble(t, func(t *testing.T) {
		here, there := quorumlocktest.New(t, 1), quorumlocktest.New(t, 1)
		ticket := give(t, lockIn(t, here.Node(0), "k", time.Second))
		if h, err := quorumlock.Receive(context.Background(), there.Node(0), ticket); h != nil || !errors.Is(err, quorumlock.ErrClusterChanged) {
			t.Errorf("receive: %v, %v", h, err)
		}
		becomesFree(t, there, "k", time.Millisecond)
		unlock(t, receive(t, here.Node(0), ticket))
		here.CheckState()
		there.CheckState()
	})
}

// A name that a Mutex, an RWMutex and a set share is one lock.
func TestKindsOfLocksShareTheirNames(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		ctx := context.Background()
		try := map[string]func(context.Context) (*quorumlock.Hold, error){
			"mutex":  quorumlock.NewMutex(c.Node(1), "k").TryLock,
			"writer": quorumlock.NewRWMutex(c.Node(1), "k").TryLock,
			"reader": quorumlock.NewRWMutex(c.Node(1), "k").TryRLock,
			"set":    quorumlock.NewMultiMutex(c.Node(1), "free", "k").TryLock,
		}
		for held, take := range try {
			h, err := take(ctx)
			if err != nil {
				t.Fatalf("%s: %v", held, err)
			}
			for other, f := range try {
				second, err := f(ctx)
				if together := held == "reader" && other == "reader"; together != (err == nil) || err != nil && !errors.Is(err, quorumlock.ErrLocked) {
					t.Errorf("%s beside %s: %v", other, held, err)
				}
				if second != nil {
					unlock(t, second)
				}
			}
			unlock(t, h)
		}
		becomesFree(t, c, "k", time.Second)
		c.CheckState()
	})
}
