package quorumlock

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/internal/clock"
	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/router"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// renew begins to renew sessions, which are marked as renewing: together, as far as they have one TTL and fit into one request.
func (n *Node) renew(due []*Session) {
	for len(due) > 0 {
		ttl, rest := due[0].ttl, due[:0:0]
		var together []*Session
		for _, s := range due {
			if s.ttl == ttl && len(together) < wire.MaxRenewals {
				together = append(together, s)
			} else {
				rest = append(rest, s)
			}
		}
		if !n.spawn(func() { n.renewTogether(ttl, together) }) {
			return // the node is closing: nobody looks at its sessions any more
		}
		due = rest
	}
}

// renewTogether makes one attempt for sessions of one TTL. For those that got no answer the pacer makes the next. c0 is read before any of it is queued.
func (n *Node) renewTogether(ttl time.Duration, together []*Session) {
	const op = "renew session"
	ctx, cancel := context.WithTimeout(n.life, renewalAttempt(ttl))
	defer cancel()
	c0 := n.clock.Now()
	renewed, err := n.router.Renew(ctx, func() []wire.Renewal { return stillWanted(together) }, router.Options{Hedge: hedgeDelay(ttl)})
	if err = n.explain(failure(ctx, op, "", err)); err != nil {
		n.log.Debug("sessions not renewed", "sessions", len(together), "first", int64(together[0].id), "error", err)
	}
	noQuorum := errors.Is(err, ErrNoQuorum)
	for _, s := range together {
		if len(renewed) > 0 && renewed[0].Session == s.id {
			s.renewalAnswered(&renewed[0].Result, c0)
			renewed = renewed[1:]
			continue
		}
		s.renewalFailed(noQuorum)
	}
}

// stillWanted are the renewals of sessions that are neither lost nor being closed: an attempt that comes late must not prolong what nobody keeps.
func stillWanted(sessions []*Session) []wire.Renewal {
	list := make([]wire.Renewal, 0, len(sessions))
	for _, s := range sessions {
		s.mu.Lock()
		if s.closing == nil && s.life.Err() == nil {
			list = append(list, wire.Renewal{Session: s.id, Since: s.since})
		}
		s.mu.Unlock()
	}
	return list
}

func (s *Session) renewalAnswered(res *locktable.Result, c0 clock.Reading) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewing = false
	s.answeredLocked(locktable.OpRenew, res, c0)
}

func (s *Session) renewalFailed(noQuorum bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewing, s.noQuorum = false, noQuorum
	s.renewSoonLocked()
}

// renewSoonLocked has the pacer renew at its next tick.
func (s *Session) renewSoonLocked() {
	s.renewSoon = true
	s.node.sessions.notice(s)
}

// hurry makes the pacer renew at once: a leader changed, and a grant may have been lost with the old one. One renewal brings the
// news of all the session's claims, where sending each claim again would cost one entry a waiter.
func (s *Session) hurry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.claims) > 0 {
		s.renewSoonLocked()
	}
}

// localRenew is the router's way to the leader on this node, for renewals. They are commands of the first level: no look at the state's is needed.
func (n *Node) localRenew(ctx context.Context, cmds []*locktable.Command) ([]locktable.Result, error) {
	l := n.lead.Load()
	if l == nil && n.group.leading() {
		l = n.awaitLeadership(ctx)
	}
	if l == nil {
		return nil, router.ErrNotLeader
	}
	results, err := l.batch.RenewAll(ctx, cmds)
	return results, leaderError(err)
}
