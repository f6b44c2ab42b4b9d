package locktable

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

var commands = flag.Int("commands", 20_000, "random commands to compare with the model")

func sameRecords[T any](kind string, got, want []T) error {
	if len(got) == 0 && len(want) == 0 || reflect.DeepEqual(got, want) {
		return nil
	}
	return fmt.Errorf("%s\n got %+v\nwant %+v", kind, got, want)
}

// smallLimits are reached all the time by the random commands.
var smallLimits = limits{sessions: 6, claims: 24, finished: 8, lost: 3, audit: 5}

// chaos makes commands as a cluster of careless nodes would: new requests, copies and late copies, floors that rise, tokens right
// and wrong, expiries and drains decided too early or too late.
type chaos struct {
	rng         *rand.Rand
	index, term uint64
	sessions    []SessionID
	next        map[SessionID]uint64
	floor       map[SessionID]uint64
	live, dead  []Event // grants that hold and grants that ended, newest last
	drains      []Drain
	renewed     map[SessionID]uint64
	sent        []*Command
	counter     Rev
}

func newChaos(seed uint64) *chaos {
	return &chaos{
		rng: rand.New(rand.NewPCG(seed, seed)), index: 1, term: 1,
		next: map[SessionID]uint64{}, floor: map[SessionID]uint64{}, renewed: map[SessionID]uint64{},
	}
}

func (g *chaos) chance(percent int) bool { return g.rng.IntN(100) < percent }

// command is the next command; advance moves the log.
func (g *chaos) command() *Command {
	if g.index == 1 {
		return &Command{Op: OpFound, ClusterID: "c", Rev: 1000, TTL: time.Minute}
	}
	if len(g.sent) > 0 && g.chance(15) {
		return g.recent(g.sent, 60) // the very same request again, perhaps long after
	}
	c := g.fresh()
	g.sent = append(g.sent, c)
	if len(g.sent) > 400 {
		g.sent = g.sent[200:]
	}
	return c
}

func (g *chaos) recent(from []*Command, within int) *Command {
	return from[max(0, len(from)-1-g.rng.IntN(within))]
}

func (g *chaos) fresh() *Command {
	if len(g.sessions) == 0 || g.chance(3) {
		return &Command{Op: OpOpen, Node: fmt.Sprint("n", g.rng.IntN(4)), NodeName: "web", TTL: time.Duration(1+g.rng.IntN(70)) * time.Second}
	}
	s := g.sessions[g.rng.IntN(len(g.sessions))]
	c := &Command{Session: s}
	switch p := g.rng.IntN(100); {
	case p < 38:
		c.Op, c.Seq, c.Floor, c.Names = OpClaim, g.seq(s), g.raise(s), g.someNames()
		c.Try = g.chance(25)
		c.Note = []string{"", "x"}[g.rng.IntN(2)]
	case p < 62:
		c.Op, c.Seq, c.Floor, c.Token = OpUnlock, g.seq(s), g.raise(s), g.token(s)
	case p < 72:
		c.Op, c.Seq, c.Floor = OpCancel, g.oldSeq(s), g.raise(s)
	case p < 80:
		c.Op, c.Since = OpRenew, max(0, g.counter-Rev(g.rng.IntN(60))+1)
	case p < 86:
		grant := g.grant()
		c = &Command{Op: OpForce, Names: []string{grant.Name}, Token: grant.Token, Now: g.chance(40), Note: "why", Actor: "who"}
	case p < 91 && len(g.drains) > 0:
		d := g.drains[max(0, len(g.drains)-1-g.rng.IntN(4))]
		c = &Command{Op: OpDrained, Token: d.Token, RenewIndex: d.Index + uint64(g.rng.IntN(20)/19), Term: g.someTerm()}
	case p < 92 || p < 93 && len(g.sessions) > 3:
		c.Op, c.RenewIndex, c.Term = OpExpire, g.renewed[s]-uint64(g.rng.IntN(4)/3), g.someTerm()
	case p < 94 && g.chance(50):
		c.Op = OpClose
	case p < 97:
		if again := g.relink(); again != nil {
			return again
		}
		c.Op = OpRenew
	case p < 98:
		c = &Command{Op: OpLevel, Level: uint32(1 + g.rng.IntN(9))}
	default:
		c = &Command{Op: OpInspect, Names: g.someNames()[:1]}
	}
	return c
}

// relink is the claim of a live hold once more, as a waiter that missed its grant sends it.
func (g *chaos) relink() *Command {
	for _, c := range g.sent {
		if c.Op == OpClaim && slices.ContainsFunc(g.live, func(e Event) bool { return e.Session == c.Session && e.Seq == c.Seq }) {
			if g.chance(30) {
				return c
			}
		}
	}
	return nil
}

func (g *chaos) someTerm() uint64 { return g.term - uint64(g.rng.IntN(10)/9) }

// seq is mostly the next sequence of the session, at times an old one or one too many.
func (g *chaos) seq(s SessionID) uint64 {
	if g.chance(8) {
		return g.oldSeq(s)
	}
	g.next[s] += 1 + uint64(g.rng.IntN(12)/11)
	return g.next[s]
}

func (g *chaos) oldSeq(s SessionID) uint64 {
	return uint64(max(1, int64(g.next[s])+1-g.rng.Int64N(8)))
}

func (g *chaos) raise(s SessionID) uint64 {
	if g.chance(35) {
		g.floor[s] = max(g.floor[s], uint64(max(0, int64(g.next[s])-g.rng.Int64N(14))))
	}
	return g.floor[s]
}

func (g *chaos) someNames() []string {
	all := []string{"a", "ab", "b", "c", "d", "e", "f", "g", "h", "i"}
	g.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:1+g.rng.IntN(3)*g.rng.IntN(2)]
}

// grant is mostly one that holds, at times one that ended or never was.
func (g *chaos) grant() Event {
	switch {
	case len(g.live) > 0 && g.chance(85):
		return g.live[g.rng.IntN(len(g.live))]
	case len(g.dead) > 0 && g.chance(85):
		return g.dead[max(0, len(g.dead)-1-g.rng.IntN(8))]
	}
	return Event{Name: "a", Token: Token(1 + g.rng.Int64N(2000))}
}

// token is mostly one that the session itself holds.
func (g *chaos) token(s SessionID) Token {
	for _, e := range g.live {
		if e.Session == s && g.chance(70) {
			return e.Token
		}
	}
	return g.grant().Token
}

// advance learns from what a command did and moves on in the log.
func (g *chaos) advance(r Result, eff *Effects) {
	if r.Session != 0 {
		g.sessions = append(g.sessions, r.Session)
	}
	for _, e := range eff.Events {
		g.counter = e.Rev
		switch e.Kind {
		case EventGranted:
			g.live = append(g.live, e)
		case EventReleased, EventExpired, EventForced:
			g.live = slices.DeleteFunc(g.live, func(l Event) bool { return l.Token == e.Token })
			g.dead = append(g.dead, e)
		}
	}
	for _, id := range eff.Ended {
		if g.chance(95) { // else its node has not noticed
			g.sessions = slices.DeleteFunc(g.sessions, func(s SessionID) bool { return s == id })
		}
	}
	for _, n := range eff.Renewed {
		g.renewed[n.Session] = n.Index
	}
	for _, d := range eff.Drains {
		if d.Index != 0 {
			g.drains = append(g.drains, d)
		}
	}
	if !g.chance(30) { // else the next command shares the entry
		g.index++
	}
	if g.chance(1) {
		g.term++
	}
}

// TestModel compares results, effects and state with the model, restores from a snapshot on the way, and keeps a second table that
// is never restored: both must have the same hash.
func TestModel(t *testing.T) {
	for seed, l := range []limits{smallLimits, {sessions: 12, claims: 60, finished: 64, lost: 8, audit: 20}, smallLimits, {20, 90, 999, 99, 99}} {
		t.Run(fmt.Sprintf("seed%d", seed), func(t *testing.T) { compareWithModel(t, uint64(seed), l, *commands/4) })
	}
}

func compareWithModel(t *testing.T, seed uint64, l limits, n int) {
	g, m := newChaos(seed), newModel(l)
	table, twin := New(), New()
	table.limits, twin.limits = l, l
	codes := map[string]int{}
	var last Rev
	for i := range n {
		c := g.command()
		var got, want Effects
		wall := int64(g.index) * 1000
		r := table.Apply(g.index, g.term, wall, c, &got)
		wantResult := m.apply(g.index, g.term, wall, c, &want)
		if len(wantResult.Lost) == 0 {
			wantResult.Lost = nil
		}
		if len(r.Lost) == 0 {
			r.Lost = nil
		}
		if !reflect.DeepEqual(r, wantResult) {
			t.Fatalf("command %d %+v\n got %+v\nwant %+v", i, *c, r, wantResult)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("command %d %+v\n got %+v\nwant %+v", i, *c, got, want)
		}
		twin.Apply(g.index, g.term, wall, c, nil)
		for _, e := range got.Events {
			if last != 0 && e.Rev != last+1 {
				t.Fatalf("command %d: event revision %d after %d", i, e.Rev, last)
			}
			last = e.Rev
		}
		codes[c.Op.String()+" "+r.Code.String()]++
		g.advance(r, &got)
		if i%11 == 0 {
			if err := checkInvariants(table); err != nil {
				t.Fatalf("command %d %+v: %v", i, *c, err)
			}
			if err := m.compare(table.Snapshot()); err != nil {
				t.Fatalf("command %d %+v: %v", i, *c, err)
			}
		}
		if i%97 == 0 {
			table = restored(t, table)
			if table.Snapshot().Hash() != twin.Snapshot().Hash() {
				t.Fatalf("command %d: the hash changed by a restore", i)
			}
		}
	}
	if n >= 4_000 {
		requireCoverage(t, codes, l)
	}
}

// requireCoverage fails a run whose commands did not bite: an outcome that never came up was not compared.
func requireCoverage(t *testing.T, codes map[string]int, l limits) {
	want := []string{
		"open ok", "renew ok", "renew no-session", "claim granted", "claim waiting", "claim locked", "claim cancelled", "claim mismatch",
		"claim below-floor", "claim draining", "cancel cancelled", "cancel locked", "cancel mismatch", "unlock released", "unlock not-held",
		"unlock mismatch", "unlock below-floor", "force ok", "force draining", "force mismatch", "force not-held", "drained ok",
		"drained stale", "drained not-held", "expire ok", "expire stale", "close ok", "inspect ok", "open malformed", "level ok",
	}
	if l == smallLimits {
		want = append(want, "open overloaded", "claim overloaded", "unlock overloaded", "cancel overloaded", "force overloaded")
	}
	for _, w := range want {
		if codes[w] == 0 {
			t.Errorf("%q never came up in %v", w, codes)
		}
	}
}

// restored is the table rebuilt from the records of its snapshot.
func restored(t testing.TB, table *Table) *Table {
	t.Helper()
	next, err := rebuild(recordsOf(table.Snapshot()))
	if err != nil {
		t.Fatal(err)
	}
	next.limits = table.limits
	return next
}

// records are a snapshot in the hand, to be tampered with.
type records struct {
	header   Header
	sessions []SessionRecord
	claims   []ClaimRecord
	finished []FinishedRecord
	lost     []LostRecord
	audit    []AuditRecord
}

func recordsOf(s *Snapshot) records {
	return records{
		s.Header(), slices.Collect(s.Sessions()), slices.Collect(s.Claims()), slices.Collect(s.Finished()), slices.Collect(s.Lost()),
		slices.Collect(s.Audit()),
	}
}

func rebuild(r records) (*Table, error) {
	b := NewBuilder(r.header)
	addAll(r.sessions, b.Session)
	addAll(r.claims, b.Claim)
	addAll(r.finished, b.Finished)
	addAll(r.lost, b.Lost)
	addAll(r.audit, b.Audit)
	return b.Table()
}

// addAll ignores the errors: a Builder that failed once stays failed, and Table tells.
func addAll[T any](records []T, add func(T) error) {
	for _, r := range records {
		_ = add(r)
	}
}
