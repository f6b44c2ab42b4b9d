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
	queued      []Event // claims that wait, once under each name
	open, past  []Drain // drains and delays that go on, and all there ever were
	offers      []*Command
	limits      map[string]uint32 // as last set
	renewed     map[SessionID]uint64
	sent        []*Command
	spoiled     map[*Command]bool // must be refused whatever the state is
	counter     Rev
	raised      bool // to a level of which all operations are
}

// mood is what one seed does more or less often than another, so that some runs have long queues and others many short holds.
type mood struct {
	names      int // of the pool
	semaphores int // every so many of them are used as semaphores, as a rule
	readers    int // percent of the claims on locks that are shared
	many       int // percent of exclusive claims with several names
	delays     int // percent of claims with a lock delay
	floor      int // percent of requests that raise their floor
	calm       int // percent of unlocks and ends of sessions that become claims
}

var moods = []mood{
	{names: 10, semaphores: 3, readers: 30, many: 33, delays: 10, floor: 35},
	{names: 3, semaphores: 9, readers: 20, many: 60, floor: 35},
	{names: 1, semaphores: 9, readers: 60, delays: 5, floor: 35, calm: 60},
	{names: 5, semaphores: 5, readers: 10, many: 60, delays: 30, floor: 5},
	{names: 40, semaphores: 2, readers: 50, many: 10, delays: 10, floor: 60, calm: 20},
	{names: 1, semaphores: 1, delays: 10, floor: 35, calm: 30},
	{names: 2, semaphores: 2, readers: 40, delays: 50, floor: 35},
}

func newChaos(seed uint64) *chaos {
	return &chaos{
		rng: rand.New(rand.NewPCG(seed, seed)), mood: moods[seed%uint64(len(moods))], index: 1, term: 2,
		next: map[SessionID]uint64{}, floor: map[SessionID]uint64{}, renewed: map[SessionID]uint64{}, spoiled: map[*Command]bool{},
		limits: map[string]uint32{},
	}
}

func (g *chaos) chance(percent int) bool { return g.rng.IntN(100) < percent }

// command is the next command; advance moves the log.
func (g *chaos) command() *Command {
	switch {
	case g.counter == 0 && g.chance(70), g.chance(1) && g.chance(20):
		return &Command{Op: OpFound, ClusterID: fmt.Sprint("c", g.index), Rev: 1000, TTL: time.Minute}
	case len(g.sent) > 0 && g.chance(15):
		return recent(g, g.sent, 20+g.rng.IntN(2)*300) // the very same request again, perhaps long after
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

// recent is one of the last few of a list that is not empty.
func recent[T any](g *chaos, from []T, within int) T {
	return from[max(0, len(from)-1-g.rng.IntN(within))]
}

func (g *chaos) fresh() *Command {
	if len(g.sessions) == 0 || g.chance(3) {
		return g.openSession()
	}
	if !g.raised && g.chance(2) {
		g.raised = true
		return &Command{Op: OpLevel, Level: LevelActs}
	}
	s := g.sessions[g.rng.IntN(len(g.sessions))]
	p := g.rng.IntN(100)
	if p >= 35 && p < 55 && g.chance(g.mood.calm) {
		p = 0
	}
	switch {
	case p < 35:
		return g.claim(s)
	case p < 55:
		return g.aboutHold(&Command{Op: OpUnlock, Session: s, Barring: g.chance(15)})
	case p < 62:
		return &Command{Op: OpCancel, Session: s, Seq: g.oldSeq(s), Floor: g.raise(s), Now: g.chance(20)}
	case p < 68:
		return &Command{Op: OpRenew, Session: s, Since: max(0, g.counter-Rev(g.rng.IntN(60))+1)}
	case p < 74:
		return g.force()
	case p < 80 && len(g.past) > 0:
		return g.drained()
	case p < 89:
		return g.move(s)
	case p < 91:
		return g.resize(s)
	case p < 96:
		return g.rare(s)
	}
	return g.read()
}

func (g *chaos) openSession() *Command {
	c := &Command{Op: OpOpen, Node: fmt.Sprint("n", g.rng.IntN(4)), NodeName: "web", TTL: time.Duration(1+g.rng.IntN(70)) * time.Second}
	if g.chance(70) {
		c.Incarnation = fmt.Sprint("i", g.rng.IntN(2))
	}
	return c
}

// claim is mostly one that suits its names. The others collide: a lock where a semaphore is, another limit, or the other way round.
func (g *chaos) claim(s SessionID) *Command {
	c := &Command{Op: OpClaim, Session: s, Seq: g.seq(s), Floor: g.raise(s), Try: g.chance(25), Note: g.text("x")}
	if g.chance(g.mood.delays) {
		c.Delay = time.Duration(1+g.rng.IntN(3)) * time.Second
	}
	if g.chance(10) {
		c.Value = fmt.Sprint("v", g.rng.IntN(3))
	}
	at := g.rng.IntN(g.mood.names)
	c.Names = []string{nameAt(at)}
	switch {
	case g.isSemaphore(at) != g.chance(4):
		c.Mode, c.Limit = Permits, g.limit(c.Names[0])
		c.Count = uint32(1 + g.rng.IntN(int(min(c.Limit, 4))))
	case g.chance(g.mood.readers):
		c.Mode = Shared
	default:
		c.Names = g.someNames()
	}
	return c
}

// resize sets a limit, or has it forgotten. Where it says what the claims name, that is mostly what they do name.
func (g *chaos) resize(s SessionID) *Command {
	name := g.name(true)
	c := &Command{Op: OpResize, Session: s, Seq: g.seq(s), Floor: g.raise(s), Names: []string{name}, Limit: uint32(g.rng.IntN(8))}
	if former := g.limit(name); c.Limit != 0 && c.Limit != former && g.chance(60) {
		c.Former = former
	}
	return c
}

// limit is mostly the last one set, or the one that everybody names of old.
func (g *chaos) limit(name string) uint32 {
	usual := uint32(3 + len(name))
	switch set, ok := g.limits[name]; {
	case g.chance(6):
		return uint32(1 + g.rng.IntN(9))
	case ok && g.chance(70):
		return set
	}
	return usual
}

func (g *chaos) force() *Command {
	grant := g.grant()
	c := &Command{Op: OpForce, Names: []string{grant.Name}, Token: grant.Token, Now: g.chance(40), Note: g.text("why"), Actor: g.text("who")}
	if g.chance(20) {
		c.Session = max(1, grant.Session)
	}
	return c
}

// drained ends mostly a drain or a delay that goes on.
func (g *chaos) drained() *Command {
	d := recent(g, g.past, 4)
	if len(g.open) > 0 && g.chance(85) {
		d = g.open[g.rng.IntN(len(g.open))]
	}
	return &Command{Op: OpDrained, Rev: d.Grant, RenewIndex: d.Index + uint64(g.rng.IntN(20)/19), Term: g.someTerm()}
}

// rare are the commands that come seldom beside claims and releases: the ends of sessions, which would leave little to compare if they
// came often, and a waiter that asks again.
func (g *chaos) rare(s SessionID) *Command {
	switch p := g.rng.IntN(100); {
	case p < 22 && !g.chance(g.mood.calm):
		return &Command{Op: OpExpire, Session: s, RenewIndex: g.renewed[s] - uint64(g.rng.IntN(4)/3), Term: g.someTerm()}
	case p < 34 && !g.chance(g.mood.calm):
		return &Command{Op: OpClose, Session: s, Now: g.chance(50)}
	case p < 42:
		return &Command{Op: OpRestart, Node: fmt.Sprint("n", g.rng.IntN(4)), Incarnation: fmt.Sprint("i", g.rng.IntN(2)), RenewIndex: g.restartIndex()}
	case p < 45 && !g.chance(g.mood.calm):
		return &Command{Op: OpEnd, Session: s, Now: g.chance(40), Note: "why", Actor: "who"}
	case p < 48:
		return &Command{Op: OpLevel, Level: uint32(1 + g.rng.IntN(9))}
	}
	if again := g.relink(); again != nil {
		return again
	}
	return g.claim(s)
}

func (g *chaos) restartIndex() uint64 {
	return g.index - min(g.index-1, uint64(g.rng.IntN(3)/2*g.rng.IntN(300)))
}

func (g *chaos) read() *Command {
	switch p := g.rng.IntN(100); {
	case p < 12:
		return &Command{Op: OpBarrier}
	case p < 20:
		return &Command{Op: OpSessions, Count: uint32(1 + g.rng.IntN(6)), Rev: Rev(g.rng.IntN(2)) * Rev(g.sessions[g.rng.IntN(len(g.sessions))])}
	case p < 28:
		return &Command{Op: OpAudit, Count: uint32(1 + g.rng.IntN(6)), Rev: max(0, g.counter-Rev(g.rng.IntN(400)))}
	case p < 35:
		return &Command{Op: OpAct, Act: ActDrain + Act(g.rng.IntN(3)/2), Node: fmt.Sprint("n", g.rng.IntN(4)), NodeName: g.text("web"), Note: "why", Actor: "who"}
	case p < 38:
		return &Command{Op: OpAct, Act: ActTransfer + Act(g.rng.IntN(2)), Node: g.text("n1"), NodeName: g.text("web"), Note: "why", Actor: "who"}
	case p < 60:
		c := &Command{Op: OpList, Count: uint32(1 + g.rng.IntN(6)), After: g.text(g.name(false))}
		if prefix := g.name(false); g.chance(30) {
			c.Names = []string{prefix[:1]}
		}
		return c
	}
	return &Command{Op: OpInspect, Names: []string{g.name(g.chance(50))}}
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
		if !g.spoiled[c] {
			return g.altered(*c)
		}
	}
	return nil
}

// altered is a claim with another content.
func (g *chaos) altered(c Command) *Command {
	switch g.rng.IntN(4) {
	case 0:
		c.Note += "y"
	case 1:
		c.Names = append([]string{"other"}, c.Names[1:]...)
	case 2:
		c.Delay += time.Second
	case 3:
		if c.Mode == Permits {
			c.Count = 1 + c.Count%c.Limit
		} else if c.Mode, c.Names = Shared-c.Mode, c.Names[:1]; c.Mode == Shared {
			c.Try = false
		}
	}
	return &c
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

// nameAt is a name of the pool; some are prefixes of others.
func nameAt(at int) string { return strings.Repeat("a", at%3) + fmt.Sprint(at/3) }

func (g *chaos) isSemaphore(at int) bool { return at%g.mood.semaphores == g.mood.semaphores-1 }

// name is any one of the pool, mostly one that is used as a semaphore or as a lock.
func (g *chaos) name(semaphore bool) string {
	at := g.rng.IntN(g.mood.names)
	for range 3 {
		if g.isSemaphore(at) != semaphore {
			at = g.rng.IntN(g.mood.names)
		}
	}
	return nameAt(at)
}

// someNames are one name or several, mostly of locks, and once in a while they are as many as are allowed.
func (g *chaos) someNames() []string {
	n, pool := 1, g.mood.names
	switch {
	case g.chance(1) && g.chance(50):
		n, pool = MaxNames, MaxNames+10
	case g.chance(g.mood.many):
		n = min(2+g.rng.IntN(2), pool)
	}
	var names []string
	for _, at := range g.rng.Perm(pool) {
		if len(names) < n && (!g.isSemaphore(at) || pool > g.mood.names || g.chance(4)) {
			names = append(names, nameAt(at))
		}
	}
	if len(names) == 0 {
		return []string{nameAt(g.rng.IntN(pool))}
	}
	return names
}
