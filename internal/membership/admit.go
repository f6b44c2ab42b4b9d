package membership

import (
	"fmt"
	"slices"
)

// DecisionKind is what a request to join leads to.
type DecisionKind int

const (
	AddNonvoter DecisionKind = iota // add it; Next promotes it once it has caught up
	Known                           // it is in the configuration already
	Enough                          // voters and standbys are complete: it should be a client
	NameTaken                       // another server of this name is alive
	Wait                            // a change is under way, or no quorum is reachable: ask again
)

func (k DecisionKind) String() string {
	return [...]string{"add non-voter", "known", "enough", "name taken", "wait"}[k]
}

// Decision answers a request to join. Reason is for people.
type Decision struct {
	Kind   DecisionKind
	ID     string
	Reason string
}

// Admit decides on a request of req, of the given zone, to join. It admits a server whose namesake is out of reach, because that is its former process;
// Next then takes the old id out. And one of a zone that has too few replicas: Next then makes a client of another one.
func Admit(v View, req Server, zone string) Decision {
	decide := func(k DecisionKind, format string, args ...any) Decision {
		return Decision{k, req.ID, fmt.Sprintf(format, args...)}
	}
	if slices.ContainsFunc(v.Config, func(s Server) bool { return s.ID == req.ID }) {
		return decide(Known, "%s is in the configuration", req.ID)
	}
	t := tally(v)
	replicating, successor := 0, false
	for _, s := range v.Config {
		namesake := req.Name != "" && v.name(s) == req.Name
		switch {
		case namesake && v.reachable(s) && !v.leaving(s):
			return decide(NameTaken, "the name %s belongs to %s at %s, which is alive", req.Name, s.ID, s.Addr)
		case namesake:
			successor = true
		case !v.dead(s) && !v.leaving(s) && !v.Drained[s.ID]:
			replicating++
		}
	}
	switch {
	case v.Pending:
		return decide(Wait, "a change is under way")
	case t.live < quorum(t.voters):
		return decide(Wait, "no quorum: %d of %d voters reachable", t.live, t.voters)
	case replicating >= v.places() && !successor && !yields(v, t, zone):
		return decide(Enough, "%d servers replicate already", replicating)
	}
	return decide(AddNonvoter, "%d servers replicate so far", replicating)
}
