//go:build !wasip1

package transport

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"
)

func tcpConfig(addr, advertise string) Config {
	return Config{Addr: addr, Advertise: advertise, Cluster: "c", ServerID: "s"}
}

func TestPlaintextStaysOnLoopback(t *testing.T) {
	for _, c := range [][3]string{
		{"serve", ":0", ""},
		{"serve", "0.0.0.0:0", "127.0.0.1:1"},
		{"serve", "[::]:0", ""},
		{"serve", "192.0.2.1:0", ""},
		{"advertise", "127.0.0.1:0", "192.0.2.1:7000"},
		{"advertise", "127.0.0.1:0", "db1.example:7000"},
	} {
		e, err := TCP().Listen(tcpConfig(c[1], c[2]))
		var plain *PlaintextError
		if !errors.As(err, &plain) || plain.Use != c[0] {
			t.Errorf("%v: %v", c, err)
		}
		if err == nil {
			e.Close()
		}
	}
}

func TestPlaintextDialsOnlyLoopback(t *testing.T) {
	e := must[Endpoint](t)(TCP().Listen(tcpConfig("127.0.0.1:0", "")))
	defer e.Close()
	var plain *PlaintextError
	for _, addr := range []string{"192.0.2.1:7000", "[2001:db8::1]:7000", "[::ffff:192.0.2.1]:7000"} {
		if _, err := e.Dial(t.Context(), KindCall, addr, ""); !errors.As(err, &plain) {
			t.Errorf("dial %s: %v", addr, err)
		}
		if err := e.SendPacket(addr, []byte("x")); !errors.As(err, &plain) {
			t.Errorf("send to %s: %v", addr, err)
		}
	}
}

func TestAdvertiseMustBeDiallable(t *testing.T) {
	for _, c := range [][2]string{
		{"0.0.0.0:0", ""}, {":0", ""}, {"[::]:0", ""},
		{"127.0.0.1:0", "0.0.0.0:7000"}, {"127.0.0.1:0", "[::]:7000"}, {"127.0.0.1:0", ":7000"},
		{"127.0.0.1:0", "localhost"}, {"127.0.0.1:0", "localhost:0"}, {"127.0.0.1:0", "[::ffff:0.0.0.0]:7000"},
	} {
		cfg := tcpConfig(c[0], c[1])
		cfg.AllowPlaintext = true
		e, err := TCP().Listen(cfg)
		var bad *AddrError
		if !errors.As(err, &bad) || bad.Option != "Advertise" {
			t.Errorf("%v: %v", c, err)
		}
		if err == nil {
			e.Close()
		}
	}
}

func TestDualStackTellsPlainIPv4Sources(t *testing.T) {
	cfg := tcpConfig(":0", "127.0.0.1:7000")
	cfg.AllowPlaintext = true
	a := must[Endpoint](t)(TCP().Listen(cfg))
	defer a.Close()
	b := must[Endpoint](t)(TCP().Listen(tcpConfig("127.0.0.1:0", "")))
	defer b.Close()
	_, port, _ := net.SplitHostPort(a.Addr())
	if err := b.SendPacket("127.0.0.1:"+port, []byte("x")); err != nil {
		t.Fatal(err)
	}
	p := <-a.Packets()
	if p.From != b.Addr() {
		t.Errorf("from %s, want %s", p.From, b.Addr())
	}
	if err := a.SendPacket(p.From, []byte("back")); err != nil {
		t.Fatal(err)
	}
	<-b.Packets()
}

func TestIPv6Loopback(t *testing.T) {
	a, err := TCP().Listen(tcpConfig("[::1]:0", ""))
	if err != nil {
		t.Skip("no IPv6 here: ", err)
	}
	defer a.Close()
	c := must[Conn](t)(a.Dial(t.Context(), KindCall, a.Addr(), "s"))
	c.Close()
	if err := a.SendPacket(a.Addr(), []byte("x")); err != nil {
		t.Fatal(err)
	}
	if p := <-a.Packets(); p.From != a.Addr() {
		t.Errorf("from %s", p.From)
	}
}

// The UDP port of a pair may be taken although the TCP port is free.
func TestUDPPortInUse(t *testing.T) {
	u := must[*net.UDPConn](t)(net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0"))))
	defer u.Close()
	_, err := TCP().Listen(tcpConfig(u.LocalAddr().String(), ""))
	var bad *AddrError
	if !errors.As(err, &bad) || bad.Option != "Addr" {
		t.Errorf("got %v", err)
	}
}

type failingCarrier struct {
	carrier
	failures int
	accepts  chan time.Time
}

func (c *failingCarrier) accept() (net.Conn, error) {
	c.accepts <- time.Now()
	if c.failures--; c.failures < 0 {
		return nil, net.ErrClosed
	}
	return nil, errors.New("out of descriptors")
}

func (c *failingCarrier) close() error { return nil }

func TestAcceptErrorsBackOff(t *testing.T) {
	inMemory(t, func(t *testing.T, _ *network) {
		cfg, _ := withDefaults(tcpConfig("", ""))
		c := &failingCarrier{failures: 12, accepts: make(chan time.Time, 20)}
		e := newEndpoint(cfg, "", "")
		start := time.Now()
		e.start(c)
		e.running.Wait()
		if took := time.Since(start); took < 3*time.Second {
			t.Errorf("12 failures in %v", took)
		}
		e.Close()
	})
}
