package gossip

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/quorumlock/quorumlock/internal/quiet"
)

const (
	beatEvery    = 500 * time.Millisecond
	suspectAfter = 3 * time.Second // silence after which a member is asked directly at each beat
	deadAfter    = 5 * time.Second // silence after which it leaves the view
	tellLeft     = 30 * time.Second
	fanout       = 3 // members told at each beat, and suspects, and absent addresses
	maxContacts  = 8
	maxRetired   = 4 // former processes remembered for one server id
)

// memoryGossip is Gossip by plain anti-entropy: each process counts a heartbeat and sends, twice a second, the table of all
// heartbeats it knows to a few others. It uses nothing but datagrams, so it obeys every cut of a simulated network and
// compiles where memberlist does not. It costs more traffic than memberlist in a large group, and is meant for simulation.
type memoryGossip struct {
	opt     Options
	log     hclog.Logger
	lines   *quiet.Limiter
	foreign *foreigners
	book    *book
	seeds   *seeds
	notify  *notifier
	duels   *duels
	sealer  sealer

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup
	wake   chan struct{} // one slot: beat now
	once   sync.Once

	mu       sync.Mutex
	beat     uint64
	left     bool
	peers    map[string]*peer
	contacts contacts
	resolved []string // seeds
}

// peer is what the failure detector knows of one server id.
type peer struct {
	rec      record
	raw      []byte
	beat     uint64
	advanced time.Time // when the heartbeat last grew
	left     bool
	dead     bool
	retired  map[string]uint64 // heartbeats of former processes of this id: what is not above them is old news
}

// NewMemory starts gossip over opt.Endpoint's datagrams.
func NewMemory(opt Options) (Gossip, error) {
	opt, err := opt.withDefaults()
	if err != nil {
		return nil, err
	}
	self := opt.self(time.Now())
	if _, err := self.encode(); err != nil {
		return nil, err
	}
	sealer, err := newSealer(opt.Keys)
	if err != nil {
		return nil, err
	}
	g := &memoryGossip{
		opt: opt, log: opt.Logger, lines: &quiet.Limiter{}, foreign: &foreigners{log: opt.Logger}, book: newBook(opt.ServerID, self, opt.OnForeign), sealer: sealer,
		wake: make(chan struct{}, 1), peers: map[string]*peer{},
	}
	g.seeds = &seeds{names: opt.Seeds, resolve: opt.Resolve, log: opt.Logger, lines: g.lines, own: self.addr}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.notify = startNotifier(opt)
	g.duels = newDuels(g.book, g.notify)
	g.duels.send = g.sendDuel
	g.wg.Go(func() { g.duels.run(g.ctx) })
	g.wg.Go(g.receive)
	g.wg.Go(g.resolve)
	g.wg.Go(g.run)
	return g, nil
}

// Members lists who is believed alive.
func (g *memoryGossip) Members() []Member { return g.book.members() }

// Lookup gives the last known address.
func (g *memoryGossip) Lookup(serverID string) (string, bool) { return g.book.lookup(serverID) }

// SetMeta publishes m with the next beat, which is now.
func (g *memoryGossip) SetMeta(m Meta) error {
	if g.ctx.Err() != nil {
		return errClosed
	}
	if err := g.book.setMeta(m); err != nil {
		return err
	}
	g.notify.change()
	signal(g.wake)
	return nil
}

// Learn adds an address to those that are tried while nobody is known alive there.
func (g *memoryGossip) Learn(serverID, addr string) {
	if checkAdvertise(addr) != nil {
		return
	}
	g.book.learn(serverID, addr, time.Now())
	signal(g.wake)
}

// Leave tells everybody known once, at once, and with each beat until Close.
func (g *memoryGossip) Leave() error {
	g.mu.Lock()
	if g.left || g.ctx.Err() != nil {
		g.mu.Unlock()
		return nil
	}
	g.left = true
	g.beat++
	var to []string
	for _, p := range g.peers {
		if !p.dead {
			to = append(to, p.rec.addr)
		}
	}
	rows := g.rows(time.Now())
	g.mu.Unlock()
	g.book.leave()
	g.notify.change()
	for _, addr := range to {
		g.sendTable(addr, kindTable, rows)
	}
	return nil
}

// Close ends the gossip and returns when its goroutines are gone.
func (g *memoryGossip) Close() error {
	g.once.Do(func() {
		g.cancel()
		g.wg.Wait()
		g.notify.close()
	})
	return nil
}

func (g *memoryGossip) run() {
	for {
		g.tick(time.Now())
		timer := time.NewTimer(jitter(beatEvery))
		select {
		case <-g.ctx.Done():
			timer.Stop()
			return
		case <-g.wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// resolve keeps the seeds' addresses fresh beside the beats, which must not wait for a resolver.
func (g *memoryGossip) resolve() {
	for {
		addrs := g.seeds.addresses(g.ctx)
		g.mu.Lock()
		g.resolved = addrs
		g.mu.Unlock()
		signal(g.wake)
		timer := time.NewTimer(jitter(resolveEvery))
		select {
		case <-g.ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// tick is one beat: the own heartbeat grows, the silent are dropped, the table goes out.
func (g *memoryGossip) tick(now time.Time) {
	changed := g.book.sweep(now)
	wanted := g.book.missing(now)
	g.mu.Lock()
	g.beat++
	for id, p := range g.peers {
		if !p.dead && now.Sub(p.advanced) > deadAfter {
			p.dead = true
			if g.book.lost(id, p.rec, now) {
				changed = true
				g.log.Info("gossip member gone", "server", id, "addr", p.rec.addr)
			}
		}
		if p.dead && now.Sub(p.advanced) > forgetAfter {
			delete(g.peers, id)
		}
	}
	present := g.present(now)
	strangers := g.strangers(wanted, now)
	rows := g.rows(now)
	g.mu.Unlock()
	if changed {
		g.notify.change()
	}
	for _, addr := range present {
		g.sendTable(addr, kindTable, rows)
	}
	for _, addr := range strangers {
		g.sendTable(addr, kindAsking, rows)
	}
}

// present chooses the members to tell: some at random, and the suspects, who may only have been missed. The lock is held.
func (g *memoryGossip) present(now time.Time) []string {
	var suspects, others []string
	for _, p := range g.peers {
		switch {
		case p.dead:
		case now.Sub(p.advanced) > suspectAfter:
			suspects = append(suspects, p.rec.addr)
		default:
			others = append(others, p.rec.addr)
		}
	}
	shuffle := func(list []string) []string {
		rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		return list[:min(len(list), fanout)]
	}
	return append(shuffle(suspects), shuffle(others)...)
}

// strangers chooses absent addresses that are due. The lock is held.
func (g *memoryGossip) strangers(wanted []string, now time.Time) []string {
	own := g.opt.Endpoint.Addr()
	wanted = append(wanted, g.book.absent(g.resolved)...)
	wanted = slices.DeleteFunc(wanted, func(a string) bool { return a == own })
	slices.Sort(wanted)
	due := g.contacts.due(slices.Compact(wanted), maxContacts, now)
	for _, addr := range due {
		g.contacts.done(addr, now) // a datagram is an attempt
	}
	return due
}

// rows is the table to send: this process, the living, and who left of late. The dead are not told: whoever hears of one for
// the first time would hold it for alive. The lock is held.
func (g *memoryGossip) rows(now time.Time) []row {
	var rows []row
	if raw, err := g.book.own().encode(); err == nil {
		rows = append(rows, row{id: g.opt.ServerID, beat: g.beat, left: g.left, rec: raw})
	}
	for id, p := range g.peers {
		if g.book.isCopy(id, p.rec) {
			continue
		}
		silent := now.Sub(p.advanced)
		if (p.left && silent < tellLeft) || (!p.left && silent < suspectAfter) {
			rows = append(rows, row{id: id, beat: p.beat, left: p.left, rec: p.raw})
		}
	}
	return rows
}

func (g *memoryGossip) sendTable(addr string, kind byte, rows []row) {
	for _, b := range encodeTables(kind, g.book.own().cluster, rows) {
		_ = g.opt.Endpoint.SendPacket(addr, g.sealer.seal(b)) // lost ones are sent again
	}
}
