package membership

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

const (
	// stableFor is how long a non-voter must have been healthy before it may vote.
	stableFor = 2 * time.Second

	// forgetAfter times Grace is how long a dead non-voter is kept: one without a data directory never comes back under its id.
	forgetAfter = 5
)

// Progress is what the leader measured of one server.
type Progress struct {
	Reachable      bool          // answers the leader's own probes
	UnreachableFor time.Duration // since its last answer
	Applied        uint64
	CaughtUp       bool          // its log is close enough to the leader's to vote
	StableFor      time.Duration // reachable and caught up without a break
	Name           string        // for people, and to tell a successor
	Zone           string        // failure domain; those without one count as one zone
	Level          uint32        // highest feature level of its binary
	Left           bool          // it said that it is going
	Behind         bool          // its log does not hold the latest configuration yet
}

// View is all that the leader's decision rests on. A server of Config without a Progress was not measured yet: it counts as not
// reachable, and is never acted against.
type View struct {
	Self     string              // the leader
	Config   []Server            // the current raft configuration, non-voters included
	Progress map[string]Progress // by server id
	Wanted   int                 // voters
	Grace    time.Duration       // how long a voter may be out of reach before it is replaced
	Pending  bool                // a configuration change is under way
	Drained  map[string]bool     // by server id: those that an operator wants to have no vote
}

// ChangeKind names a configuration change.
type ChangeKind int

const (
	None    ChangeKind = iota
	Promote            // make a non-voter a voter
	Demote             // make a voter a non-voter
	Remove             // take a server out of the configuration
)

func (k ChangeKind) String() string {
	return [...]string{"none", "promote", "demote", "remove"}[k]
}

// Change is one configuration change, or none. Reason is for people, also where Kind is None.
type Change struct {
	Kind   ChangeKind
	ID     string
	Reason string
}

// Next decides on the one change that the leader should make now. It never proposes one unless a quorum is reachable before it, and
// stays reachable after it; it never removes or demotes the leader. Applied again and again to a view that does not change otherwise,
// it ends in None.
func Next(v View) Change {
	if v.Pending {
		return Change{Reason: "a change is under way"}
	}
	t := tally(v)
	if t.live < quorum(t.voters) {
		return Change{Reason: fmt.Sprintf("no quorum: %d of %d voters reachable", t.live, t.voters)}
	}
	// Promotions come first: a replacement adds its vote before the dead one's is taken away. Removals come before demotions, because a
	// dead voter is the better one to lose.
	for _, decide := range []func(View, standing) Change{promote, removeSuperseded, removeLeft, removeDead, rest, demote, forget, shed, spread} {
		if c := decide(v, t); c.Kind != None {
			return c
		}
	}
	return Change{Reason: "nothing to do"}
}

// standing is a configuration seen with the leader's eyes.
type standing struct {
	voters int // in the configuration
	live   int // voters that can be counted on now, the leader included
	kept   int // voters that are neither dead, nor leaving, nor drained: those that count towards Wanted
	dead   int // voters out of reach for the whole grace
	ready  []Server
	target int // voters there should be

	voting      map[string]int // by zone, of kept
	replicating map[string]int // by zone: servers of the configuration that are neither dead nor leaving
}

func tally(v View) standing {
	t := standing{voting: make(map[string]int), replicating: make(map[string]int)}
	for _, s := range v.Config {
		if v.replicates(s) {
			t.replicating[v.zone(s)]++
		}
		switch {
		case !s.Voter:
			if ready(v, s) {
				t.ready = append(t.ready, s)
			}
			continue
		case v.dead(s):
			t.dead++
		case !v.leaving(s) && !v.Drained[s.ID]:
			t.kept++
			t.voting[v.zone(s)]++
		}
		t.voters++
		if v.reachable(s) {
			t.live++
		}
	}
	t.target = targetVoters(v.Wanted, t.kept+len(t.ready))
	slices.SortFunc(t.ready, func(a, b Server) int {
		// The emptiest zone first; then a newer binary: during a rolling upgrade the older ones are about to leave.
		return cmp.Or(cmp.Compare(t.voting[v.zone(a)], t.voting[v.zone(b)]),
			-cmp.Compare(v.Progress[a.ID].Level, v.Progress[b.ID].Level), cmp.Compare(a.ID, b.ID))
	})
	return t
}

// replicates: it has one of the places. A process whose successor has one has lost it, see removeSuperseded; one that is drained leaves its own to others, and replicates on beside them.
func (v View) replicates(s Server) bool {
	return !v.dead(s) && !v.leaving(s) && !v.succeeded(s) && !v.Drained[s.ID]
}

// succeeded: it is out of reach, and another server has its name.
func (v View) succeeded(s Server) bool {
	if s.ID == v.Self || v.Progress[s.ID].Reachable || v.name(s) == "" {
		return false
	}
	return slices.ContainsFunc(v.Config, func(n Server) bool { return n.ID != s.ID && v.name(n) == v.name(s) })
}

func (v View) zone(s Server) string { return v.Progress[s.ID].Zone }

func total(byZone map[string]int) int {
	n := 0
	for _, count := range byZone {
		n += count
	}
	return n
}

func quorum(voters int) int { return voters/2 + 1 }

// targetVoters is how many of the available servers should vote: as many as wanted, else an odd number, since an even one needs a
// larger quorum and survives no more failures. Two are the exception: with one voter a lost disk loses what was acknowledged, with
// two it does not, and the second is the step to the third.
func targetVoters(wanted, available int) int {
	n := max(1, min(wanted, available))
	if n < wanted && n > 2 && n%2 == 0 {
		return n - 1
	}
	return n
}

// reachable tells whether s can be counted on for the next entry. One that answers but has not got the latest configuration cannot: its disk may hang, and if the next
// change took away those that have it, it would refuse its vote to all that it has not heard of.
func (v View) reachable(s Server) bool {
	p := v.Progress[s.ID]
	return s.ID == v.Self || p.Reachable && !p.Behind
}

func (v View) leaving(s Server) bool { return s.ID != v.Self && v.Progress[s.ID].Left }

// dead: out of the leader's own reach for the whole grace.
func (v View) dead(s Server) bool {
	p, measured := v.Progress[s.ID]
	return s.ID != v.Self && measured && !p.Reachable && p.UnreachableFor > v.Grace
}

func (v View) name(s Server) string { return cmp.Or(v.Progress[s.ID].Name, s.Name) }

func ready(v View, s Server) bool {
	p := v.Progress[s.ID]
	return p.Reachable && p.CaughtUp && !p.Left && p.StableFor >= stableFor && !v.Drained[s.ID]
}

// successor is a reachable non-voter of the same name: the process that took the place of s.
func (v View) successor(s Server) (Server, bool) {
	for _, n := range v.Config {
		p := v.Progress[n.ID]
		if n.ID != s.ID && !n.Voter && p.Reachable && !p.Left && v.name(n) != "" && v.name(n) == v.name(s) {
			return n, true
		}
	}
	return Server{}, false
}

func promote(v View, t standing) Change {
	if t.kept >= t.target || len(t.ready) == 0 || t.live+1 < quorum(t.voters+1) {
		return Change{}
	}
	s := t.ready[0]
	return Change{Promote, s.ID, fmt.Sprintf("%d of %d wanted voters", t.kept, t.target)}
}

// safe tells whether the reachable voters without s are a majority of the configuration without s.
func safe(v View, t standing, s Server) bool {
	if s.ID == v.Self {
		return false
	}
	if !s.Voter {
		return true
	}
	live := t.live
	if v.reachable(s) {
		live--
	}
	return t.voters > 1 && live >= quorum(t.voters-1)
}

// first finds the first server of the configuration, by id, that can be taken away safely and for a reason.
func first(v View, t standing, kind ChangeKind, why func(Server) string) Change {
	var found Change
	for _, s := range v.Config {
		if found.Kind != None && s.ID >= found.ID || !safe(v, t, s) {
			continue
		}
		if reason := why(s); reason != "" {
			found = Change{kind, s.ID, reason}
		}
	}
	return found
}

// removeSuperseded needs no grace: the new process of the same name is the proof that the old one is gone.
func removeSuperseded(v View, t standing) Change {
	return first(v, t, Remove, func(s Server) string {
		p, measured := v.Progress[s.ID]
		if n, ok := v.successor(s); ok && measured && !p.Reachable {
			return fmt.Sprintf("%s started anew as %s", v.name(s), n.ID)
		}
		return ""
	})
}

func removeLeft(v View, t standing) Change {
	return first(v, t, Remove, func(s Server) string {
		if v.leaving(s) {
			return "left"
		}
		return ""
	})
}

// removeDead takes a dead voter out when it has been replaced, or where the configuration without its dead needs a smaller quorum.
// Else removing wins nothing: two live voters of three survive no failure, and two of two neither; but the third of the three may
// come back with its disk.
func removeDead(v View, t standing) Change {
	if t.kept < v.Wanted && quorum(t.voters-t.dead) >= quorum(t.voters) {
		return Change{}
	}
	return first(v, t, Remove, func(s Server) string {
		if s.Voter && v.dead(s) {
			return fmt.Sprintf("out of reach for %s", v.Progress[s.ID].UnreachableFor.Round(time.Second))
		}
		return ""
	})
}

// rest takes the vote of a voter that is drained, once those that could replace it have theirs. Two of three then vote on as two.
func rest(v View, t standing) Change {
	return first(v, t, Demote, func(s Server) string {
		if s.Voter && v.Drained[s.ID] && !v.dead(s) && !v.leaving(s) {
			return "drained"
		}
		return ""
	})
}

// demote ends a surplus, as after the return of a voter that has been replaced, and an even number that is left after departures.
// The latter not while a dead voter is kept for its return: then it would cost the failure that the live ones still survive.
// Those out of reach go first, then those of the zone with most voters, then the highest id.
func demote(v View, t standing) Change {
	if t.kept <= t.target || t.kept <= v.Wanted && t.kept < t.voters {
		return Change{}
	}
	var pick Server
	for _, s := range v.Config {
		if !s.Voter || v.dead(s) || v.leaving(s) || !safe(v, t, s) {
			continue
		}
		if pick.ID == "" || demotesBefore(v, t, s, pick) {
			pick = s
		}
	}
	if pick.ID == "" {
		return Change{}
	}
	return Change{Demote, pick.ID, fmt.Sprintf("%d voters where %d are wanted", t.kept, t.target)}
}

func demotesBefore(v View, t standing, a, b Server) bool {
	if ra, rb := v.reachable(a), v.reachable(b); ra != rb {
		return !ra
	}
	return cmp.Or(cmp.Compare(t.voting[v.zone(a)], t.voting[v.zone(b)]), cmp.Compare(a.ID, b.ID)) > 0
}

// forget removes non-voters that will not come back.
func forget(v View, t standing) Change {
	return first(v, t, Remove, func(s Server) string {
		p := v.Progress[s.ID]
		if !s.Voter && v.dead(s) && p.UnreachableFor > forgetAfter*v.Grace {
			return fmt.Sprintf("non-voter out of reach for %s", p.UnreachableFor.Round(time.Second))
		}
		return ""
	})
}
