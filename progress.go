package quorumlock

import (
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// progress is what the leader's probes found.
type progress struct {
	own  uint32 // feature level of the leader's binary
	mu   sync.Mutex
	byID map[string]*probed
}

type probed struct {
	status     wire.StatusReply
	reached    time.Time // last answer; zero if none in this term
	stable     time.Time // first of an unbroken row of answers
	caughtUp   bool
	reachable  bool
	firstProbe time.Time
	followed   time.Time // when the newest probe began whose answer names this leader
	left       bool      // asked to be taken out
}

func newProgress(own uint32) *progress { return &progress{own: own, byID: make(map[string]*probed)} }

func (p *progress) note(id string, status wire.StatusReply, err error, last uint64, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.byID[id]
	if m == nil {
		m = &probed{firstProbe: now}
		p.byID[id] = m
	}
	if err != nil {
		m.reachable, m.stable, m.caughtUp = false, time.Time{}, false
		return
	}
	if !m.reachable || m.status.Boot != status.Boot {
		m.stable = now
	}
	m.status, m.reached, m.reachable = status, now, true
	m.caughtUp = status.AppliedIndex+caughtUpLag >= last
}

// forget drops what was measured of a server: it was in the group before, and is admitted anew. Its last answer, or the lack of one since it went, would
// pass for what it is now, and have it removed as long dead, or given a vote before it has caught up.
func (p *progress) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.byID, id)
}

// keep forgets all servers but those of the configuration and those that are just leaving it: a leader of many deploys would remember every one of them.
func (p *progress) keep(config []membership.Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, m := range p.byID {
		if !m.left && !contains(config, id) {
			delete(p.byID, id)
		}
	}
}

// leave notes that a server asks to be taken out, or, with false, that it does so no longer.
func (p *progress) leave(id string, wish bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.byID[id]
	if m == nil {
		m = &probed{firstProbe: time.Now()}
		p.byID[id] = m
	}
	m.left = wish
}

// of gives what is known of the servers of a configuration that stands at index in the log of this term's leader. A log of an earlier term may be longer and not hold it. How long one has been out of reach counts from its last answer to this leader, or from the first time it was asked.
func (p *progress) of(self string, zone string, config []membership.Server, index, term uint64) map[string]membership.Progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	known := make(map[string]membership.Progress, len(config))
	for _, s := range config {
		if s.ID == self {
			known[s.ID] = membership.Progress{Reachable: true, CaughtUp: true, StableFor: time.Hour, Name: s.Name, Zone: zone, Level: p.own}
			continue
		}
		m := p.byID[s.ID]
		if m == nil {
			continue // never asked: it counts as not measured
		}
		out := membership.Progress{Reachable: m.reachable, Applied: m.status.AppliedIndex, CaughtUp: m.caughtUp, Name: m.status.Name, Zone: m.status.Zone, Level: m.status.Level, Left: m.left}
		out.Behind = m.status.LastIndex < index || m.status.Term < term
		if out.Name == "" {
			out.Name = s.Name
		}
		switch {
		case m.reachable:
			out.StableFor = now.Sub(m.stable)
		case m.reached.IsZero():
			out.UnreachableFor = now.Sub(m.firstProbe)
		default:
			out.UnreachableFor = now.Sub(m.reached)
		}
		known[s.ID] = out
	}
	return known
}
