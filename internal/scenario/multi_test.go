package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// Five philosophers share five forks, of which each needs its own two, named in any order: no deadlock, no fork in two hands, and each eats as often as it wants. One of them is
// cut off in between.
func TestPhilosophers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const philosophers, meals = 5, 8
		c := quorumlocktest.New(t, 3)
		_, f := roles(c)
		var mu sync.Mutex
		var last [philosophers]quorumlock.Token
		forks := [philosophers]*quorumlock.Hold{}
		take := func(h *quorumlock.Hold, ids ...int) {
			mu.Lock()
			defer mu.Unlock()
			for _, id := range ids {
				if other := forks[id]; other != nil && other.Err() == nil {
					t.Errorf("fork %d is in two hands: tokens %v and %v", id, other.Token(), h.Token())
				}
				if h.Token() <= last[id] {
					t.Errorf("fork %d: token %v after %v", id, h.Token(), last[id])
				}
				forks[id], last[id] = h, h.Token()
			}
		}
		eaten := make(chan int, philosophers)
		for p := range philosophers {
			go func() {
				rng := rand.New(rand.NewPCG(5, uint64(p)))
				n := 0
				for n < meals {
					left, right := p, (p+1)%philosophers
					if rng.IntN(2) == 0 {
						left, right = right, left
					}
					m := quorumlock.NewMultiMutex(c.Node(p%3), fmt.Sprint("fork", left), fmt.Sprint("fork", right))
					ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
					h, err := m.Lock(ctx)
					cancel()
					if errors.Is(err, quorumlock.ErrLost) || errors.Is(err, quorumlock.ErrNoQuorum) {
						continue
					}
					if err != nil {
						t.Errorf("philosopher %d starves: %v", p, err)
						break
					}
					take(h, left, right)
					time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
					if err := h.Unlock(); err == nil {
						n++
					}
				}
				eaten <- n
			}()
		}
		time.Sleep(200 * time.Millisecond)
		c.Isolate(f[0])
		time.Sleep(deadBound)
		c.Heal()
		for range philosophers {
			if n := <-eaten; n != meals {
				t.Errorf("a philosopher ate %d times of %d", n, meals)
			}
		}
		for i := range philosophers {
			becomesFree(t, c, fmt.Sprint("fork", i), ghostBound)
		}
		c.CheckState()
	})
}

// All or nothing: while one of its names is taken, a set holds none of them, and stands in the queue of each; it is granted in one step.
func TestSetIsAllOrNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		ctx := context.Background()
		names := []string{"a", "b", "c"}
		single := lockIn(t, c.Node(0), "b", time.Second)
		set := quorumlock.NewMultiMutex(c.Node(1), names...).With(quorumlock.Note("move")).With(quorumlock.MaxHold(time.Hour))
		names[0] = "changed by the caller" // who may do with it as it likes

		_, err := set.TryLock(ctx)
		var locked *quorumlock.LockedError
		if !errors.As(err, &locked) || locked.Name != "b" || locked.Holder.Token != single.Token() || locked.Holder.Node != "node-0" {
			t.Errorf("try: %v", err)
		}
		w := asked(t, set.Lock)
		for _, name := range []string{"a", "b", "c"} {
			queueBecomes(t, c, name, 1, time.Second)
			if info := lockShown(t, c, name); (len(info.Holders) == 1) != (name == "b") || info.Queue[0].Note != "move" {
				t.Errorf("%q beside a waiting set: %+v", name, info)
			}
		}
		if _, err := quorumlock.NewMutex(c.Node(2), "a").TryLock(ctx); !errors.As(err, &locked) || locked.Queue != 1 || locked.Holder.Node != "" {
			t.Errorf("try of a name that only a set waits for: %v", err)
		}
		for want, names := range map[string][]string{"a": {"z", "a", "b"}, "b": {"y", "b", "a"}} { // of several that are taken, it is told of the first
			_, err := quorumlock.NewMultiMutex(c.Node(2), names...).TryLock(ctx)
			if !errors.As(err, &locked) || locked.Name != want || locked.Queue != 1 || (locked.Holder.Node == "node-0") != (want == "b") {
				t.Errorf("try of %q: %v", names, err)
			}
		}
		unlock(t, single)
		h := w.granted(atOnce)
		follows(t, single, h)
		if got := h.Names(); len(got) != 3 || got[0] != "a" || got[2] != "c" || h.Name() != "a and 2 more" {
			t.Errorf("names %v, name %q", got, h.Name())
		}
		for _, name := range h.Names() {
			if info := lockShown(t, c, name); len(info.Holders) != 1 || info.Holders[0].Token != h.Token() {
				t.Errorf("%q: %+v", name, info)
			}
		}
		reader := asked(t, quorumlock.NewRWMutex(c.Node(0), "c").RLock)
		queueBecomes(t, c, "c", 1, time.Second)
		unlock(t, h)
		unlock(t, reader.granted(atOnce))
		for _, name := range h.Names() {
			becomesFree(t, c, name, time.Second)
		}
		c.CheckState()
	})
}

// A set that waits is not starved by locks of its single names, however often they come: those that come later stand behind it.
func TestWaitingSetIsNotStarved(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const working = 50 * time.Millisecond
		c := quorumlocktest.New(t, 3)
		ctx, stop := context.WithCancel(context.Background())
		var done sync.WaitGroup
		for i := range 12 {
			done.Go(func() {
				m := quorumlock.NewMutex(c.Node(i%3), []string{"a", "b", "c"}[i%3])
				for ctx.Err() == nil {
					_ = m.Do(ctx, func(context.Context, quorumlock.Token) error { time.Sleep(working); return nil })
				}
			})
		}
		time.Sleep(time.Second)
		for i := range 3 {
			start := time.Now()
			h := asked(t, quorumlock.NewMultiMutex(c.Node(i), "a", "b", "c").Lock).granted(time.Minute)
			if took := time.Since(start); took > 4*working+5*atOnce { // the three that wait on each name, and the one that works
				t.Errorf("a set waited %v", took)
			}
			unlock(t, h)
		}
		stop()
		done.Wait()
		c.CheckState()
	})
}
