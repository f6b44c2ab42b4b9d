package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/simulation/history"
)

// attempt is one claim that somebody is about to make. Its ID is its note, so that events, inspections and errors tell whose it is.
type attempt struct {
	history.Claim
	client string
	in     *instance
	bound  time.Duration // of the wait
}

// claim is a new claim of a client.
func (s *schedule) claim(client string, in *instance, mode quorumlock.Mode, names ...string) *attempt {
	id := fmt.Sprintf("%s#%d", client, s.serial.Add(1))
	return &attempt{Claim: history.Claim{ID: id, Names: names, Mode: mode}, client: client, in: in, bound: liveBound}
}

// options are the claim's as the API takes them.
func (a *attempt) options() []quorumlock.LockOption {
	return []quorumlock.LockOption{quorumlock.Note(a.ID), quorumlock.Delay(a.Delay), quorumlock.MaxHold(a.MaxHold)}
}

// name is the lock in the log of calls; a set has none.
func (a *attempt) name() string {
	if len(a.Names) == 1 {
		return a.Names[0]
	}
	return ""
}

func (a *attempt) call() history.Call {
	return history.Call{Client: a.client, Lock: a.name(), Start: time.Now()}
}

func done(c history.Call) history.Call {
	c.End = time.Now()
	return c
}

// ask makes the claim by a call of the API, and gives the holding, nil if there is none.
func (s *schedule) ask(a *attempt, by func(ctx context.Context) (*quorumlock.Hold, error)) (*holding, error) {
	s.history.Asks(a.Claim)
	ctx, cancel := context.WithTimeout(context.Background(), a.bound)
	defer cancel()
	c := a.call()
	h, err := by(ctx)
	c = done(c)
	if late := c.End.Sub(c.Start) - a.bound; late > lateBound {
		s.t.Errorf("a call for %q returned %v after its ctx: %v", a.Names, late, err)
	}
	if err != nil {
		s.failed(c, a, err)
		return nil, err
	}
	return s.enter(c, a, h.Token(), h, func() bool { return h.Err() == nil }), nil
}

// failed notes an acquire that gave no hold.
func (s *schedule) failed(c history.Call, a *attempt, err error) {
	s.expected("lock", err)
	if limit := (*quorumlock.LimitError)(nil); errors.As(err, &limit) {
		s.agree(limit.Agreed)
	}
	if locked := (*quorumlock.LockedError)(nil); errors.As(err, &locked) {
		if slices.Contains(a.Names, locked.Name) {
			c.Lock = locked.Name // of a set, it is told of one name
		}
		s.history.Refused(c, a.ID, locked.Holder.Note)
		return
	}
	s.history.Failed(c, a.ID)
}

// use works under a hold for a while, as long as it is held, and gives it back.
func (s *schedule) use(h *holding, length time.Duration) {
	s.busy(h, length)
	s.release(h)
}

// release unlocks.
func (s *schedule) release(h *holding) {
	s.leave(h)
	u := h.call()
	err := h.hold.Unlock()
	s.history.Unlocked(done(u), h.ID, outcomeOf(err))
	s.ended(h, "unlock", err)
}

// ended looks at how a hold ended by its owner's call.
func (s *schedule) ended(h *holding, op string, err error) {
	s.expected(op, err)
	if lost := (*quorumlock.LostError)(nil); errors.As(err, &lost) && lost.Cause == quorumlock.CauseMaxHold {
		s.capped.Add(1)
		if h.MaxHold == 0 {
			s.t.Errorf("%q was lost by a cap that it has not: %v", h.ID, err)
		}
	}
}

// busy works until the time is over or the hold is. Who is frozen does nothing at all.
func (s *schedule) busy(h *holding, length time.Duration) {
	h.until.Store(time.Now().Add(length).UnixNano())
	for stop := time.Now().Add(length); time.Now().Before(stop) && !closed(s.quit); {
		if h.in.thawed(); h.over() {
			return
		}
		switch quorumlock.Mode(h.Mode) {
		case quorumlock.Exclusive:
			s.update(h)
		case quorumlock.Shared:
			s.browse(h)
		default:
			time.Sleep(sampling) // holders of permits have no token to show
			h.in.thawed()
			s.look(h)
		}
	}
	h.in.thawed()
}

// update reads what the locks protect and writes it back a while later. Whoever is held must not be refused.
func (s *schedule) update(h *holding) {
	held := s.look(h)
	var seen []snapshot
	for _, name := range h.Names {
		seen = append(seen, s.store.read(name, h.token))
	}
	time.Sleep(sampling)
	h.in.thawed()
	refused := slices.ContainsFunc(seen, func(one snapshot) bool { return one.refusal != nil })
	if !refused {
		held = s.look(h)
	}
	for k, name := range h.Names {
		s.judged(h, name, held, s.store.write(name, h.token, seen[k]))
	}
}

// browse reads what a lock protects twice. Behind the fence nobody can have written in between.
func (s *schedule) browse(h *holding) {
	name := h.Names[0]
	held := s.look(h)
	seen := s.store.read(name, h.token)
	s.judged(h, name, held, seen.refusal)
	time.Sleep(sampling)
	h.in.thawed()
	held = s.look(h)
	again := s.store.read(name, h.token)
	s.judged(h, name, held, again.refusal)
	if seen.refusal == nil && again.refusal == nil && seen.fenced != again.fenced {
		s.t.Errorf("%q: %q read %d and then %d behind the fence, under one token %v", name, h.ID, seen.fenced, again.fenced, h.token)
	}
}

// judged looks at what the fence said to a holder.
func (s *schedule) judged(h *holding, name string, held bool, err error) {
	switch {
	case err == nil:
	case !errors.Is(err, quorumlock.ErrStaleToken):
		s.t.Error(err)
	case held && !s.overlapsAllowed() && !h.refused:
		h.refused = true
		s.t.Errorf("%v: %q: the fence refused %v of %q, which was held on instance %d: %v", time.Since(s.started), name, h.token, h.ID, h.in.index, err)
	}
}

// overlapsAllowed: beyond A3, and where somebody takes locks by force at once, a holder may be the last to know.
func (s *schedule) overlapsAllowed() bool { return s.Wild || s.ForceNow }
