//go:build !wasip1

package gossip

import (
	"slices"
	"sync"
	"time"
)

// joins is the state of the re-join loop that finished joins write to.
type joins struct {
	mu       sync.Mutex
	contacts contacts
}

// rejoin tries, for ever, the addresses where somebody should be and nobody is known alive: seeds, learned addresses, the dead.
// memberlist itself forgets a dead peer after half a minute and never looks for it again, so after a longer partition two
// halves would live on side by side. While everybody is alive a turn costs the resolution of the seeds.
func (g *mlGossip) rejoin() {
	var seeds []string
	var resolved time.Time
	for {
		now := time.Now()
		if now.Sub(resolved) >= resolveSoon {
			seeds, resolved = g.seeds.addresses(g.ctx), now
		}
		if g.book.sweep(now) {
			g.notify.change()
		}
		next := g.joinDue(seeds, time.Now())
		if !g.pauseUntil(next) {
			return
		}
	}
}

// joinDue starts what is due and says when to look again.
func (g *mlGossip) joinDue(seeds []string, now time.Time) (next time.Time) {
	wanted := append(g.book.absent(g.withoutOwn(seeds)), g.book.missing(now)...)
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	g.joins.mu.Lock()
	defer g.joins.mu.Unlock()
	for _, addr := range g.joins.contacts.due(wanted, maxJoins, now) {
		g.wg.Go(func() { g.join(addr) })
	}
	return g.joins.contacts.nextTime(now, jitter(resolveEvery))
}

// withoutOwn drops the bound address too: a seed may name it while peers are told another one.
func (g *mlGossip) withoutOwn(addrs []string) []string {
	own := g.opt.Endpoint.Addr()
	return slices.DeleteFunc(slices.Clone(addrs), func(a string) bool { return a == own })
}

func (g *mlGossip) join(addr string) {
	err := g.joinOnce(addr)
	g.joins.mu.Lock()
	g.joins.contacts.done(addr, time.Now())
	g.joins.mu.Unlock()
	g.poke()
	if err != nil && g.ctx.Err() == nil && !isForeignText(err) && g.lines.Allow("join "+addr, time.Now()) {
		g.log.Warn("can not join a gossip peer; trying on", "addr", addr, "error", err)
	}
}

// joinOnce exchanges the full state with whoever is at addr.
func (g *mlGossip) joinOnce(addr string) error {
	ip, port, err := g.addrs.node(addr)
	if err != nil {
		return err
	}
	_, err = g.list.Join([]string{joinHostPort(ip.String(), port)})
	return err
}

// pauseUntil waits for the time, or for a wake-up, but then at least for a moment: a wake-up comes with each change, and a busy
// address must not make the loop spin. It is false when joining has ended.
func (g *mlGossip) pauseUntil(at time.Time) bool {
	const moment = 50 * time.Millisecond
	short, long := time.NewTimer(moment), time.NewTimer(max(time.Until(at), moment))
	defer short.Stop()
	defer long.Stop()
	select {
	case <-g.stopped:
		return false
	case <-short.C:
	}
	select {
	case <-g.stopped:
		return false
	case <-g.wake:
	case <-long.C:
	}
	return true
}
