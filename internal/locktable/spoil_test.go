package locktable

import (
	"slices"
	"strings"
	"time"
)

// spoilers break a command of any operation.
var spoilers = []func(c *Command){
	func(c *Command) { c.Op = OpNone },
	func(c *Command) { c.Op = OpAct + 1 },
	func(c *Command) { c.Op += 100 },
	func(c *Command) { *c = Command{Op: OpFound + Op(c.Seq)%(OpInspect-OpFound+1)} }, // nothing that it needs
	func(c *Command) { *c = Command{Op: OpDowngrade + Op(c.Seq)%(OpRestart-OpDowngrade+1)} },
	func(c *Command) { *c = Command{Op: OpSessions + Op(c.Seq)%(OpAct-OpSessions+1)} },
	func(c *Command) { c.Act, c.Seq = ActRemove, 1 },
	func(c *Command) { *c = Command{Op: OpAct, Act: ActEnd, Note: "why", Actor: "who"} },
	func(c *Command) { *c = Command{Op: OpAct, Act: lastAct + 1, Note: "why", Actor: "who"} },
	func(c *Command) { *c = Command{Op: OpSessions, Count: MaxList + 1} },
	func(c *Command) { *c = Command{Op: OpEnd, Session: 1, Note: "why"} },
	func(c *Command) { c.Session = -1 },
	func(c *Command) { c.Token = -1 },
	func(c *Command) { c.Since = -1 },
	func(c *Command) { c.From = -1 },
	func(c *Command) { c.Rev = maxFirstRev + 1 },
	func(c *Command) { c.TTL = MinTTL - 1 },
	func(c *Command) { c.TTL = -time.Second },
	func(c *Command) { c.Mode = Permits + 1 },
	func(c *Command) { c.Mode, c.Count = Shared, 1 },
	func(c *Command) { c.Mode, c.Limit = Exclusive, 2; c.Seq, c.Token = 1, 1 },
	func(c *Command) { c.Mode, c.Names = Shared, []string{"0", "1"} },
	func(c *Command) { c.Mode, c.Count, c.Limit = Permits, 1, 0 },
	func(c *Command) { c.Mode, c.Count, c.Limit = Permits, 4, 3 },
	func(c *Command) { c.Limit = MaxPermits + 1 },
	func(c *Command) { c.Limit, c.Former = 1, MaxPermits+1 },
	func(c *Command) { c.Limit, c.Former = 3, 3 },
	func(c *Command) { c.Limit, c.Former = 0, 3 },
	func(c *Command) { c.Former, c.Of = 1, 1 },
	func(c *Command) { c.Names = []string{""} },
	func(c *Command) { c.Names = []string{"0", "1", "0"} },
	func(c *Command) { c.Names = []string{strings.Repeat("x", MaxNameLen+1)} },
	func(c *Command) { c.Names = make([]string, MaxNames+1) },
	func(c *Command) { c.Names = []string{"a\n"} },
	func(c *Command) { c.Note = "\xff" },
	func(c *Command) { c.Value = "\xff" },
	func(c *Command) { c.Value = strings.Repeat("x", MaxValueLen+1) },
	func(c *Command) { c.Secret = "a\n" },
	func(c *Command) { c.After = strings.Repeat("x", MaxNameLen+1) },
	func(c *Command) { c.Incarnation = "\x00" },
	func(c *Command) { c.Delay = time.Microsecond },
	func(c *Command) { c.Delay = MaxDelay + time.Millisecond },
	func(c *Command) { c.Delay = -time.Millisecond },
	func(c *Command) { c.Actor = strings.Repeat("x", MaxNoteLen+1) },
	func(c *Command) { c.ClusterID, c.Level = "c", 1 }, // no operation has both
	func(c *Command) { c.Node, c.Session = "n", 1 },
	func(c *Command) { c.Try, c.Now = true, true },
	func(c *Command) { c.Seq, c.Term = 1, 1 },
	func(c *Command) { c.NodeName, c.RenewIndex = "n", 1 },
	func(c *Command) { c.Floor, c.Since = 1, 1 },
	func(c *Command) { c.Of, c.Names = 1, []string{"a"} },
	func(c *Command) { c.From, c.Value = 1, "v" },
	func(c *Command) { c.After, c.Seq = "a", 1 },
	func(c *Command) { c.Delay, c.Of = time.Second, 1 },
	func(c *Command) { c.Barring, c.Try = true, true },
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
		g.learn(e)
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
		g.open = slices.DeleteFunc(g.open, func(o Drain) bool { return o.Grant == d.Grant })
		if d.Index != 0 {
			g.open, g.past = append(g.open, d), append(g.past, d)
		}
	}
	if !g.chance(30) { // else the next command shares the entry
		g.index++
	}
	if g.chance(1) {
		g.term++
	}
}

// refounded forgets whom nobody knows any more.
func (g *chaos) refounded(counter Rev) {
	g.counter = counter
	g.dead = append(g.dead, g.live...)
	g.live, g.queued = nil, nil
}

func (g *chaos) learn(e Event) {
	g.counter = e.Rev
	same := func(l Event) bool { return l.Session == e.Session && l.Seq == e.Seq }
	switch e.Kind {
	case EventQueued:
		g.queued = append(g.queued, e)
	case EventCancelled:
		g.queued = slices.DeleteFunc(g.queued, same)
	case EventGranted:
		g.queued = slices.DeleteFunc(g.queued, same)
		g.live = append(g.live, e)
	case EventReleased, EventExpired, EventForced:
		g.live = slices.DeleteFunc(g.live, same)
		g.dead = append(g.dead, e)
	case EventResized:
		if g.limits[e.Name] = e.Count; e.Count == 0 {
			delete(g.limits, e.Name)
		}
	}
}
