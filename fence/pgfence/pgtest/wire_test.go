package pgtest

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// wire is a proxy that understands as much of PostgreSQL's protocol as it takes to count round trips and to lose the answer
// to a COMMIT.
type wire struct {
	addr   string // where it listens
	target string
	waits  atomic.Int64 // messages after which the client waits for an answer: round trips

	// onCommit, if set, is asked what becomes of each COMMIT. It may be called at the same time by several connections.
	onCommit func() fate

	listener net.Listener
	gone     chan struct{} // closed when the test ends
	conns    sync.WaitGroup
	open     sync.Map // net.Conn -> struct{}
}

// fate is what becomes of a COMMIT.
type fate struct {
	how     cut
	release chan struct{} // of an orphan
}

type cut int

const (
	passed   cut = iota
	unsent       // the connection is lost before the server hears of it
	unheard      // the server has committed when the connection is lost
	orphaned     // the client's connection is lost at once, and the server hears of the COMMIT when release is closed
)

func newWire(t testing.TB, target string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{addr: l.Addr().String(), target: target, listener: l, gone: make(chan struct{})}
	w.conns.Go(w.accept)
	t.Cleanup(func() {
		l.Close()
		close(w.gone)
		w.open.Range(func(conn, _ any) bool { conn.(net.Conn).Close(); return true })
		w.conns.Wait()
	})
	return w
}

func (w *wire) accept() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.open.Store(client, struct{}{})
		w.conns.Go(func() { w.serve(client) })
	}
}

func (w *wire) serve(client net.Conn) {
	defer w.open.Delete(client)
	defer client.Close()
	server, err := net.Dial("tcp", w.target)
	if err != nil {
		return
	}
	w.open.Store(server, struct{}{})
	defer w.open.Delete(server)
	defer server.Close()
	l := &link{wire: w, client: client, server: server}
	w.conns.Go(l.answers)
	l.requests()
}

// link is one connection of a client, and the one made for it.
type link struct {
	*wire
	client, server net.Conn
	unheard        atomic.Bool // the next answer is lost, with the connection
}

// requests forwards what the client sends, message by message.
func (l *link) requests() {
	for first := true; ; first = false {
		message, err := readMessage(l.client, first)
		if err != nil {
			return
		}
		if !first && (message[0] == 'Q' || message[0] == 'S') {
			l.waits.Add(1)
		}
		if l.onCommit != nil && !first && isCommit(message) && !l.commit(l.onCommit()) {
			return
		}
		if _, err := l.server.Write(message); err != nil {
			return
		}
	}
}

// commit does to the connection what is to be, and reports whether the message goes on.
func (l *link) commit(f fate) bool {
	switch f.how {
	case unsent:
		return false
	case unheard:
		l.unheard.Store(true)
	case orphaned:
		l.client.Close()
		select {
		case <-f.release:
		case <-l.gone:
			return false
		}
	}
	return true
}

func (l *link) answers() {
	buffer := make([]byte, 32<<10)
	for {
		n, err := l.server.Read(buffer)
		if err != nil || l.unheard.Load() {
			l.client.Close()
			return
		}
		if _, err := l.client.Write(buffer[:n]); err != nil {
			// An orphan's COMMIT is still to be answered.
			_, _ = io.Copy(io.Discard, l.server)
			return
		}
	}
}

// readMessage reads one message of a client: a type, except in the first, a length that counts itself, and the rest.
func readMessage(r io.Reader, first bool) ([]byte, error) {
	head := make([]byte, 5)
	if first {
		head = head[:4]
	}
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	rest := int(binary.BigEndian.Uint32(head[len(head)-4:])) - 4
	if rest < 0 || rest > 1<<20 {
		return nil, io.ErrUnexpectedEOF
	}
	message := append(head, make([]byte, rest)...)
	_, err := io.ReadFull(r, message[len(head):])
	return message, err
}

func isCommit(message []byte) bool {
	return message[0] == 'Q' && strings.EqualFold(string(bytes.TrimRight(message[5:], "\x00")), "commit")
}
