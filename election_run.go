package quorumlock

import (
	"context"
	"errors"
	"time"
)

// Run campaigns with value, and calls lead whenever it is this candidate's turn, until lead has done its work or ctx
// ends. It is the way to be one of several instances of which one leads.
//
// lead's context ends when the leadership is lost (context.Cause is then the *LostError), when it is given up
// (ErrResigned), or when ctx ends. Nothing is released before lead has returned, so a successor begins after it; only a
// lost lease lets one begin earlier, and then a resource that checks tokens refuses what lead still does. When lead
// returns or panics, Run resigns.
//
// After a loss, and after Resign and HandOver, Run campaigns again with value, whatever lead returned. Run returns:
//   - when ctx ends: a *WaitError that unwraps to the ctx error, joined with lead's error if that is another one;
//   - when lead returns while it leads: with lead's error, or nil, joined with that of the release as Hold.Unlock tells
//     it;
//   - when the node or the session that campaigns has been closed: an error that matches ErrClosed. A *Session that was
//     lost can not campaign any more: its *LostError;
//   - when the campaign is refused for good, as by a *KindError or a *FieldError.
func (e *Election) Run(ctx context.Context, value string, lead func(ctx context.Context, l *Leadership) error) error {
	if lead == nil {
		return noCallback()
	}
	for {
		again, err := e.term(ctx, value, lead)
		if !again {
			return err
		}
		pause(ctx, campaignPause)
	}
}

// campaignPause keeps campaigns apart whose terms end at once: a loss leaves the others that long anyway, and a lead that resigns as soon as it is called must not become a busy loop.
const campaignPause = 100 * time.Millisecond

// term is one campaign and what it led to.
func (e *Election) term(ctx context.Context, value string, lead func(ctx context.Context, l *Leadership) error) (again bool, err error) {
	l, err := e.Campaign(ctx, value)
	if err != nil {
		return e.worthAnother(ctx, err), err
	}
	l.run = true // nobody else knows it yet
	t := term{leadership: l}
	if err := l.hold.work(ctx, t.release, func(held context.Context) error { return t.lead(held, lead) }); err != nil {
		t.released = err // the session was closed at the moment of the grant
	}
	return t.judge(ctx)
}

// worthAnother tells whether a campaign that failed with err may succeed when it is tried again.
func (e *Election) worthAnother(ctx context.Context, err error) bool {
	if ctx.Err() != nil || errors.Is(err, ErrClosed) {
		return false
	}
	if s, ok := e.request.owner.(*Session); ok && !s.alive() {
		return false
	}
	return errors.Is(err, ErrLost) || errors.Is(err, ErrOverloaded)
}

// term is how Run's callback and the release after it ended.
type term struct {
	leadership *Leadership
	result     error // of the callback
	resigned   bool  // by the callback's own wish
	released   error
}

func (t *term) lead(held context.Context, lead func(ctx context.Context, l *Leadership) error) error {
	ctx, cancel := t.leadership.Context(held)
	defer cancel()
	t.result = lead(ctx, t.leadership)
	return nil
}

func (t *term) release() error {
	t.resigned, t.released = t.leadership.release()
	return nil
}

// judge decides whether Run goes on. The end of ctx comes first: a caller that has asked for the end gets it, whatever else happened.
func (t *term) judge(ctx context.Context) (again bool, err error) {
	h := t.leadership.hold
	log := h.session().node.log.Named("election")
	switch end := h.Err(); {
	case ctx.Err() != nil:
		asked := &WaitError{Op: "lead", Name: h.claim.name, Err: ended(ctx)}
		return false, errors.Join(asked, t.beside(ctx.Err(), context.Cause(ctx)), t.released)
	case errors.Is(end, ErrClosed):
		return false, errors.Join(end, t.beside(context.Canceled, ErrClosed), t.unless(ErrClosed))
	case errors.Is(end, ErrLost) || errors.Is(t.released, ErrLost):
		log.Warn("leadership lost", "election", h.claim.name, "token", h.token, "hold", end, "release", t.released, "result", t.result)
		return true, nil
	case t.resigned:
		log.Info("leadership given up", "election", h.claim.name, "token", h.token, "release", t.released, "result", t.result)
		return true, nil
	}
	return false, errors.Join(t.result, t.released)
}

// beside is the callback's error unless it only repeats why its context ended.
func (t *term) beside(reasons ...error) error {
	for _, reason := range reasons {
		if errors.Is(t.result, reason) {
			return nil
		}
	}
	return t.result
}

// unless is the release's error unless it matches target.
func (t *term) unless(target error) error {
	if errors.Is(t.released, target) {
		return nil
	}
	return t.released
}
