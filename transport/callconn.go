package transport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// callConn is one call stream. Three goroutines own it: a reader, a writer and a keepalive; the first to fail ends all.
type callConn struct {
	calls   *Calls
	stream  Conn
	addr    string // for errors
	inbound bool   // the other side calls, this side serves and pushes
	number  uint64 // in the order in which connections were made
	out     *outbox
	forget  func() // takes the connection out of the list in which it is looked up

	ctx    context.Context // of the calls served: ends with the connection. Kept here because the connection is what it stands for
	cancel context.CancelFunc
	places chan struct{} // one per call being served

	heard     atomic.Int64 // when bytes last came, as time since born
	born      time.Time
	saturated atomic.Bool   // the reader waits for a place: its silence is not the peer's
	interest  chan struct{} // one slot: a call was made on an idle connection

	mu      sync.Mutex
	idle    bool          // keepAlive saw no interest and wants to be told of the next call
	owed    time.Duration // when a call was last given up without an answer
	gone    error         // set once, then pending takes no more
	lastID  uint64
	pending map[uint64]*pendingCall
}

// pendingCall waits for its reply. Whoever takes it out of the map, and nobody else, sends to done (or, its own caller, does not).
type pendingCall struct {
	done chan callResult // one slot
}

type callResult struct {
	payload []byte
	err     error
}

var errConnGone = errors.New("connection is gone")

func newPendingCall() any { return &pendingCall{done: make(chan callResult, 1)} }

func newCallConn(c *Calls, stream Conn, addr string) *callConn {
	ctx, cancel := context.WithCancel(context.Background())
	return &callConn{
		calls: c, stream: stream, addr: addr, out: newOutbox(),
		ctx: ctx, cancel: cancel, places: make(chan struct{}, maxServing),
		born: time.Now(), interest: make(chan struct{}, 1),
		pending: map[uint64]*pendingCall{},
	}
}

func (c *callConn) start() {
	c.calls.running.Go(func() { c.end(c.readLoop()) })
	c.calls.running.Go(func() {
		if err := c.out.writeTo(c.stream); err != nil {
			c.end(err)
		}
	})
	c.calls.running.Go(func() { c.end(c.keepAlive()) })
}

// end closes the connection. It leaves the lookup list first, so that a caller who finds it gone does not find it again.
func (c *callConn) end(cause error) {
	c.mu.Lock()
	if c.gone != nil {
		c.mu.Unlock()
		return
	}
	if cause == nil {
		cause = errConnGone
	}
	c.gone = cause
	c.mu.Unlock()
	c.forget()
	c.calls.drop(c)
	// Nothing is sent any more when the handlers learn of the end: an error that they return because of it is no answer to the call.
	c.out.close()
	c.stream.Close()
	c.cancel()
	c.failPending(cause)
}

func (c *callConn) failPending(cause error) {
	c.mu.Lock()
	pending := c.pending
	c.pending = nil
	c.mu.Unlock()
	for _, p := range pending {
		p.done <- callResult{err: &UnknownError{Addr: c.addr, Err: cause}}
	}
}

// call is the caller's side. No goroutine: the reader hands the reply over.
func (c *callConn) call(ctx context.Context, m Method, payload []byte) ([]byte, error) {
	p := c.calls.waiters.Get().(*pendingCall)
	id, ok := c.enter(p)
	if !ok {
		c.calls.waiters.Put(p)
		return nil, errConnGone
	}
	f := frame{kind: frameRequest, method: m, id: id, payload: payload}
	if sent, err := c.send(ctx, &f); !sent {
		if c.take(id) == nil {
			<-p.done // the connection ended meanwhile; nothing was sent all the same
		}
		c.calls.waiters.Put(p)
		return nil, err
	}
	return c.await(ctx, id, p)
}

// send queues the request, waiting for room. An error means that it was not queued.
func (c *callConn) send(ctx context.Context, f *frame) (sent bool, err error) {
	for {
		if deadline, ok := ctx.Deadline(); ok {
			f.arg = encodeTimeLeft(time.Until(deadline))
		}
		queued, retry := c.out.offer(f)
		if queued {
			return true, nil
		}
		if retry == nil {
			return false, errConnGone
		}
		select {
		case <-retry:
		case <-ctx.Done():
			return false, &DialError{Addr: c.addr, Err: context.Cause(ctx)}
		}
	}
}

func (c *callConn) await(ctx context.Context, id uint64, p *pendingCall) ([]byte, error) {
	select {
	case r := <-p.done:
		c.calls.waiters.Put(p)
		return r.payload, r.err
	case <-ctx.Done():
	}
	if c.abandon(id) {
		c.calls.waiters.Put(p)
		return nil, &UnknownError{Addr: c.addr, Err: context.Cause(ctx)}
	}
	r := <-p.done // the answer came at the same moment; it is worth more than the ctx error
	c.calls.waiters.Put(p)
	return r.payload, r.err
}

func (c *callConn) enter(p *pendingCall) (id uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone != nil {
		return 0, false
	}
	c.lastID++
	c.pending[c.lastID] = p
	if c.idle {
		c.idle = false
		c.noteInterest()
	}
	return c.lastID, true
}

// abandon gives up a call that was sent, unless its result is already on the way to done. The peer still owes a byte.
func (c *callConn) abandon(id uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.pending[id]; !ok {
		return false
	}
	delete(c.pending, id)
	c.owed = c.now()
	return true
}

func (c *callConn) take(id uint64) *pendingCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pending[id]
	delete(c.pending, id)
	return p
}

func (c *callConn) readLoop() error {
	r := bufio.NewReaderSize(heardReader{c}, 64<<10)
	for {
		f, err := readFrame(r)
		if err != nil {
			return err
		}
		if err := c.handle(f); err != nil {
			return err
		}
	}
}

// heardReader stamps the time at which bytes came.
type heardReader struct{ c *callConn }

func (r heardReader) Read(b []byte) (int, error) {
	n, err := r.c.stream.Read(b)
	if n > 0 {
		r.c.heard.Store(int64(time.Since(r.c.born)))
	}
	return n, err
}

// handle refuses what the other side has no business to send: calls go from dialer to acceptor, replies and pushes back.
func (c *callConn) handle(f frame) error {
	switch {
	case f.kind == framePing:
		c.out.offer(&frame{kind: framePong}) // no room: other bytes are on their way and will do as well
	case f.kind == framePong:
	case f.kind == frameRequest && c.inbound:
		return c.serve(f)
	case f.kind == frameReply && !c.inbound:
		c.deliver(f.id, callResult{payload: f.payload})
	case f.kind == frameError && !c.inbound:
		c.deliver(f.id, callResult{err: &RemoteError{Code: uint32(f.arg), Text: string(f.payload)}})
	case f.kind == framePush && !c.inbound:
		if c.calls.onPush != nil {
			c.calls.onPush(c.stream.Peer(), f.method, f.payload)
		}
	default:
		return fmt.Errorf("%w: kind %d in the wrong direction", errMalformedFrame, f.kind)
	}
	return nil
}

// deliver drops a reply nobody waits for any more.
func (c *callConn) deliver(id uint64, r callResult) {
	if p := c.take(id); p != nil {
		p.done <- r
	}
}

// serve answers a request in a goroutine of its own; over maxServing the reader waits, and with it, through TCP, the caller.
func (c *callConn) serve(f frame) error {
	select {
	case c.places <- struct{}{}:
	default:
		if !c.waitForPlace() {
			return errConnGone
		}
	}
	c.calls.running.Add(1)
	go c.answer(f) // not running.Go: its closures would be the hot path's only needless allocations
	return nil
}

func (c *callConn) waitForPlace() bool {
	c.saturated.Store(true)
	defer c.saturated.Store(false)
	select {
	case c.places <- struct{}{}:
		c.heard.Store(int64(time.Since(c.born))) // the peer's silence counts from now
		return true
	case <-c.ctx.Done():
		return false
	}
}

func (c *callConn) answer(f frame) {
	defer c.calls.running.Done()
	defer func() { <-c.places }()
	ctx, cancel := c.ctx, context.CancelFunc(func() {})
	if f.arg != 0 {
		ctx, cancel = context.WithTimeout(c.ctx, decodeTimeLeft(f.arg))
	}
	defer cancel()
	reply, err := c.handleCall(ctx, f)
	answer := replyFrame(f.id, reply, err)
	for {
		queued, retry := c.out.offer(&answer)
		if queued || retry == nil {
			return
		}
		select {
		case <-retry:
		case <-c.ctx.Done():
			return
		}
	}
}

func (c *callConn) handleCall(ctx context.Context, f frame) ([]byte, error) {
	if c.calls.handler == nil {
		return nil, errors.New("this server takes no calls")
	}
	return c.calls.handler(ctx, c.stream.Peer(), f.method, f.payload)
}

const maxErrorText = 4 << 10

func replyFrame(id uint64, reply []byte, err error) frame {
	if err == nil && len(reply) > MaxPayload {
		err = fmt.Errorf("reply: %w", ErrTooLarge)
	}
	if err == nil {
		return frame{kind: frameReply, id: id, payload: reply}
	}
	f := frame{kind: frameError, id: id}
	text := err.Error()
	var remote *RemoteError
	if errors.As(err, &remote) {
		f.arg, text = uint64(remote.Code), remote.Text
	}
	f.payload = []byte(text[:min(len(text), maxErrorText)])
	return f
}
