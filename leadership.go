package quorumlock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// Leadership is one term of one leader. It lasts until Resign or HandOver, or until it is lost; what has ended never
// comes back. All methods are safe for concurrent use.
type Leadership struct {
	election *Election
	hold     *Hold
	// life ends when nobody may lead by this term any more: with the hold, or before it, when the leader gives it up. Its cause is Err's.
	life context.Context
	// proclaiming has one slot, which a proclamation keeps until no copy of it can take effect any more. Else one that its caller has given up could
	// still overtake the next.
	proclaiming chan struct{}

	run bool // a term of Run: released by it, after its callback has returned

	mu    sync.Mutex
	given bool // Resign or HandOver has been called, or Run's callback has returned
	heir  *bequest
	ends  map[*context.CancelCauseFunc]struct{} // of contexts that live until then
}

func newLeadership(e *Election, h *Hold) *Leadership {
	l := &Leadership{election: e, hold: h, proclaiming: make(chan struct{}, 1), ends: make(map[*context.CancelCauseFunc]struct{})}
	l.life, _ = l.context(context.Background())
	return l
}

// Token is the fencing token of this term: pass it along with every write to a resource that checks it.
func (l *Leadership) Token() Token { return l.hold.Token() }

// Done is closed when the leadership ends; Err then tells how.
func (l *Leadership) Done() <-chan struct{} { return l.life.Done() }

// Err is nil while this candidate leads. Afterwards it is ErrResigned or a *LostError. Like Hold.Err it reads the
// clocks itself, and is ErrUnsure while they leave it in doubt.
func (l *Leadership) Err() error {
	if l.life.Err() != nil {
		return context.Cause(l.life)
	}
	return l.hold.Err()
}

// Deadline is when the leadership is lost unless it is renewed before: see Hold.Deadline.
func (l *Leadership) Deadline() time.Time { return l.hold.Deadline() }

// Jeopardy is closed when renewals are failing: see Hold.Jeopardy.
func (l *Leadership) Jeopardy() <-chan struct{} { return l.hold.Jeopardy() }

// Forced tells of a forced release that has begun: see Hold.Forced.
func (l *Leadership) Forced() *LostError { return l.hold.Forced() }

// Context gives a context that ends when the leadership does, with the cause Err; or when parent ends. Call cancel when
// done with it.
func (l *Leadership) Context(parent context.Context) (context.Context, context.CancelFunc) {
	if l.life.Err() != nil {
		ctx, end := context.WithCancelCause(parent)
		end(context.Cause(l.life))
		return ctx, func() {}
	}
	return l.context(parent)
}

func (l *Leadership) context(parent context.Context) (context.Context, context.CancelFunc) {
	held, release := l.hold.Context(parent)
	ctx, end := context.WithCancelCause(held)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.given {
		end(ErrResigned)
	} else {
		l.ends[&end] = struct{}{}
	}
	return ctx, func() {
		l.mu.Lock()
		delete(l.ends, &end)
		l.mu.Unlock()
		end(context.Canceled)
		release()
	}
}

// give ends the term here, to be released to heir, or in line if that is nil. Only the first call counts.
func (l *Leadership) give(heir *bequest) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.given {
		return false
	}
	l.given, l.heir = true, heir
	for end := range l.ends {
		(*end)(ErrResigned)
	}
	l.ends = nil
	return true
}

// Proclaim publishes another value. Nil means that it is published: who asks for the leader from now on is told, and
// who observes the election will be. A *LostError means that this candidate does not lead any more, and ErrResigned
// that it gave the leadership up.
//
// After a *WaitError the value may have been published or not, and may yet be, until another call returns: values take
// their turns in the order of the calls, so the next one waits until nothing of this one is under way. ctx bounds the
// wait.
func (l *Leadership) Proclaim(ctx context.Context, value string) error {
	const op = "proclaim"
	if err := checkValue(value); err != nil {
		return err
	}
	h, s := l.hold, l.hold.session()
	if err := l.beginProclaim(ctx, op); err != nil {
		return err
	}
	res, err := s.onceThen(ctx, op, h.claim.name, &locktable.Command{
		Op: locktable.OpProclaim, Of: h.claim.seq, Token: locktable.Token(h.token), Value: value,
	}, func() { <-l.proclaiming })
	switch {
	case err == nil && res.Code == locktable.CodeOK:
		return nil
	case err == nil:
		err = refusal(op, h.claim.name, &res)
	}
	if end := l.Err(); end != nil && end != ErrUnsure && ctx.Err() == nil {
		return end
	}
	return err
}

// beginProclaim takes the slot of proclamations.
func (l *Leadership) beginProclaim(ctx context.Context, op string) error {
	if err := l.Err(); err != nil && err != ErrUnsure {
		return err
	}
	select {
	case l.proclaiming <- struct{}{}:
		return nil
	case <-l.life.Done():
		return l.Err()
	case <-ctx.Done():
		return &WaitError{Op: op, Name: l.hold.claim.name, Waiting: "an earlier value is under way", Err: ended(ctx)}
	}
}

// Resign gives the leadership up. At once Err is ErrResigned, and contexts end with that cause. Like Hold.Unlock it
// takes no context, waits at most until the deadline, and returns what Unlock would: nil means released, a *LostError
// that the leadership had been lost before, a *WaitError that no answer came in time and the TTL decides. A second call
// returns ErrResigned.
//
// Within Run nothing is released before lead has returned: there Resign returns at once, lead's context ends, and Run
// campaigns again, behind those that wait.
func (l *Leadership) Resign() error {
	if !l.give(nil) {
		return ErrResigned
	}
	if l.run {
		return l.lost()
	}
	return l.hold.Unlock()
}

// lost is the hold's loss, nil if it is held or was given back.
func (l *Leadership) lost() error {
	if err := l.hold.Err(); errors.Is(err, ErrLost) {
		return err
	}
	return nil
}

// HandOver gives the leadership to a candidate that waits, wherever it stands in line: the first one of the node with
// that Config.Name or server id, among the first 64 that wait. Nobody else leads in between.
//
// If no such candidate waits the error is a *CandidateError, and this one leads on, as it does when the question who
// waits got no answer (Err is nil then). Otherwise the leadership is given up as with Resign, before anything is sent:
// the successor may begin at any moment from then on. If the candidate goes away meanwhile, the next one of its node is
// taken, and if there is none leadership passes on in line, which a *CandidateError with Released tells. ctx bounds the
// wait; when it ends the rest is done in the background.
//
// Within Run it returns when such a candidate has been found: lead's context ends, and leadership passes when lead has
// returned. Run then campaigns again.
func (l *Leadership) HandOver(ctx context.Context, node string) error {
	if err := l.Err(); err != nil && err != ErrUnsure {
		return err
	}
	heir := &bequest{election: l.election, hold: l.hold, node: node}
	switch found, err := heir.find(ctx); {
	case err != nil:
		return err
	case !found:
		return &CandidateError{Name: l.election.request.label(), Node: node}
	case !l.give(heir):
		return ErrResigned
	case l.run:
		return l.lost()
	}
	return l.hold.handOver(ctx, heir)
}

// release ends a term of Run whose callback has returned. It tells whether the leader had given the term up by itself.
func (l *Leadership) release() (resigned bool, err error) {
	resigned = !l.give(nil)
	if l.heir != nil { // not written any more
		return resigned, l.hold.handOver(context.Background(), l.heir)
	}
	return resigned, l.hold.Unlock()
}
