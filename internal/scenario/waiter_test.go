package scenario_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// waiter is one call, mostly of Lock, that runs beside the test.
type waiter struct {
	t      *testing.T
	cancel context.CancelFunc
	done   chan struct{}

	// Written before done is closed.
	hold *quorumlock.Hold
	err  error
	at   time.Time
}

// wait begins to lock name for o. The call ends with its grant, with its session, with ctx, or with cancel.
func wait(ctx context.Context, t *testing.T, o quorumlock.Owner, name string) *waiter {
	return awaitHold(ctx, t, quorumlock.NewMutex(o, name).Lock)
}

// awaitHold is wait for any call that gives a hold.
func awaitHold(ctx context.Context, t *testing.T, call func(context.Context) (*quorumlock.Hold, error)) *waiter {
	w := &waiter{t: t, done: make(chan struct{})}
	ctx, w.cancel = context.WithCancel(ctx)
	go func() {
		defer close(w.done)
		w.hold, w.err = call(ctx)
		w.at = time.Now()
		if (w.hold == nil) == (w.err == nil) {
			t.Errorf("the call returned (%v, %v)", w.hold, w.err)
		}
	}()
	return w
}

// waitQueued is wait, and returns when the cluster has the claim in its queue as the n-th that waits.
func waitQueued(t *testing.T, c *quorumlocktest.Cluster, o quorumlock.Owner, name string, n int) *waiter {
	t.Helper()
	w := wait(context.Background(), t, o, name)
	queueBecomes(t, c, name, n, 2*time.Second)
	return w
}

func (w *waiter) ended() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// in waits at most bound for the end of the call.
func (w *waiter) in(bound time.Duration) {
	w.t.Helper()
	select {
	case <-w.done:
	case <-time.After(bound):
		w.t.Fatalf("the call still waits after %v", bound)
	}
}

// granted returns the hold, which must come within bound.
func (w *waiter) granted(bound time.Duration) *quorumlock.Hold {
	w.t.Helper()
	if w.in(bound); w.err != nil {
		w.t.Fatalf("not granted: %v", w.err)
	}
	return w.hold
}

// failed checks that the call ends within bound with an error that matches want.
func (w *waiter) failed(bound time.Duration, want error) {
	w.t.Helper()
	if w.in(bound); !errors.Is(w.err, want) {
		w.t.Fatalf("hold %v, error %v; want %v", w.hold, w.err, want)
	}
}

// lockShown is the committed state of a lock, asked through the leader.
func lockShown(t *testing.T, c *quorumlocktest.Cluster, name string) quorumlock.LockInfo {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	info, err := c.Node(c.Leader()).Inspect(ctx, name)
	if err != nil {
		t.Fatalf("inspect %q: %v", name, err)
	}
	return info
}

// queueBecomes waits until n claims wait for name, at most bound.
func queueBecomes(t *testing.T, c *quorumlocktest.Cluster, name string, n int, bound time.Duration) {
	t.Helper()
	info := lockShown(t, c, name)
	for deadline := time.Now().Add(bound); info.Waiting != n; info = lockShown(t, c, name) {
		if time.Now().After(deadline) {
			t.Fatalf("%d claims wait for %q after %v, want %d", info.Waiting, name, bound, n)
		}
		time.Sleep(bound / 100)
	}
}

// becomesFree waits until nobody holds name or waits for it, at most bound.
func becomesFree(t *testing.T, c *quorumlocktest.Cluster, name string, bound time.Duration) {
	t.Helper()
	info := lockShown(t, c, name)
	for deadline := time.Now().Add(bound); len(info.Holders)+info.Waiting > 0; info = lockShown(t, c, name) {
		if time.Now().After(deadline) {
			t.Fatalf("%q after %v: held by %v, %d waiting", name, bound, info.Holders, info.Waiting)
		}
		time.Sleep(bound / 100)
	}
}

// roles are the leader and the other instances of a cluster.
func roles(c *quorumlocktest.Cluster) (leader int, followers []int) {
	leader = c.Leader()
	for i := range c.Size() {
		if i != leader {
			followers = append(followers, i)
		}
	}
	return leader, followers
}

// openSession opens a session that ends with the test's cluster.
func openSession(t *testing.T, n *quorumlock.Node) *quorumlock.Session {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s, err := n.NewSession(ctx, 0)
	if err != nil {
		t.Fatalf("open session: %v", err)
	}
	return s
}

// follows checks that a grant's token is above the one before it.
func follows(t *testing.T, first, second *quorumlock.Hold) {
	t.Helper()
	if second.Token() <= first.Token() {
		t.Errorf("token %v after %v", second.Token(), first.Token())
	}
}
