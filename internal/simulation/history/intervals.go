package history

import (
	"fmt"
	"time"
)

// What holders believe. Each hold is held by its owner's word from its grant on, at the latest to a last instant that the run asked for; what
// matters is how that lies to what the log shows.

// lastInstant is the last one at which the hold was held by its owner's word. If the log shows that it was given back, its owner counts
// as holding it until then: it asked for that only afterwards; unless a cap may have made the hold give itself back.
func (j *judge) lastInstant(c *claim) (instant, bool) {
	last, held := j.held[c.ID]
	ended, known := j.ended[c.ID]
	if known && c.MaxHold == 0 && c.removal != nil && c.ending == Released && !c.byClose && (!held || ended > last) {
		return ended, true
	}
	return last, held
}

// beyond says that a hold was held by its owner's word when something of the log was known, which came after its end. An unlock, the grant that follows it, and a look
// at the hold just before can fall on one instant of fake time. An expiry or the end of a drain cannot: the margin between the two clocks is never nothing.
func beyond(c *claim, last, at instant) bool { return last > at || last == at && c.ending != Released }

// beliefs checks each hold by itself.
func (j *judge) beliefs() {
	for _, c := range j.replay.granted {
		j.finality(c)
		j.maxHold(c)
		last, known := j.lastInstant(c)
		if known && c.removal != nil && c.ending != Forced && beyond(c, last, c.removal.commit.to) {
			j.add(HoldInterval, "%q: %q was held at %v, but it was %v by revision %d, known at %v",
				c.Names, c.ID, last, c.ending, c.removal.Rev, c.removal.commit.to)
		}
		j.delay(c)
	}
}

// finality: what was over for its owner is never held again.
func (j *judge) finality(c *claim) {
	last, held := j.held[c.ID]
	if !held {
		return
	}
	if at, known := j.unlockedAt[c.ID]; known && last > at {
		j.add(Finality, "%q: %q was held at %v, but its Unlock had returned at %v", c.Names, c.ID, last, at)
	}
	if at, known := j.closedAt[c.session]; known && last > at {
		j.add(Finality, "%q: %q was held at %v, but the Close of its session %d had returned at %v", c.Names, c.ID, last, c.session, at)
	}
	if c.next != nil && last > c.removal.commit.to {
		j.add(Finality, "%q: %q was held at %v, but its hold had gone on to %q by revision %d, known at %v",
			c.Names, c.ID, last, c.next.ID, c.removal.Rev, c.removal.commit.to)
	}
}

// slowest is how much longer a time that an instance measures may take (A3).
const slowest = 1.25

// maxHold: the cap counts from when the holder learned of the grant, which was before its call returned.
func (j *judge) maxHold(c *claim) {
	last, held := j.held[c.ID]
	given := j.given[c.ID]
	if c.MaxHold == 0 || !held || given == nil {
		return
	}
	if lasted := time.Duration(last - given.to); float64(lasted) > slowest*float64(c.MaxHold) {
		j.add(MaxHoldRule, "%q: %q was held at %v, %v after its grant; the cap is %v", c.Names, c.ID, last, lasted, c.MaxHold)
	}
}

// delay: a lock delay lasts its time, by the clock of whoever leads; unless it was cut short by force. That nobody else was granted the names meanwhile is seen by
// the replay.
func (j *judge) delay(c *claim) {
	if c.freed == nil || c.removal == nil || c.freed.Note != c.ID || c.removal.commit.from == ever {
		return
	}
	most := c.freed.commit.to - c.removal.commit.from
	if float64(most) < float64(c.Delay)/slowest {
		j.add(DelayRule, "%q: %q was %v by revision %d, and the names were free %v later, by revision %d; the delay is %v",
			c.Names, c.ID, c.ending, c.removal.Rev, time.Duration(most), c.freed.Rev, c.Delay)
	}
}

// company checks, at each grant, that it goes together with all who still believe in an earlier hold of the name: nobody but readers beside readers, and no more permits
// than there are. What the log shows does not count here, but for the order of grants.
func (j *judge) company(gaps map[Ending]time.Duration) {
	for _, name := range j.replay.names {
		var believers []*claim
		for _, g := range j.replay.queues[name].grants {
			believers = append(j.believers(believers, g, name, gaps), g)
		}
	}
}

// believers are those of some earlier claims on a name that matter after g is granted as well: in the log they hold on, or their holders' word may yet meet another grant.
func (j *judge) believers(earlier []*claim, g *claim, name string, gaps map[Ending]time.Duration) (still []*claim) {
	at, inUse := g.granted.commit.to, g.Permits
	for _, c := range earlier {
		last, known := j.lastInstant(c)
		live := c.removal == nil || c.removal.Rev > g.granted.Rev
		if !live && (!known || c.ending == Forced) {
			continue
		}
		believes := known && (live && last > at || !live && beyond(c, last, at))
		if believes {
			inUse += c.Permits
		}
		switch {
		case live || together(c.Mode, g.Mode) && (believes || c.Mode == shared): // a writer is still to come
			still = append(still, c)
		case believes && !together(c.Mode, g.Mode):
			j.add(HoldInterval, "%s", overlap(name, c, g, last))
			fallthrough
		default:
			measure(gaps, c.ending, at-last)
		}
	}
	if g.limit > 0 && inUse > g.limit {
		j.add(HoldInterval, "%q: when %q was granted, known at %v, %d permits were held by their holders' word; there are %d", name, g.ID, at, inUse, g.limit)
	}
	return still
}

func measure(gaps map[Ending]time.Duration, e Ending, gap instant) {
	if least, measured := gaps[e]; !measured || time.Duration(gap) < least {
		gaps[e] = time.Duration(gap)
	}
}

func overlap(name string, c, g *claim, last instant) string {
	return fmt.Sprintf("%q: %q (token %d) was held at %v, but the next grant, %q (token %d), was known at %v; the former was %v by revision %d",
		name, c.ID, c.token, last, g.ID, g.token, g.granted.commit.to, c.ending, c.removal.Rev)
}
