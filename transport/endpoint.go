package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

const (
	defaultHandshakeTimeout = 3 * time.Second
	acceptQueue             = 128 // streams per kind that passed their handshake and wait for Accept
	acceptQueueWait         = 500 * time.Millisecond
	packetQueue             = 1024
	maxPacket               = 64 << 10
)

// carrier is what differs between real and simulated networks: bare connections and datagrams.
type carrier interface {
	accept() (net.Conn, error)
	dial(ctx context.Context, addr string) (net.Conn, error)
	send(addr string, b []byte) error
	// source groups connections of one origin for admission.
	source(c net.Conn) string
	// close unblocks accept and ends the delivery of datagrams.
	close() error
}

// endpoint is everything that does not differ: handshakes, refusals, queues, cutting and closing.
type endpoint struct {
	cfg                  Config
	carrier              carrier
	addr, advertise      string
	tlsServer, tlsClient *tls.Config
	pending              *admission
	raft, call, gossip   *streamQueue
	done                 chan struct{}
	running              sync.WaitGroup
	refusals             refusalLog

	mu     sync.Mutex
	closed bool
	cut    bool
	cuts   uint64            // how often raft streams were cut
	conns  map[net.Conn]Kind // raw connections, in handshake (kind 0) or handed over
	dials  map[*struct{ cancel context.CancelCauseFunc }]struct{}

	packetMu      sync.Mutex // orders deliver against the closing of packets
	packetsClosed bool
	packets       chan Packet
}

func newEndpoint(cfg Config, addr, advertise string) *endpoint {
	e := &endpoint{
		cfg: cfg, addr: addr, advertise: advertise,
		pending: newAdmission(),
		raft:    newStreamQueue(), call: newStreamQueue(), gossip: newStreamQueue(),
		done:    make(chan struct{}),
		conns:   map[net.Conn]Kind{},
		dials:   map[*struct{ cancel context.CancelCauseFunc }]struct{}{},
		packets: make(chan Packet, packetQueue),
	}
	if cfg.TLS != nil {
		e.tlsClient = modernOnly(cfg.TLS.Client)
		if !cfg.DialOnly {
			e.tlsServer = modernOnly(cfg.TLS.Server)
		}
	}
	return e
}

func modernOnly(c *tls.Config) *tls.Config {
	c = c.Clone()
	c.MinVersion = tls.VersionTLS13
	return c
}

// start begins to accept; c was opened for this endpoint and is closed with it.
func (e *endpoint) start(c carrier) {
	e.carrier = c
	if !e.cfg.DialOnly {
		e.running.Go(e.acceptLoop)
	}
}

func withDefaults(cfg Config) (Config, error) {
	if cfg.HandshakeTimeout <= 0 {
		cfg.HandshakeTimeout = defaultHandshakeTimeout
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	if cfg.TLS != nil && (cfg.TLS.Server == nil && !cfg.DialOnly || cfg.TLS.Client == nil) {
		return cfg, errors.New("TLS needs both Server and Client")
	}
	if cfg.DialOnly && (cfg.Addr != "" || cfg.Advertise != "") {
		return cfg, fmt.Errorf("%w, so it has neither Addr nor Advertise", ErrDialOnly)
	}
	for field, s := range map[string]string{"Cluster": cfg.Cluster, "ServerID": cfg.ServerID, "Advertise": cfg.Advertise} {
		if len(s) > maxNameLen {
			return cfg, fmt.Errorf("%s is longer than %d bytes", field, maxNameLen)
		}
	}
	if cfg.ServerID == "" {
		return cfg, errors.New("ServerID is empty")
	}
	return cfg, nil
}

func (e *endpoint) Addr() string { return e.addr }

func (e *endpoint) Advertise() string { return e.advertise }

func (e *endpoint) Packets() <-chan Packet { return e.packets }

// identify fixes what this side says in the handshake of s. The cuts are counted before the cluster id is read: whoever gives the id up cuts
// afterwards, so keep can tell that a handshake under way still speaks for the old one.
func (e *endpoint) identify(s *stream) (clusterID string) {
	e.mu.Lock()
	s.cuts = e.cuts
	e.mu.Unlock()
	return e.clusterID(s.kind)
}

// clusterID is the cluster for whose streams of a kind this side stands at present.
func (e *endpoint) clusterID(kind Kind) string {
	ask := e.cfg.ClusterID
	if kind == KindRaft && e.cfg.RaftClusterID != nil {
		ask = e.cfg.RaftClusterID
	}
	if ask == nil {
		return ""
	}
	return ask()
}

// Dial opens a stream; see Endpoint.
func (e *endpoint) Dial(ctx context.Context, kind Kind, addr, target string) (Conn, error) {
	if err := e.mayDial(kind, addr, target); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, e.cfg.HandshakeTimeout)
	defer cancel()
	ctx, release, err := e.untilClosed(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	raw, err := e.carrier.dial(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, withCause(ctx, err))
	}
	s, err := e.dialHandshake(ctx, raw, kind, addr, target)
	if err == nil {
		err = e.keep(s)
	}
	if err != nil {
		raw.Close()
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	return s, nil
}

// mayDial refuses here what the other side would refuse anyway.
func (e *endpoint) mayDial(kind Kind, addr, target string) error {
	refuse := func(code RefusedCode, detail string) error {
		return &RefusedError{Code: code, Addr: addr, Detail: detail}
	}
	switch {
	case !knownKind(kind):
		return refuse(RefusedKind, "")
	case len(target) > maxNameLen:
		return refuse(RefusedTarget, "target id too long")
	case kind != KindRaft:
		return nil
	case target == "":
		return refuse(RefusedTarget, "raft streams need a target")
	case e.clusterID(kind) == "":
		return refuse(RefusedClusterID, "this server belongs to no cluster yet")
	case e.isCut():
		return refuse(RefusedCut, "on this side")
	}
	return nil
}

// withCause prefers the reason why ctx ended over the way in which the network noticed.
func withCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w (%v)", cause, err)
	}
	return err
}

// untilClosed derives a context that Close cancels. A list of cancel functions, because a context kept in the struct would
// make the endpoint's life look like a caller's.
func (e *endpoint) untilClosed(ctx context.Context) (context.Context, func(), error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, nil, net.ErrClosed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	key := &struct{ cancel context.CancelCauseFunc }{cancel}
	e.dials[key] = struct{}{}
	return ctx, func() {
		e.mu.Lock()
		delete(e.dials, key)
		e.mu.Unlock()
		cancel(nil)
	}, nil
}

// keep enters a stream in the list that CutRaft and Close work on, unless one of them came first.
func (e *endpoint) keep(s *stream) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return net.ErrClosed
	}
	if s.kind == KindRaft && (e.cut || s.cuts != e.cuts) {
		return &RefusedError{Code: RefusedCut, Addr: s.peer.Addr}
	}
	s.forget = func() { e.drop(s.raw) }
	e.conns[s.raw] = s.kind
	return nil
}

func (e *endpoint) drop(raw net.Conn) {
	e.mu.Lock()
	delete(e.conns, raw)
	e.mu.Unlock()
}

func (e *endpoint) isCut() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cut
}

// Accept waits for the next stream of a kind; see Endpoint.
func (e *endpoint) Accept(kind Kind) (Conn, error) { return e.acceptUntil(kind, nil) }

// acceptUntil is Accept that also ends when stop is closed, so that one user of the endpoint can end before it.
func (e *endpoint) acceptUntil(kind Kind, stop <-chan struct{}) (Conn, error) {
	if !knownKind(kind) {
		return nil, fmt.Errorf("accept: %v %q", RefusedKind, byte(kind))
	}
	q := e.queue(kind)
	select {
	case s := <-q.streams:
		q.release()
		return s, nil
	case <-stop:
	case <-e.done:
	}
	return nil, net.ErrClosed
}

func (e *endpoint) queue(kind Kind) *streamQueue {
	switch kind {
	case KindRaft:
		return e.raft
	case KindCall:
		return e.call
	}
	return e.gossip
}

// SendPacket sends one datagram; see Endpoint.
func (e *endpoint) SendPacket(addr string, b []byte) error {
	if len(b) > maxPacket {
		return fmt.Errorf("send packet to %s: %d bytes are too many", addr, len(b))
	}
	select {
	case <-e.done:
		return net.ErrClosed
	default:
	}
	if e.cfg.DialOnly {
		return fmt.Errorf("send packet to %s: %w", addr, ErrDialOnly)
	}
	return e.carrier.send(addr, b)
}

// deliver drops the packet if the consumer is behind: gossip repeats itself, and a waiting reader would lose newer ones instead.
func (e *endpoint) deliver(p Packet) {
	e.packetMu.Lock()
	defer e.packetMu.Unlock()
	if e.packetsClosed {
		return
	}
	select {
	case e.packets <- p:
	default:
	}
}

// CutRaft refuses and closes raft streams until RestoreRaft, and ends their handshakes; see Endpoint.
func (e *endpoint) CutRaft() {
	for _, c := range e.cutRaft() {
		c.Close()
	}
}

func (e *endpoint) cutRaft() (victims []net.Conn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cut = true
	e.cuts++
	for c, kind := range e.conns {
		if kind == KindRaft {
			victims = append(victims, c)
			delete(e.conns, c)
		}
	}
	return victims
}

// RestoreRaft ends CutRaft.
func (e *endpoint) RestoreRaft() {
	e.mu.Lock()
	e.cut = false
	e.mu.Unlock()
}

// Close ends everything and waits for it; see Endpoint.
func (e *endpoint) Close() error {
	err := e.shut()
	e.running.Wait()
	e.closePackets()
	return err
}

// shut is Close without the wait; a carrier that died under the endpoint has the same effect.
func (e *endpoint) shut() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	close(e.done)
	conns, dials := e.conns, e.dials
	e.conns, e.dials = map[net.Conn]Kind{}, map[*struct{ cancel context.CancelCauseFunc }]struct{}{}
	e.mu.Unlock()

	err := e.carrier.close()
	for d := range dials {
		d.cancel(net.ErrClosed)
	}
	for c := range conns {
		c.Close()
	}
	return err
}

func (e *endpoint) closePackets() {
	e.packetMu.Lock()
	defer e.packetMu.Unlock()
	if !e.packetsClosed {
		e.packetsClosed = true
		close(e.packets)
	}
}
