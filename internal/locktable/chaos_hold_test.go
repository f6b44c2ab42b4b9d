package locktable

import (
	"fmt"
	"slices"
)

// aboutHold gives a command the hold that it is about: mostly one of its session's own, for which the session is changed.
func (g *chaos) aboutHold(c *Command) *Command {
	hold := g.hold(c.Session)
	if h := g.fitting(c.Op); h.Seq != 0 && g.chance(50) {
		hold = h
	}
	if g.chance(70) {
		c.Session = max(1, hold.Session)
	}
	c.Seq, c.Floor, c.Of, c.Token = g.seq(c.Session), g.raise(c.Session), max(1, hold.Seq), hold.Token
	if g.chance(4) {
		c.Of++
	}
	return c
}

// move are the requests that change a hold or give it to others.
func (g *chaos) move(s SessionID) *Command {
	c := &Command{Op: OpProclaim, Session: s}
	switch p := g.rng.IntN(100); {
	case p < 22:
		c.Op, c.Note = OpDowngrade, g.text("x")
	case p < 38:
		c.Value = g.text("v")
	case p < 60:
		c.Op = OpHandOver
		g.aboutHold(c)
		c.Rev = g.waiter(c)
		return c
	case p < 80:
		c.Op, c.Secret = OpOffer, OfferHash(fmt.Sprint("s", g.rng.IntN(3)))
		g.offers = append(g.offers, c)
		g.offers = g.offers[max(0, len(g.offers)-40):]
	case len(g.offers) > 0:
		return g.accept(s)
	}
	return g.aboutHold(c)
}

// waiter is mostly a claim that waits for a name of the hold.
func (g *chaos) waiter(c *Command) Rev {
	held := func(e Event) bool { return e.Token == c.Token }
	if at := slices.IndexFunc(g.live, held); at >= 0 {
		for _, e := range g.queued {
			if e.Name == g.live[at].Name && g.chance(60) {
				return e.Rev
			}
		}
	}
	if len(g.queued) > 0 {
		return recent(g, g.queued, 9).Rev
	}
	return g.counter + 1
}

// fitting is a hold with which a downgrade or a hand over can succeed, if one comes to hand.
func (g *chaos) fitting(op Op) Event {
	for range 8 {
		if op != OpDowngrade && op != OpHandOver || len(g.live) == 0 {
			break
		}
		e := g.live[g.rng.IntN(len(g.live))]
		waits := func(w Event) bool { return w.Name == e.Name && w.Mode == Exclusive }
		if e.Mode == Exclusive && (op == OpDowngrade || slices.ContainsFunc(g.queued, waits)) {
			return e
		}
	}
	return Event{}
}

// accept takes an offer, mostly one of a hold that is still there, and mostly with the right secret.
func (g *chaos) accept(s SessionID) *Command {
	offer := recent(g, g.offers, 9)
	for _, o := range g.offers {
		held := func(e Event) bool { return e.Session == o.Session && e.Seq == o.Of }
		if g.chance(60) && slices.ContainsFunc(g.live, held) {
			offer = o
		}
	}
	c := &Command{
		Op: OpAccept, Session: s, Seq: g.seq(s), Floor: g.raise(s), From: max(1, offer.Session), Of: max(1, offer.Of), Token: max(1, offer.Token),
		Note: g.text("x"), Secret: fmt.Sprint("s", g.rng.IntN(3)),
	}
	for n := range 3 {
		if secret := fmt.Sprint("s", n); OfferHash(secret) == offer.Secret && g.chance(85) {
			c.Secret = secret
		}
	}
	return c
}

// grant is mostly one that holds, at times one that ended or never was.
func (g *chaos) grant() Event {
	switch {
	case len(g.live) > 0 && g.chance(80):
		return g.live[g.rng.IntN(len(g.live))]
	case len(g.dead) > 0 && g.chance(90):
		return recent(g, g.dead, 8)
	}
	return Event{Name: "0", Seq: 1, Token: Token(1 + g.rng.Int64N(2000))}
}

// hold is mostly one that the session itself has, at times one that it had.
func (g *chaos) hold(s SessionID) Event {
	own := func(e Event) bool { return e.Session == s && g.chance(70) }
	if at := slices.IndexFunc(g.live, own); at >= 0 && g.chance(85) {
		return g.live[at]
	}
	lately := g.dead[max(0, len(g.dead)-32):]
	if at := slices.IndexFunc(lately, own); at >= 0 {
		return lately[at]
	}
	return g.grant()
}
