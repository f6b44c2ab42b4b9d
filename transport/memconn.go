package transport

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// flowBuffer is how much one direction of a stream holds before its writer waits.
const flowBuffer = 256 << 10

// memPair is one stream: two ends and a flow each way. cond wakes all who wait on it; its lock is the network's.
type memPair struct {
	net              *Memory
	cond             *sync.Cond
	dialer, acceptor *memConn
}

// flow is one direction: segments in flight, then bytes that arrived and were not read.
type flow struct {
	from, to *memHost
	flight   []segment
	arrived  []byte
	size     int       // bytes of both
	lastDue  time.Time // keeps segments in order whatever the jitter
	eof      bool      // the end has arrived
	reply    bool      // subject to HoldReplies
}

type segment struct {
	due  time.Time
	data []byte
	end  bool
}

// memConn is one end; it implements net.Conn.
type memConn struct {
	pair          *memPair
	host          *memHost
	peer          *memConn
	local, remote memAddr
	in, out       *flow
	closed        bool
	err           error // set once: reset, timed out, or the host crashed
	orphan        bool  // the other host crashed
	read, write   memDeadline
	arrival       *time.Timer // wakes the waiters when the next segment is due
}

type memAddr string

func (memAddr) Network() string  { return "memory" }
func (a memAddr) String() string { return string(a) }

func newMemPair(m *Memory, from, to *memPort) *memPair {
	p := &memPair{net: m, cond: sync.NewCond(&m.mu)}
	there := &flow{from: from.host, to: to.host}
	back := &flow{from: to.host, to: from.host}
	local, remote := memAddr(from.addr()), memAddr(to.addr())
	p.dialer = &memConn{pair: p, host: from.host, local: local, remote: remote, in: back, out: there}
	p.acceptor = &memConn{pair: p, host: to.host, local: remote, remote: local, in: there, out: back}
	p.dialer.peer, p.acceptor.peer = p.acceptor, p.dialer
	return p
}

func (p *memPair) settle(now time.Time) {
	p.dialer.in.settle(p.net, now)
	p.acceptor.in.settle(p.net, now)
}

func (p *memPair) dropWhenDone() {
	if p.dialer.done() && p.acceptor.done() {
		delete(p.net.pairs, p)
	}
}

func (f *flow) isOpen(m *Memory) bool {
	return m.open(f.from, f.to) && !(f.reply && f.from.holding)
}

// settle moves what is due from the flight to the reader, and tells whether anything was.
func (f *flow) settle(m *Memory, now time.Time) (moved bool) {
	if !f.isOpen(m) {
		return false
	}
	for len(f.flight) > 0 && !f.flight[0].due.After(now) {
		f.arrived = append(f.arrived, f.flight[0].data...)
		f.eof = f.eof || f.flight[0].end
		f.flight[0] = segment{}
		f.flight = f.flight[1:]
		moved = true
	}
	return moved
}

func (f *flow) push(m *Memory, s segment) {
	s.due = time.Now().Add(m.delay(f.from, f.to))
	if s.due.Before(f.lastDue) {
		s.due = f.lastDue
	}
	f.lastDue = s.due
	f.size += len(s.data)
	f.flight = append(f.flight, s)
}

func (f *flow) take(b []byte) int {
	n := copy(b, f.arrived)
	f.arrived = f.arrived[n:]
	f.size -= n
	if len(f.arrived) == 0 {
		f.arrived = nil // let the backing array go
	}
	return n
}

func (f *flow) lose() { f.size, f.flight = len(f.arrived), nil }

func (c *memConn) done() bool { return c.closed || c.err != nil }

// broken is why the end can be used no more. Its own Close and deadlines come before what the network did.
func (c *memConn) broken(d *memDeadline, now time.Time) error {
	switch {
	case c.closed:
		return net.ErrClosed
	case d.passed(now):
		return os.ErrDeadlineExceeded
	}
	return c.err
}

func (c *memConn) Read(b []byte) (int, error) {
	n, err := c.readSome(b)
	return n, c.opError("read", err)
}

func (c *memConn) readSome(b []byte) (int, error) {
	m := c.pair.net
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		now := time.Now()
		if err := c.broken(&c.read, now); err != nil {
			return 0, err
		}
		c.in.settle(m, now)
		switch {
		case c.host.paused:
		case len(b) == 0:
			return 0, nil
		case len(c.in.arrived) > 0:
			if c.in.size >= flowBuffer {
				c.pair.cond.Broadcast() // to a writer that waits for room
			}
			return c.in.take(b), nil
		case c.in.eof:
			return 0, io.EOF
		}
		c.wait(now)
	}
}

func (c *memConn) Write(b []byte) (int, error) {
	n, err := c.writeAll(b)
	return n, c.opError("write", err)
}

func (c *memConn) writeAll(b []byte) (n int, err error) {
	m := c.pair.net
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		now := time.Now()
		if c.in.settle(m, now) {
			c.pair.cond.Broadcast() // the reader's timer may be set anew before it has fired
		}
		c.noticeRestart()
		if err := c.broken(&c.write, now); err != nil {
			return n, err
		}
		if c.in.eof {
			return n, syscall.EPIPE
		}
		if n == len(b) {
			return n, nil
		}
		if room := flowBuffer - c.out.size; room > 0 {
			part := b[n:min(len(b), n+room)]
			c.out.push(m, segment{data: append([]byte(nil), part...)})
			n += len(part)
			c.peer.awaitArrival(now)
			continue
		}
		c.wait(now)
	}
}

// noticeRestart: a host that is back answers bytes of a stream it does not know with a reset.
func (c *memConn) noticeRestart() {
	m := c.pair.net
	if c.orphan && !c.peer.host.crashed && m.open(c.host, c.peer.host) && m.open(c.peer.host, c.host) {
		c.fail(syscall.ECONNRESET)
	}
}

// wait sleeps until something changed or the next segment is due.
func (c *memConn) wait(now time.Time) {
	c.awaitArrival(now)
	c.pair.cond.Wait()
}

// awaitArrival sets the timer for the next segment. Its writer does so too: waking the reader for nothing more than that was a tenth of what a simulated
// cluster costs.
func (c *memConn) awaitArrival(now time.Time) {
	if len(c.in.flight) > 0 && c.in.isOpen(c.pair.net) && !c.done() {
		c.wakeAfter(&c.arrival, c.in.flight[0].due.Sub(now))
	}
}

func (c *memConn) wakeAfter(t **time.Timer, d time.Duration) {
	if *t != nil {
		(*t).Reset(d)
		return
	}
	*t = time.AfterFunc(d, func() {
		c.pair.net.mu.Lock()
		defer c.pair.net.mu.Unlock()
		c.pair.cond.Broadcast()
	})
}

func (c *memConn) opError(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &net.OpError{Op: op, Net: "memory", Source: c.local, Addr: c.remote, Err: err}
}

// Close sends what was written, then the end.
func (c *memConn) Close() error {
	c.pair.net.mu.Lock()
	defer c.pair.net.mu.Unlock()
	c.shut()
	return nil
}

func (c *memConn) shut() {
	if c.closed {
		return
	}
	if c.err == nil {
		c.out.push(c.pair.net, segment{end: true})
	}
	c.closed = true
	c.stopTimers()
	c.pair.dropWhenDone()
	c.pair.cond.Broadcast()
}

// fail breaks this end: nothing more is read, and what it had in flight is lost.
func (c *memConn) fail(err error) {
	if c.err == nil {
		c.err = err
		c.out.lose()
		c.stopTimers()
		c.pair.dropWhenDone()
		c.pair.cond.Broadcast()
	}
}

// die is the crash of this end's host: its bytes in flight are lost, and the other end is left with a stream to nobody.
func (c *memConn) die() {
	c.fail(net.ErrClosed)
	c.out.lose() // also what Close had queued
	if c.peer.done() || c.peer.orphan {
		return
	}
	c.peer.orphan = true
	time.AfterFunc(deadHostTimeout, func() {
		c.pair.net.mu.Lock()
		defer c.pair.net.mu.Unlock()
		c.peer.fail(syscall.ETIMEDOUT)
	})
}

func (c *memConn) stopTimers() {
	for _, t := range []*time.Timer{c.arrival, c.read.timer, c.write.timer} {
		if t != nil {
			t.Stop()
		}
	}
}

func (c *memConn) LocalAddr() net.Addr  { return c.local }
func (c *memConn) RemoteAddr() net.Addr { return c.remote }

func (c *memConn) SetDeadline(t time.Time) error { return c.setDeadlines(t, &c.read, &c.write) }

func (c *memConn) SetReadDeadline(t time.Time) error { return c.setDeadlines(t, &c.read) }

func (c *memConn) SetWriteDeadline(t time.Time) error { return c.setDeadlines(t, &c.write) }

// memDeadline is a time at which waiting ends, with the timer that wakes the waiter.
type memDeadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *memDeadline) passed(now time.Time) bool { return !d.at.IsZero() && !now.Before(d.at) }

func (c *memConn) setDeadlines(t time.Time, deadlines ...*memDeadline) error {
	c.pair.net.mu.Lock()
	defer c.pair.net.mu.Unlock()
	if c.closed {
		return c.opError("set deadline", net.ErrClosed)
	}
	for _, d := range deadlines {
		d.at = t
		if d.timer != nil {
			d.timer.Stop()
		}
		if !t.IsZero() {
			c.wakeAfter(&d.timer, time.Until(t))
		}
	}
	return nil
}

// labelInbound marks a call stream's way back for HoldReplies.
func (c *memConn) labelInbound(k Kind) {
	c.pair.net.mu.Lock()
	defer c.pair.net.mu.Unlock()
	c.out.reply = k == KindCall
}
