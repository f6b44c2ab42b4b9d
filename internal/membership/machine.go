package membership

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/gossip"
)

const (
	// roundTimeout is how long the proposer waits for all promises before it abandons. Abandoning is always safe before Bootstrap,
	// and it frees the founders that promised for a proposal that can succeed.
	roundTimeout = 8 * time.Second

	// maxClockDifference between founders (A5): tokens start at the founder's wall clock, and must rise over the total loss of a
	// cluster, whichever founder wins next time.
	maxClockDifference = time.Hour

	// sightingLife is how long what a peer said about its cluster counts before gossip has to confirm it.
	sightingLife = 10 * time.Second

	backoffMin = 250 * time.Millisecond
	backoffMax = 4 * time.Second
)

// machine is the founding protocol without its input and output: it has no clock, no goroutine and no storage. The driver tells
// it what was durably promised and what peers answered, and carries out the action that next names.
//
// Invariants:
//   - promise mirrors what is durable; it changes only in hold and release, which the driver calls after Save and Clear.
//   - round is not nil iff the promise held is this instance's own proposal.
//   - Once release was called for a proposal of ours, no path leads to Bootstrap with its id: ids are never reused.
type machine struct {
	cfg       Config
	promise   *Promise
	round     *round
	settled   bool   // this instance belongs to a cluster, whatever HasState says
	clusterID string // of the cluster it settled in

	sightings map[string]sighting // by server id: members that said so themselves, before gossip did
	proof     string              // why the promise held to another may be dropped; empty: no proof
	contact   string              // the last word on the proposer of the promise held to another, for Status

	failures int       // rounds abandoned in a row
	resumeAt time.Time // no proposal before
	lastFail string    // why the last round was abandoned
	joinFail string    // why the last attempt to join failed
	joins    int       // attempts so far; rotates through the members
}

// round is the proposer's count for the proposal it holds.
type round struct {
	since   time.Time
	granted map[string]bool
	silent  map[string]string // founder id -> why it has not answered or not yet promised
	refusal string            // why this proposal must be abandoned
}

type sighting struct {
	member gossip.Member
	until  time.Time
}

// facts are what the driver observed just before a decision.
type facts struct {
	now      time.Time
	wall     time.Time
	members  []gossip.Member
	hasState bool
}

type actionKind int

const (
	actWait      actionKind = iota
	actSettle               // state has arrived: founding is over
	actPropose              // save promise, then hold it
	actAsk                  // ask targets for their promise
	actBootstrap            // all have promised
	actAbandon              // clear the own proposal, then tell targets
	actQuery                // ask targets[0] what became of the promise held
	actDrop                 // clear the promise held, which is proven useless
	actJoin                 // ask member to be let in
)

// action is the one thing to do now. reason is what Status shows meanwhile.
type action struct {
	kind    actionKind
	reason  string
	promise Promise
	targets []Server
	member  gossip.Member
	until   time.Time // of a wait with a known end
}

// hold records a promise that is durable.
func (m *machine) hold(p Promise, now time.Time) {
	same := m.promise != nil && m.promise.ID == p.ID
	m.promise = &p
	if same {
		return
	}
	m.proof, m.contact, m.round = "", "", nil
	if p.Proposer.ID == m.cfg.Self {
		m.round = &round{since: now, granted: map[string]bool{m.cfg.Self: true}, silent: map[string]string{}}
	}
}

// release forgets the promise, which is durably cleared.
func (m *machine) release() { m.promise, m.round, m.proof, m.contact = nil, nil, "", "" }

// next decides. Whether to propose at all is decided from scratch each time; nothing is remembered of earlier views.
func (m *machine) next(f facts) action {
	if f.hasState || m.settled {
		return action{kind: actSettle}
	}
	see := look(m.cfg, m.withSightings(f))
	switch {
	case m.promise == nil:
		return m.nextFree(f, see)
	case m.round != nil:
		return m.nextProposer(f, see)
	default:
		return m.nextPromised(f, see)
	}
}

// nextFree decides for an instance without a promise.
func (m *machine) nextFree(f facts, see sight) action {
	if len(see.clusters) > 0 {
		return m.joinOne(see.clusters)
	}
	switch {
	case m.cfg.ClusterIDPinned != "":
		return action{reason: "waiting for a member of cluster " + m.cfg.ClusterIDPinned}
	case !m.cfg.founds():
		return action{reason: "waiting for a cluster to join (this instance is not a founder)"}
	case see.problem != "":
		return action{reason: see.problem}
	case see.founders[0].ID != m.cfg.Self:
		return action{reason: fmt.Sprintf("all founders seen, waiting for the proposal of %s", see.founders[0].Name)}
	case f.now.Before(m.resumeAt):
		return action{reason: "founding failed, will try again: " + m.lastFail, until: m.resumeAt}
	}
	p := Promise{Proposer: see.founders[0], Boot: m.cfg.Boot, Founders: see.founders}
	return action{kind: actPropose, reason: "proposing", promise: p}
}

// joinOne picks a member of the only cluster seen. Of two clusters it picks none: which one is meant, only a pin can tell.
func (m *machine) joinOne(clusters []clusterSeen) action {
	if pin := m.cfg.ClusterIDPinned; pin != "" {
		i := slices.IndexFunc(clusters, func(c clusterSeen) bool { return c.id == pin })
		if i < 0 {
			return action{reason: fmt.Sprintf("waiting for a member of cluster %s (seen: %s)", pin, clusterNames(clusters))}
		}
		return m.join(clusters[i])
	}
	if len(clusters) > 1 && clusters[0].id == "" {
		clusters = clusters[1:] // a member that does not know its cluster's id yet is no second cluster
	}
	if len(clusters) > 1 {
		return action{reason: fmt.Sprintf("two clusters of this name are seen (%s): pin one by its ClusterID", clusterNames(clusters))}
	}
	return m.join(clusters[0])
}

// join takes the members in turn, those that hold state first: clients of a cluster can only pass the request on.
func (m *machine) join(c clusterSeen) action {
	hosts := slices.DeleteFunc(slices.Clone(c.members), func(g gossip.Member) bool { return !g.Meta.HasState })
	if len(hosts) == 0 {
		hosts = c.members
	}
	reason := "joining cluster " + c.id
	if m.joinFail != "" {
		reason += ": " + m.joinFail
	}
	return action{kind: actJoin, reason: reason, member: hosts[m.joins%len(hosts)]}
}

// nextProposer decides for the instance whose own proposal stands. Every doubt ends the proposal; only a full count uses it.
func (m *machine) nextProposer(f facts, see sight) action {
	p, r := *m.promise, m.round
	abandon := func(reason string) action {
		return action{kind: actAbandon, reason: reason, promise: p, targets: m.others(p)}
	}
	if i := slices.IndexFunc(see.clusters, func(c clusterSeen) bool { return c.id == p.ID }); i >= 0 {
		// Somebody has state of our own proposal although we have none: ours was lost. Joining is right, founding again is not.
		return m.join(see.clusters[i])
	}
	switch {
	case len(see.clusters) > 0:
		return abandon("a cluster exists already: " + clusterNames(see.clusters))
	case !m.agrees(p):
		return abandon("the configuration of this instance has changed")
	case r.refusal != "":
		return abandon(r.refusal)
	case len(r.granted) == len(p.Founders):
		return action{kind: actBootstrap, reason: "founding cluster " + p.ID, promise: p}
	case f.now.Sub(r.since) >= roundTimeout:
		return abandon(m.silence(p))
	}
	reason := fmt.Sprintf("asking founders: %d of %d promised", len(r.granted), len(p.Founders))
	return action{kind: actAsk, reason: reason, promise: p, targets: m.ungranted(p)}
}

// agrees tells whether a proposal is still what this instance's configuration wants; it may have been changed over a restart.
func (m *machine) agrees(p Promise) bool {
	if !m.cfg.founds() {
		return false
	}
	if len(m.cfg.Founders) > 0 {
		return slices.Equal(p.names(), m.cfg.Founders)
	}
	return len(p.Founders) == m.cfg.Expect
}

// nextPromised decides for an instance that promised to another.
func (m *machine) nextPromised(f facts, see sight) action {
	p := *m.promise
	if pin := m.cfg.ClusterIDPinned; pin != "" && pin != p.ID {
		return action{kind: actDrop, reason: "this instance is pinned to cluster " + pin}
	}
	if why := foundElsewhere(p, see.clusters); why != "" {
		return action{kind: actDrop, reason: why}
	}
	if m.proof != "" {
		return action{kind: actDrop, reason: m.proof}
	}
	if i := slices.IndexFunc(see.clusters, func(c clusterSeen) bool { return c.id == p.ID }); i >= 0 {
		return m.join(see.clusters[i])
	}
	reason := fmt.Sprintf("promised to %s (%s at %s), waiting for it to found cluster %s",
		p.Proposer.Name, p.Proposer.ID, p.Proposer.Addr, p.ID)
	if m.contact != "" {
		reason += ": " + m.contact
	}
	return action{kind: actQuery, reason: reason, promise: p, targets: []Server{proposerNow(p, f.members)}}
}

// foundElsewhere is proof by a wanted founder with state of another cluster: it can never promise p again, and if it ever had, it
// gave that up on proof itself. A ClusterID without state is not enough here, because it may be a mere pin.
func foundElsewhere(p Promise, clusters []clusterSeen) string {
	for _, c := range clusters {
		for _, g := range c.members {
			if c.id != "" && c.id != p.ID && g.Meta.HasState && p.wants(g.ServerID) {
				return fmt.Sprintf("founder %s belongs to cluster %s", g.Meta.Name, c.id)
			}
		}
	}
	return ""
}

// proposerNow is the proposer at the address that gossip knows today, else at the one it had when it asked.
func proposerNow(p Promise, members []gossip.Member) Server {
	s := p.Proposer
	for _, g := range members {
		if g.ServerID == s.ID {
			s.Addr = g.Addr
		}
	}
	return s
}

// withSightings adds to the gossip view what peers said about themselves.
func (m *machine) withSightings(f facts) []gossip.Member {
	members := slices.Clone(f.members)
	for _, id := range slices.Sorted(maps.Keys(m.sightings)) {
		s := m.sightings[id]
		if !f.now.Before(s.until) {
			delete(m.sightings, id)
			continue
		}
		i := slices.IndexFunc(members, func(g gossip.Member) bool { return g.ServerID == id })
		if i < 0 {
			members = append(members, s.member)
		} else if !members[i].Meta.HasState {
			members[i].Meta.HasState, members[i].Meta.ClusterID = true, s.member.Meta.ClusterID
		}
	}
	return members
}

func (m *machine) saw(now time.Time, a answer) {
	if a.from.ID == m.cfg.Self {
		return
	}
	meta := gossip.Meta{Name: a.from.Name, ClusterID: a.clusterID, HasState: true, Boot: a.boot}
	if m.sightings == nil {
		m.sightings = make(map[string]sighting)
	}
	m.sightings[a.from.ID] = sighting{gossip.Member{ServerID: a.from.ID, Addr: a.from.Addr, Meta: meta}, now.Add(sightingLife)}
}

// asked counts the answer of one founder to proposal id. Answers to a proposal that is gone change nothing.
func (m *machine) asked(id string, founder Server, a answer, err error, now time.Time) {
	if m.round == nil || m.promise.ID != id {
		return
	}
	r := m.round
	if err == nil && a.from.ID != founder.ID {
		err = fmt.Errorf("%s answered in its place", a.from.ID)
	}
	switch {
	case err != nil:
		r.silent[founder.ID] = err.Error()
	case a.verdict == verdictPromised:
		r.granted[founder.ID] = true
		delete(r.silent, founder.ID)
	case a.verdict == verdictLater:
		r.silent[founder.ID] = a.reason
	case a.verdict == verdictMember:
		m.saw(now, a)
		r.refusal = fmt.Sprintf("founder %s belongs to cluster %s", founder.Name, a.clusterID)
	default:
		r.refusal = fmt.Sprintf("founder %s refuses: %s", founder.Name, a.reason)
	}
}

// queried weighs what was said about the promise held to another. Each proof is stable: once true, it stays true, so that neither
// a late nor a repeated answer can free an instance wrongly.
func (m *machine) queried(id string, a answer, err error, now time.Time) {
	if m.promise == nil || m.round != nil || m.promise.ID != id {
		return
	}
	p := *m.promise
	if err != nil {
		m.contact = err.Error()
		return
	}
	if a.verdict == verdictMember {
		m.saw(now, a)
	}
	founded := a.verdict == verdictMember && (a.clusterID == p.ID || a.clusterID == "")
	switch {
	case founded:
		m.contact = ""
	case a.from.ID == p.Proposer.ID && a.verdict == verdictLive:
		m.contact = ""
	case a.from.ID == p.Proposer.ID:
		m.proof = fmt.Sprintf("%s abandoned the proposal", p.Proposer.Name)
	case succeeds(a.from, p.Proposer):
		m.proof = fmt.Sprintf("%s started anew as %s", p.Proposer.Name, a.from.ID)
	default:
		m.contact = fmt.Sprintf("%s (%s) answers at its address", a.from.Name, a.from.ID)
	}
}

// succeeds tells whether a is the process that took the place of old: one address has one owner, and the name excludes a stranger
// that was given a freed address.
func succeeds(a, old Server) bool { return a.ID != old.ID && a.Name == old.Name && a.Addr == old.Addr }

// abandoned notes the end of a round and when the next may begin. jitter lies in [0, 1).
func (m *machine) abandoned(now time.Time, reason string, jitter float64) {
	pause := min(backoffMin<<min(m.failures, 6), backoffMax)
	m.failures++
	m.lastFail = reason
	m.resumeAt = now.Add(time.Duration((0.5 + jitter) * float64(pause)))
}

// silence says why a round timed out.
func (m *machine) silence(p Promise) string {
	var parts []string
	for _, s := range m.ungranted(p) {
		why := m.round.silent[s.ID]
		if why == "" {
			why = "not asked"
		}
		parts = append(parts, fmt.Sprintf("%s: %s", s.Name, why))
	}
	return "no promise from " + strings.Join(parts, "; ")
}

// ungranted are the founders whose promise is still wanted.
func (m *machine) ungranted(p Promise) []Server {
	return slices.DeleteFunc(slices.Clone(p.Founders), func(s Server) bool { return m.round.granted[s.ID] })
}

// others are all founders but this instance. An abandonment goes to all of them: a promise may have been saved whose answer was lost.
func (m *machine) others(p Promise) []Server {
	return slices.DeleteFunc(slices.Clone(p.Founders), func(s Server) bool { return s.ID == m.cfg.Self })
}

func clusterNames(clusters []clusterSeen) string {
	ids := make([]string, len(clusters))
	for i, c := range clusters {
		if ids[i] = c.id; c.id == "" {
			ids[i] = "id not known yet"
		}
	}
	return strings.Join(ids, ", ")
}
