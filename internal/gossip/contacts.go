package gossip

import (
	"math/rand/v2"
	"slices"
	"time"
)

const (
	firstRetry = 250 * time.Millisecond
	lastRetry  = 10 * time.Second // with the jitter and one dial a healed partition is found within 15 s
)

// contacts is the schedule by which addresses with nobody known alive are tried: soon at first, every ten seconds for ever after.
// A fruitless success (a seed behind a load balancer, an instance of another cluster) is repeated at the slow pace too. It is not
// safe for concurrent use.
type contacts struct {
	byAddr map[string]*contact
}

type contact struct {
	next time.Time
	wait time.Duration
	busy bool
}

// due says which of wanted to try now, at most limit, longest overdue first, and marks them busy until done is called.
// Addresses that are not wanted any more are forgotten, so that the next loss starts with quick attempts again.
func (c *contacts) due(wanted []string, limit int, now time.Time) []string {
	c.keep(wanted, now)
	var list []string
	busy := 0
	for addr, k := range c.byAddr {
		switch {
		case k.busy:
			busy++
		case !k.next.After(now):
			list = append(list, addr)
		}
	}
	slices.SortFunc(list, func(x, y string) int { return c.byAddr[x].next.Compare(c.byAddr[y].next) })
	list = list[:min(len(list), max(limit-busy, 0))]
	for _, addr := range list {
		c.byAddr[addr].busy = true
	}
	return list
}

func (c *contacts) keep(wanted []string, now time.Time) {
	if c.byAddr == nil {
		c.byAddr = map[string]*contact{}
	}
	set := make(map[string]bool, len(wanted))
	for _, addr := range wanted {
		set[addr] = true
		if c.byAddr[addr] == nil {
			c.byAddr[addr] = &contact{next: now}
		}
	}
	for addr, k := range c.byAddr {
		if !set[addr] && !k.busy {
			delete(c.byAddr, addr)
		}
	}
}

// done ends an attempt and sets the time of the next one.
func (c *contacts) done(addr string, now time.Time) {
	k := c.byAddr[addr]
	if k == nil {
		return
	}
	k.busy = false
	k.wait = min(max(2*k.wait, firstRetry), lastRetry)
	k.next = now.Add(jitter(k.wait))
}

// next is the time of the earliest attempt, at most limit from now.
func (c *contacts) nextTime(now time.Time, limit time.Duration) time.Time {
	at := now.Add(limit)
	for _, k := range c.byAddr {
		if !k.busy && k.next.Before(at) {
			at = k.next
		}
	}
	return at
}

// jitter spreads d by a fifth to both sides, so that instances that started together do not act together for ever.
func jitter(d time.Duration) time.Duration {
	return d - d/5 + rand.N(2*d/5+1)
}
