package quorumlocktest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

func lock(t *testing.T, n *quorumlock.Node, bound time.Duration) *quorumlock.Hold {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	h, err := quorumlock.NewMutex(n, "k").Lock(ctx)
	if err != nil {
		t.Fatalf("lock within %v: %v", bound, err)
	}
	return h
}

// Expire loses a hold on the spot, on any instance of a cluster of any size: the cluster knows within a round trip, and
// the instance goes on with a session anew.
func TestExpire(t *testing.T) {
	for _, size := range []int{1, 2, 3} {
		t.Run(fmt.Sprintf("%d nodes", size), func(t *testing.T) {
			quorumlocktest.Run(t, size, func(t *testing.T, c *quorumlocktest.Cluster) {
				for i := range size {
					other := (i + 1) % size
					h := lock(t, c.Node(i), time.Second)
					beside := quorumlock.NewMutex(c.Node(other), fmt.Sprint("beside", i))
					stays, err := beside.Lock(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					start := time.Now()
					c.Expire(i)
					var lost *quorumlock.LostError
					if err := h.Err(); !errors.As(err, &lost) || lost.Cause != quorumlock.CauseExpired || lost.Token != h.Token() {
						t.Errorf("instance %d: %v", i, err)
					}
					select {
					case <-h.Done():
					default:
						t.Errorf("instance %d: Done is open", i)
					}
					if took := time.Since(start); took != 0 {
						t.Errorf("took %v", took)
					}
					next := lock(t, c.Node(other), time.Second)
					if next.Token() <= h.Token() {
						t.Errorf("token %v after %v", next.Token(), h.Token())
					}
					if err := stays.Err(); (err != nil) != (i == other) {
						t.Errorf("a hold of instance %d: %v", other, err)
					}
					if err := next.Unlock(); err != nil {
						t.Error(err)
					}
					if err := lock(t, c.Node(i), time.Second).Unlock(); err != nil {
						t.Errorf("instance %d afterwards: %v", i, err)
					}
				}
				c.CheckState()
			})
		})
	}
}

// A callback that does not obey its context keeps its successor out for as long as in earnest: until it returns, or for
// the TTL.
func TestExpireUnderACallback(t *testing.T) {
	const ttl = 10 * time.Second
	for _, c := range []struct{ works, least, most time.Duration }{
		{3 * time.Second, 3 * time.Second, 4 * time.Second},
		{time.Minute, ttl - 3*time.Second, ttl + 1500*time.Millisecond},
	} {
		t.Run(c.works.String(), func(t *testing.T) {
			quorumlocktest.Run(t, 3, func(t *testing.T, cl *quorumlocktest.Cluster) {
				holder := (cl.Leader() + 1) % 3
				done := make(chan error, 1)
				began := make(chan struct{})
				go func() {
					done <- quorumlock.NewMutex(cl.Node(holder), "k").Do(t.Context(), func(ctx context.Context, _ quorumlock.Token) error {
						close(began)
						<-ctx.Done()
						time.Sleep(c.works)
						return nil
					})
				}()
				<-began
				time.Sleep(5 * time.Second) // past the grace of the first leader
				start := time.Now()
				cl.Expire(holder)
				lock(t, cl.Node(cl.Leader()), time.Minute)
				if took := time.Since(start); took < c.least || took > c.most {
					t.Errorf("the next one after %v, want %v to %v", took, c.least, c.most)
				}
				if err := <-done; !errors.Is(err, quorumlock.ErrLost) {
					t.Errorf("Do: %v", err)
				}
			})
		})
	}
}

// Groups cannot reach each other, whoever is in none is in one group with the rest, and Heal ends it.
func TestPartition(t *testing.T) {
	for _, c := range []struct {
		groups [][]int
		ready  [5]bool
	}{
		{[][]int{{0}}, [5]bool{1: true, 2: true, 3: true, 4: true}},
		{[][]int{{0, 1}}, [5]bool{2: true, 3: true, 4: true}},
		{[][]int{{0, 1}, {2, 3, 4}}, [5]bool{2: true, 3: true, 4: true}},
		{[][]int{{0, 3, 4}, {1}}, [5]bool{0: true, 3: true, 4: true}},
		{[][]int{{0, 1}, {2}}, [5]bool{}},
		{[][]int{{}, {0, 1, 2, 3, 4}}, [5]bool{true, true, true, true, true}},
	} {
		t.Run(fmt.Sprint(c.groups), func(t *testing.T) {
			t.Parallel()
			five := quorumlocktest.Configure(func(_ int, cfg *quorumlock.Config) { cfg.Voters = 5 })
			quorumlocktest.Run(t, 5, func(t *testing.T, cl *quorumlocktest.Cluster) {
				cl.Partition(c.groups...)
				time.Sleep(10 * time.Second)
				for i, want := range c.ready {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					if err := cl.Node(i).Ready(ctx); (err == nil) != want {
						t.Errorf("instance %d: %v", i, err)
					}
					cancel()
				}
				cl.Heal()
				cl.WaitReady()
				cl.CheckState()
			}, five)
		})
	}
}

// A paused instance's code goes on: its hold ends by its own clock, and its call waits. What it asked for arrives when
// it is resumed.
func TestPause(t *testing.T) {
	quorumlocktest.Run(t, 3, func(t *testing.T, c *quorumlocktest.Cluster) {
		h := lock(t, c.Node(0), time.Second)
		c.Pause(0)
		start := time.Now()
		<-h.Done()
		if lost := time.Since(start); lost > 8250*time.Millisecond {
			t.Errorf("lost after %v", lost)
		}
		next := lock(t, c.Node(1), time.Minute)
		if err := next.Unlock(); err != nil {
			t.Error(err)
		}
		ready := make(chan error, 1)
		go func() { ready <- c.Node(0).Ready(t.Context()) }()
		time.Sleep(10 * time.Second)
		select {
		case err := <-ready:
			t.Fatalf("answered while paused: %v", err)
		default:
		}
		c.Resume(0)
		if err := <-ready; err != nil {
			t.Error(err)
		}
		c.CheckState()
	})
}
