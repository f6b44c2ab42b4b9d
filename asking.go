package quorumlock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/router"
)

// patience is how long a member is waited for before the next one is asked beside it.
const patience = 250 * time.Millisecond

// errNobody: there was nobody to ask.
var errNobody = errors.New("no member is known")

// firstAnswer asks peers in their order, each as soon as the one before it has failed or has not answered for patience, and gives
// the first answer without an error. So dead ones delay it, however many stand in front, and never keep it away: asking one after the
// other within one bound would ask the same dead ones each time. When it returns nobody is being asked any more; ask obeys its ctx.
func firstAnswer[T any](ctx context.Context, peers []router.Peer, ask func(context.Context, router.Peer) (T, error)) (T, router.Peer, error) {
	type reply struct {
		answer T
		from   router.Peer
		err    error
	}
	var asked sync.WaitGroup
	defer asked.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	replies := make(chan reply, len(peers))
	err, open := errNobody, 0
	for len(peers) > 0 || open > 0 {
		var next <-chan time.Time
		if len(peers) > 0 {
			p := peers[0]
			peers, open = peers[1:], open+1
			asked.Go(func() {
				answer, err := ask(ctx, p)
				replies <- reply{answer, p, err}
			})
			next = time.After(patience)
		}
		select {
		case r := <-replies:
			if r.err == nil {
				return r.answer, r.from, nil
			}
			err, open = r.err, open-1
		case <-next:
		case <-ctx.Done():
			return *new(T), router.Peer{}, ctx.Err()
		}
	}
	return *new(T), router.Peer{}, err
}
