package membership

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

const grace = 15 * time.Second

// parseView reads a compact configuration: one word per server, "id[/name][@zone]:state" with state letters
// v voter, s standby; + reachable, - out of reach for 5 s, x for 20 s, X for 100 s, ? not measured; c caught up and stable,
// n caught up but not yet stable; l left; d drained. The first is the leader.
func parseView(t *testing.T, wanted int, spec string) View {
	t.Helper()
	v := View{Wanted: wanted, Grace: grace, Progress: map[string]Progress{}, Drained: map[string]bool{}}
	for word := range strings.FieldsSeq(spec) {
		label, state, ok := strings.Cut(word, ":")
		if !ok {
			t.Fatalf("bad server %q", word)
		}
		label, zone, _ := strings.Cut(label, "@")
		id, name, _ := strings.Cut(label, "/")
		if name == "" {
			name = "name-" + id
		}
		p := Progress{Name: name, Zone: zone}
		s := Server{ID: id, Name: name, Addr: id + ":1"}
		measured := true
		for _, c := range state {
			switch c {
			case 'v':
				s.Voter = true
			case 's':
			case '+':
				p.Reachable = true
			case '-':
				p.UnreachableFor = 5 * time.Second
			case 'x':
				p.UnreachableFor = 20 * time.Second
			case 'X':
				p.UnreachableFor = 100 * time.Second
			case '?':
				measured = false
			case 'c':
				p.CaughtUp, p.StableFor = true, 3*time.Second
			case 'n':
				p.CaughtUp, p.StableFor = true, time.Second
			case 'l':
				p.Left = true
			case 'd':
				v.Drained[id] = true
			case '2':
				p.Level = 2
			default:
				t.Fatalf("bad state %q in %q", c, word)
			}
		}
		v.Config = append(v.Config, s)
		if measured {
			v.Progress[id] = p
		}
		if v.Self == "" {
			v.Self = id
		}
	}
	return v
}

func TestNext(t *testing.T) {
	tests := []struct {
		name   string
		wanted int
		view   string
		want   string
	}{
		{"three healthy", 3, "a:v+ b:v+ c:v+", "none"},
		{"standby is enough", 3, "a:v+ b:v+ c:v+ d:s+c", "none"},
		{"one to two", 3, "a:v+ b:s+c", "promote b"},
		{"two to three", 3, "a:v+ b:v+ c:s+c", "promote c"},
		{"not caught up", 3, "a:v+ b:v+ c:s+", "none"},
		{"not stable yet", 3, "a:v+ b:v+ c:s+n", "none"},
		{"leaving standby is not promoted", 3, "a:v+ b:v+ c:s+cl", "remove c"},
		{"newer binary first", 3, "a:v+ b:v+ c:s+c d:s+c2", "promote d"},
		{"three to five has both", 5, "a:v+ b:v+ c:v+ d:s+c e:s+c", "promote d"},
		{"three to four is no gain", 5, "a:v+ b:v+ c:v+ d:s+c", "none"},
		{"four to five", 5, "a:v+ b:v+ c:v+ d:v+ e:s+c", "promote e"},
		{"four voters become three", 5, "a:v+ b:v+ c:v+ d:v+", "demote d"},
		{"the leader is not demoted", 5, "d:v+ a:v+ b:v+ c:v+", "demote c"},

		{"drained: replacement first", 3, "a:v+ b:v+ c:v+d d:s+c", "promote d"},
		{"drained and replaced", 3, "a:v+ b:v+ c:v+d d:v+", "demote c"},
		{"drained, nobody to replace it", 3, "a:v+ b:v+ c:v+d", "demote c"},
		{"drained, and another is dead", 3, "a:v+ b:vx c:v+d", "none"},
		{"drained, and another is dead and replaced", 3, "a:v+ b:vx c:v+d d:s+c", "promote d"},
		{"drained one of two", 3, "a:v+ b:v+d", "demote b"},
		{"the drained leader is not demoted", 3, "a:v+d b:v+ c:v+", "none"},
		{"drained standby is not promoted", 3, "a:v+ b:v+ c:s+cd", "none"},
		{"drained standby has no place", 3, "a:v+ b:v+ c:v+ d:s+cd e:s+c f:s+c", "none"},
		{"undrained", 3, "a:v+ b:v+ c:s+c", "promote c"},
		{"short outage", 3, "a:v+ b:v+ c:v- d:s+c", "none"},
		{"dead: replacement first", 3, "a:v+ b:v+ c:vx d:s+c", "promote d"},
		{"dead and replaced", 3, "a:v+ b:v+ c:vx d:v+", "remove c"},
		{"dead, nobody to replace it", 3, "a:v+ b:v+ c:vx", "none"},
		{"dead, replacement not ready", 3, "a:v+ b:v+ c:vx d:s+n", "none"},
		{"dead one of five, nobody", 5, "a:v+ b:v+ c:v+ d:v+ e:vx", "none"},
		{"dead two of five", 5, "a:v+ b:v+ c:v+ d:vx e:vx", "remove d"},
		{"dead one of four", 5, "a:v+ b:v+ c:v+ e:vx", "remove e"},
		{"dead two, one standby", 5, "a:v+ b:v+ c:v+ d:vx e:vx f:s+c", "remove d"},
		{"dead two, two standbys", 5, "a:v+ b:v+ c:v+ d:vx e:vx f:s+c g:s+c", "promote f"},
		{"unknown is not dead", 3, "a:v+ b:v+ c:v? d:v+", "demote c"},

		{"two of three dead", 3, "a:v+ b:vx c:vx d:s+c e:s+c", "none"},
		{"one of two dead", 3, "a:v+ b:vx c:s+c", "none"},
		{"three of five dead", 5, "a:v+ b:v+ c:vX d:vX e:vX f:s+c g:s+c", "none"},
		{"left, but the rest has no quorum", 3, "a:v+ b:v- c:v+l", "none"},

		{"left is removed at once", 3, "a:v+ b:v+ c:v+l", "remove c"},
		{"left with a standby", 3, "a:v+ b:v+ c:v+l d:s+c", "promote d"},
		{"left two to one", 3, "a:v+ b:v+l", "remove b"},
		{"left standby", 3, "a:v+ b:v+ c:v+ d:sl", "remove d"},
		{"the leader that leaves transfers first", 3, "a:v+l b:v+ c:v+", "none"},

		{"started anew: at once", 3, "a:v+ b:v+ c/n:v- d/n:s+", "remove c"},
		{"started anew, old one alive", 3, "a:v+ b:v+ c/n:v+ d/n:s+", "none"},
		{"started anew, new one gone too", 3, "a:v+ b:v+ c/n:v- d/n:s-", "none"},
		{"started anew, no quorum left", 3, "a:v+ b:v- c/n:v- d/n:s+", "none"},
		{"started anew, ready", 3, "a:v+ b:v+ c/n:v- d/n:s+c", "remove c"},
		{"started anew, unknown is not unreachable", 3, "a:v+ b:v+ c/n:v? d/n:s+", "none"},
		{"standby started anew", 3, "a:v+ b:v+ c:v+ d/n:s- e/n:s+", "remove d"},

		{"dead standby within its time", 3, "a:v+ b:v+ c:v+ d:sx", "none"},
		{"dead standby forgotten", 3, "a:v+ b:v+ c:v+ d:sX", "remove d"},
		{"replaced voter came back", 3, "a:v+ b:v+ c:v+ d:v+", "demote d"},
		{"surplus: out of reach first", 3, "a:v+ b:v- c:v+ d:v+", "demote b"},
		{"surplus: dead first", 3, "a:v+ b:vx c:v+ d:v+ e:v+", "remove b"},
		{"wanted lowered", 3, "a:v+ b:v+ c:v+ d:v+ e:v+", "demote e"},
		{"alone", 3, "a:v+", "none"},

		{"a third standby becomes a client", 3, "a:v+ b:v+ c:v+ d:s+c e:s+c f:s+c", "remove f"},
		{"one that has not caught up first", 3, "a:v+ b:v+ c:v+ d:s+ e:s+c f:s+c", "remove d"},
		{"the standby of a dead one's place", 3, "a:v+ b:v+ c:v+ d:sx e:s+c f:s+c", "none"},
		{"a standby is needed: not before the promotion", 3, "a:v+ b:v+ c:vx d:s+c e:s+c f:s+c", "promote d"},
		{"a newcomer is not known yet", 3, "a:v+ b:v+ c:v+ d:s+c e:s+c f:s?", "remove e"},
		{"a successor has its predecessor's place", 3, "a:v+ b:v+ c/n:v- d:s+c e:s+c f/n:s?", "none"},

		{"a standby of the emptiest zone first", 3, "a@1:v+ b@1:v+ c:vx d@1:s+c e@2:s+c", "promote e"},
		{"the zone before the binary", 3, "a@1:v+ b@2:v+ c:vx d@1:s+c2 e@3:s+c", "promote e"},
		{"two zones of three", 3, "a@1:v+ b@1:v+ c@2:v+ d@2:s+c e@1:s+c", "none"},
		{"all votes in one zone", 3, "a@1:v+ b@1:v+ c@1:v+ d@2:s+c e@2:s+c", "promote d"},
		{"two votes in one zone, a third zone has none", 3, "a@1:v+ b@1:v+ c@2:v+ d@3:s+c", "promote d"},
		{"votes of five in two of three zones", 5, "a@1:v+ b@1:v+ c@1:v+ d@2:v+ e@2:v+ f@3:s+c", "promote f"},
		{"the crowded zone loses a vote", 3, "a@1:v+ b@1:v+ c@1:v+ d@2:v+", "demote c"},
		{"the leader of the crowded zone keeps its vote", 3, "c@1:v+ a@1:v+ d@2:v+ e@2:v+", "demote e"},
		{"zones wait while a voter is away", 3, "a@1:v+ b@1:v+ c@1:v- d@2:s+c", "none"},
		{"not without a standby that is ready", 3, "a@1:v+ b@1:v+ c@1:v+ d@2:s+n", "none"},
		{"the standby of the crowded zone becomes a client", 3, "a@1:v+ b@2:v+ c@3:v+ d@1:s+c e@1:s+c f@2:s+c", "remove e"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := Next(parseView(t, tt.wanted, tt.view))
			got := strings.TrimSpace(c.Kind.String() + " " + c.ID)
			if got != tt.want {
				t.Errorf("Next = %s (%s), want %s", got, c.Reason, tt.want)
			}
			if c.Reason == "" {
				t.Error("no reason given")
			}
		})
	}
}

func TestNextWaitsForThePendingChange(t *testing.T) {
	v := parseView(t, 3, "a:v+ b:v+ c:s+c")
	v.Pending = true
	if c := Next(v); c.Kind != None {
		t.Errorf("Next = %v while a change is pending", c)
	}
}

func TestTargetVoters(t *testing.T) {
	want := map[int][]int{3: {1, 1, 2, 3, 3, 3, 3}, 5: {1, 1, 2, 3, 3, 5, 5}}
	for wanted, targets := range want {
		for available, n := range targets {
			if got := targetVoters(wanted, available); got != n {
				t.Errorf("targetVoters(%d, %d) = %d, want %d", wanted, available, got, n)
			}
		}
	}
}

// apply carries a change out the way raft does. A demoted voter has the whole log; a removed server is gone.
func apply(v View, c Change) View {
	next := v
	next.Config = nil
	for _, s := range v.Config {
		if s.ID == c.ID {
			switch c.Kind {
			case Promote:
				s.Voter = true
			case Demote:
				s.Voter = false
			case Remove:
				continue
			}
		}
		next.Config = append(next.Config, s)
	}
	return next
}

// margin is how many more voters may fail.
func margin(v View) int {
	t := tally(v)
	return t.live - quorum(t.voters)
}

// TestNextInvariants walks from random views to None and checks each step.
func TestNextInvariants(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	changed := map[ChangeKind]int{}
	for range 20000 {
		v := randomView(rng)
		checkWalk(t, v, changed)
		if t.Failed() {
			return
		}
	}
	for _, k := range []ChangeKind{Promote, Demote, Remove} {
		if changed[k] < 1000 {
			t.Errorf("%v came up only %d times: the views do not test it", k, changed[k])
		}
	}
}

func randomView(rng *rand.Rand) View {
	v := View{Self: "s0", Wanted: []int{3, 5}[rng.IntN(2)], Grace: grace, Progress: map[string]Progress{}}
	zoned := rng.IntN(2) == 0
	for i := range 1 + rng.IntN(9) {
		s := Server{ID: fmt.Sprintf("s%d", i), Voter: i == 0 || rng.IntN(3) > 0}
		s.Name = s.ID
		if i > 0 && rng.IntN(6) == 0 {
			s.Name = fmt.Sprintf("s%d", rng.IntN(i))
		}
		p := Progress{Name: s.Name, Reachable: i == 0 || rng.IntN(3) > 0, Left: i > 0 && rng.IntN(8) == 0}
		if zoned {
			p.Zone = fmt.Sprintf("z%d", rng.IntN(3))
		}
		if !p.Reachable {
			p.UnreachableFor = time.Duration(rng.IntN(120)) * time.Second
		} else if rng.IntN(4) > 0 {
			p.CaughtUp, p.StableFor = true, time.Duration(rng.IntN(5000))*time.Millisecond
		}
		v.Config = append(v.Config, s)
		if i == 0 || rng.IntN(10) > 0 {
			v.Progress[s.ID] = p
		}
	}
	if rng.IntN(3) == 0 {
		v.Drained = map[string]bool{}
		for _, s := range v.Config {
			v.Drained[s.ID] = rng.IntN(4) == 0
		}
	}
	rng.Shuffle(len(v.Config), func(i, j int) { v.Config[i], v.Config[j] = v.Config[j], v.Config[i] })
	return v
}

func checkWalk(t *testing.T, start View, changed map[ChangeKind]int) {
	t.Helper()
	v := start
	for step := 0; ; step++ {
		c := Next(v)
		if c.Kind == None {
			break
		}
		if step > 3*len(start.Config) {
			t.Fatalf("still changing after %d steps (last %v): %+v", step, c, start)
		}
		before, after := tally(v), tally(apply(v, c))
		switch {
		case before.live < quorum(before.voters):
			t.Fatalf("%v without a quorum: %+v", c, v)
		case after.live < quorum(after.voters):
			t.Fatalf("%v loses the quorum: %+v", c, v)
		case c.ID == v.Self:
			t.Fatalf("%v acts against the leader: %+v", c, v)
		}
		if _, measured := v.Progress[c.ID]; !measured && c.Kind == Remove {
			t.Fatalf("%v removes what was never measured: %+v", c, v)
		}
		changed[c.Kind]++
		v = apply(v, c)
	}
	checkEnd(t, start, v)
}

// checkEnd: what is reached is what can be had.
func checkEnd(t *testing.T, start, end View) {
	t.Helper()
	st := tally(end)
	if st.live < quorum(st.voters) {
		if len(end.Config) != len(start.Config) {
			t.Fatalf("changed without a quorum: %+v", start)
		}
		return
	}
	if st.kept < st.target && st.kept+len(st.ready) >= st.target { // not if even the only one is drained
		t.Fatalf("ended with %d voters, %d could be had: %+v", st.kept, st.target, start)
	}
	resting := func(s Server) bool { return s.Voter && end.Drained[s.ID] } // the leader, who has to hand over first
	if st.kept > st.target && st.dead == 0 && !slices.ContainsFunc(end.Config, end.leaving) && !slices.ContainsFunc(end.Config, resting) {
		t.Fatalf("ended with %d voters, %d are wanted: %+v", st.kept, st.target, start)
	}
	for _, s := range end.Config {
		if s.Voter && end.Drained[s.ID] && !end.dead(s) && !end.leaving(s) && safe(end, st, s) {
			t.Fatalf("ended with a vote of %s, which is drained: %+v", s.ID, start)
		}
	}
	if m := margin(end); m < margin(start) && len(start.Drained) == 0 && !slices.ContainsFunc(start.Config, start.leaving) && tally(start).kept <= start.Wanted &&
		st.voters > 2 {
		t.Fatalf("survives %d failures, %d before: %+v\nend %+v", m, margin(start), start, end)
	}
	checkPlaces(t, start, end, st)
}

// checkPlaces: no more replicas than there are places, unless nobody can be taken away; and while all is well no zone has many fewer votes than another if it has a
// standby for one.
func checkPlaces(t *testing.T, start, end View, st standing) {
	t.Helper()
	shedable := func(s Server) bool {
		_, measured := end.Progress[s.ID]
		return !s.Voter && measured && end.replicates(s)
	}
	if n := total(st.replicating); n > end.places() && slices.ContainsFunc(end.Config, shedable) {
		t.Fatalf("ended with %d replicas where %d are wanted: %+v", n, end.places(), start)
	}
	if st.kept != st.target || st.kept != st.voters || st.live != st.voters {
		return
	}
	for _, s := range st.ready {
		for zone, n := range st.voting {
			if n-st.voting[end.zone(s)] >= unfair {
				t.Fatalf("ended with %d votes in zone %s and %d in that of standby %s: %+v", n, zone, st.voting[end.zone(s)], s.ID, start)
			}
		}
	}
}

// TestShrinkWhileStopping: five instances that stop one by one without a word, 30 s apart (S61).
func TestShrinkWhileStopping(t *testing.T) {
	v := parseView(t, 5, "a:v+ b:v+ c:v+ d:v+ e:v+")
	settle := func() {
		for c := Next(v); c.Kind != None; c = Next(v) {
			v = apply(v, c)
		}
	}
	stop := func(id string) {
		v.Progress[id] = Progress{Name: "name-" + id, UnreachableFor: 20 * time.Second}
		settle()
	}
	for i, want := range []struct {
		stop   string
		voters int
	}{{"e", 5}, {"d", 3}, {"c", 3}, {"b", 3}} {
		stop(want.stop)
		if got := tally(v).voters; got != want.voters {
			t.Errorf("after %d stops: %d voters, want %d", i+1, got, want.voters)
		}
	}
	if c := Next(v); c.Kind != None || !strings.Contains(c.Reason, "no quorum") {
		t.Errorf("one of three alive: Next = %v", c)
	}
}

// TestShrinkWhileLeaving: the same with a proper departure goes down to one voter.
func TestShrinkWhileLeaving(t *testing.T) {
	v := parseView(t, 5, "a:v+ b:v+ c:v+ d:v+ e:v+")
	for _, id := range []string{"e", "d", "c", "b"} {
		v.Progress[id] = Progress{Name: "name-" + id, Reachable: true, Left: true}
		for c := Next(v); c.Kind != None; c = Next(v) {
			v = apply(v, c)
		}
		if slices.ContainsFunc(v.Config, func(s Server) bool { return s.ID == id }) {
			t.Fatalf("%s left and is still in the configuration: %v", id, v.Config)
		}
	}
	if len(v.Config) != 1 {
		t.Errorf("left over: %v", v.Config)
	}
}

func TestAdmit(t *testing.T) {
	tests := []struct {
		name string
		view string
		req  Server // a zone stands behind its name
		want DecisionKind
	}{
		{"new", "a:v+ b:v+", Server{ID: "n", Name: "new"}, AddNonvoter},
		{"first standby", "a:v+ b:v+ c:v+", Server{ID: "n", Name: "new"}, AddNonvoter},
		{"third standby", "a:v+ b:v+ c:v+ d:s+ e:s+", Server{ID: "n", Name: "new"}, Enough},
		{"dead standbys do not count", "a:v+ b:v+ c:v+ d:sx e:sx", Server{ID: "n", Name: "new"}, AddNonvoter},
		{"known", "a:v+ b:v+", Server{ID: "b", Name: "name-b"}, Known},
		{"known under a new name", "a:v+ b:v+", Server{ID: "b", Name: "name-a"}, Known},
		{"name taken", "a:v+ b:v+", Server{ID: "n", Name: "name-b"}, NameTaken},
		{"the leader's name", "a:v+ b:v+", Server{ID: "n", Name: "name-a"}, NameTaken},
		{"successor", "a:v+ b:v+ c:v-", Server{ID: "n", Name: "name-c"}, AddNonvoter},
		{"successor where all places are taken", "a:v+ b:v+ c:v- d:s+ e:s+", Server{ID: "n", Name: "name-c"}, AddNonvoter},
		{"successor of one that left", "a:v+ b:v+ c:v+l", Server{ID: "n", Name: "name-c"}, AddNonvoter},
		{"no quorum", "a:v+ b:v- c:v-", Server{ID: "n", Name: "new"}, Wait},
		{"nameless", "a:v+ b/x:v+", Server{ID: "n"}, AddNonvoter},
		{"of a zone without a replica", "a@1:v+ b@1:v+ c@1:v+ d@1:s+ e@2:s+", Server{ID: "n", Name: "new@3"}, AddNonvoter},
		{"of a zone with its share", "a@1:v+ b@1:v+ c@1:v+ d@1:s+ e@2:s+", Server{ID: "n", Name: "new@1"}, Enough},
		{"no standby has a place too many", "a@1:v+ b@1:v+ c@1:v+ d@2:s+ e@3:s+", Server{ID: "n", Name: "new@4"}, Enough},
		{"of a zone for which one has just come", "a@1:v+ b@1:v+ c@1:v+ d@1:s+ e@2:s+ f:s?", Server{ID: "n", Name: "new@3"}, Enough},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			name, zone, _ := strings.Cut(tt.req.Name, "@")
			tt.req.Name = name
			d := Admit(parseView(t, 3, tt.view), tt.req, zone)
			if d.Kind != tt.want || d.ID != tt.req.ID || d.Reason == "" {
				t.Errorf("Admit = %v %q (%s), want %v", d.Kind, d.ID, d.Reason, tt.want)
			}
		})
	}
	v := parseView(t, 3, "a:v+ b:v+")
	v.Pending = true
	if d := Admit(v, Server{ID: "n"}, ""); d.Kind != Wait {
		t.Errorf("Admit while a change is pending = %v", d)
	}
}

// What an operator may not do is told in words; what is allowed keeps a majority in reach.
func TestKeepsAndNeeds(t *testing.T) {
	for _, test := range []struct {
		view, id     string
		keeps, needs string // part of the reason; "" if it can be done
	}{
		{"a:v+ b:v+ c:v+", "c", "", ""},
		{"a:v+ b:v+ c:v+", "a", "it leads", ""},
		{"a:v+ b:v+ c:v+", "x", "not in the group", "not in the group"},
		{"a:v+ b:v+ c:vx", "c", "", ""},
		{"a:v+ b:v+ c:v?", "c", "", ""},
		{"a:v+ b:v+ c:v-", "b", "only 1 of 2", "only 1 of 2"},
		{"a:v+ b:v- c:v-", "b", "no quorum", "only 1 of 2"},
		{"a:v+ b:v+", "b", "", ""},
		{"a:v+", "a", "it leads", "only voter"},
		{"a:v+ b:s+c", "a", "it leads", "only voter"},
		{"a:v+ b:s-", "b", "", ""},
		{"a:v+d b:v+d c:v+", "c", "", "are drained"},
		{"a:v+ b:v+ c:v+ d:v- e:v-", "c", "only 2 of 4", "only 2 of 4"},
		{"a:v+ b:v+ c:v+ d:v+ e:v-", "d", "", ""},
	} {
		v := parseView(t, 3, test.view)
		for what, got := range map[string][2]string{"keeps": {Keeps(v, test.id), test.keeps}, "needs": {Needs(v, test.id), test.needs}} {
			if (got[0] == "") != (got[1] == "") || !strings.Contains(got[0], got[1]) {
				t.Errorf("%s %s: %s %q, want %q", test.view, test.id, what, got[0], got[1])
			}
		}
	}
}
