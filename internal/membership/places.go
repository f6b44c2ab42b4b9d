package membership

import "fmt"

// This file decides who holds the places that there are: which of the instances beyond the wanted voters stand by, and in which zones. All other instances are
// clients.

// maxStandbys is how many live non-voters replicate beside the wanted voters: one takes the place of a voter that is gone, and the other one its place.
const maxStandbys = 2

// unfair is by how many servers two zones must differ before a server of one takes the place of one of the other. A difference of one cannot be mended.
const unfair = 2

// Places is how many servers replicate when all goes well, where that many voters are wanted.
func Places(voters int) int { return voters + maxStandbys }

func (v View) places() int { return Places(v.Wanted) }

// yields tells whether a non-voter should give its place up for a server of the given zone: one of a zone that has many more replicas. While
// the zone of a newcomer is not known yet, it may be this one.
func yields(v View, t standing, zone string) bool {
	found := false
	for _, s := range v.Config {
		if _, measured := v.Progress[s.ID]; !measured && s.ID != v.Self {
			return false
		}
		found = found || !s.Voter && v.replicates(s) && t.replicating[v.zone(s)]-t.replicating[zone] >= unfair
	}
	return found
}

// shed makes a client of a non-voter for which there is no place, as after the return of one that was taken for dead. One that could not be promoted goes first, then one of
// the zone with most replicas, then the highest id.
func shed(v View, t standing) Change {
	if total(t.replicating) <= v.places() {
		return Change{}
	}
	var pick Server
	for _, s := range v.Config {
		if _, measured := v.Progress[s.ID]; s.Voter || !measured || !v.replicates(s) || s.ID == v.Self {
			continue
		}
		if pick.ID == "" || shedsBefore(v, t, s, pick) {
			pick = s
		}
	}
	if pick.ID == "" {
		return Change{}
	}
	return Change{Remove, pick.ID, fmt.Sprintf("%d servers replicate where %d are wanted: it becomes a client", total(t.replicating), v.places())}
}

func shedsBefore(v View, t standing, a, b Server) bool {
	if ca, cb := t.replicating[v.zone(a)], t.replicating[v.zone(b)]; ca != cb {
		return ca > cb
	}
	if ra, rb := ready(v, a), ready(v, b); ra != rb {
		return !ra
	}
	return a.ID > b.ID
}

// spread gives a vote to a standby of a zone that has too few; demote then takes one from the zone with most. Each such exchange makes the zones more
// alike, so they end. It is done while nothing else is wrong: it costs two changes, and guards against a failure that has not happened.
func spread(v View, t standing) Change {
	if t.kept != t.target || t.kept != t.voters || t.live != t.voters || len(t.ready) == 0 {
		return Change{}
	}
	s, most := t.ready[0], 0 // of the emptiest zone
	for _, n := range t.voting {
		most = max(most, n)
	}
	if most-t.voting[v.zone(s)] < unfair {
		return Change{}
	}
	return Change{Promote, s.ID, fmt.Sprintf("its zone has %d voters, another one %d", t.voting[v.zone(s)], most)}
}
