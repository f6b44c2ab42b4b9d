package membership

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/internal/gossip"
)

// sight is what one look at the members says about founding.
type sight struct {
	clusters []clusterSeen // by id; evidence that a cluster of this name exists
	founders []Server      // the wanted founders, by id; complete only while problem is empty
	clash    string        // two candidates of one name or address
	problem  string        // why nothing can be proposed from this view, a clash included
}

// clusterSeen is one cluster and the members through which it was seen.
type clusterSeen struct {
	id      string // empty while a member with state does not know it yet
	members []gossip.Member
}

// look reads a view. members need not hold this instance and need not be ordered.
func look(cfg Config, members []gossip.Member) sight {
	var s sight
	s.clusters = clustersOf(cfg, members)
	candidates := candidatesOf(cfg, members)
	if s.clash = clash(candidates); s.clash != "" {
		s.problem = s.clash
		return s
	}
	if len(cfg.Founders) > 0 {
		s.founders, s.problem = named(cfg, candidates)
	} else {
		s.founders, s.problem = counted(cfg, candidates)
	}
	markVoters(s.founders, cfg.Voters)
	return s
}

func clustersOf(cfg Config, members []gossip.Member) []clusterSeen {
	var seen []clusterSeen
	for _, m := range members {
		if m.ServerID == cfg.Self || m.Meta.ClusterID == "" && !m.Meta.HasState {
			continue
		}
		i := slices.IndexFunc(seen, func(c clusterSeen) bool { return c.id == m.Meta.ClusterID })
		if i < 0 {
			i = len(seen)
			seen = append(seen, clusterSeen{id: m.Meta.ClusterID})
		}
		seen[i].members = append(seen[i].members, m)
	}
	slices.SortFunc(seen, func(a, b clusterSeen) int { return cmp.Compare(a.id, b.id) })
	return seen
}

// candidate is an instance that may be wanted as a founder.
type candidate struct {
	Server
	expect int
}

// candidatesOf are this instance and all seen that might found, by id. With Founders only the names count: what a peer publishes
// as Expect is then checked by the peer itself, when it is asked to promise.
func candidatesOf(cfg Config, members []gossip.Member) []candidate {
	cs := []candidate{{cfg.server(), cfg.MetaExpect()}}
	for _, m := range members {
		wanted := m.Meta.Expect > 0
		if len(cfg.Founders) > 0 {
			wanted = slices.Contains(cfg.Founders, m.Meta.Name)
		}
		if wanted && m.ServerID != cfg.Self {
			cs = append(cs, candidate{Server{ID: m.ServerID, Name: m.Meta.Name, Addr: m.Addr}, m.Meta.Expect})
		}
	}
	slices.SortFunc(cs, func(a, b candidate) int { return cmp.Compare(a.ID, b.ID) })
	return cs
}

// clash reports two candidates of one name or one address. Mostly the older is a dead process that gossip has not given up yet, so
// waiting cures it; if both live, only a person can.
func clash(cs []candidate) string {
	names, addrs := make(map[string]candidate), make(map[string]candidate)
	for _, c := range cs {
		if o, ok := names[c.Name]; ok {
			return fmt.Sprintf("two instances are named %s: %s at %s and %s at %s", c.Name, o.ID, o.Addr, c.ID, c.Addr)
		}
		if o, ok := addrs[c.Addr]; ok {
			return fmt.Sprintf("two instances claim the address %s: %s (%s) and %s (%s)", c.Addr, o.ID, o.Name, c.ID, c.Name)
		}
		names[c.Name], addrs[c.Addr] = c, c
	}
	return ""
}

// named picks the founders by name: all of them or none.
func named(cfg Config, cs []candidate) (founders []Server, problem string) {
	missing := slices.Clone(cfg.Founders)
	for _, c := range cs {
		if i := slices.Index(missing, c.Name); i >= 0 {
			missing = slices.Delete(missing, i, i+1)
			founders = append(founders, c.Server)
		}
	}
	if len(missing) > 0 {
		return founders, fmt.Sprintf("waiting for founders: %d of %d seen (missing %s)",
			len(founders), len(cfg.Founders), strings.Join(missing, ", "))
	}
	return founders, ""
}

// counted picks the Expect lowest ids. Those beyond it are not asked: they join afterwards.
func counted(cfg Config, cs []candidate) (founders []Server, problem string) {
	for _, c := range cs {
		if c.expect != cfg.Expect {
			return nil, fmt.Sprintf("instances disagree: %s expects %d, this one expects %d", c.Name, c.expect, cfg.Expect)
		}
		founders = append(founders, c.Server)
	}
	if len(founders) < cfg.Expect {
		return founders, fmt.Sprintf("waiting for founders: %d of %d seen", len(founders), cfg.Expect)
	}
	return founders[:cfg.Expect], ""
}

// markVoters makes the lowest ids voters, the proposer thus always among them: as many as the leader would choose later, so that
// its first act is not to undo the founding.
func markVoters(founders []Server, wanted int) {
	n := targetVoters(wanted, len(founders))
	for i := range founders {
		founders[i].Voter = i < n
	}
}
