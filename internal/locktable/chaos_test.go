package locktable

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// chaos makes commands as a cluster of careless nodes would: new requests, copies and late copies, floors that rise, tokens right
// and wrong, expiries and drains decided too early or too late, and commands that no sound node would send.
type chaos struct {
	rng         *rand.Rand
	mood        mood
	index, term uint64
	sessions    []SessionID
	next        map[SessionID]uint64
	floor       map[SessionID]uint64
	live, dead  []Event // grants that hold and grants that ended, newest last
	drains      []Drain
	renewed     map[SessionID]uint64
	sent        []*Command
	spoiled     map[*Command]bool // must be refused whatever the state is
	counter     Rev
}

// mood is what one seed does more or less often than another, so that some runs have long queues and others many short holds.
type mood struct {
	names int // of the pool
	many  int // percent of claims with several names
	floor int // percent of requests that raise their floor
	calm  int // percent of unlocks and ends of sessions that become claims
}

var moods = []mood{
	{names: 10, many: 33, floor: 35},
	{names: 3, many: 50, floor: 35},
	{names: 1, many: 0, floor: 35, calm: 60},
	{names: 5, many: 60, floor: 5},
	{names: 40, many: 10, floor: 60, calm: 20},
}

func newChaos(seed uint64) *chaos {
	return &chaos{
		rng: rand.New(rand.NewPCG(seed, seed)), mood: moods[seed%uint64(len(moods))], index: 1, term: 2,
		next: map[SessionID]uint64{}, floor: map[SessionID]uint64{}, renewed: map[SessionID]uint64{}, spoiled: map[*Command]bool{},
	}
}

func (g *chaos) chance(percent int) bool { return g.rng.IntN(100) < percent }

// command is the next command; advance moves the log.
func (g *chaos) command() *Command {
	switch {
	case g.index == 1 && g.chance(80), g.index > 1 && g.chance(1) && g.chance(20):
		return &Command{Op: OpFound, ClusterID: fmt.Sprint("c", g.index), Rev: 1000, TTL: time.Minute}
	case len(g.sent) > 0 && g.chance(15):
		return g.recent(g.sent, 20+g.rng.IntN(2)*300) // the very same request again, perhaps long after
	}
	c := g.fresh()
	if g.chance(2) {
		c = g.spoil(c)
	}
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
	p := g.rng.IntN(100)
	if p >= 38 && p < 62 && g.chance(g.mood.calm) {
		p = 0
	}
	switch {
	case p < 38:
		return g.claim(s)
	case p < 62:
		return &Command{Op: OpUnlock, Session: s, Seq: g.seq(s), Floor: g.raise(s), Token: g.token(s)}
	case p < 72:
		return &Command{Op: OpCancel, Session: s, Seq: g.oldSeq(s), Floor: g.raise(s)}
	case p < 80:
		return &Command{Op: OpRenew, Session: s, Since: max(0, g.counter-Rev(g.rng.IntN(60))+1)}
	case p < 86:
		grant := g.grant()
		return &Command{Op: OpForce, Names: []string{grant.Name}, Token: grant.Token, Now: g.chance(40), Note: g.text("why"), Actor: g.text("who")}
	case p < 91 && len(g.drains) > 0:
		d := g.drains[max(0, len(g.drains)-1-g.rng.IntN(4))]
		return &Command{Op: OpDrained, Token: d.Token, RenewIndex: d.Index + uint64(g.rng.IntN(20)/19), Term: g.someTerm()}
	case p < 96:
		return g.rare(s)
	}
	return g.read()
}

func (g *chaos) claim(s SessionID) *Command {
	return &Command{
		Op: OpClaim, Session: s, Seq: g.seq(s), Floor: g.raise(s), Names: g.someNames(), Try: g.chance(25), Note: g.text("x"),
	}
}

// rare are the commands that come seldom beside claims and releases: the ends of sessions, which would leave little to compare if they
// came often, and a waiter that asks again.
func (g *chaos) rare(s SessionID) *Command {
	switch p := g.rng.IntN(100); {
	case p < 24 && !g.chance(g.mood.calm):
		return &Command{Op: OpExpire, Session: s, RenewIndex: g.renewed[s] - uint64(g.rng.IntN(4)/3), Term: g.someTerm()}
	case p < 36 && !g.chance(g.mood.calm):
		return &Command{Op: OpClose, Session: s}
	case p < 46:
		return &Command{Op: OpLevel, Level: uint32(1 + g.rng.IntN(9))}
	}
	if again := g.relink(); again != nil {
		return again
	}
	return g.claim(s)
}

func (g *chaos) read() *Command {
	if g.chance(30) {
		return &Command{Op: OpBarrier}
	}
	return &Command{Op: OpInspect, Names: g.someNames()[:1]}
}

// relink is the claim of a hold once more, as a waiter that missed its grant sends it, at times with another content, at times when the hold
// has ended.
func (g *chaos) relink() *Command {
	grants := g.live
	if g.chance(30) {
		grants = g.dead[max(0, len(g.dead)-16):]
	}
	for _, c := range g.sent {
		granted := func(e Event) bool { return e.Session == c.Session && e.Seq == c.Seq }
		if c.Op != OpClaim || !slices.ContainsFunc(grants, granted) || !g.chance(30) {
			continue
		}
		if g.chance(70) {
			return c
		}
		if other := *c; !g.spoiled[c] {
			if other.Note += "y"; g.chance(50) {
				other.Note, other.Names = c.Note, append([]string{"other"}, c.Names[1:]...)
			}
			return &other
		}
	}
	return nil
}

func (g *chaos) text(s string) string {
	if g.chance(50) {
		return s
	}
	return ""
}

// someTerm is mostly the present term, at times one that is over.
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
	if g.chance(g.mood.floor) {
		g.floor[s] = max(g.floor[s], uint64(max(0, int64(g.next[s])-g.rng.Int64N(14))))
	}
	return g.floor[s]
}

// someNames are one name or several; some are prefixes of others, and once in a while they are as many as are allowed.
func (g *chaos) someNames() []string {
	n, pool := 1, g.mood.names
	switch {
	case g.chance(1) && g.chance(50):
		n, pool = MaxNames, MaxNames+10
	case g.chance(g.mood.many):
		n = min(2+g.rng.IntN(2), pool)
	}
	names := make([]string, n)
	for i, at := range g.rng.Perm(pool)[:n] {
		names[i] = strings.Repeat("a", at%3) + fmt.Sprint(at/3)
	}
	return names
}

// grant is mostly one that holds, at times one that ended or never was.
func (g *chaos) grant() Event {
	switch {
	case len(g.live) > 0 && g.chance(85):
		return g.live[g.rng.IntN(len(g.live))]
	case len(g.dead) > 0 && g.chance(85):
		return g.dead[max(0, len(g.dead)-1-g.rng.IntN(8))]
	}
	return Event{Name: "0", Token: Token(1 + g.rng.Int64N(2000))}
}

// token is mostly one that the session itself holds, at times one that it held.
func (g *chaos) token(s SessionID) Token {
	own := func(e Event) bool { return e.Session == s && g.chance(70) }
	if at := slices.IndexFunc(g.live, own); at >= 0 && g.chance(85) {
		return g.live[at].Token
	}
	lately := g.dead[max(0, len(g.dead)-32):]
	if at := slices.IndexFunc(lately, own); at >= 0 {
		return lately[at].Token
	}
	return g.grant().Token
}

// spoilers break a command of any operation.
var spoilers = []func(c *Command){
	func(c *Command) { c.Op = OpNone },
	func(c *Command) { c.Op = OpLevel + 1 },
	func(c *Command) { c.Op += 100 },
	func(c *Command) { *c = Command{Op: OpFound + (c.Op-OpFound)%(OpInspect-OpFound+1)} }, // nothing that it needs
	func(c *Command) { c.Session = -1 },
	func(c *Command) { c.Token = -1 },
	func(c *Command) { c.Since = -1 },
	func(c *Command) { c.Rev = maxFirstRev + 1 },
	func(c *Command) { c.TTL = MinTTL - 1 },
	func(c *Command) { c.TTL = -time.Second },
	func(c *Command) { c.Mode = 1 },
	func(c *Command) { c.Names = []string{""} },
	func(c *Command) { c.Names = []string{"0", "1", "0"} },
	func(c *Command) { c.Names = []string{strings.Repeat("x", MaxNameLen+1)} },
	func(c *Command) { c.Names = make([]string, MaxNames+1) },
	func(c *Command) { c.Names = []string{"a\n"} },
	func(c *Command) { c.Note = "\xff" },
	func(c *Command) { c.Actor = strings.Repeat("x", MaxNoteLen+1) },
	func(c *Command) { c.ClusterID, c.Level = "c", 1 }, // no operation has both
	func(c *Command) { c.Node, c.Session = "n", 1 },
	func(c *Command) { c.Try, c.Now = true, true },
	func(c *Command) { c.Seq, c.Term = 1, 1 },
	func(c *Command) { c.NodeName, c.RenewIndex = "n", 1 },
	func(c *Command) { c.Floor, c.Since = 1, 1 },
}

func (g *chaos) spoil(c *Command) *Command {
	bad := *c
	spoilers[g.rng.IntN(len(spoilers))](&bad)
	g.spoiled[&bad] = true
	return &bad
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
