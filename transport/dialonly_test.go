package transport

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"
)

func dialOnly(c *Config) { c.DialOnly, c.Addr = true, "" }

// An endpoint without a port reaches everybody, is answered on the connections that it dialled, and is told to nobody.
func TestDialOnlyReachesOthers(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		member, caller := n.listen("member"), n.listen("caller", dialOnly)
		if caller.Addr() != "" || caller.Advertise() != "" {
			t.Errorf("it has the addresses %q and %q", caller.Addr(), caller.Advertise())
		}
		d, s := n.pair(caller, member, KindCall)
		wantCarries(t, d, s, "there")
		wantCarries(t, s, d, "and back")
		if p := s.Peer(); p != (Peer{ServerID: "caller", ClusterID: "id"}) {
			t.Errorf("the member sees %+v", p)
		}
		if err := caller.SendPacket(member.Addr(), []byte("x")); !errors.Is(err, ErrDialOnly) {
			t.Errorf("datagram: %v", err)
		}
		_, err := caller.Dial(n.ctx(5*time.Second), KindCall, member.Addr(), "somebody")
		wantRefused(t, err, RefusedTarget)
	})
}

// A call and a push work as between endpoints with ports: the push comes on the connection that the caller dialled.
func TestDialOnlyIsPushedTo(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		answer := func(_ context.Context, from Peer, _ Method, _ []byte) ([]byte, error) {
			return []byte(from.ServerID), nil
		}
		pushed := make(chan string, 1)
		member := n.listen("member")
		server := NewCalls(member, answer, nil, CallOptions{})
		defer server.Close()
		caller := NewCalls(n.listen("caller", dialOnly), answer, func(_ Peer, _ Method, b []byte) { pushed <- string(b) }, CallOptions{})
		defer caller.Close()
		b, err := caller.Call(n.ctx(5*time.Second), member.Addr(), "", 1, nil)
		if err != nil || string(b) != "caller" {
			t.Fatalf("call: %q, %v", b, err)
		}
		if !server.Push("caller", 2, []byte("news")) {
			t.Fatal("not pushed")
		}
		if got := <-pushed; got != "news" {
			t.Errorf("pushed %q", got)
		}
	})
}

// Close ends Accept, the streams and the packets, as it does for others.
func TestDialOnlyCloses(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		member, caller := n.listen("member"), n.listen("caller", dialOnly)
		_, s := n.pair(caller, member, KindCall)
		accepted := make(chan error, 1)
		go func() {
			_, err := caller.Accept(KindCall)
			accepted <- err
		}()
		for range 2 {
			if err := caller.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := <-accepted; !errors.Is(err, net.ErrClosed) {
			t.Errorf("accept: %v", err)
		}
		if _, open := <-caller.Packets(); open {
			t.Error("a packet")
		}
		if _, err := s.Read(make([]byte, 1)); err == nil {
			t.Error("its stream is open")
		}
		if _, err := caller.Dial(n.ctx(5*time.Second), KindCall, member.Addr(), ""); !errors.Is(err, net.ErrClosed) {
			t.Errorf("dial after close: %v", err)
		}
	})
}

// An address beside DialOnly is a mistake, and of TLS it needs its own side only.
func TestDialOnlyConfig(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		for _, set := range []option{withAddr(n.addr("caller")), func(c *Config) { c.Addr, c.Advertise = "", "caller:1" }} {
			if _, err := n.tryListen("caller", func(c *Config) { c.DialOnly = true }, set); !errors.Is(err, ErrDialOnly) {
				t.Errorf("listened: %v", err)
			}
		}
		certs := newAuthority(t)
		member := n.listen("a", withTLS(certs.mutual()))
		clientOnly := certs.mutual()
		clientOnly.Server = nil
		caller := n.listen("caller", dialOnly, withTLS(clientOnly))
		d, s := n.pair(caller, member, KindCall)
		wantCarries(t, d, s, "sealed")
		if _, err := n.tryListen("caller", dialOnly, withTLS(&TLS{Server: certs.mutual().Server})); err == nil {
			t.Error("no client side, and no error")
		}
	})
}

// Nobody reaches the simulated port from which it dials, and its host's faults are its own.
func TestDialOnlyInMemory(t *testing.T) {
	inMemory(t, func(t *testing.T, n *network) {
		member, caller := n.listen("member"), n.listen("caller", dialOnly)
		d, s := n.pair(caller, member, KindCall)
		if c, err := member.Dial(n.ctx(5*time.Second), KindCall, d.LocalAddr().String(), ""); err == nil {
			c.Close()
			t.Error("reached")
		}
		if err := member.SendPacket(d.LocalAddr().String(), []byte("x")); err != nil {
			t.Error(err)
		}
		n.mem.Cut("caller", "member")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := caller.Dial(ctx, KindCall, member.Addr(), ""); err == nil {
			t.Error("dialled through a cut")
		}
		n.mem.HealAll()
		wantCarries(t, d, s, "after the heal")
		n.mem.Crash("caller")
		if _, err := s.Read(make([]byte, 1)); err == nil {
			t.Error("its stream outlived its host")
		}
	})
}
