package quorumlock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/clock"
)

// pace is how often the node looks at its sessions, if none is so short that it needs more (see paceFor): losses are reported, and renewals begun, at most
// that late.
const pace = 100 * time.Millisecond

// calm is until when nothing can happen to a session by itself, so that nobody need look at it. The zero value asks for a look each time.
type calm struct {
	raw, boot time.Duration // until a clock reaches its own of these
	offset    time.Duration // of the wall clock to Boot, when the newest success began: until it is ahead of that by nearly wallJumpLimit
}

// offsetSlack is by how much the offset at a later success may be lower than the pacer believes without its being told (extendLocked).
const offsetSlack = wallJumpLimit / 4

func (c *calm) over(now *clock.Reading, offset time.Duration) bool {
	return now.Raw >= c.raw || now.Boot >= c.boot || offset-c.offset > wallJumpLimit-offsetSlack
}

// pacer looks at all sessions of the node, and is used by one goroutine. It keeps beside each until when it is calm, in one piece of memory: at each tick it reads that and
// touches only those which are not. What makes a session restless out of turn tells by sessionSet.notice.
type pacer struct {
	node  *Node
	open  []paced
	due   []*Session // to be renewed
	every time.Duration
}

type paced struct {
	calm
	session *Session
}

// runPacer ticks all sessions, and sleeps while there are none.
func (n *Node) runPacer() {
	p := pacer{node: n, every: pace}
	var noticed []*Session
	ticker := time.NewTicker(p.every)
	defer ticker.Stop()
	for {
		noticed = n.sessions.takeNoticed(noticed[:0])
		p.take(noticed)
		if len(p.open) == 0 {
			clear(noticed)
			select {
			case <-n.sessions.some:
			case <-n.life.Done():
				return
			}
			continue
		}
		p.tick(n.clock.Now(), noticed)
		if want := n.sessions.pace(); want != p.every {
			p.every = want
			ticker.Reset(p.every)
		}
		clear(noticed)
		select {
		case <-ticker.C:
		case <-n.life.Done():
			return
		}
	}
}

// take puts sessions that are new into the list.
func (p *pacer) take(noticed []*Session) {
	for _, s := range noticed {
		if s.place == 0 {
			p.open = append(p.open, paced{session: s})
			s.place = len(p.open)
		}
	}
}

// tick looks at the sessions that were noticed and at those whose calm is over, and has those renewed that want it.
func (p *pacer) tick(now clock.Reading, noticed []*Session) {
	for _, s := range noticed {
		if s.place > 0 {
			p.open[s.place-1].calm = calm{}
		}
	}
	offset := wallOffset(now)
	for i := 0; i < len(p.open); {
		o := &p.open[i]
		if !o.over(&now, offset) {
			i++
			continue
		}
		calm, renew, gone := o.session.tick(now)
		if gone {
			p.drop(i) // another one has its place now
			continue
		}
		if o.calm = calm; renew {
			p.due = append(p.due, o.session)
		}
		i++
	}
	p.node.renew(p.due)
	clear(p.due)
	p.due = p.due[:0]
}

// drop takes a session out of the list for good.
func (p *pacer) drop(i int) {
	last := len(p.open) - 1
	p.open[i].session.place = -1
	if i != last {
		p.open[i] = p.open[last]
		p.open[i].session.place = i + 1
	}
	p.open[last] = paced{}
	p.open = p.open[:last]
}

func wallOffset(r clock.Reading) time.Duration { return time.Duration(r.Wall.UnixNano()) - r.Boot }

// tick is called by the node's pacer when the session's calm is over: it finds losses without being asked, warns, and says whether a renewal is to begin.
func (s *Session) tick(now clock.Reading) (next calm, renew, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing != nil && s.life.Err() == nil && s.lease.state(now) != leaseLost {
		return calm{}, false, false
	}
	state := s.judgeLocked(now)
	if state == leaseLost {
		return calm{}, false, true
	}
	restless := state != leaseHeld
	for _, c := range s.claims {
		if c.hold != nil {
			c.hold.tickLocked(now)
			restless = restless || c.hold.limit != nil || c.hold.frozen != nil
		}
	}
	if renew = !s.renewing && (state != leaseHeld || s.renewSoon || clock.Longest(s.renewed, now) >= renewalInterval(s.ttl)); renew {
		s.renewing, s.renewSoon, s.renewed = true, false, now
	}
	if restless || s.renewSoon || s.warned {
		return calm{}, renew, false
	}
	return s.calmUntilLocked(), renew, false
}

// calmUntilLocked is when the next renewal is due, or, should that go wrong, the lease in jeopardy or over.
func (s *Session) calmUntilLocked() calm {
	interval, age, newest := renewalInterval(s.ttl), jeopardyAge(s.ttl), s.lease.newest
	s.offset = wallOffset(newest)
	return calm{
		raw:    min(s.renewed.Raw+interval, newest.Raw+age, s.lease.rawEnd),
		boot:   min(s.renewed.Boot+interval, newest.Boot+age, s.lease.bootEnd),
		offset: s.offset,
	}
}
