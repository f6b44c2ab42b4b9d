package transport

import (
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// stream is a connection that passed its handshake (or is in it), as its owner sees it.
type stream struct {
	net.Conn          // the TLS connection if there is one, else raw
	raw      net.Conn // closing it ends the stream at once, without a word to the peer
	kind     Kind
	cuts     uint64 // of the endpoint, before it was asked for the cluster id
	peer     Peer
	capped   *cappedConn

	once   sync.Once
	forget func() // takes the stream off the endpoint's list
}

// Peer tells what the handshake told.
func (s *stream) Peer() Peer { return s.peer }

// Close says goodbye where TLS asks for it, but waits at most goodbyeTimeout for a peer that does not read.
func (s *stream) Close() error {
	if s.capped != nil {
		s.capped.closing.Store(true)
	}
	err := s.Conn.Close()
	s.once.Do(func() {
		if s.forget != nil {
			s.forget()
		}
	})
	return err
}

func (s *stream) cap(raw net.Conn) net.Conn {
	s.capped = &cappedConn{Conn: raw}
	return s.capped
}

func (s *stream) startTLS(c *tls.Conn) error {
	if err := c.Handshake(); err != nil {
		return err
	}
	state := c.ConnectionState()
	s.Conn, s.peer.TLS = c, &state
	return nil
}

const goodbyeTimeout = 200 * time.Millisecond

// cappedConn exists because crypto/tls gives its closing alert five seconds to be written: too long for a Close that must be
// bounded. Dropping the alert instead would make each regular end look like a truncation to the reader.
type cappedConn struct {
	net.Conn
	closing atomic.Bool
}

func (c *cappedConn) SetWriteDeadline(t time.Time) error {
	if latest := time.Now().Add(goodbyeTimeout); c.closing.Load() && t.After(latest) {
		t = latest
	}
	return c.Conn.SetWriteDeadline(t)
}
