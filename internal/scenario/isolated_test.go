package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/sim"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// S49: the leader is cut off with a client of its own, and the others elect another one, which grants k. For five seconds the
// old one is asked who holds k, and to lock it: it answers nothing, not even while it still takes itself for the leader, and
// says that there is no quorum. The hold that its client has is good as long as its own deadline lies ahead, and the others keep
// it so.
func TestIsolatedLeaderAnswersNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		old, f := roles(c)
		mine := lockIn(t, c.Node(old), "mine", time.Second)
		c.Isolate(old)
		if !sim.Leading(c.Node(old)) {
			t.Error("the isolated instance knows at once that it leads no longer: the fault did not bite")
		}
		end := time.Now().Add(5 * time.Second)
		var asking sync.WaitGroup
		asking.Go(func() { answersNothing(t, c.Node(old), "k", end) })
		next := c.LeaderExcept(old)
		k := lockIn(t, c.Node(next), "k", grantBound)
		for _, i := range f {
			asking.Go(func() { staysLocked(t, c.Node(i), end, "mine", "k") })
		}
		for time.Now().Before(end) {
			if err := errors.Join(mine.Err(), k.Err()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		asking.Wait()
		c.Heal()
		c.WaitReady()
		if info := lockShown(t, c, "k"); len(info.Holders) != 1 || info.Waiting != 0 || info.Holders[0].Token != k.Token() {
			t.Errorf("after the heal: %+v", info)
		}
		unlock(t, mine)
		unlock(t, k)
		c.CheckState()
	})
}

// answersNothing asks a node about a lock until end. Calls last longer and longer, so that some end before it notices that it
// leads nobody, and some after.
func answersNothing(t *testing.T, n *quorumlock.Node, name string, end time.Time) {
	calls := map[string]func(ctx context.Context) error{
		"inspect":  func(ctx context.Context) error { _, err := n.Inspect(ctx, name); return err },
		"try lock": func(ctx context.Context) error { _, err := quorumlock.NewMutex(n, name).TryLock(ctx); return err },
	}
	for bound := 20 * time.Millisecond; time.Now().Before(end); bound = min(2*bound, time.Second) {
		for what, call := range calls {
			ctx, cancel := context.WithTimeout(context.Background(), bound)
			leads := sim.Leading(n)
			err := call(ctx)
			if !errors.Is(err, context.DeadlineExceeded) || !leads && !errors.Is(err, quorumlock.ErrNoQuorum) {
				t.Errorf("%s for %v, taking itself for the leader: %v: %v", what, bound, leads, err)
			}
			cancel()
		}
	}
}

// staysLocked tries to take locks until end.
func staysLocked(t *testing.T, n *quorumlock.Node, end time.Time, names ...string) {
	for tries := 0; time.Now().Before(end); tries++ {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		name := names[tries%len(names)]
		if _, err := quorumlock.NewMutex(n, name).TryLock(ctx); !errors.Is(err, quorumlock.ErrLocked) {
			t.Errorf("try lock of %q: %v", name, err)
		}
		cancel()
		time.Sleep(50 * time.Millisecond)
	}
}

// S75: the leader is cut off with 50 claims that it has taken in and can not commit, and the others go on until their logs begin
// past everything it has. Back again it drops what was never committed, is sent a snapshot, and has caught up within 30 s; each
// claim of its clients is answered once, and leaves nothing behind. Then the next leader has its turn.
func TestIsolatedLeaderCatchesUpPastCompaction(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3, smallSnapshots())
		for round := range 2 {
			old := c.Leader()
			s := openSession(t, c.Node(old))
			replaced := missedEvents(t, c.Node(old))
			c.Isolate(old)
			var claims []*waiter
			for k := range 50 {
				ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
				defer cancel()
				claims = append(claims, wait(ctx, t, s, fmt.Sprint(round, "/", k)))
			}
			time.Sleep(10 * time.Millisecond) // by then the leader has them all in its log, or behind what is in flight
			if !sim.Leading(c.Node(old)) {
				t.Error("the isolated instance knows at once that it leads no longer: the fault did not bite")
			}
			next := c.LeaderExcept(old)
			writeEntries(t, c.Node(next), compacted)
			behind, _ := sim.State(c.Node(old))
			target, _ := sim.State(c.Node(next))
			if behind+compacted > target {
				t.Errorf("the old leader is at index %d of %d: the fault did not bite", behind, target)
			}
			c.Heal()
			caughtUp(t, c.Node(old), target, 30*time.Second)
			if !closed(replaced) {
				t.Error("no snapshot was installed: the fault did not bite")
			}
			for _, w := range claims {
				unlock(t, w.granted(grantBound))
			}
			for k := range 50 {
				if info := lockShown(t, c, fmt.Sprint(round, "/", k)); len(info.Holders)+info.Waiting > 0 {
					t.Errorf("claim %d: %+v", k, info)
				}
			}
			c.CheckState()
		}
	})
}
