package transport

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Memory is a whole network in memory, with faults. All waiting is on channels, sync.Cond and timers, so it runs in the fake time
// of testing/synctest; it must then be made inside the bubble.
//
// Hosts are named; endpoints live at "host:port". Faults name hosts, and "*" stands for all of them (a host always reaches
// itself). Where several calls fit a pair of hosts, the latest decides.
//
// Streams behave like TCP: what is written while the way is cut is held and delivered in order after the heal. Datagrams are
// lost. All methods may be called at any time from any goroutine.
type Memory struct {
	mu      sync.Mutex // guards everything below and all hosts, ports, pairs and flows: simulations value simple over parallel
	rng     *rand.Rand
	hosts   map[string]*memHost
	cuts    rules[bool]
	delays  rules[delay]
	losses  rules[float64]
	pairs   map[*memPair]struct{}
	changed chan struct{} // closed and replaced when a fault changes; dials wait on it
}

type delay struct{ base, jitter time.Duration }

// memHost is one machine; it implements Transport.
type memHost struct {
	net      *Memory
	name     string
	ports    map[int]*memPort
	paused   bool
	crashed  bool // until the next Listen
	holding  bool // HoldReplies
	lastPort int
	parked   []func() // datagrams from and to a paused host
}

const (
	firstEphemeralPort = 49152
	memBacklog         = 512
	maxParked          = 1024
)

// NewMemory makes an empty network. All its random choices (jitter, loss) come from seed.
func NewMemory(seed uint64) *Memory {
	return &Memory{
		rng:     rand.New(rand.NewPCG(seed, 0)),
		hosts:   map[string]*memHost{},
		pairs:   map[*memPair]struct{}{},
		changed: make(chan struct{}),
	}
}

// Host is the transport of one machine of the network. The same name is the same machine.
func (m *Memory) Host(name string) Transport {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.host(name)
}

func (m *Memory) host(name string) *memHost {
	h := m.hosts[name]
	if h == nil {
		h = &memHost{net: m, name: name, ports: map[int]*memPort{}, lastPort: firstEphemeralPort}
		m.hosts[name] = h
	}
	return h
}

// memPort is one listening address; it is the carrier of one endpoint.
type memPort struct {
	host     *memHost
	number   int
	backlog  chan *memConn
	closed   chan struct{}
	endpoint *endpoint
}

// Listen opens an endpoint at cfg.Addr, which must be of this host ("host:port" or ":port"; port 0 takes a free one).
func (h *memHost) Listen(cfg Config) (Endpoint, error) {
	cfg, err := withDefaults(cfg)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if cfg.DialOnly {
		e := newEndpoint(cfg, "", "")
		e.start(h.openSilent())
		return e, nil
	}
	port, err := h.open(cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", &AddrError{Option: "Addr", Addr: cfg.Addr, Err: err})
	}
	advertise := cfg.Advertise
	if advertise == "" {
		advertise = port.addr()
	}
	e := newEndpoint(cfg, port.addr(), advertise)
	port.serve(e)
	e.start(port)
	return e, nil
}

func (h *memHost) open(addr string) (*memPort, error) {
	name, number, err := splitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if name != "" && name != h.name {
		return nil, fmt.Errorf("not an address of host %q: %w", h.name, syscall.EADDRNOTAVAIL)
	}
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	if number == 0 {
		number = h.freePort()
	}
	if h.ports[number] != nil {
		return nil, syscall.EADDRINUSE
	}
	h.crashed = false
	p := &memPort{host: h, number: number, backlog: make(chan *memConn, memBacklog), closed: make(chan struct{})}
	h.ports[number] = p
	h.net.wake()
	return p, nil
}

// openSilent takes the port from which an endpoint that only dials does so. It refuses connections, and has no endpoint for datagrams.
func (h *memHost) openSilent() *memPort {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.crashed = false
	p := &memPort{host: h, number: h.freePort(), backlog: make(chan *memConn), closed: make(chan struct{})}
	h.ports[p.number] = p
	h.net.wake()
	return p
}

func (h *memHost) freePort() int {
	for h.ports[h.lastPort] != nil {
		h.lastPort++
	}
	h.lastPort++ // like a kernel, do not hand out the same one again at once
	return h.lastPort - 1
}

func (p *memPort) serve(e *endpoint) {
	p.host.net.mu.Lock()
	defer p.host.net.mu.Unlock()
	p.endpoint = e
}

func (p *memPort) addr() string { return net.JoinHostPort(p.host.name, strconv.Itoa(p.number)) }

func (p *memPort) source(c net.Conn) string { return c.(*memConn).peer.host.name }

func (p *memPort) accept() (net.Conn, error) {
	select {
	case c := <-p.backlog:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *memPort) close() error {
	p.host.net.mu.Lock()
	defer p.host.net.mu.Unlock()
	p.shut()
	for {
		select {
		case c := <-p.backlog:
			c.shut()
		default:
			p.host.net.wake()
			return nil
		}
	}
}

// shut frees the number; a crash has done so already when the endpoint is closed later.
func (p *memPort) shut() {
	if p.host.ports[p.number] == p {
		delete(p.host.ports, p.number)
		close(p.closed)
	}
}

var errNoSuchHost = errors.New("no such host")

// dial needs both ways open, as a TCP handshake does, and takes one round trip.
func (p *memPort) dial(ctx context.Context, addr string) (net.Conn, error) {
	name, number, err := splitHostPort(addr)
	if err != nil {
		return nil, err
	}
	m := p.host.net
	for {
		to, wait, err := m.route(p, name)
		if err != nil {
			return nil, err
		}
		if wait == nil {
			if err := sleepCtx(ctx, m.roundTrip(p.host, to)); err != nil {
				return nil, err
			}
			return m.connect(p, to, number)
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// route gives the host to connect to, or what to wait for because it can not be reached now.
func (m *Memory) route(p *memPort, name string) (to *memHost, wait <-chan struct{}, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p.isClosed() {
		return nil, nil, net.ErrClosed
	}
	to = m.hosts[name]
	if to == nil {
		return nil, nil, fmt.Errorf("%s: %w", name, errNoSuchHost)
	}
	if to.crashed || !m.open(p.host, to) || !m.open(to, p.host) {
		return nil, m.changed, nil
	}
	return to, nil, nil
}

func (p *memPort) isClosed() bool { return p.host.ports[p.number] != p }

func (m *Memory) connect(p *memPort, to *memHost, number int) (net.Conn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p.isClosed() {
		return nil, net.ErrClosed
	}
	listener := to.ports[number]
	if listener == nil || len(listener.backlog) == cap(listener.backlog) {
		return nil, syscall.ECONNREFUSED
	}
	pair := newMemPair(m, p, listener)
	m.pairs[pair] = struct{}{}
	listener.backlog <- pair.acceptor
	return pair.dialer, nil
}

func (m *Memory) roundTrip(a, b *memHost) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.delay(a, b) + m.delay(b, a)
}

func sleepCtx(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// send hands a datagram over after the delay of the way, if it is not lost. Like UDP it never tells.
func (p *memPort) send(addr string, b []byte) error {
	name, number, err := splitHostPort(addr)
	if err != nil {
		return err
	}
	m := p.host.net
	data := append([]byte(nil), b...)
	m.mu.Lock()
	defer m.mu.Unlock()
	if p.isClosed() {
		return net.ErrClosed
	}
	to := m.hosts[name]
	if to == nil {
		return fmt.Errorf("%s: %w", name, errNoSuchHost)
	}
	if p.host.paused {
		p.host.park(func() { m.sendDatagram(p, to, number, data) })
		return nil
	}
	m.sendDatagram(p, to, number, data)
	return nil
}

func (m *Memory) sendDatagram(from *memPort, to *memHost, number int, data []byte) {
	if m.isCut(from.host, to) || m.rng.Float64() < m.losses.get(from.host.name, to.name) {
		return
	}
	packet := Packet{From: from.addr(), Data: data}
	arrive := func() {
		if m.isCut(from.host, to) {
			return
		}
		m.receiveDatagram(to, number, packet)
	}
	d := m.delay(from.host, to)
	if d <= 0 {
		arrive()
		return
	}
	time.AfterFunc(d, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		arrive()
	})
}

func (m *Memory) receiveDatagram(to *memHost, number int, packet Packet) {
	if to.paused {
		to.park(func() { m.receiveDatagram(to, number, packet) })
		return
	}
	if p := to.ports[number]; p != nil && p.endpoint != nil {
		packet.At = time.Now()
		p.endpoint.deliver(packet)
	}
}

// park keeps what a stopped process has in its socket buffers.
func (h *memHost) park(f func()) {
	if len(h.parked) < maxParked {
		h.parked = append(h.parked, f)
	}
}
