package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Method says what a call or a push asks for; its meaning is the users' matter.
type Method byte

// Handler answers one call, in a goroutine of its own; ctx ends at the caller's deadline or when the connection goes. payload
// belongs to the Handler, and the reply must not change after it was returned. An error becomes a *RemoteError at the caller.
type Handler func(ctx context.Context, from Peer, m Method, payload []byte) ([]byte, error)

// CallOptions is what may be set for Calls; the zero value is right.
type CallOptions struct {
	Logger hclog.Logger // default: silent
}

const (
	maxServing   = 1024 // calls of one connection that are served at once; then its reader waits
	closeTimeout = 5 * time.Second
	acceptRetry  = 50 * time.Millisecond
)

// Calls are requests with replies, and pushes, over the KindCall streams of an endpoint. There is one connection per peer,
// dialled when first needed and again after it broke; requests on it are pipelined and answered in any order. Calls to one peer
// never wait for another peer.
//
// A Call is sent at most once: whether to repeat it after an UnknownError is for the caller to decide.
type Calls struct {
	endpoint Endpoint
	handler  Handler
	onPush   func(from Peer, m Method, payload []byte)
	logger   hclog.Logger
	stop     chan struct{} // closed by Close
	running  sync.WaitGroup
	waiters  sync.Pool // of *pendingCall; not shared further, for channels must not leave a synctest bubble

	mu      sync.Mutex
	closed  bool
	made    uint64 // connections so far
	peers   map[peerKey]*dialling
	conns   map[*callConn]struct{}
	inbound map[string]*callConn // the newest of each server id, for Push
}

// peerKey has the address too: a peer that moved is dialled at its new address, not waited for at the old one.
type peerKey struct{ addr, target string }

// dialling is a connection to be: all calls to a peer share one dial.
type dialling struct {
	ready chan struct{} // closed when conn or err is set
	conn  *callConn
	err   error
}

// NewCalls starts to accept calls at once. onPush gets pushes in the order they were sent; it is called by the connection's
// reader and must not block. It may be nil, and so may h on a side that only calls. Close the Calls before the endpoint.
func NewCalls(ep Endpoint, h Handler, onPush func(from Peer, m Method, payload []byte), opt CallOptions) *Calls {
	c := &Calls{
		endpoint: ep, handler: h, onPush: onPush, logger: opt.Logger,
		stop:    make(chan struct{}),
		waiters: sync.Pool{New: newPendingCall},
		peers:   map[peerKey]*dialling{},
		conns:   map[*callConn]struct{}{},
		inbound: map[string]*callConn{},
	}
	if c.logger == nil {
		c.logger = hclog.NewNullLogger()
	}
	c.running.Go(c.acceptLoop)
	return c
}

// Call sends a request to the server target (empty: whoever answers) at addr and waits for the reply, which belongs to the
// caller. ctx bounds all of it, the dial included, and its deadline travels along.
//
// The error is a *DialError if nothing was sent, an *UnknownError if the request was sent and no answer came, and a *RemoteError
// if the answer is an error. The first two wrap the ctx error if ctx ended.
func (c *Calls) Call(ctx context.Context, addr, target string, m Method, payload []byte) ([]byte, error) {
	if len(payload) > MaxPayload {
		return nil, &DialError{Addr: addr, Err: ErrTooLarge}
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, &DialError{Addr: addr, Err: context.Cause(ctx)}
		}
		conn, err := c.connect(ctx, peerKey{addr, target})
		if err != nil {
			return nil, &DialError{Addr: addr, Err: err}
		}
		reply, err := conn.call(ctx, m, payload)
		if !errors.Is(err, errConnGone) { // else it died between connect and call; nothing was sent
			return reply, err
		}
	}
}

// connect gives the connection to a peer, dialling it if there is none.
func (c *Calls) connect(ctx context.Context, key peerKey) (*callConn, error) {
	d, err := c.dialling(key)
	if err != nil {
		return nil, err
	}
	select {
	case <-d.ready:
		return d.conn, d.err
	default:
	}
	select {
	case <-d.ready:
		return d.conn, d.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (c *Calls) dialling(key peerKey) (*dialling, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, net.ErrClosed
	}
	d := c.peers[key]
	if d == nil {
		d = &dialling{ready: make(chan struct{})}
		c.peers[key] = d
		c.running.Go(func() { c.dial(key, d) })
	}
	return d, nil
}

// dial serves all who wait for the peer, so no single caller's ctx bounds it; the endpoint's handshake timeout does.
func (c *Calls) dial(key peerKey, d *dialling) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	dialled := make(chan struct{})
	defer close(dialled)
	c.running.Go(func() {
		select {
		case <-c.stop:
			cancel()
		case <-dialled:
		}
	})
	stream, err := c.endpoint.Dial(ctx, KindCall, key.addr, key.target)
	if err == nil {
		conn := newCallConn(c, stream, key.addr)
		conn.forget = func() { c.forgetPeer(key, d) }
		if err = c.run(conn); err == nil {
			d.conn = conn
		}
	}
	if err != nil {
		d.err = err
		c.forgetPeer(key, d)
	}
	close(d.ready)
}

func (c *Calls) forgetPeer(key peerKey, d *dialling) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.peers[key] == d {
		delete(c.peers, key)
	}
}

// Push queues a one-way frame on the newest connection that server serverID opened to this side. It never blocks: false means
// that there is no such connection or its queue is full, true that it was queued (not that it arrived).
func (c *Calls) Push(serverID string, m Method, payload []byte) bool {
	if len(payload) > MaxPayload {
		return false
	}
	c.mu.Lock()
	conn := c.inbound[serverID]
	c.mu.Unlock()
	if conn == nil {
		return false
	}
	queued, _ := conn.out.offer(&frame{kind: framePush, method: m, payload: payload})
	return queued
}

func (c *Calls) acceptLoop() {
	for {
		stream, err := c.accept()
		switch {
		case err == nil:
			c.welcome(stream)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			c.logger.Warn("accept of a call stream failed", "error", err)
			select {
			case <-time.After(acceptRetry):
			case <-c.stop:
				return
			}
		}
	}
}

// accept can be stopped before the endpoint is closed if the endpoint is one of this package's.
func (c *Calls) accept() (Conn, error) {
	if e, ok := c.endpoint.(interface {
		acceptUntil(Kind, <-chan struct{}) (Conn, error)
	}); ok {
		return e.acceptUntil(KindCall, c.stop)
	}
	return c.endpoint.Accept(KindCall)
}

func (c *Calls) welcome(stream Conn) {
	conn := newCallConn(c, stream, stream.Peer().Addr)
	conn.inbound = true
	conn.forget = func() { c.forgetInbound(conn) }
	c.run(conn)
}

// forgetInbound falls back to the next newest connection of the same server.
func (c *Calls) forgetInbound(gone *callConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, gone)
	id := gone.stream.Peer().ServerID
	if c.inbound[id] != gone {
		return
	}
	delete(c.inbound, id)
	for conn := range c.conns {
		newest := c.inbound[id]
		if conn.inbound && conn.stream.Peer().ServerID == id && (newest == nil || conn.number > newest.number) {
			c.inbound[id] = conn
		}
	}
}

// run starts a connection's goroutines, unless Close came first.
func (c *Calls) run(conn *callConn) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		conn.stream.Close()
		return net.ErrClosed
	}
	c.made++
	conn.number = c.made
	c.conns[conn] = struct{}{}
	if conn.inbound {
		c.inbound[conn.stream.Peer().ServerID] = conn
	}
	conn.start()
	return nil
}

func (c *Calls) drop(conn *callConn) {
	c.mu.Lock()
	delete(c.conns, conn)
	c.mu.Unlock()
}

// Close ends all connections; outstanding calls end with an UnknownError that wraps net.ErrClosed. It returns when every
// goroutine is gone; a Handler that does not heed its ctx is waited for five seconds and then reported.
func (c *Calls) Close() error {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	if first {
		close(c.stop)
	}
	conns := make([]*callConn, 0, len(c.conns))
	for conn := range c.conns {
		conns = append(conns, conn)
	}
	c.mu.Unlock()
	for _, conn := range conns {
		conn.end(net.ErrClosed)
	}
	return c.awaitEnd()
}

func (c *Calls) awaitEnd() error {
	gone := make(chan struct{})
	go func() {
		c.running.Wait()
		close(gone)
	}()
	t := time.NewTimer(closeTimeout)
	defer t.Stop()
	select {
	case <-gone:
		return nil
	case <-t.C:
		return fmt.Errorf("close calls: a handler has ignored its ctx for %v", closeTimeout)
	}
}
