//go:build !wasip1

package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

const (
	pairAttempts  = 32 // to find a port that is free for both TCP and UDP
	socketBuffer  = 1 << 20
	readErrorWait = 10 * time.Millisecond
)

type tcpTransport struct{}

// TCP is the transport of real networks: a TCP listener and a UDP socket on one port.
//
// Without TLS only loopback addresses are served, advertised and dialled unless Config.AllowPlaintext is set; else Listen and Dial
// fail with a *PlaintextError. An address that can not be used is an *AddrError, which wraps syscall.EADDRINUSE if it is taken.
func TCP() Transport { return tcpTransport{} }

func (tcpTransport) Listen(cfg Config) (Endpoint, error) {
	cfg, err := withDefaults(cfg)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if cfg.DialOnly {
		e := newEndpoint(cfg, "", "")
		e.start(tcpDialer{plaintext: plaintextAllowed(cfg)})
		return e, nil
	}
	sockets, err := openSockets(cfg)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	bound := sockets.bound()
	advertise, err := advertised(cfg, bound)
	if err != nil {
		sockets.close()
		return nil, fmt.Errorf("listen: %w", err)
	}
	e := newEndpoint(cfg, bound.String(), advertise)
	e.start(sockets)
	e.running.Go(func() { sockets.readPackets(e.deliver) })
	return e, nil
}

// tcpSockets is the carrier of one endpoint.
type tcpSockets struct {
	tcp       *net.TCPListener
	udp       *net.UDPConn
	plaintext bool // non-loopback addresses are fine
	done      chan struct{}
	once      sync.Once
}

func openSockets(cfg Config) (*tcpSockets, error) {
	addrError := func(err error) error { return &AddrError{Option: "Addr", Addr: cfg.Addr, Err: err} }
	if _, _, err := splitHostPort(cfg.Addr); err != nil {
		return nil, addrError(err)
	}
	want, err := net.ResolveTCPAddr("tcp", cfg.Addr)
	if err != nil {
		return nil, addrError(err)
	}
	if !plaintextAllowed(cfg) && !want.IP.IsLoopback() {
		return nil, &PlaintextError{Use: "serve", Addr: cfg.Addr}
	}
	tcp, udp, err := listenPair(want)
	if err != nil {
		return nil, addrError(err)
	}
	udp.SetReadBuffer(socketBuffer) // best effort: the system may have a lower limit
	return &tcpSockets{tcp: tcp, udp: udp, plaintext: plaintextAllowed(cfg), done: make(chan struct{})}, nil
}

// listenPair: the system chooses a free port for TCP only, so that the same one may be taken for UDP; then another is tried.
func listenPair(want *net.TCPAddr) (*net.TCPListener, *net.UDPConn, error) {
	var taken error
	for range pairAttempts {
		tcp, err := net.ListenTCP("tcp", want)
		if err != nil {
			return nil, nil, err
		}
		port := tcp.Addr().(*net.TCPAddr).Port
		udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: want.IP, Port: port, Zone: want.Zone})
		if err == nil {
			return tcp, udp, nil
		}
		tcp.Close()
		if taken = err; want.Port != 0 || !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return nil, nil, taken
}

func (s *tcpSockets) bound() netip.AddrPort {
	return unmap(s.tcp.Addr().(*net.TCPAddr).AddrPort())
}

func (s *tcpSockets) accept() (net.Conn, error) { return s.tcp.Accept() }

// source is the address, or the /64 that one IPv6 host usually has to itself.
func (s *tcpSockets) source(c net.Conn) string {
	a, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return c.RemoteAddr().String()
	}
	ip := a.AddrPort().Addr().Unmap()
	if ip.Is4() {
		return ip.String()
	}
	prefix, err := ip.Prefix(64)
	if err != nil {
		return ip.String()
	}
	return prefix.String()
}

func (s *tcpSockets) dial(ctx context.Context, addr string) (net.Conn, error) {
	return tcpDialer{plaintext: s.plaintext}.dial(ctx, addr)
}

// tcpDialer is the carrier of an endpoint without a port: of what a carrier does it only dials, and the rest is never asked of it.
type tcpDialer struct{ plaintext bool }

func (tcpDialer) accept() (net.Conn, error) { return nil, net.ErrClosed }
func (tcpDialer) send(string, []byte) error { return ErrDialOnly }
func (tcpDialer) source(net.Conn) string    { return "" }
func (tcpDialer) close() error              { return nil }

// dial checks each address a name resolves to at the moment it is used.
func (t tcpDialer) dial(ctx context.Context, addr string) (net.Conn, error) {
	d := net.Dialer{}
	if !t.plaintext {
		d.Control = func(_, resolved string, _ syscall.RawConn) error {
			if !isLoopbackHost(resolved) {
				return &PlaintextError{Use: "dial", Addr: resolved}
			}
			return nil
		}
	}
	return d.DialContext(ctx, "tcp", addr)
}

func (s *tcpSockets) send(addr string, b []byte) error {
	to, err := resolvePacketAddr(addr)
	if err != nil {
		return err
	}
	if !s.plaintext && !to.Addr().IsLoopback() {
		return &PlaintextError{Use: "send to", Addr: addr}
	}
	_, err = s.udp.WriteToUDPAddrPort(b, to)
	return err
}

func resolvePacketAddr(addr string) (netip.AddrPort, error) {
	if to, err := netip.ParseAddrPort(addr); err == nil {
		return unmap(to), nil
	}
	a, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return unmap(a.AddrPort()), nil
}

func (s *tcpSockets) readPackets(deliver func(Packet)) {
	buf := make([]byte, maxPacket)
	for {
		n, from, err := s.udp.ReadFromUDPAddrPort(buf)
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			select { // an ICMP error about an earlier packet, say
			case <-time.After(readErrorWait):
				continue
			case <-s.done:
				return
			}
		}
		from = unmap(from)
		if !s.plaintext && !from.Addr().IsLoopback() {
			continue
		}
		deliver(Packet{From: from.String(), Data: append([]byte(nil), buf[:n]...), At: time.Now()})
	}
}

func (s *tcpSockets) close() error {
	var err error
	s.once.Do(func() {
		close(s.done)
		err = errors.Join(s.tcp.Close(), s.udp.Close())
	})
	return err
}
