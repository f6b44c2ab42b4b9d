package scenario_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// many is more than a session can be told of at once.
const many = 1100

// Readers of one session are released by force however many they are, at once and by a drain; each hears of it.
func TestForceManyReaders(t *testing.T) {
	for name, now := range map[string]bool{"drain": false, "now": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3)
				_, f := roles(c)
				var readers []*quorumlock.Hold
				for range many {
					readers = append(readers, rlock(t, c.Node(f[0]), "rw"))
				}
				ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
				defer cancel()
				opt := quorumlock.ForceOptions{Actor: "ops", Reason: "stuck since noon", Now: now}
				if err := c.Node(f[1]).ForceRelease(ctx, "rw", readers[0].Token(), opt); err != nil {
					t.Fatal(err)
				}
				becomesFree(t, c, "rw", 2*deadBound)
				for _, h := range readers {
					<-h.Done()
					forced(t, h)
				}
				c.CheckState()
			})
		})
	}
}

// A limit is lowered below what waiting claims want, however many they are: each ends with the reason.
func TestResizeManyWaiters(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		_, f := roles(c)
		sem := quorumlock.NewSemaphore(c.Node(f[0]), "s", 10)
		h := permitsIn(t, sem, 10, time.Second)
		var waiters []*waiter
		for range many {
			waiters = append(waiters, asked(t, func(ctx context.Context) (*quorumlock.Hold, error) { return sem.Acquire(ctx, 5) }))
		}
		queueBecomes(t, c, "s", many, 5*time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := sem.Resize(ctx, 3); err != nil {
			t.Fatal(err)
		}
		for _, w := range waiters {
			var limit *quorumlock.LimitError
			if w.in(5 * time.Second); !errors.As(w.err, &limit) || limit.Agreed != 3 {
				t.Fatalf("a waiter for 5: %v", w.err)
			}
		}
		unlock(t, h)
		if err := sem.Resize(ctx, 0); err != nil {
			t.Error(err)
		}
		c.CheckState()
	})
}
