//go:build unix

package redisfence_test

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
)

// proxy stands between a client, or a replica, and a server. It can take away the answer to a write, and cut the line.
type proxy struct {
	addr   string
	next   string
	listen net.Listener
	wg     sync.WaitGroup

	mu     sync.Mutex
	lose   int    // of this many scripts the answer is lost, and the connection with it
	onLose func() // runs before the connection is
	lost   int
	conns  map[net.Conn]struct{} // nil once the line is cut
}

func newProxy(t testing.TB, next string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &proxy{addr: l.Addr().String(), next: next, listen: l, conns: map[net.Conn]struct{}{}}
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(p.cut)
	return p
}

// cut ends all connections, and takes no new ones.
func (p *proxy) cut() {
	_ = p.listen.Close()
	p.mu.Lock()
	for c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
	p.mu.Unlock()
	p.wg.Wait()
}

// keep registers a connection, unless the line is cut.
func (p *proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns == nil {
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.next)
	if err != nil {
		return
	}
	defer server.Close()
	if !p.keep(client) || !p.keep(server) {
		return
	}
	script := make(chan struct{}, 1) // a script has been sent
	p.wg.Go(func() {
		defer server.Close()
		_, _ = io.Copy(server, io.TeeReader(client, watcher(script)))
	})
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if err != nil || p.swallow(script) {
			return
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

// watcher tells when a script passes.
type watcher chan struct{}

func (w watcher) Write(b []byte) (int, error) {
	if bytes.Contains(bytes.ToUpper(b), []byte("EVAL")) {
		select {
		case w <- struct{}{}:
		default:
		}
	}
	return len(b), nil
}

// loseNext has the answer to the next script lost, after onLose has run, if it is not nil.
func (p *proxy) loseNext(onLose func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose, p.onLose = 1, onLose
}

// bitten is how many answers were lost.
func (p *proxy) bitten() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// swallow tells whether the answer that has just come is to be lost.
func (p *proxy) swallow(script chan struct{}) bool {
	select {
	case <-script:
	default:
		return false
	}
	p.mu.Lock()
	if p.lose == 0 {
		p.mu.Unlock()
		return false
	}
	p.lose--
	p.lost++
	onLose := p.onLose
	p.mu.Unlock()
	if onLose != nil {
		onLose()
	}
	return true
}
