package quorumlock

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/internal/router"
)

// askPause is how long a peer that was asked has the word alone. One that answers does so within a round trip; one behind a cut says nothing, and two of
// them must not use up the time in which the others would have answered.
const askPause = 200 * time.Millisecond

// firstAnswer asks peers in their order, each one when the one before it has failed, or has been silent for askPause, and gives the first answer with which ask
// is content. ctx bounds it; nothing is asked any more when it returns.
func firstAnswer[T any](
	ctx context.Context, peers []router.Peer, ask func(context.Context, router.Peer) (T, bool),
) (answer T, ok bool) {
	type said struct {
		answer T
		ok     bool
	}
	ctx, cancel := context.WithCancel(ctx)
	answers := make(chan said, len(peers)) // none waits for its turn
	running := 0
	defer func() {
		cancel()
		for ; running > 0; running-- {
			<-answers
		}
	}()
	next := time.NewTimer(0)
	defer next.Stop()
	for len(peers) > 0 || running > 0 {
		select {
		case <-next.C:
			if len(peers) == 0 {
				continue
			}
			p := peers[0]
			peers, running = peers[1:], running+1
			go func() {
				var s said
				s.answer, s.ok = ask(ctx, p)
				answers <- s
			}()
			next.Reset(askPause)
		case s := <-answers:
			if running--; s.ok {
				return s.answer, true
			}
			next.Reset(0)
		case <-ctx.Done():
			return answer, false
		}
	}
	return answer, false
}
