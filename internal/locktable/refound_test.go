package locktable

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"
)

// opRefound stands for a refounding in a script of commands: ClusterID, Rev = least counter.
const opRefound Op = 200

// refound does it to the tables and the model, which begin another life with it. The effects tell what a member finds in the new
// state.
func (tr *trial) refound(index uint64, c *Command) (Result, Effects, error) {
	var eff Effects
	for s := range tr.table.Sessions() {
		eff.Ended = append(eff.Ended, s.ID)
	}
	for d := range tr.table.Drains() {
		eff.Drains = append(eff.Drains, Drain{Grant: d.Grant, Wait: d.Wait})
	}
	tr.model.refound(index, c)
	for _, t := range []**Table{&tr.table, &tr.twin} {
		next, err := (*t).Snapshot().Refounded(Refounding{ClusterID: c.ClusterID, Counter: c.Rev, Index: index})
		if (*t).clusterID == "" {
			return Result{Code: CodeNotFounded}, Effects{}, nil // with commands left out
		}
		if err != nil {
			return Result{}, eff, err
		}
		next.limits = (*t).limits
		*t = next
	}
	tr.last = tr.table.counter
	tr.applied++
	tr.due = tr.applied
	eff.Drains = slices.AppendSeq(eff.Drains, tr.table.Drains())
	return Result{Code: CodeOK, Index: index, Rev: tr.table.counter}, eff, tr.checkState()
}

// refound: nobody holds or waits for anything, and nobody may for a while.
func (m *model) refound(index uint64, c *Command) {
	if m.cluster == "" {
		return
	}
	wait := m.maxTTL*5/4 + 5*time.Second
	for _, h := range m.claims {
		if h.Grant != 0 {
			wait = max(wait, m.maxTTL*5/4+5*time.Second+h.Delay)
		}
	}
	m.cluster, m.index, m.counter = c.ClusterID, index, max(m.counter, c.Rev)+1
	m.quarantine = Quarantine{Rev: m.counter, Index: index, Wait: max(wait, m.quarantine.Wait)}
	m.sessions, m.claims = map[SessionID]*modelSession{}, nil
	for name, sem := range m.semaphores {
		if !sem.Set {
			delete(m.semaphores, name)
		}
	}
}

func (s *script) refound(cluster string, counter Rev) {
	next, err := s.table.Snapshot().Refounded(Refounding{ClusterID: cluster, Counter: counter, Index: s.index})
	if err != nil {
		s.printf("-> %v", err)
		return
	}
	s.table = next
	s.state()
}

// What may not be refounded is refused, and the state stays as it is.
func TestRefoundedRefuses(t *testing.T) {
	state := rich(t).Snapshot()
	h := state.Header()
	good := Refounding{ClusterID: "other", Counter: h.Counter + 1000, Index: h.Index + 5}
	if _, err := state.Refounded(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(r *Refounding){
		"no id":             func(r *Refounding) { r.ClusterID = "" },
		"the same id":       func(r *Refounding) { r.ClusterID = h.ClusterID },
		"not an id":         func(r *Refounding) { r.ClusterID = "\n" },
		"negative counter":  func(r *Refounding) { r.Counter = -1 },
		"counter too high":  func(r *Refounding) { r.Counter = maxFirstRev + 1 },
		"index of the past": func(r *Refounding) { r.Index = h.Index - 1 },
	} {
		bad := good
		change(&bad)
		if _, err := state.Refounded(bad); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := New().Snapshot().Refounded(good); err == nil {
		t.Error("a state of no cluster: accepted")
	}
	if state.Header() != h {
		t.Error("the state has changed")
	}
}

// I14: of a state with everything in it no session and no hold is left, every counter value in it lies below the new ones, and
// what was decided for good is there.
func TestRefoundedState(t *testing.T) {
	old := recordsOf(rich(t).Snapshot())
	for name, floor := range map[string]Rev{"raised": old.header.Counter + 1000, "ahead already": 5} {
		next, err := rich(t).Snapshot().Refounded(Refounding{ClusterID: "other", Counter: floor, Index: old.header.Index + 5})
		if err != nil {
			t.Fatal(err)
		}
		got := recordsOf(next.Snapshot())
		if len(got.sessions)+len(got.claims)+len(got.finished)+len(got.lost) != 0 {
			t.Errorf("%s: left over: %+v", name, got)
		}
		set := slices.DeleteFunc(slices.Clone(old.limits), func(l LimitRecord) bool { return !l.Set })
		if err := cmp.Or(same("audit", got.audit, old.audit), same("limits", got.limits, set)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(set) == 0 || len(old.audit) == 0 {
			t.Fatal("nothing that could be kept")
		}
		if least := max(floor, old.header.Counter); got.header.Counter <= least {
			t.Errorf("%s: counter %d, at least %d", name, got.header.Counter, least+1)
		}
		if got.header.Level != old.header.Level || got.header.MaxTTL != old.header.MaxTTL || got.header.ClusterID != "other" {
			t.Errorf("%s: %+v after %+v", name, got.header, old.header)
		}
	}
}

// The quarantine lasts 1.25 times the longest TTL and 5 s, and for the longest delay that somebody wanted after a hold.
func TestQuarantineWait(t *testing.T) {
	const least = 80 * time.Second // of the longest TTL of one minute
	for name, test := range map[string]struct {
		claims []string
		want   time.Duration
	}{
		"nothing held":             {nil, least},
		"held without a delay":     {[]string{"A claim 1 x"}, least},
		"held with one":            {[]string{"A claim 1 x delay=3s", "A claim 2 y delay=9s"}, least + 9*time.Second},
		"waiting with one":         {[]string{"A claim 1 x", "A claim 2 x delay=9s"}, least},
		"delayed":                  {[]string{"A claim 1 x delay=9s", "expire A"}, least + 9*time.Second},
		"refounded before with it": {[]string{"A claim 1 x delay=9s", "refound c2 500"}, least + 9*time.Second},
	} {
		s := newScript(t)
		s.run(strings.Join(append([]string{"found 100", "A = open n1 10s"}, test.claims...), "\n"))
		next, err := s.table.Snapshot().Refounded(Refounding{ClusterID: "other", Index: s.index})
		if err != nil {
			t.Fatal(err)
		}
		if got := next.Header().Quarantine.Wait; got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// A table in quarantine is not built with anything that contradicts it.
func TestBuilderRefusesQuarantine(t *testing.T) {
	s := newScript(t)
	s.run("found 100\nA = open n1 10s\nA claim 1 x\nrefound c2 500\nB = open n1 10s\n")
	base := recordsOf(s.table.Snapshot())
	if _, err := rebuild(base); err != nil || base.header.Quarantine == (Quarantine{}) {
		t.Fatalf("%+v: %v", base.header, err)
	}
	for name, change := range map[string]func(r *records){
		"of the future":         func(r *records) { r.header.Quarantine.Index = r.header.Index + 1 },
		"without a revision":    func(r *records) { r.header.Quarantine.Rev = 0 },
		"not from the counter":  func(r *records) { r.header.Quarantine.Rev = r.header.Counter + 1 },
		"revision taken":        func(r *records) { r.header.Quarantine.Rev = Rev(r.sessions[0].ID) },
		"older session":         func(r *records) { r.sessions[0].ID = SessionID(r.header.Quarantine.Rev - 1) },
		"without a wait":        func(r *records) { r.header.Quarantine.Wait = 0 },
		"negative wait":         func(r *records) { r.header.Quarantine.Wait = -1 },
		"of an unfounded state": func(r *records) { *r = records{header: Header{Quarantine: r.header.Quarantine}} },
		"claim": func(r *records) {
			id := r.sessions[0].ID
			rev := Rev(id) + 1
			r.header.Counter, r.header.Claims = rev, 1
			r.claims = []ClaimRecord{{Rev: rev, Pos: rev, Session: id, Seq: 1, Names: []string{"x"}, Token: Token(rev), Grant: rev}}
		},
	} {
		r := base
		r.sessions = slices.Clone(base.sessions)
		change(&r)
		if _, err := rebuild(r); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func init() {
	planted["a claim is taken in the quarantine"] = func(t *Table, c *Command, bite func()) func() {
		q := t.quarantine
		if c.Op != OpClaim || q == (Quarantine{}) {
			return nil
		}
		bite()
		t.quarantine = Quarantine{}
		return func() { t.quarantine = q }
	}
	planted["a quarantine ends by a command of another term"] = func(t *Table, c *Command, bite func()) func() {
		if c.Op != OpDrained || c.Rev != t.quarantine.Rev || c.RenewIndex != t.quarantine.Index {
			return nil
		}
		return func() {
			if t.quarantine != (Quarantine{}) {
				bite()
				t.quarantine = Quarantine{}
			}
		}
	}
}
