package router

import (
	"context"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// A session with a short TTL makes short attempts; the way around a silent leader must fit into one.
func TestHedgeOfAShortAttempt(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, r *Router) {
		w.setLeader("n2")
		w.call = func(ctx context.Context, to string) (wire.ProposeReply, error) {
			if to == "n2" {
				return silence(ctx)
			}
			return done(), nil
		}
		const attempt, hedge = 100 * time.Millisecond, 50 * time.Millisecond
		if _, err := w.do(r, attempt, Options{Renewal: true, Hedge: hedge}); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(w.start); d != hedge || len(w.asked) != 2 {
			t.Errorf("done after %v: %v", d, w.asked)
		}
	})
}
