//go:build !wasip1

package gossip

import (
	"context"
	"errors"
	"net"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/quorumlock/quorumlock/transport"
)

const (
	maxInbound = 16          // streams of peers served at once; memberlist would serve any number
	outbox     = 256         // datagrams waiting to be sent; more are dropped, as a network would
	wakeAccept = time.Second // how long Close tries to wake its own Accept
	acceptHold = 20 * time.Millisecond
)

var errTransportClosed = errors.New("gossip transport is closed")

// mlTransport lets memberlist speak over an Endpoint. memberlist's goroutines never wait for the network in it longer than a
// dial's timeout: datagrams go through a bounded queue, and each stream has a deadline from its first byte.
//
// Shutdown ends what is memberlist's and leaves the Endpoint open; it is shared with raft and calls.
type mlTransport struct {
	ep      transport.Endpoint
	id      string
	addrs   *addressBook
	foreign *foreigners

	packets chan *memberlist.Packet // never closed: memberlist would read a nil packet
	streams chan net.Conn           // never closed, likewise
	out     chan outgoing
	inbound chan struct{} // slots of streams being served

	ctx    context.Context // ends with Shutdown; dials hang on it
	cancel context.CancelFunc
	wg     sync.WaitGroup // dials, pumps
	accept chan struct{}  // closed when the accept loop has ended

	mu     sync.Mutex
	closed bool
	open   map[*mlConn]struct{}
}

type outgoing struct {
	addr string
	data []byte
}

var _ memberlist.NodeAwareTransport = (*mlTransport)(nil)

func startTransport(opt Options, addrs *addressBook, foreign *foreigners) *mlTransport {
	ctx, cancel := context.WithCancel(context.Background())
	t := &mlTransport{
		ep: opt.Endpoint, id: opt.ServerID, addrs: addrs, foreign: foreign,
		packets: make(chan *memberlist.Packet), streams: make(chan net.Conn),
		out: make(chan outgoing, outbox), inbound: make(chan struct{}, maxInbound),
		ctx: ctx, cancel: cancel, accept: make(chan struct{}), open: map[*mlConn]struct{}{},
	}
	t.wg.Go(t.receivePackets)
	t.wg.Go(t.sendPackets)
	go t.acceptStreams()
	return t
}

// FinalAdvertiseAddr is the Endpoint's address; memberlist's own configuration has no say.
func (t *mlTransport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	ip, port, err := t.addrs.node(t.ep.Advertise())
	return ip, int(port), err
}

// WriteTo queues one datagram.
func (t *mlTransport) WriteTo(b []byte, addr string) (time.Time, error) {
	return t.WriteToAddress(b, memberlist.Address{Addr: addr})
}

// WriteToAddress queues one datagram. An address that does not answer, or a host name that takes long to resolve, holds nobody up.
func (t *mlTransport) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	select {
	case <-t.ctx.Done():
		return time.Time{}, errTransportClosed
	case t.out <- outgoing{addr: t.addrs.dialable(a.Addr), data: b}:
	default: // full: lost, as datagrams are
	}
	return time.Now(), nil
}

// PacketCh gives the datagrams received.
func (t *mlTransport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// StreamCh gives the streams accepted.
func (t *mlTransport) StreamCh() <-chan net.Conn { return t.streams }

// DialTimeout opens a stream to whoever is at addr.
func (t *mlTransport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return t.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

// DialAddressTimeout opens a stream; a named node must be the one that answers.
func (t *mlTransport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(t.ctx, timeout)
	defer cancel()
	type result struct {
		conn transport.Conn
		err  error
	}
	got := make(chan result, 1)
	if !t.track() {
		return nil, errTransportClosed
	}
	go func() {
		defer t.wg.Done()
		// The endpoint's goroutines must not count as memberlist's, see goroutines.go.
		pprof.SetGoroutineLabels(context.Background())
		conn, err := t.ep.Dial(ctx, transport.KindGossip, t.addrs.dialable(a.Addr), a.Name)
		got <- result{conn, err}
	}()
	r := <-got
	if r.err != nil {
		t.foreign.take(a.Name, t.addrs.dialable(a.Addr), r.err, time.Now())
		return nil, r.err
	}
	conn := t.adopt(r.conn, nil)
	if conn == nil {
		return nil, errTransportClosed
	}
	// memberlist writes its label before it sets a deadline of its own.
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// track registers one goroutine, unless Shutdown has begun.
func (t *mlTransport) track() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.wg.Add(1)
	return true
}

// adopt makes conn one that Shutdown closes; after Shutdown it is closed at once and nil is returned.
func (t *mlTransport) adopt(conn net.Conn, release func()) *mlConn {
	c := &mlConn{Conn: conn, t: t, release: release}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		conn.Close()
		return nil
	}
	t.open[c] = struct{}{}
	return c
}

func (t *mlTransport) receivePackets() {
	for {
		select {
		case <-t.ctx.Done():
			return
		case p, ok := <-t.ep.Packets():
			if !ok {
				return
			}
			packet := &memberlist.Packet{Buf: p.Data, From: textAddr(p.From), Timestamp: p.At}
			select {
			case t.packets <- packet:
			case <-t.ctx.Done():
				return
			}
		}
	}
}

func (t *mlTransport) sendPackets() {
	for {
		select {
		case <-t.ctx.Done():
			return
		case o := <-t.out:
			// An error is a lost datagram; the failure detector draws the conclusions.
			_ = t.ep.SendPacket(o.addr, o.data)
		}
	}
}

func (t *mlTransport) acceptStreams() {
	defer close(t.accept)
	for {
		conn, err := t.ep.Accept(transport.KindGossip)
		if t.ctx.Err() != nil {
			if err == nil {
				conn.Close()
			}
			return
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			t.pause(acceptHold)
			continue
		}
		t.serve(conn)
	}
}

func (t *mlTransport) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.ctx.Done():
	}
}

// serve hands conn to memberlist as soon as a slot is free.
func (t *mlTransport) serve(conn net.Conn) {
	select {
	case t.inbound <- struct{}{}:
	case <-t.ctx.Done():
		conn.Close()
		return
	}
	c := t.adopt(conn, func() { <-t.inbound })
	if c == nil {
		return
	}
	select {
	case t.streams <- c:
	case <-t.ctx.Done():
		c.Close()
	}
}

// Shutdown closes memberlist's streams, ends its dials and the pumps, and waits for them. Twice is fine.
func (t *mlTransport) Shutdown() error {
	t.mu.Lock()
	t.closed = true
	conns := make([]*mlConn, 0, len(t.open))
	for c := range t.open {
		conns = append(conns, c)
	}
	t.mu.Unlock()
	t.cancel()
	for _, c := range conns {
		c.Close()
	}
	t.wg.Wait()
	return nil
}

// awaitAccept waits for the accept loop. Accept knows no cancellation, so while the Endpoint is still open a stream to itself
// wakes it. Where that is not possible (an address that can not be reached from within) the loop ends with the Endpoint, and
// whatever it accepts until then it closes.
func (t *mlTransport) awaitAccept() {
	ctx, cancel := context.WithTimeout(context.Background(), wakeAccept)
	defer cancel()
	for _, addr := range []string{t.ep.Addr(), t.ep.Advertise()} {
		select {
		case <-t.accept:
			return
		default:
		}
		conn, err := t.ep.Dial(ctx, transport.KindGossip, addr, t.id)
		if err != nil {
			continue
		}
		select {
		case <-t.accept:
		case <-ctx.Done():
		}
		conn.Close()
	}
}

// mlConn is a stream that Shutdown can close and that closes itself when it breaks: memberlist forgets a stream whose
// first write failed.
type mlConn struct {
	net.Conn
	t       *mlTransport
	release func()
	once    sync.Once
}

func (c *mlConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err != nil {
		c.Close()
	}
	return n, err
}

func (c *mlConn) Close() error {
	err := net.ErrClosed
	c.once.Do(func() {
		err = c.Conn.Close()
		c.t.mu.Lock()
		delete(c.t.open, c)
		c.t.mu.Unlock()
		if c.release != nil {
			c.release()
		}
	})
	return err
}

// textAddr is a net.Addr of host:port.
type textAddr string

func (a textAddr) Network() string { return "quorumlock" }
func (a textAddr) String() string  { return string(a) }
