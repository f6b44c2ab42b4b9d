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
