package simulation

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
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

// observe notes who is shown to lead until the instance ends.
func (s *schedule) observe(n *quorumlock.Node, name string) {
	for leader, err := range quorumlock.NewElection(n, throne).Observe(context.Background()) {
		if err != nil {
			s.expected("observe", err)
			return
		}
		s.history.Leads(name, throne, int64(leader.Token), leader.Value, time.Now())
	}
}

// holding is one grant as its owner sees it.
type holding struct {
	*attempt
	serial int64 // in the order of grants as their callers learned of them
	token  quorumlock.Token
	hold   *quorumlock.Hold // nil in a callback, and for a leadership
	holds  func() bool      // what the API says
	ended  <-chan struct{}  // closed when it is over
	until  atomic.Int64     // as long as its owner means to work, in Unix nanoseconds

	refused bool // by the fence while it was held; told once
}

// isHeld asks the owner; one that is frozen can not be asked.
func (h *holding) isHeld() bool { return !h.in.frozen.Load() && h.holds() }

func (h *holding) over() bool { return closed(h.ended) }

// enter begins work under a grant that a call gave.
func (s *schedule) enter(c history.Call, a *attempt, token quorumlock.Token, hold *quorumlock.Hold, holds func() bool) *holding {
	h := &holding{attempt: a, serial: s.serial.Add(1), token: token, hold: hold, holds: holds}
	if hold != nil {
		h.ended = hold.Done()
	}
	s.history.Acquired(c, a.ID, int64(token))
	s.mu.Lock()
	s.holdings[h] = struct{}{}
	s.acquired[a.ID] = token
	s.mu.Unlock()
	s.look(h)
	return h
}

// leave ends the work under a grant; from here on its owner does not claim to hold it.
func (s *schedule) leave(h *holding) {
	s.look(h)
	s.drop(h)
	s.history.Ended(h.ID, time.Now())
}

func (s *schedule) drop(h *holding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.holdings, h)
}

// look notes whether a hold says that it is held.
func (s *schedule) look(h *holding) bool {
	held := h.isHeld()
	if held {
		s.history.Held(h.ID, time.Now())
	}
	return held
}

// askHolders asks all holds of a lock. At the instant of a grant all that do not go together with it must have ended by their own word.
func (s *schedule) askHolders(name string) {
	s.mu.Lock()
	var list []*holding
	for h := range s.holdings {
		if slices.Contains(h.Names, name) {
			list = append(list, h)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(list, func(a, b *holding) int { return cmp.Compare(a.serial, b.serial) })
	for _, h := range list {
		s.look(h)
	}
}

// holder is the instance of some hold that goes on for a while, nil if nobody holds so.
func (s *schedule) holder(while time.Duration) *instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	var first *holding
	for h := range s.holdings {
		if h.isHeld() && time.Until(time.Unix(0, h.until.Load())) >= while && (first == nil || h.serial < first.serial) {
			first = h
		}
	}
	if first == nil {
		return nil
	}
	return first.in
}
