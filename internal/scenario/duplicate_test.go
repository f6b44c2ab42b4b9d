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

const copyFoundBound = 3 * time.Second // from the start of a copy that can be reached to its failure

// failsAsCopy waits until the node knows that it runs on a copy, and checks what its host sees of it.
func failsAsCopy(t *testing.T, n *quorumlock.Node) {
	t.Helper()
	endsIn(t, "the copy's failure", copyFoundBound, func() { <-n.Done() })
	if !errors.Is(n.Err(), quorumlock.ErrFailed) {
		t.Errorf("the copy's error is %v", n.Err())
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	time.Sleep(100 * time.Millisecond)
	for name, call := range map[string]func() error{
		"lock":    func() error { _, err := quorumlock.NewMutex(n, "refused").Lock(ctx); return err },
		"session": func() error { _, err := n.NewSession(ctx, 0); return err },
		"ready":   func() error { return n.Ready(ctx) },
		"inspect": func() error { _, err := n.Inspect(ctx, "refused"); return err },
	} {
		began := time.Now()
		if err := call(); !errors.Is(err, quorumlock.ErrFailed) || time.Since(began) > 100*time.Millisecond {
			t.Errorf("%s on the copy after %v: %v", name, time.Since(began), err)
		}
	}
}

// goesOn checks that the instances are granted locks, each of them, and lose none, for as long as a copy whose host keeps its process may be met.
func goesOn(t *testing.T, c *quorumlocktest.Cluster, instances []int, holds []*quorumlock.Hold) {
	t.Helper()
	for end := time.Now().Add(25 * time.Second); time.Now().Before(end); {
		for _, i := range instances {
			began := time.Now()
			unlock(t, lockIn(t, c.Node(i), "job", deadBound))
			if took := time.Since(began); took > time.Second {
				t.Errorf("instance %d got a lock after %v", i, took)
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
	for _, h := range holds {
		calm(t, h)
		unlock(t, h)
	}
}

// S67: a live copy of a member's data directory harms nobody, be the member the leader or not, and though the copy's host goes
// on with it. The original wins. The copy's error, and a line in its log, name both addresses.
func TestS67LiveDuplicate(t *testing.T) {
	for _, leader := range []bool{true, false} {
		t.Run(map[bool]string{true: "of the leader", false: "of a follower"}[leader], func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, heard := keepDiary()
				c := quorumlocktest.New(t, 3, heard)
				of, followers := roles(c)
				if !leader {
					of = followers[0]
				}
				var holds []*quorumlock.Hold
				for i := range 3 {
					holds = append(holds, lockIn(t, c.Node(i), "held by "+c.Host(i), grantBound))
				}
				copied := c.Duplicate(of)
				if c.Node(copied).ID() != c.Node(of).ID() {
					t.Fatal("the fault did not bite: the copy has a server id of its own")
				}
				led := len(d.leaders(t))
				failsAsCopy(t, c.Node(copied))
				for _, i := range []int{of, copied} {
					if err := c.Node(copied).Err(); !strings.Contains(err.Error(), c.Node(i).Addr()) {
						t.Errorf("the copy's error does not name %s: %v", c.Node(i).Addr(), err)
					}
				}
				if d.said("two processes use one server id") == 0 {
					t.Error("no log line tells of the copy")
				}
				goesOn(t, c, []int{0, 1, 2}, holds)
				if now := len(d.leaders(t)); now != led {
					t.Errorf("%d leaders so far, %d before the copy came", now, led)
				}
				if now := c.Leader(); leader && now != of {
					t.Errorf("instance %d leads in the place of %d", now, of)
				}
				for i := range 3 {
					if err := c.Node(i).Err(); err != nil {
						t.Errorf("instance %d: %v", i, err)
					}
				}
				if err := c.Stop(copied); err != nil {
					t.Errorf("close of the copy: %v", err)
				}
				unlock(t, lockIn(t, c.Node(of), "job", grantBound))
			})
		})
	}
}

// A copy that took the original's place while that one was cut off has sessions of its own when it is found out. They end at once, and their locks are free, without the
// wait for a TTL; the original comes back.
func TestDuplicateInTheOriginalsPlace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		leader, followers := roles(c)
		of, other := followers[0], followers[1]
		c.Isolate(of)
		time.Sleep(8 * time.Second) // gossip holds it for dead
		copied := c.Duplicate(of)
		n := c.Node(copied)
		h := lockIn(t, n, "k", deadBound)
		working := make(chan error, 1)
		go func() {
			working <- quorumlock.NewMutex(n, "w").Do(context.Background(), func(ctx context.Context, _ quorumlock.Token) error {
				<-ctx.Done()
				return context.Cause(ctx)
			})
		}()
		waiter := lockLater(t, c.Node(other), "k", 2*time.Minute)
		time.Sleep(time.Second)
		if n.Err() != nil {
			t.Fatalf("the fault did not bite: the copy has failed before it could meet the original: %v", n.Err())
		}
		c.Heal()
		endsIn(t, "the copy's failure", 15*time.Second, func() { <-n.Done() })
		found := time.Now()
		waiter.get()
		if took := time.Since(found); took > 3*time.Second {
			t.Errorf("the copy's lock was free %v after its failure", took)
		}
		var lost *quorumlock.LostError
		if err := h.Err(); !errors.As(err, &lost) || lost.Cause != quorumlock.CauseCopied || !errors.Is(err, quorumlock.ErrFailed) {
			t.Errorf("the copy's hold: %v", err)
		}
		if err := <-working; !errors.Is(err, quorumlock.ErrLost) {
			t.Errorf("the copy's callback ended with %v", err)
		}
		failsAsCopy(t, n)
		goesOn(t, c, []int{leader, of, other}, nil)
		if err := c.Node(of).Err(); err != nil {
			t.Errorf("the original: %v", err)
		}
		if err := c.Stop(copied); err != nil {
			t.Errorf("close of the copy: %v", err)
		}
	})
}

// A copy whose host closes it at once, as it should, says nothing in the original's name.
func TestDuplicateIsClosedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		of, _ := roles(c)
		h := lockIn(t, c.Node(of), "held", grantBound)
		for range 3 {
			copied := c.Duplicate(of)
			<-c.Node(copied).Done()
			if err := c.Stop(copied); err != nil {
				t.Errorf("close of the copy: %v", err)
			}
		}
		goesOn(t, c, []int{0, 1, 2}, []*quorumlock.Hold{h})
		if now := c.Leader(); now != of {
			t.Errorf("instance %d leads in the place of %d", now, of)
		}
	})
}
