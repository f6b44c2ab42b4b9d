package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lab is one kind of network to run the conformance suite on.
type lab struct {
	name string
	// run runs a test where the network's time is right: a bubble for the simulated one.
	run func(t *testing.T, f func(t *testing.T, n *network))
}

// network is one fresh network within a test.
type network struct {
	t        *testing.T
	host     func(name string) Transport
	addr     func(name string) string            // to listen on, with a free port
	carrier  func(host string) (carrier, string) // a bare listener with its address
	mem      *Memory                             // nil on real networks
	patience time.Duration                       // a handshake timeout that is short but not flaky
}

// memoryLab is the simulated network; the real one, where the platform has it, is in tcpLabs.
var memoryLab = lab{"memory", func(t *testing.T, f func(*testing.T, *network)) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(1)
		f(t, &network{
			t: t, mem: m, patience: 3 * time.Second,
			host: m.Host,
			addr: func(name string) string { return name + ":0" },
			carrier: func(host string) (carrier, string) {
				p := must[*memPort](t)(m.Host(host).(*memHost).open(host + ":0"))
				return p, p.addr()
			},
		})
	})
}}

// eachLab runs a test of the contract on all implementations.
func eachLab(t *testing.T, f func(t *testing.T, n *network)) {
	for _, l := range append(tcpLabs, memoryLab) {
		t.Run(l.name, func(t *testing.T) { l.run(t, f) })
	}
}

func inMemory(t *testing.T, f func(t *testing.T, n *network)) { memoryLab.run(t, f) }

// option changes the Config of an endpoint under test.
type option func(*Config)

func withClusterID(id string) option {
	return func(c *Config) { c.ClusterID = func() string { return id } }
}
func withRaftID(ask func() string) option {
	return func(c *Config) { c.RaftClusterID = ask }
}
func withCluster(name string) option { return func(c *Config) { c.Cluster = name } }
func withAddr(addr string) option    { return func(c *Config) { c.Addr = addr } }
func withTLS(s *TLS) option          { return func(c *Config) { c.TLS = s } }
func withTimeout(d time.Duration) option {
	return func(c *Config) { c.HandshakeTimeout = d }
}

// listen opens an endpoint whose server id is the host's name, in cluster "c" with cluster id "id".
func (n *network) listen(host string, opts ...option) Endpoint {
	n.t.Helper()
	e, err := n.tryListen(host, opts...)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { e.Close() })
	return e
}

func (n *network) tryListen(host string, opts ...option) (Endpoint, error) {
	cfg := Config{Addr: n.addr(host), Cluster: "c", ServerID: host, ClusterID: func() string { return "id" }}
	for _, o := range opts {
		o(&cfg)
	}
	return n.host(host).Listen(cfg)
}

// raw opens a bare connection from an endpoint's host, past all handshakes.
func (n *network) raw(from Endpoint, addr string) net.Conn {
	n.t.Helper()
	c, err := from.(*endpoint).carrier.dial(n.ctx(5*time.Second), addr)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { c.Close() })
	return c
}

func serverID(e Endpoint) string {
	if s, ok := e.(service); ok {
		e = s.Endpoint
	}
	return e.(*endpoint).cfg.ServerID
}

func (n *network) ctx(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	n.t.Cleanup(cancel)
	return ctx
}

// pair dials a stream and accepts it.
func (n *network) pair(from, to Endpoint, kind Kind) (dialer, acceptor Conn) {
	n.t.Helper()
	dialer, err := from.Dial(n.ctx(5*time.Second), kind, to.Addr(), serverID(to))
	if err != nil {
		n.t.Fatal(err)
	}
	acceptor, err = to.Accept(kind)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { dialer.Close(); acceptor.Close() })
	return dialer, acceptor
}

func wantRefused(t *testing.T, err error, code RefusedCode) {
	t.Helper()
	if !errors.Is(err, &RefusedError{Code: code}) {
		t.Fatalf("got %v, want refusal %v", err, code)
	}
}

// wantCarries checks that bytes get from one end to the other.
func wantCarries(t *testing.T, from, to net.Conn, text string) {
	t.Helper()
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(from, text)
		sent <- err
	}()
	buf := make([]byte, len(text))
	to.SetReadDeadline(time.Now().Add(10 * time.Second))
	defer to.SetReadDeadline(time.Time{})
	if _, err := io.ReadFull(to, buf); err != nil || string(buf) != text {
		t.Fatalf("read %q, %v; want %q", buf, err, text)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
}

// wantBroken checks that reading ends with an error that is not a deadline.
func wantBroken(t *testing.T, c net.Conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if n, err := io.Copy(io.Discard, c); errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
		t.Fatalf("stream is still open: %d bytes, %v", n, err)
	}
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// soon waits for a condition another goroutine brings about, without betting on how long that takes.
func soon(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not in 10 s: " + what)
		}
	}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func name(i int) string { return fmt.Sprintf("h%d", i) }
