package history

import (
	"time"

	"github.com/quorumlock/quorumlock/watch"
)

// shown is a leader that an observer of an election was told of.
type shown struct {
	observer string
	election string
	token    int64
	value    string
	at       instant
}

// Leads records what the loop of an observer of an election was told: the leader's token, 0 for nobody, and its value. A loop that begins anew is another
// observer.
func (h *History) Leads(observer, election string, token int64, value string, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := h.at(at)
	h.digest(kindLeads, observer+"\x00"+election+"\x00"+value, token, int64(i))
	h.shown = append(h.shown, shown{observer, election, token, value, i})
}

// reign is a term of a leader, with the values that it published.
type reign struct {
	*claim
	values map[string]int64 // when first, by revision
}

// leaders: whoever is shown as a leader was granted the lock, with that value, and not later than he was shown. An observer goes on in the order of the log: leaders
// do not come back, nor do their values.
func (j *judge) leaders() {
	reigns := j.reigns()
	last := make(map[string]int64) // by observer, the revision of the leader or the value shown last
	for i := range j.shown {
		s := &j.shown[i]
		r := reigns[s.token]
		switch {
		case s.token == 0:
		case r == nil && j.log.blind(s.token):
		case r == nil || r.Names[0] != s.election:
			j.add(LeaderRule, "%s was shown token %d as the leader of %q at %v, of which the log shows no grant", s.observer, s.token, s.election, s.at)
		default:
			last[s.observer] = j.leader(s, r, last[s.observer])
		}
	}
}

func (j *judge) leader(s *shown, r *reign, before int64) int64 {
	rev, published := r.values[s.value]
	switch {
	case !published && (j.log.unseen > 0 || j.log.unseenBefore()):
		return before
	case !published:
		j.add(LeaderRule, "%s was shown %q as the value of %q at %v, which it did not publish", s.observer, s.value, r.ID, s.at)
	case rev < before:
		j.add(LeaderRule, "%s was shown %q with the value %q of revision %d at %v, after revision %d", s.observer, r.ID, s.value, rev, s.at, before)
	case r.granted.commit.from > s.at:
		j.add(LeaderRule, "%s was shown %q as leader at %v; it was not granted before %v", s.observer, r.ID, s.at, r.granted.commit.from)
	}
	return max(rev, before)
}

// reigns are the exclusive grants of one name, by token.
func (j *judge) reigns() map[int64]*reign {
	all := make(map[int64]*reign)
	for _, c := range j.replay.granted {
		if c.Mode == exclusive && len(c.Names) == 1 {
			all[c.token] = &reign{claim: c, values: map[string]int64{c.granted.Value: c.granted.Rev}}
		}
	}
	for i := range j.log.entries {
		e := &j.log.entries[i]
		if r := all[int64(e.Token)]; r != nil && e.Kind == watch.ValueChanged {
			r.values[e.Value] = e.Rev
		}
	}
	return all
}
