package scenario_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// isolateAll leaves nobody a quorum.
func isolateAll(c *quorumlocktest.Cluster) {
	for i := range c.Size() {
		c.Isolate(i)
	}
}

// A lease counts from before its session was asked for. One whose opening took longer than that is opened anew: nobody is given a session that
// is lost already.
func TestSessionThatWasLongInOpeningIsFresh(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		isolateAll(c)
		w := wait(context.Background(), t, c.Node(0), "k")
		time.Sleep(quorumTTL)
		c.Heal()
		h := w.granted(2 * grantBound)
		time.Sleep(quorumTTL)
		calm(t, h)
		unlock(t, h)
		c.CheckState()
	})
}

// Without a quorum one caller opens the node's session and the others wait for it. All are told why there is none.
func TestEveryCallerIsToldOfTheMissingQuorum(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		isolateAll(c)
		time.Sleep(grantBound)
		var callers []*waiter
		for _, bound := range []time.Duration{10 * time.Second, 4 * time.Second} {
			ctx, cancel := context.WithTimeout(context.Background(), bound)
			defer cancel()
			callers = append(callers, wait(ctx, t, c.Node(0), "k"))
			time.Sleep(time.Second)
		}
		for _, w := range callers {
			w.failed(10*time.Second, quorumlock.ErrNoQuorum)
			if !errors.Is(w.err, context.DeadlineExceeded) {
				t.Errorf("error %v", w.err)
			}
		}
	})
}
