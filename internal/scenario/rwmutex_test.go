package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// asked is one call for a hold that runs beside the test.
func asked(t *testing.T, f func(ctx context.Context) (*quorumlock.Hold, error)) *waiter {
	return awaitHold(context.Background(), t, f)
}

// rlock takes a read hold, for which a second must suffice.
func rlock(t *testing.T, o quorumlock.Owner, name string) *quorumlock.Hold {
	t.Helper()
	return asked(t, quorumlock.NewRWMutex(o, name).RLock).granted(time.Second)
}

// Readers on all nodes hold together, under one token. A writer that waits stops later readers; it is granted when the last reader has gone, with a higher token, and the
// readers behind it come next, together, with a higher one still.
func TestReadersShareAndAWaitingWriterStopsThem(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		before := lockIn(t, c.Node(0), "k", time.Second)
		unlock(t, before)
		var first []*quorumlock.Hold
		for i := range 6 {
			first = append(first, rlock(t, c.Node(i%3), "k"))
		}
		phase := first[0].Token()
		samePhase(t, first...)
		if phase <= before.Token() {
			t.Errorf("readers' token %v after the writer's %v", phase, before.Token())
		}
		info := lockShown(t, c, "k")
		if len(info.Holders) != 6 || info.Holders[5].Mode != quorumlock.Shared {
			t.Errorf("holders %+v", info.Holders)
		}

		writer := asked(t, quorumlock.NewRWMutex(c.Node(1), "k").Lock)
		queueBecomes(t, c, "k", 1, time.Second)
		var late []*waiter
		for i := range 4 {
			late = append(late, asked(t, quorumlock.NewRWMutex(c.Node(i%3), "k").RLock))
		}
		queueBecomes(t, c, "k", 5, time.Second)
		_, err := quorumlock.NewRWMutex(c.Node(0), "k").TryRLock(context.Background())
		var locked *quorumlock.LockedError
		if !errors.As(err, &locked) || locked.Queue != 5 || locked.Holder.Token != phase || locked.Holder.Mode != quorumlock.Shared {
			t.Errorf("try beside a waiting writer: %v", err)
		}
		for i, h := range first {
			if writer.ended() || late[0].ended() {
				t.Fatalf("granted beside %d readers", len(first)-i)
			}
			unlock(t, h)
		}
		w := writer.granted(atOnce)
		if w.Token() <= phase {
			t.Errorf("writer's token %v after the readers' %v", w.Token(), phase)
		}
		time.Sleep(time.Second)
		for _, r := range late {
			if r.ended() {
				t.Error("a reader beside the writer")
			}
		}
		unlock(t, w)
		var second []*quorumlock.Hold
		for _, r := range late {
			second = append(second, r.granted(atOnce))
		}
		samePhase(t, second...)
		follows(t, w, second[0])
		for _, h := range second {
			unlock(t, h)
		}
		becomesFree(t, c, "k", time.Second)
		c.CheckState()
	})
}

func samePhase(t *testing.T, holds ...*quorumlock.Hold) {
	t.Helper()
	for _, h := range holds {
		if h.Token() != holds[0].Token() {
			t.Errorf("readers of one phase have tokens %v and %v", holds[0].Token(), h.Token())
		}
		if err := h.Err(); err != nil {
			t.Errorf("a reader beside others: %v", err)
		}
	}
}

// A hundred readers that come again and again do not starve a writer: it waits for those that hold when it comes, and for no other.
func TestWritersAreNotStarvedByReaders(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const readers, reading = 100, 50 * time.Millisecond
		c := quorumlocktest.New(t, 3)
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan int, readers)
		for i := range readers {
			go func() {
				reads := 0
				for m := quorumlock.NewRWMutex(c.Node(i%3), "k"); ; reads++ {
					err := m.RDo(ctx, func(context.Context, quorumlock.Token) error { time.Sleep(reading); return nil })
					if err != nil {
						if !errors.Is(err, context.Canceled) {
							t.Errorf("read: %v", err)
						}
						done <- reads
						return
					}
				}
			}()
		}
		time.Sleep(reading)
		for range 3 {
			time.Sleep(reading * 3 / 2)
			start := time.Now()
			w := asked(t, quorumlock.NewRWMutex(c.Node(0), "k").Lock).granted(time.Minute)
			if took := time.Since(start); took > reading+2*atOnce {
				t.Errorf("a writer waited %v for readers of %v", took, reading)
			}
			unlock(t, w)
		}
		stop()
		for range readers {
			if reads := <-done; reads < 3 {
				t.Errorf("a reader got in %d times", reads)
			}
		}
		becomesFree(t, c, "k", ghostBound)
		c.CheckState()
	})
}

// A downgrade lets the readers behind it in, and no writer, though one is queued all the time.
func TestDowngradeLeavesNoGap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		l, f := roles(c)
		lock := quorumlock.NewRWMutex(c.Node(f[0]), "k", quorumlock.Note("migrating"))
		for round := range 3 {
			h := asked(t, lock.Lock).granted(time.Second)
			var behind []*waiter
			for i := range 2 {
				behind = append(behind, asked(t, quorumlock.NewRWMutex(c.Node(i), "k").RLock))
			}
			queueBecomes(t, c, "k", 2, time.Second)
			rival := asked(t, quorumlock.NewRWMutex(c.Node(l), "k").Lock)
			queueBecomes(t, c, "k", 3, time.Second)
			last := asked(t, quorumlock.NewRWMutex(c.Node(f[1]), "k").RLock)
			queueBecomes(t, c, "k", 4, time.Second)

			read, err := lock.Downgrade(context.Background(), h)
			if err != nil {
				t.Fatalf("round %d: downgrade: %v", round, err)
			}
			follows(t, h, read)
			if err := h.Err(); !errors.Is(err, quorumlock.ErrUnlocked) || !closed(h.Done()) {
				t.Errorf("the write hold: %v", err)
			}
			if err := h.Unlock(); !errors.Is(err, quorumlock.ErrUnlocked) {
				t.Errorf("unlock of the write hold: %v", err)
			}
			holds := []*quorumlock.Hold{read, behind[0].granted(atOnce), behind[1].granted(atOnce)}
			samePhase(t, holds...)
			info := lockShown(t, c, "k")
			if len(info.Holders) != 3 || info.Waiting != 2 || info.Holders[0].Note != "migrating" || info.Holders[0].Token != read.Token() {
				t.Errorf("after the downgrade: %+v", info)
			}
			time.Sleep(time.Second)
			if rival.ended() || last.ended() {
				t.Fatal("granted beside the readers")
			}
			for _, h := range holds {
				unlock(t, h)
			}
			w := rival.granted(atOnce)
			follows(t, read, w)
			unlock(t, w)
			unlock(t, last.granted(atOnce))
			becomesFree(t, c, "k", time.Second)
		}
		c.CheckState()
	})
}

// What is no write hold of this lock is refused by name, and stays what it was.
func TestDowngradeOfWhatIsNoWriteHold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		ctx := context.Background()
		lock := quorumlock.NewRWMutex(c.Node(0), "k")
		set, err := quorumlock.NewMultiMutex(c.Node(0), "k", "m").Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		permit, err := quorumlock.NewSemaphore(c.Node(0), "s", 1).Acquire(ctx, 1)
		if err != nil {
			t.Fatal(err)
		}
		other, reader := lockIn(t, c.Node(0), "other", time.Second), rlock(t, c.Node(0), "r")
		elsewhere := lockIn(t, c.Node(1), "e", time.Second)
		own := lockIn(t, c.Node(0), "own", time.Second)
		for what, wrong := range map[string]struct {
			lock *quorumlock.RWMutex
			hold *quorumlock.Hold
		}{
			"nil":                 {lock, nil},
			"another lock":        {lock, other},
			"a set of names":      {lock, set},
			"a read hold":         {quorumlock.NewRWMutex(c.Node(0), "r"), reader},
			"permits":             {quorumlock.NewRWMutex(c.Node(0), "s"), permit},
			"a hold of elsewhere": {quorumlock.NewRWMutex(c.Node(0), "e"), elsewhere},
			"a bad note":          {quorumlock.NewRWMutex(c.Node(0), "own", quorumlock.Note("a\nb")), own},
		} {
			h, err := wrong.lock.Downgrade(ctx, wrong.hold)
			if refused(t, err); h != nil {
				t.Errorf("%s: gave a hold", what)
			}
		}
		for _, h := range []*quorumlock.Hold{set, permit, other, reader, elsewhere, own} {
			if h.Err() != nil {
				t.Errorf("%q: %v", h.Name(), h.Err())
			}
			unlock(t, h)
		}
		// A hold that has ended is told as such.
		if _, err := quorumlock.NewRWMutex(c.Node(0), "own").Downgrade(ctx, own); !errors.Is(err, quorumlock.ErrUnlocked) {
			t.Errorf("downgrade of an unlocked hold: %v", err)
		}
		c.CheckState()
	})
}

// Downgrade and whatever else can end the hold come at the same time, in each order: one of them has it, and nothing is left.
func TestDowngradeAgainstOtherEnds(t *testing.T) {
	for name, end := range map[string]func(s *stage, h *quorumlock.Hold){
		"unlock":    func(_ *stage, h *quorumlock.Hold) { _ = h.Unlock() },
		"transfer":  func(_ *stage, h *quorumlock.Hold) { _, _ = h.Transfer(context.Background()) },
		"downgrade": func(s *stage, h *quorumlock.Hold) { downgradeAgain(s, h) },
		"force":     func(s *stage, h *quorumlock.Hold) { forceNow(s, h) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newStage(t)
				owner := openSession(t, s.c.Node(s.caller))
				won := 0
				const rounds = 20
				for i := range rounds {
					name := fmt.Sprint("k", i)
					h := lockIn(t, owner, name, time.Second)
					d := asked(t, func(ctx context.Context) (*quorumlock.Hold, error) {
						time.Sleep(500 * time.Microsecond)
						return quorumlock.NewRWMutex(owner, name).Downgrade(ctx, h)
					})
					time.Sleep(time.Duration(i) * 100 * time.Microsecond)
					end(s, h)
					if d.in(time.Second); d.err == nil {
						won++
						if err := d.hold.Unlock(); err != nil {
							t.Errorf("round %d: unlock: %v", i, err)
						}
					} else if h.Err() == nil {
						t.Errorf("round %d: %v, and the hold goes on", i, d.err)
					}
				}
				if won == 0 || won == rounds {
					t.Errorf("the downgrade came first in %d of %d rounds", won, rounds)
				}
				time.Sleep(ghostBound)
				if name != "transfer" { // tickets are never used here
					for i := range rounds {
						becomesFree(t, s.c, fmt.Sprint("k", i), time.Millisecond)
					}
				}
				if err := owner.Close(); err != nil {
					t.Error(err)
				}
				for i := range rounds {
					becomesFree(t, s.c, fmt.Sprint("k", i), time.Millisecond)
				}
				s.c.CheckState()
			})
		})
	}
}

func downgradeAgain(s *stage, h *quorumlock.Hold) {
	if read, err := quorumlock.NewRWMutex(s.c.Node(s.caller), h.Name()).Downgrade(context.Background(), h); err == nil {
		_ = read.Unlock()
	}
}

// forceNow releases whatever is held under the name, as it was when asked.
func forceNow(s *stage, h *quorumlock.Hold) {
	opt := quorumlock.ForceOptions{Actor: "ops", Reason: "test", Now: true}
	_ = s.c.Node(s.other).ForceRelease(context.Background(), h.Name(), h.Token(), opt)
}
