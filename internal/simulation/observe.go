package simulation

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/simulation/history"
	"github.com/quorumlock/quorumlock/watch"
)

// follow notes what an instance shows of the log until it ends.
func (s *schedule) follow(n *quorumlock.Node, name string) {
	for {
		o := s.history.Observer(name)
		for e, err := range n.Watch(context.Background(), "") {
			if errors.Is(err, watch.ErrFellBehind) {
				break
			}
			if err != nil {
				return
			}
			if e.Kind == watch.Granted {
				s.askHolders(e.Name)
			}
			o.Event(e, time.Now())
		}
	}
}

// holding is one grant as its owner sees it.
type holding struct {
	name  string
	token quorumlock.Token
	in    *instance
	until time.Time   // as long as its owner means to work
	holds func() bool // what the API says

	refused bool // by the fence while it was held; told once
}

// isHeld asks the owner; one that is frozen can not be asked.
func (h *holding) isHeld() bool { return !h.in.frozen.Load() && h.holds() }

// enter begins work under a grant that a call gave.
func (s *schedule) enter(c history.Call, token quorumlock.Token, in *instance, length time.Duration, holds func() bool) *holding {
	h := &holding{name: c.Lock, token: token, in: in, until: time.Now().Add(length), holds: holds}
	s.history.Acquired(c, int64(token))
	s.mu.Lock()
	s.holdings[h] = struct{}{}
	s.acquired[token] = true
	s.mu.Unlock()
	s.ask(h)
	return h
}

// leave ends the work under a grant; from here on its owner does not claim to hold it.
func (s *schedule) leave(h *holding) {
	s.ask(h)
	s.mu.Lock()
	delete(s.holdings, h)
	s.mu.Unlock()
	s.history.Ended(int64(h.token), time.Now())
}

// ask notes whether a hold says that it is held.
func (s *schedule) ask(h *holding) bool {
	held := h.isHeld()
	if held {
		s.history.Held(int64(h.token), time.Now())
	}
	return held
}

// askHolders asks all holds of a lock. At the instant of a grant all that are left must have ended by their own word.
func (s *schedule) askHolders(name string) {
	s.mu.Lock()
	var list []*holding
	for h := range s.holdings {
		if h.name == name {
			list = append(list, h)
		}
	}
	s.mu.Unlock()
	for _, h := range list {
		s.ask(h)
	}
}

// holder is the instance of some hold that goes on for a while, nil if nobody holds so.
func (s *schedule) holder(while time.Duration) *instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	var first *holding
	for h := range s.holdings {
		if h.isHeld() && time.Until(h.until) >= while && (first == nil || h.token < first.token) {
			first = h
		}
	}
	if first == nil {
		return nil
	}
	return first.in
}
