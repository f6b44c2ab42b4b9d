package membership

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// respond decides what to answer to a founding message of a peer and what must become durable first: save is the promise to
// persist before the answer leaves, drop says that the promise held has lost its purpose. At most one of the two is set.
func (m *machine) respond(f facts, from string, q request) (a answer, save *Promise, drop bool) {
	a = answer{from: m.cfg.server(), boot: m.cfg.Boot}
	if f.hasState || m.settled {
		a.verdict, a.clusterID = verdictMember, m.ownCluster(f)
		a.reason = "belongs to cluster " + a.clusterID
		return a, nil, false
	}
	switch q.kind {
	case kindQuery:
		a.verdict = verdictAbandoned
		if m.round != nil && m.promise.ID == q.promise.ID {
			a.verdict = verdictLive
		}
		return a, nil, false
	case kindAbandon:
		a.verdict = verdictAbandoned
		mine := m.promise != nil && m.promise.ID == q.promise.ID && m.round == nil
		return a, nil, mine && from == m.promise.Proposer.ID
	default:
		save = m.consider(f, from, q, &a)
		return a, save, false
	}
}

// consider decides on a proposal. The view needs not show the founders here: that they exist is the proposer's matter, that they
// all promise is the protocol's.
func (m *machine) consider(f facts, from string, q request, a *answer) (save *Promise) {
	p := q.promise
	a.verdict = verdictRefused
	if a.reason = m.objection(f, from, q); a.reason != "" {
		return nil
	}
	if m.promise == nil || m.round == nil && m.promise.ID == p.ID && m.promise.Proposer.ID == p.Proposer.ID {
		a.verdict = verdictPromised
		if m.promise != nil && m.promise.equal(p) {
			return nil
		}
		return &p
	}
	held := *m.promise
	a.reason = fmt.Sprintf("promised to %s (%s)", held.Proposer.Name, held.ID)
	if m.round == nil && (held.Proposer.ID == p.Proposer.ID || succeeds(p.Proposer, held.Proposer)) {
		// Very likely the old proposal is dead. But messages may arrive out of order, and what this one is worth can not be read off
		// it: the proposer itself is asked, over a call of our own, before anything is dropped.
		a.verdict = verdictLater
	}
	return nil
}

// objection is the first reason not to promise, whatever is held already.
func (m *machine) objection(f facts, from string, q request) string {
	p := q.promise
	see := look(m.cfg, m.withSightings(f))
	foreign := slices.ContainsFunc(see.clusters, func(c clusterSeen) bool { return c.id != p.ID })
	switch {
	case from != p.Proposer.ID:
		return fmt.Sprintf("%s proposes in the name of %s", from, p.Proposer.ID)
	case q.cluster != m.cfg.Cluster:
		return fmt.Sprintf("cluster name is %s here", m.cfg.Cluster)
	case m.cfg.ClusterIDPinned != "":
		return "pinned to cluster " + m.cfg.ClusterIDPinned
	case !p.wants(m.cfg.Self):
		return "not a founder of this proposal"
	case !m.cfg.founds():
		return "configured only to join"
	case foreign:
		return "sees a cluster already: " + clusterNames(see.clusters)
	case see.clash != "":
		return see.clash // the proposer may see only one of the two yet
	}
	if why := m.disagreement(q); why != "" {
		return why
	}
	return clockDifference(f.wall, q.wall)
}

// disagreement compares the two configurations, and the proposal with both.
func (m *machine) disagreement(q request) string {
	want := m.cfg.MetaExpect()
	switch {
	case !slices.Equal(q.founders, m.cfg.Founders):
		return fmt.Sprintf("instances disagree on Founders: [%s] there, [%s] here",
			strings.Join(q.founders, " "), strings.Join(m.cfg.Founders, " "))
	case q.expect != want:
		return fmt.Sprintf("instances disagree: %d expected there, %d here", q.expect, want)
	case !m.agrees(q.promise):
		return fmt.Sprintf("the proposal has founders [%s]", strings.Join(q.promise.names(), " "))
	}
	return ""
}

func clockDifference(here, there time.Time) string {
	if d := here.Sub(there).Abs(); d > maxClockDifference {
		return fmt.Sprintf("the clocks differ by %s", d.Round(time.Second))
	}
	return ""
}

// ownCluster is the id of the cluster this instance belongs to: what it publishes, else what it knows from founding.
func (m *machine) ownCluster(f facts) string {
	for _, g := range f.members {
		if g.ServerID == m.cfg.Self && g.Meta.ClusterID != "" {
			return g.Meta.ClusterID
		}
	}
	if m.clusterID == "" && m.promise != nil {
		return m.promise.ID
	}
	return m.clusterID
}

// proposal is the message that asks for the promise p.
func (m *machine) proposal(p Promise, wall time.Time) request {
	return request{
		kind: kindPropose, promise: p,
		cluster: m.cfg.Cluster, expect: m.cfg.MetaExpect(), founders: m.cfg.Founders, wall: wall,
	}
}
