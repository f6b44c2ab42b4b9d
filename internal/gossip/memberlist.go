//go:build !wasip1

package gossip

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hashicorp/memberlist"
	"github.com/quorumlock/quorumlock/internal/quiet"
)

const (
	leaveTimeout  = time.Second
	updateTimeout = 500 * time.Millisecond
	resolveSoon   = time.Second // pause between two answers of the resolver while attempts are quick
	maxJoins      = 8           // addresses tried at once
)

// mlGossip is Gossip by memberlist. memberlist detects failures and spreads news; what this package adds is that addresses are
// tried for ever, that names are resolved by its own resolver, and a view of its own (book) to answer from.
type mlGossip struct {
	opt     Options
	log     hclog.Logger
	lines   *quiet.Limiter
	mlLog   *mlLog
	foreign *foreigners
	watch   *datagramWatch
	book    *book
	addrs   *addressBook
	seeds   *seeds
	notify  *notifier
	duels   *duels
	trans   *mlTransport
	list    *memberlist.Memberlist
	group   goroutineGroup

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // the loops and joins of this package
	wake   chan struct{}  // one slot: look for addresses to join now
	dirty  chan struct{}  // one slot: the own Meta changed
	joins  joins

	life   sync.Mutex // serializes Leave and Close: memberlist panics on a Leave after its Shutdown
	left   bool
	closed bool
	result error // of Close

	stopped chan struct{} // closed by Leave or Close: no joins, no updates any more
	stop    sync.Once
}

// NewMemberlist starts gossip by memberlist over opt.Endpoint, of which it uses the gossip streams and the datagrams. It does not
// wait for any seed. The Endpoint stays the caller's and may be closed before the Gossip or after it.
func NewMemberlist(opt Options) (Gossip, error) {
	opt, err := opt.withDefaults()
	if err != nil {
		return nil, err
	}
	self := opt.self(time.Now())
	if _, err := self.encode(); err != nil {
		return nil, err
	}
	g := &mlGossip{
		opt: opt, log: opt.Logger, lines: &quiet.Limiter{}, book: newBook(opt.ServerID, self, opt.OnForeign), addrs: &addressBook{},
		group: newGoroutineGroup(), wake: make(chan struct{}, 1), dirty: make(chan struct{}, 1), stopped: make(chan struct{}),
	}
	g.foreign = &foreigners{log: opt.Logger}
	g.watch = &datagramWatch{log: opt.Logger, addr: g.book.lookup}
	g.mlLog = &mlLog{log: opt.Logger, lines: g.lines, watch: g.watch, foreign: g.foreign}
	g.seeds = &seeds{names: opt.Seeds, resolve: opt.Resolve, log: opt.Logger, lines: g.lines, own: self.addr}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.notify = startNotifier(opt)
	g.duels = newDuels(g.book, g.notify)
	if err := g.start(); err != nil {
		g.cancel()
		g.notify.close()
		return nil, err
	}
	return g, nil
}

func (g *mlGossip) start() error {
	conf, err := g.config()
	if err != nil {
		return err
	}
	g.trans = startTransport(g.opt, g.addrs, g.foreign)
	conf.Transport = g.trans
	g.group.run(func() { g.list, err = memberlist.Create(conf) })
	if err != nil {
		_ = g.trans.Shutdown()
		g.trans.awaitAccept()
		return errors.Join(fmt.Errorf("start memberlist: %w", err), g.group.wait())
	}
	g.duels.send = g.sendMessage
	g.wg.Go(func() { g.duels.run(g.ctx) })
	g.wg.Go(g.rejoin)
	g.wg.Go(g.publish)
	return nil
}

// config is memberlist's. Times: a silent death is seen after about 5 s (a probe each second, half a second to answer, three
// to six seconds of suspicion); what a lost message kept from a member reaches it by the full exchange within 5 s more. The
// awareness multiplier bounds how long the last probe goes on after Shutdown.
func (g *mlGossip) config() (*memberlist.Config, error) {
	delegate := &mlDelegate{
		book: g.book, addrs: g.addrs, notify: g.notify, duels: g.duels, log: g.log, lines: g.lines, foreign: g.foreign, watch: g.watch,
		poke: g.poke,
	}
	conf := memberlist.DefaultLANConfig()
	conf.Name = g.opt.ServerID
	conf.Label = label(g.opt.Cluster)
	conf.Logger = g.mlLog.logger()
	conf.Delegate, conf.Events = delegate, delegate
	conf.Alive, conf.Merge, conf.Conflict = delegate, delegate, delegate
	conf.Ping = g.watch
	conf.ProbeInterval, conf.ProbeTimeout = time.Second, 500*time.Millisecond
	conf.SuspicionMult, conf.SuspicionMaxTimeoutMult = 3, 2
	conf.AwarenessMaxMultiplier = 2
	conf.PushPullInterval = 5 * time.Second
	conf.GossipToTheDeadTime = 30 * time.Second
	conf.DeadNodeReclaimTime = time.Millisecond // zero would refuse a known name at a new address for half a minute
	conf.TCPTimeout = 3 * time.Second
	if len(g.opt.Keys) == 0 {
		return conf, nil
	}
	ring, err := memberlist.NewKeyring(g.opt.Keys, g.opt.Keys[0])
	if err != nil {
		return nil, fmt.Errorf("gossip keys: %w", err) // names no key
	}
	conf.Keyring = ring
	return conf, nil
}

// label is the cluster name as memberlist's label, which is short: a long name is hashed.
func label(cluster string) string {
	if len(cluster) < memberlist.LabelMaxSize {
		return cluster
	}
	sum := sha256.Sum256([]byte(cluster))
	return hex.EncodeToString(sum[:])
}

// Members lists who is believed alive.
func (g *mlGossip) Members() []Member { return g.book.members() }

// Lookup gives the last known address.
func (g *mlGossip) Lookup(serverID string) (string, bool) { return g.book.lookup(serverID) }

// SetMeta publishes m, or refuses it with a *MetaTooLargeError. It does not wait for the others.
func (g *mlGossip) SetMeta(m Meta) error {
	select {
	case <-g.stopped:
		return errClosed
	default:
	}
	if err := g.book.setMeta(m); err != nil {
		return err
	}
	signal(g.dirty)
	g.notify.change()
	return nil
}

// Learn adds an address to those that are joined while nobody is known alive there.
func (g *mlGossip) Learn(serverID, addr string) {
	if checkAdvertise(addr) != nil {
		return
	}
	g.book.learn(serverID, addr, time.Now())
	g.poke()
}

// Leave tells the others; it takes at most about a second.
func (g *mlGossip) Leave() error {
	g.life.Lock()
	defer g.life.Unlock()
	if g.closed || g.left {
		return nil
	}
	g.left = true
	g.quiesce()
	g.book.leave()
	g.notify.change()
	if err := g.list.Leave(leaveTimeout); err != nil {
		return fmt.Errorf("leave gossip: %w", err)
	}
	return nil
}

// Close ends the gossip and returns when its goroutines are gone; one that waits in the Endpoint's Accept may last as long
// as the Endpoint, if that can not be reached from within.
func (g *mlGossip) Close() error {
	g.life.Lock()
	defer g.life.Unlock()
	if g.closed {
		return g.result
	}
	g.closed = true
	g.quiesce()
	g.cancel()
	g.mlLog.muted.Store(true)
	err := g.list.Shutdown() // ends the streams and dials that joins may wait for
	g.wg.Wait()
	g.trans.awaitAccept()
	g.result = errors.Join(err, g.group.wait())
	g.notify.close()
	return g.result
}

// quiesce stops joining and publishing.
func (g *mlGossip) quiesce() { g.stop.Do(func() { close(g.stopped) }) }

func (g *mlGossip) poke() { signal(g.wake) }

// publish announces changes of the own Meta, one at a time: memberlist waits for each to be sent once.
func (g *mlGossip) publish() {
	for {
		select {
		case <-g.stopped:
			return
		case <-g.dirty:
		}
		if err := g.list.UpdateNode(updateTimeout); err != nil {
			g.log.Debug("gossip metadata not confirmed as sent yet", "error", err) // it stays queued in memberlist
		}
	}
}

// sendMessage sends a message of this package to one process; it is lost if nobody is there.
func (g *mlGossip) sendMessage(addr, serverID string, msg []byte) {
	ip, port, err := g.addrs.node(addr)
	if err != nil {
		return
	}
	_ = g.list.SendToAddress(memberlist.Address{Addr: joinHostPort(ip.String(), port), Name: serverID}, msg)
}
