package quorumlock

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// bequest is a hold on its way to a candidate of one node: by hand over to one after the other of those that wait, or, when there is none left, by a plain unlock.
// One goroutine at a time works on it.
type bequest struct {
	election *Election
	hold     *Hold
	node     string        // name or server id
	rev      locktable.Rev // create revision of the candidate chosen; those up to it have been tried
	release  *locktable.Command
	missed   bool // no candidate is left: it is released in line
}

// find chooses the first candidate of the node that has not been tried, and tells whether there is one. A candidate that comes later has a higher create revision, so nobody is tried
// twice: the set of a MultiMutex waits for the name as well, and can not be given it.
func (b *bequest) find(ctx context.Context) (bool, error) {
	info, err := b.election.inspect(ctx, "look for the candidate")
	if err != nil {
		return false, err
	}
	for i := range info.Waiters {
		w := &info.Waiters[i]
		if w.Rev > b.rev && w.Mode == locktable.Exclusive && (w.NodeName == b.node || w.Node == b.node) {
			b.rev = w.Rev
			return true, nil
		}
	}
	return false, nil
}

// handOver ends the hold here and releases it to the candidate that was found. The hold ends before the command is sent: the successor's begins with its commit, which
// is before the answer comes back.
func (h *Hold) handOver(ctx context.Context, b *bequest) error {
	return h.unlockBy(func(seq uint64) error {
		b.release = h.handOverTo(seq, b.rev)
		return h.releaseTo(ctx, b)
	})
}

func (h *Hold) handOverTo(seq uint64, rev locktable.Rev) *locktable.Command {
	return &locktable.Command{Op: locktable.OpHandOver, Seq: seq, Of: h.claim.seq, Token: locktable.Token(h.token), Rev: rev}
}

// releaseTo settles the bequest, in time by the rules of Unlock, and leaves the rest to the background.
func (h *Hold) releaseTo(ctx context.Context, b *bequest) error {
	s := h.session()
	inTime, cancel, _ := h.inTime()
	defer cancel()
	stop := context.AfterFunc(ctx, cancel)
	defer stop()
	res, err := b.settle(inTime)
	if err != nil {
		if s.life.Err() == nil {
			s.node.spawn(func() { _, _ = b.settle(s.life) })
		}
		if ctx.Err() != nil {
			return &WaitError{Op: "hand over", Name: h.claim.name, Waiting: "no answer yet; it goes on in the background", Err: ended(ctx)}
		}
		return h.unconfirmed()
	}
	if err := h.outcome(&res); err != nil {
		return err
	}
	if b.missed {
		return &CandidateError{Name: h.claim.name, Node: b.node, Released: true}
	}
	return nil
}

// settle repeats the release until it is answered for good or ctx ends, and may be called again then.
func (b *bequest) settle(ctx context.Context) (locktable.Result, error) {
	s := b.hold.session()
	for {
		res, err := s.persist(ctx, s.node.clock.Now(), "hand over", b.hold.claim.name, *b.release)
		if err != nil {
			return res, err
		}
		s.finish(b.release.Seq)
		if b.release.Op == locktable.OpUnlock || res.Code != locktable.CodeNoWaiter && res.Code != locktable.CodeDraining {
			return res, nil
		}
		b.next(ctx, res.Code == locktable.CodeNoWaiter)
	}
}

// next is what to try after a refusal. Nobody leads meanwhile, so the question who else waits is short, and without an answer the line decides.
func (b *bequest) next(ctx context.Context, again bool) {
	s := b.hold.session()
	s.mu.Lock()
	seq := s.beginLocked()
	s.mu.Unlock()
	if again {
		short, cancel := context.WithTimeout(ctx, findBound)
		defer cancel()
		if found, err := b.find(short); found && err == nil {
			b.release = b.hold.handOverTo(seq, b.rev)
			return
		}
	}
	unlock := b.hold.unlock(seq)
	b.release, b.missed = &unlock, true
}

// findBound is how long nobody leads for the sake of another candidate of the same node.
const findBound = time.Second
