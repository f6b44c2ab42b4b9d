package scenario_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// I4: a session is lost while a callback works under one of its holds and ignores its context, so that the session itself has to wait for its TTL. The claim of the call that failed with
// it is withdrawn all the same, whether it waited when the loss came or its withdrawal was under way then; and the callback's own lock is not freed under its hands by that, nor any later
// than without.
func TestFailedClaimBesideACallbackThatWorksOn(t *testing.T) {
	for name, giveUpFirst := range map[string]bool{"fails with the session": false, "given up before": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3)
				_, f := roles(c)
				stuck, other := f[0], f[1]
				held := lockIn(t, c.Node(other), "b", time.Second)
				working, over := make(chan struct{}), make(chan error, 1)
				go func() {
					over <- quorumlock.NewMutex(c.Node(stuck), "a").Do(context.Background(), func(context.Context, quorumlock.Token) error {
						close(working)
						time.Sleep(4 * quorumTTL)
						return nil
					})
				}()
				<-working
				w := waitQueued(t, c, c.Node(stuck), "b", 1)
				lost := time.Now()
				if giveUpFirst {
					c.Isolate(stuck)
					w.cancel()
					w.failed(time.Second, context.Canceled)
					time.Sleep(quorumTTL * 4 / 5) // the lease runs out while the cancel finds nobody
					c.Heal()
				} else {
					c.Expire(stuck)
					w.failed(time.Second, quorumlock.ErrLost)
				}
				time.Sleep(ghostBound)
				unlock(t, held)
				unlock(t, lockIn(t, c.Node(other), "b", time.Second))
				next := asked(t, quorumlock.NewMutex(c.Node(other), "a").Lock)
				h := next.granted(deadBound)
				if free := time.Since(lost); !giveUpFirst && free < quorumTTL/2 {
					t.Errorf("the callback's lock passed on after %v, while it worked", free)
				}
				unlock(t, h)
				if err := <-over; !errors.Is(err, quorumlock.ErrLost) {
					t.Errorf("the callback: %v", err)
				}
				c.CheckState()
			})
		})
	}
}
