package router

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/commit"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// trip is one call of Do. It is used by one goroutine.
type trip struct {
	router *Router
	load   load
	opt    Options
	pace   pace

	hint  Peer   // of the last answer; believed for the next attempt only
	avoid string // who was asked last and did not help; not asked twice running if there is anybody else
	led   string // the leader as known when the last attempt began
	turn  int    // next in Env.Others

	sent      bool
	contact   contact
	overloads int // in a row
	detail    string
}

// contact is what the attempts so far tell about the leader. An attempt that the caller's ctx cut off tells nothing.
type contact uint8

const (
	untold contact = iota
	reached
	missed
)

func (t *trip) run(ctx context.Context) (answer, error) {
	for ctx.Err() == nil {
		// Taken before the attempt, so that a change during it ends the pause after it.
		_, changed := t.router.env.Leader()
		a := t.attempt(ctx)
		switch a.Status {
		case wire.StatusDone:
			return a, nil
		case wire.StatusRefused:
			return answer{}, t.failed(ErrRefused)
		}
		if t.overloads >= overloadTries && !t.opt.Renewal {
			return answer{}, t.failed(commit.ErrOverloaded)
		}
		t.pause(ctx, changed)
	}
	return answer{}, t.failed(ctx.Err())
}

func (t *trip) attempt(ctx context.Context) answer {
	if t.opt.Renewal {
		return t.race(ctx)
	}
	to, _ := t.target(nil) // with nobody busy there is always one
	a := t.router.try(ctx, to, t.load, t.opt.Attempt)
	t.learn(to.Peer, a, ctx.Err() != nil)
	return a
}

// try makes one attempt, on this node if that is the target. Local ends by itself when the leadership does.
func (r *Router) try(ctx context.Context, to target, l load, bound time.Duration) answer {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	if to.ID == r.env.Self {
		return r.local(ctx, l)
	}
	return r.call(ctx, cancel, to, l, 0)
}

// target is whom to ask next.
func (t *trip) target(busy []string) (to target, ok bool) {
	leader, changed := t.router.env.Leader()
	if leader.ID == t.avoid && leader.ID != t.led {
		t.avoid = "" // it was asked before it led
	}
	t.led = leader.ID
	p, ok := t.choose(leader, busy)
	if p.ID != leader.ID && leader.ID != "" {
		changed = nil // asked to pass it on to a leader whom this node cannot reach
	}
	return target{p, changed}, ok
}

// choose chooses whom to ask next: who was hinted at, the leader, another member that may know better; and if there is nobody else, the
// one that just failed, or this node. Those who are busy being asked are not chosen.
func (t *trip) choose(leader Peer, busy []string) (p Peer, ok bool) {
	hint := t.hint
	t.hint = Peer{}
	fit := func(p Peer) bool { return p.ID != "" && !slices.Contains(busy, p.ID) }
	switch {
	case fit(hint) && hint.ID != t.avoid:
		return hint, true
	case fit(leader) && leader.ID != t.avoid:
		return leader, true
	}
	if p, ok := t.other(func(p Peer) bool { return fit(p) && p.ID != t.avoid }); ok {
		return p, true
	}
	if fit(leader) {
		return leader, true
	}
	if p, ok := t.other(fit); ok {
		return p, true
	}
	own := Peer{ID: t.router.env.Self}
	return own, fit(own)
}

// other takes the members in turn, without this node.
func (t *trip) other(fit func(Peer) bool) (Peer, bool) {
	others := t.router.env.Others()
	for range others {
		p := others[t.turn%len(others)]
		t.turn++
		if fit(p) && p.ID != t.router.env.Self {
			return p, true
		}
	}
	return Peer{}, false
}

// learn notes what an answer of p tells. cut: the caller's ctx had ended, so a missing answer is not p's fault.
func (t *trip) learn(p Peer, a answer, cut bool) {
	t.sent = t.sent || a.maybeDone()
	t.detail = a.Detail
	t.hint = a.hint()
	if a.Status == wire.StatusOverloaded {
		t.overloads++
	} else {
		t.overloads = 0
	}
	t.avoid = ""
	if a.Status != wire.StatusOverloaded && !cut {
		// Even a leader that was reached: if its disk hangs it believes in itself, and only the others know better.
		t.avoid = p.ID
	}
	switch {
	case a.leaderReached():
		t.contact = reached
	case !cut:
		t.contact = missed
	}
}

// pause keeps tries apart, so that no disagreement about who leads becomes a storm.
func (t *trip) pause(ctx context.Context, changed <-chan struct{}) {
	if t.freshHint() && t.pace.skip() {
		return
	}
	if t.overloads > 0 {
		changed = nil // the leader is known; a change is no reason to hurry
		t.pace.step = max(t.pace.step, overloadPause/2)
	}
	t.pace.wait(ctx, changed)
}

// freshHint tells whether the last answer named somebody worth asking without a pause.
func (t *trip) freshHint() bool {
	return t.hint.ID != "" && t.hint.ID != t.avoid && t.overloads == 0
}

// failed is the error of the call, with all that is known about why.
func (t *trip) failed(err error) *Error {
	e := &Error{Err: err, Why: t.detail, Sent: t.sent, NoLeader: t.leaderless()}
	if !e.NoLeader {
		return e
	}
	if why := t.router.env.Why(); why != "" {
		e.Why = why
	}
	return e
}

func (t *trip) leaderless() bool {
	if t.contact == untold {
		leader, _ := t.router.env.Leader()
		return leader.ID == ""
	}
	return t.contact == missed
}

const (
	firstPause = 10 * time.Millisecond
	lastPause  = 250 * time.Millisecond

	// overloadPause is the first pause after a full queue, about what it takes to write a full one.
	overloadPause = 50 * time.Millisecond

	maxSkips = 2 // tries in a row that news may bring without a pause; two members that name each other would make it a loop
)

// pace spaces tries: 10 ms doubling to 250 ms, less up to half by chance, so that callers who failed together do not return
// together. News (a new hint, another leader) ends a pause at once, but only maxSkips times between real ones.
type pace struct {
	step  time.Duration
	skips int
}

// skip tells whether the next pause may be left out.
func (p *pace) skip() bool {
	if p.skips >= maxSkips {
		return false
	}
	p.skips++
	return true
}

// next is the length of the next pause.
func (p *pace) next() time.Duration {
	p.step = min(max(2*p.step, firstPause), lastPause)
	return p.step/2 + rand.N(p.step/2)
}

// wait pauses until the time is over, ctx ends, or changed is closed; for the last it waits firstPause at least when skips are
// used up.
func (p *pace) wait(ctx context.Context, changed <-chan struct{}) {
	d := p.next()
	if !p.skip() {
		p.skips = 0
		least := min(d, firstPause)
		sleep(ctx, least, nil)
		d -= least
	}
	if sleep(ctx, d, changed) {
		p.step = 0
		return
	}
	p.skips = 0
}

// sleep tells whether it ended because wake was closed.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-wake:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}
