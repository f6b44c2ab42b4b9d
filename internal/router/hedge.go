package router

import (
	"context"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// hedgeWidth is how many attempts of one renewal run at once. Two find the way around any one silent member; more would let a
// cluster in trouble be drowned by its own renewals.
const hedgeWidth = 2

// from is an answer with who gave it.
type from struct {
	peer Peer
	answer
}

// race makes attempts side by side: whenever Options.Hedge has passed since the last one began and there is no answer, or one of two
// failed, another one begins through another member. It returns the first answer that ends the call; or, when all attempts under
// way have failed or ctx has ended, the last one. Attempts it leaves behind are cancelled.
func (t *trip) race(ctx context.Context) answer {
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan from, hedgeWidth) // room for all that run, so none is held up when nobody reads any more
	var busy []string                      // who is being asked
	timer := time.NewTimer(0)              // when the next attempt begins
	defer timer.Stop()
	var begun time.Time
	for {
		var tick <-chan time.Time
		if len(busy) < hedgeWidth {
			tick = timer.C // one that came while there was no room is found here
		}
		select {
		case <-tick:
			if to, ok := t.target(busy); ok {
				t.launch(running, to, answers)
				busy = append(busy, to.ID)
			}
			begun = time.Now()
			timer.Reset(t.opt.Hedge)
		case f := <-answers:
			busy = slices.DeleteFunc(busy, func(id string) bool { return id == f.peer.ID })
			t.learn(f.peer, f.answer, ctx.Err() != nil)
			if len(busy) == 0 || final(f.answer) {
				return f.answer
			}
			timer.Reset(min(t.replacement(), t.opt.Hedge-time.Since(begun)))
		case <-ctx.Done():
			t.sent = t.sent || len(busy) > 0 // what is pending may have been written
			return answer{ProposeReply: wire.ProposeReply{Status: wire.StatusUnknown}, silent: true}
		}
	}
}

// replacement is how soon an attempt that failed beside another one is replaced.
func (t *trip) replacement() time.Duration {
	if t.freshHint() && t.pace.skip() {
		return 0
	}
	t.pace.skips = 0
	return t.pace.next()
}

func final(a answer) bool {
	return a.Status == wire.StatusDone || a.Status == wire.StatusRefused
}

// launch makes one attempt in a goroutine of its own.
func (t *trip) launch(ctx context.Context, to target, answers chan<- from) {
	r, load, bound := t.router, t.load, t.opt.Attempt // t itself belongs to the goroutine of Do
	r.hedges.Go(func() {
		answers <- from{to.Peer, r.try(ctx, to, load, bound)}
	})
}
