package quorumlock

import (
	"math"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/membership"
)

// AgeUnknown is the age of a state whose node has not been in touch with its group since it was opened. It is larger
// than any other.
const AgeUnknown = time.Duration(math.MaxInt64)

// contactAge is how long ago this node was in touch with its group (see LockInfo.Age). It takes no part in any decision.
//
// A leader does not count as in touch because it leads: raft only notices a lost quorum when its main loop runs, which a disk write that hangs, or a stop of the
// process, keeps it from for as long as they last.
func (n *Node) contactAge() time.Duration {
	now := time.Now()
	if l := n.lead.Load(); l != nil && n.group.leading() {
		return elapsed(l.followed(now), now)
	}
	return elapsed(n.group.lastContact(), now)
}

// elapsed is the longer of the times on the monotonic and on the wall clock: the former stands still in suspend, and the latter may be set back.
func elapsed(since, now time.Time) time.Duration {
	if since.IsZero() {
		return AgeUnknown
	}
	return max(now.Sub(since), now.Round(0).Sub(since.Round(0)), 0)
}

// followed is the newest time at which a majority of the voters was known to follow this leader: they elected it, and since then they say so when
// they are probed.
func (l *leadership) followed(now time.Time) time.Time {
	return newest(l.elected, l.progress.followed(l.node.id, l.node.group.servers(), now))
}

// follows notes that a server said it follows this leader, to a probe that began at the given time.
func (p *progress) follows(id string, begun time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := p.byID[id]; m != nil { // it may have been forgotten since it answered
		m.followed = begun
	}
}

// followed is the newest time at which a majority of the voters, self included, followed.
func (p *progress) followed(self string, config []membership.Server, now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	var times []time.Time
	for _, s := range config {
		switch m := p.byID[s.ID]; {
		case !s.Voter:
		case s.ID == self:
			times = append(times, now)
		case m != nil:
			times = append(times, m.followed)
		default:
			times = append(times, time.Time{})
		}
	}
	if len(times) == 0 {
		return time.Time{}
	}
	slices.SortFunc(times, func(a, b time.Time) int { return b.Compare(a) })
	return times[len(times)/2]
}

func newest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
