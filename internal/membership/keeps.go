package membership

import "fmt"

// Keeps is why the leader keeps a server in the group although an operator wants it out; "" if it can go. Whether it is alive is not judged here.
func Keeps(v View, id string) string {
	t := tally(v)
	for _, s := range v.Config {
		switch {
		case s.ID != id:
		case id == v.Self:
			return "it leads: hand leadership over first"
		case v.Pending:
			return "a change is under way"
		case t.live < quorum(t.voters):
			return fmt.Sprintf("no quorum: %d of %d voters can be counted on", t.live, t.voters)
		case !safe(v, t, s):
			live := t.live
			if v.reachable(s) {
				live--
			}
			return fmt.Sprintf("without it only %d of %d voters could be counted on", live, t.voters-1)
		default:
			return ""
		}
	}
	return "it is not in the group"
}

// Needs is why a server cannot be drained; "" if it can. The votes of the others that can be counted on must be a majority without its own. A server that does not
// vote can always be.
func Needs(v View, id string) string {
	t := tally(v)
	for _, s := range v.Config {
		if s.ID != id {
			continue
		}
		live := t.live
		if v.reachable(s) {
			live--
		}
		switch {
		case !s.Voter:
			return ""
		case t.voters == 1:
			return "it is the only voter"
		case live < quorum(t.voters-1):
			return fmt.Sprintf("without its vote only %d of %d voters could be counted on", live, t.voters-1)
		}
		for _, other := range v.Config {
			if other.ID != id && other.Voter && !v.Drained[other.ID] && v.reachable(other) {
				return ""
			}
		}
		return "all other voters that can be reached are drained"
	}
	return "it is not in the group"
}
