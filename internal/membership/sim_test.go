package membership

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/clock"
	"github.com/quorumlock/quorumlock/internal/gossip"
)

// world is a set of simulated hosts in one synctest bubble. All its goroutines take mu for moments only and never sleep under it.
//
// raft is modelled by what founding relies on: the proposer's state names the voters; whoever holds state hands it to each connected
// voter that has adopted the cluster; a cluster works while a majority of its voters hold its state and are connected.
type world struct {
	t     *testing.T
	rng   *rand.Rand // of links, views and ids; under mu
	mu    chan struct{}
	hosts []*host
	cut   map[[2]*host]bool // one-way
	delay time.Duration     // upper bound of a message's way
	loss  int               // per cent
	lag   time.Duration     // upper bound of what gossip takes to show a new instance
	ids   int

	configs  map[string][]string // cluster id -> voters' server ids
	founded  map[string]int      // cluster id -> times bootstrapped
	worked   map[string]bool     // cluster id -> a quorum of it was up at some time
	together string              // two clusters that worked at one moment
	allowTwo bool
}

// host is a place at which processes run one after another. disk outlives them when durable.
type host struct {
	w       *world
	name    string
	addr    string
	cfg     Config
	durable bool
	wall    time.Duration // offset of its wall clock

	proc  *proc
	disk  disk
	crash func(step string) bool // asked at each durable step; true kills the process there
}

type disk struct {
	id      string
	promise []byte
	state   string // cluster id
}

// proc is one life of an instance.
type proc struct {
	h       *host
	id      string
	boot    string
	f       *Founding
	disk    *disk
	adopted string
	joined  string
	alive   bool
	cancel  context.CancelFunc
	done    chan struct{}
	err     error
	seen    map[string]glimpse // by server id
}

type glimpse struct {
	member gossip.Member
	from   time.Time // visible from
	until  time.Time // believed alive until
}

var errCrashed = errors.New("process has crashed")

func newWorld(t *testing.T, seed uint64) *world {
	return &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 7)), mu: make(chan struct{}, 1), cut: map[[2]*host]bool{},
		delay: 10 * time.Millisecond, lag: 300 * time.Millisecond, configs: map[string][]string{}, founded: map[string]int{}, worked: map[string]bool{},
	}
}

func (w *world) lock() func() { w.mu <- struct{}{}; return func() { <-w.mu } }

func (w *world) host(name string, cfg Config) *host {
	defer w.lock()()
	h := &host{w: w, name: name, addr: name + ":7000", cfg: cfg, durable: true}
	w.hosts = append(w.hosts, h)
	return h
}

// hostsOf makes n hosts that expect each other.
func (w *world) hostsOf(n, expect, voters int) {
	for i := range n {
		w.host(fmt.Sprintf("db-%d", i+1), Config{Expect: expect, Voters: voters})
	}
}

func (h *host) start() {
	defer h.w.lock()()
	if h.proc != nil && h.proc.alive {
		return
	}
	if !h.durable {
		h.disk = disk{}
	}
	h.w.ids++
	if h.disk.id == "" {
		h.disk.id = fmt.Sprintf("s%03d-%d", h.w.rng.IntN(1000), h.w.ids)
	}
	d := h.disk // a process without a disk keeps its own copy; one with a disk writes through
	p := &proc{h: h, id: h.disk.id, boot: fmt.Sprint("boot-", h.w.ids), disk: &d, alive: true, done: make(chan struct{}), seen: map[string]glimpse{}}
	if h.durable {
		p.disk = &h.disk
	}
	cfg := h.cfg
	cfg.Self, cfg.Name, cfg.Addr, cfg.Cluster, cfg.Boot = p.id, h.name, h.addr, "test", p.boot
	p.f = New(cfg, p.env())
	h.proc = p
	ctx, cancel := context.WithCancel(h.w.t.Context())
	p.cancel = cancel
	go func() {
		defer close(p.done)
		p.err = p.f.Run(ctx)
	}()
}

func (h *host) stop() {
	unlock := h.w.lock()
	p := h.proc
	if p == nil {
		unlock()
		return
	}
	p.alive = false
	unlock()
	p.cancel()
	<-p.done
}

func (p *proc) env() Env {
	w := p.h.w
	return Env{
		Members: p.members,
		Load: func() (Promise, bool, error) {
			defer w.lock()()
			if p.disk.promise == nil {
				return Promise{}, false, nil
			}
			pr, err := DecodePromise(p.disk.promise)
			return pr, err == nil, err
		},
		Save:  func(pr Promise) error { return p.write("save", func() { p.disk.promise = pr.Encode() }) },
		Clear: func() error { return p.write("clear", func() { p.disk.promise = nil }) },
		Ask:   p.ask,
		Bootstrap: func(id string, voters []Server) error {
			return p.write("bootstrap", func() { p.bootstrap(id, voters) })
		},
		Join:     p.join,
		HasState: func() bool { defer w.lock()(); return p.disk.state != "" },
		Adopt:    func(id string) { defer w.lock()(); p.adopted = id },
		Clock:    p.h,
		NewID: func() string {
			defer w.lock()()
			w.ids++
			return fmt.Sprintf("cluster-%d-of-%s", w.ids, p.id)
		},
		Rand: rand.New(rand.NewPCG(uint64(w.ids), 3)),
	}
}

func (h *host) Now() clock.Reading {
	defer h.w.lock()()
	return clock.Reading{Wall: time.Now().Add(h.wall)}
}

// write is one durable step. A crash strikes before it or after it.
func (p *proc) write(step string, do func()) error {
	defer p.h.w.lock()()
	if !p.alive {
		return errCrashed
	}
	if p.h.crash != nil && p.h.crash("before "+step) {
		p.die()
		return errCrashed
	}
	do()
	if p.h.crash != nil && p.h.crash("after "+step) {
		p.die()
		return errCrashed
	}
	return nil
}

func (p *proc) die() {
	p.alive = false
	p.cancel()
}

func (p *proc) bootstrap(id string, voters []Server) {
	w := p.h.w
	w.founded[id]++
	if w.founded[id] > 1 {
		w.t.Errorf("cluster %s was bootstrapped twice", id)
	}
	p.disk.state = id
	for _, s := range voters {
		w.configs[id] = append(w.configs[id], s.ID)
	}
	if !slices.Contains(w.configs[id], p.id) {
		w.t.Errorf("the proposer %s is no voter of %v", p.id, voters)
	}
}

// connected needs the lock, as all below that touch hosts.
func (w *world) connected(a, b *host) bool { return !w.cut[[2]*host{a, b}] && !w.cut[[2]*host{b, a}] }

func (w *world) at(addr string) *proc {
	for _, h := range w.hosts {
		if h.addr == addr && h.proc != nil && h.proc.alive {
			return h.proc
		}
	}
	return nil
}

// travel is the way of one message; it fails when the link is cut or the message is lost.
func (p *proc) travel(ctx context.Context, from, to *host) error {
	w := p.h.w
	unlock := w.lock()
	d := time.Duration(w.rng.Int64N(int64(w.delay) + 1))
	bad := w.cut[[2]*host{from, to}] || w.rng.IntN(100) < w.loss
	unlock()
	if bad {
		<-ctx.Done()
		return ctx.Err()
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *proc) ask(ctx context.Context, addr, target string, msg []byte) ([]byte, error) {
	w := p.h.w
	unlock := w.lock()
	q := w.at(addr)
	unlock()
	if q == nil {
		return nil, errors.New("connection refused")
	}
	if err := p.travel(ctx, p.h, q.h); err != nil {
		return nil, err
	}
	unlock = w.lock()
	q = w.at(addr)
	unlock()
	if q == nil || target != "" && q.id != target {
		return nil, errors.New("another server answers")
	}
	out, err := q.f.Handle(ctx, p.id, msg)
	if err != nil {
		return nil, err
	}
	return out, p.travel(ctx, q.h, p.h)
}

func (p *proc) join(ctx context.Context, m gossip.Member) error {
	w := p.h.w
	if err := p.travel(ctx, p.h, p.h); err != nil {
		return err
	}
	defer w.lock()()
	q := w.at(m.Addr)
	switch {
	case !p.alive || q == nil || q.id != m.ServerID || !w.connected(p.h, q.h):
		return errors.New("unreachable")
	case q.disk.state == "" && q.joined == "":
		return errors.New("not a member")
	case !w.up(q.cluster(), q.h):
		return errors.New("no quorum")
	case p.adopted != "" && p.adopted != q.cluster():
		return errors.New("promised to another cluster")
	}
	p.disk.state = q.cluster()
	return nil
}

func (p *proc) cluster() string { return cmp.Or(p.disk.state, p.joined) }

// up tells whether a quorum of a cluster is connected with host h.
func (w *world) up(id string, h *host) bool {
	n := 0
	for _, o := range w.hosts {
		if o.proc != nil && o.proc.alive && o.proc.disk.state == id && slices.Contains(w.configs[id], o.proc.id) && (o == h || w.connected(h, o)) {
			n++
		}
	}
	return len(w.configs[id]) > 0 && n >= quorum(len(w.configs[id]))
}

// members is the gossip view: what is connected shows after a moment, what is gone lingers.
func (p *proc) members() []gossip.Member {
	w := p.h.w
	defer w.lock()()
	now := time.Now()
	for _, o := range w.hosts {
		q := o.proc
		if q == nil || !q.alive || q != p && !w.connected(p.h, o) {
			continue
		}
		g, ok := p.seen[q.id]
		if !ok {
			g.from = now.Add(time.Duration(w.rng.Int64N(int64(w.lag) + 1)))
		}
		g.member, g.until = q.member(), now.Add(3*time.Second+time.Duration(w.rng.IntN(3000))*time.Millisecond)
		p.seen[q.id] = g
	}
	ms := []gossip.Member{}
	for _, id := range slices.Sorted(maps.Keys(p.seen)) {
		g := p.seen[id]
		if now.After(g.until) {
			delete(p.seen, id)
		} else if id == p.id || !now.Before(g.from) {
			ms = append(ms, g.member)
		}
	}
	return ms
}

func (p *proc) member() gossip.Member {
	cfg := p.h.cfg
	cfg.Name = p.h.name
	return gossip.Member{ServerID: p.id, Addr: p.h.addr, Meta: gossip.Meta{
		Name: p.h.name, ClusterID: p.disk.state, Expect: cfg.MetaExpect(), HasState: p.disk.state != "", Boot: p.boot,
	}}
}

// run lets the world go on for d, in steps, with raft working and the invariants watched.
func (w *world) run(d time.Duration) {
	end := time.Now().Add(d)
	for time.Now().Before(end) {
		time.Sleep(10 * time.Millisecond)
		w.replicate()
		w.watch()
	}
}

// replicate hands state from those who have it to the voters that accept it, one hop per step.
func (w *world) replicate() {
	defer w.lock()()
	var gets []*proc
	var state []string
	for _, a := range w.hosts {
		for _, b := range w.hosts {
			if a == b || a.proc == nil || b.proc == nil || !a.proc.alive || !b.proc.alive || !w.connected(a, b) {
				continue
			}
			id := a.proc.disk.state
			if id != "" && b.proc.disk.state == "" && b.proc.adopted == id && slices.Contains(w.configs[id], b.proc.id) {
				gets, state = append(gets, b.proc), append(state, id)
			}
		}
	}
	for i, p := range gets {
		p.disk.state = state[i]
	}
}

func (w *world) watch() {
	defer w.lock()()
	var up []string
	for id := range w.configs {
		if slices.ContainsFunc(w.hosts, func(h *host) bool {
			return h.proc != nil && h.proc.alive && h.proc.disk.state == id && w.up(id, h)
		}) {
			up = append(up, id)
			w.worked[id] = true
		}
	}
	if len(up) > 1 && w.together == "" {
		slices.Sort(up)
		w.together = strings.Join(up, " and ")
	}
}

func (w *world) startAll() {
	for _, h := range w.hosts {
		h.start()
	}
}

// partition cuts the first n hosts from the rest.
func (w *world) partition(n int) {
	defer w.lock()()
	for i, a := range w.hosts {
		for j, b := range w.hosts {
			w.cut[[2]*host{a, b}] = (i < n) != (j < n)
		}
	}
}

func (w *world) heal() {
	defer w.lock()()
	clear(w.cut)
}

// end stops everything and checks safety.
func (w *world) end() {
	for _, h := range w.hosts {
		h.stop()
	}
	if w.together != "" && !w.allowTwo {
		w.t.Errorf("two clusters worked at one time: %s", w.together)
	}
}

// clusters are the ids in use by live processes, "" for those that have none.
func (w *world) clusters() []string {
	defer w.lock()()
	var ids []string
	for _, h := range w.hosts {
		if h.proc != nil && h.proc.alive {
			ids = append(ids, h.proc.disk.state)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// wantOne lets the world go on until all live processes are in one working cluster.
func (w *world) wantOne(within time.Duration) {
	w.t.Helper()
	start := time.Now()
	for time.Since(start) < within {
		if w.one() {
			return
		}
		w.run(50 * time.Millisecond)
	}
	w.t.Errorf("not one cluster after %v\n%s", within, w.describe())
}

func (w *world) one() bool {
	ids := w.clusters()
	if len(ids) != 1 || ids[0] == "" {
		return false
	}
	defer w.lock()()
	return w.up(ids[0], w.hosts[0]) || slices.ContainsFunc(w.hosts, func(h *host) bool { return w.up(ids[0], h) })
}

func (w *world) wantNone() {
	w.t.Helper()
	if ids := w.clusters(); len(ids) != 1 || ids[0] != "" {
		w.t.Errorf("founded where nothing may be founded\n%s", w.describe())
	}
}

func (w *world) describe() string {
	defer w.lock()()
	var b strings.Builder
	for _, h := range w.hosts {
		if h.proc == nil {
			continue
		}
		fmt.Fprintf(&b, "%s %s alive=%t state=%q adopted=%q: %s (%v)\n", h.name, h.proc.id, h.proc.alive, h.proc.disk.state,
			h.proc.adopted, h.proc.f.Status(), h.proc.err)
	}
	for id, vs := range w.configs {
		fmt.Fprintf(&b, "%s: voters %v\n", id, vs)
	}
	return b.String()
}

// lost tells whether some live process holds state of a cluster that can never have a quorum again, because too many of its voters
// were processes without a disk that are gone: that is for an operator, and no fault of founding.
func (w *world) lost() bool {
	defer w.lock()()
	for _, h := range w.hosts {
		if h.proc == nil || !h.proc.alive || h.proc.disk.state == "" {
			continue
		}
		voters, there := w.configs[h.proc.disk.state], 0
		for _, o := range w.hosts {
			if slices.Contains(voters, o.disk.id) {
				there++
			}
		}
		if there < quorum(len(voters)) {
			return true
		}
	}
	return false
}
