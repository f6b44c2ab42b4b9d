package transport

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func TestStreamsCarryBytesAndPeers(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		a, b := n.listen("a"), n.listen("b")
		for _, kind := range []Kind{KindRaft, KindCall, KindGossip} {
			d, s := n.pair(a, b, kind)
			wantCarries(t, d, s, "there")
			wantCarries(t, s, d, "and back")
			if p := d.Peer(); p != (Peer{ServerID: "b", ClusterID: "id", Addr: b.Advertise()}) {
				t.Errorf("dialer sees %+v", p)
			}
			if p := s.Peer(); p != (Peer{ServerID: "a", ClusterID: "id", Addr: a.Advertise()}) {
				t.Errorf("acceptor sees %+v", p)
			}
			d.Close()
			if _, err := s.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("after the other side closed: %v, want EOF", err)
			}
		}
	})
}

func TestRefusals(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		member := n.listen("member")
		for _, c := range []struct {
			what   string
			kind   Kind
			target string
			opt    option
			code   RefusedCode // 0: welcome
		}{
			{"other cluster name", KindCall, "", withCluster("d"), RefusedCluster},
			{"other cluster id", KindCall, "member", withClusterID("other"), RefusedClusterID},
			{"other cluster id for gossip", KindGossip, "", withClusterID("other"), RefusedClusterID},
			{"other cluster id for raft", KindRaft, "member", withClusterID("other"), RefusedClusterID},
			{"no cluster id for raft", KindRaft, "member", withClusterID(""), RefusedClusterID},
			{"no cluster id for a call", KindCall, "member", withClusterID(""), 0},
			{"other target", KindCall, "somebody", withCluster("c"), RefusedTarget},
			{"other target for raft", KindRaft, "somebody", withCluster("c"), RefusedTarget},
			{"no target for raft", KindRaft, "", withCluster("c"), RefusedTarget},
			{"no target for gossip", KindGossip, "", withCluster("c"), 0},
			{"unknown kind", Kind('X'), "member", withCluster("c"), RefusedKind},
		} {
			t.Log(c.what)
			guest := n.listen("guest", c.opt)
			conn, err := guest.Dial(n.ctx(5*time.Second), c.kind, member.Addr(), c.target)
			if c.code != 0 {
				wantRefused(t, err, c.code)
			} else if err != nil {
				t.Error(err)
			} else {
				conn.Close()
			}
			guest.Close()
		}
	})
}

// A dialer of another make may skip its own checks: the acceptor must refuse alone, and say why.
func TestAcceptorRefusesAlone(t *testing.T) {
	good := hello{version: preambleVersion, kind: KindRaft, cluster: "c", from: "guest", to: "member", clusterID: "id"}
	for what, c := range map[string]struct {
		change func(*hello)
		status byte
	}{
		"welcome":       {func(*hello) {}, statusAccepted},
		"version":       {func(h *hello) { h.version = 9 }, byte(RefusedVersion)},
		"kind":          {func(h *hello) { h.kind = 'X' }, byte(RefusedKind)},
		"cluster":       {func(h *hello) { h.cluster = "d" }, byte(RefusedCluster)},
		"cluster id":    {func(h *hello) { h.clusterID = "x" }, byte(RefusedClusterID)},
		"no cluster id": {func(h *hello) { h.clusterID = "" }, byte(RefusedClusterID)},
		"target":        {func(h *hello) { h.to = "x" }, byte(RefusedTarget)},
		"no target":     {func(h *hello) { h.to = "" }, byte(RefusedTarget)},
	} {
		t.Run(what, func(t *testing.T) {
			eachLab(t, func(t *testing.T, n *network) {
				member, guest := n.listen("member"), n.listen("guest")
				raw := n.raw(guest, member.Addr())
				h := good
				c.change(&h)
				must[int](t)(raw.Write(h.encode()))
				a := must[answer](t)(readAnswer(raw))
				if a.status != c.status || a.serverID != "member" {
					t.Fatalf("answer %+v, want status %d", a, c.status)
				}
				if c.status != statusAccepted {
					wantBroken(t, raw)
				}
			})
		})
	}
}

// And an acceptor of another make may accept anybody: the dialer must check who answered.
func TestDialerChecksTheAnswer(t *testing.T) {
	for what, c := range map[string]struct {
		answer answer
		code   RefusedCode
	}{
		"other server":       {answer{preambleVersion, statusAccepted, "x", "id", ""}, RefusedTarget},
		"other cluster id":   {answer{preambleVersion, statusAccepted, "b", "x", ""}, RefusedClusterID},
		"no cluster id":      {answer{preambleVersion, statusAccepted, "b", "", ""}, RefusedClusterID},
		"other version":      {answer{9, statusAccepted, "b", "id", ""}, RefusedVersion},
		"code of the future": {answer{preambleVersion, 99, "b", "id", ""}, RefusedCode(99)},
	} {
		t.Run(what, func(t *testing.T) {
			eachLab(t, func(t *testing.T, n *network) {
				a := n.listen("a")
				addr := n.acceptor("b", func(peer net.Conn) {
					readHello(peer)
					peer.Write(c.answer.encode())
				})
				_, err := a.Dial(n.ctx(5*time.Second), KindRaft, addr, "b")
				wantRefused(t, err, c.code)
			})
		})
	}
}

// acceptor is a bare listener: it does with each connection what the test says.
func (n *network) acceptor(host string, serve func(net.Conn)) (addr string) {
	n.t.Helper()
	c, addr := n.carrier(host)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := c.accept()
			if err != nil {
				return
			}
			running.Go(func() { serve(conn); conn.Close() })
		}
	})
	n.t.Cleanup(func() { c.close(); running.Wait() })
	return addr
}

func silent(quit <-chan struct{}) func(net.Conn) { return func(net.Conn) { <-quit } }

func TestDialGivesUpOnSilence(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		quit := make(chan struct{})
		addr := n.acceptor("b", silent(quit))
		defer close(quit)
		a := n.listen("a", withTimeout(n.patience))
		_, err := a.Dial(context.Background(), KindCall, addr, "")
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("handshake timeout: %v", err)
		}
		ctx, cancel := context.WithCancelCause(context.Background())
		why := errors.New("changed my mind")
		time.AfterFunc(n.patience/10, func() { cancel(why) })
		if _, err := a.Dial(ctx, KindCall, addr, ""); !errors.Is(err, why) {
			t.Errorf("cancelled: %v", err)
		}
	})
}

func TestCloseWhileDialling(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		quit := make(chan struct{})
		reached := make(chan struct{}, 1)
		addr := n.acceptor("b", func(net.Conn) { reached <- struct{}{}; <-quit })
		defer close(quit)
		a := n.listen("a")
		result := make(chan error, 1)
		go func() {
			_, err := a.Dial(context.Background(), KindCall, addr, "")
			result <- err
		}()
		<-reached
		a.Close()
		if err := <-result; !errors.Is(err, net.ErrClosed) {
			t.Errorf("dial ended with %v", err)
		}
		if _, err := a.Dial(context.Background(), KindCall, addr, ""); !errors.Is(err, net.ErrClosed) {
			t.Errorf("dial after Close: %v", err)
		}
	})
}

func TestCloseEndsAcceptStreamsAndPackets(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		a, b := n.listen("a"), n.listen("b")
		d, s := n.pair(a, b, KindCall)
		unaccepted := must[Conn](t)(a.Dial(n.ctx(time.Second), KindCall, b.Addr(), ""))
		accepting := make(chan error, 1)
		go func() {
			_, err := b.Accept(KindGossip)
			accepting <- err
		}()
		for range 2 {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := <-accepting; !errors.Is(err, net.ErrClosed) {
			t.Errorf("accept: %v", err)
		}
		if _, ok := <-b.Packets(); ok {
			t.Error("Packets is still open")
		}
		wantBroken(t, d)
		wantBroken(t, s)
		wantBroken(t, unaccepted)
		if err := b.SendPacket(a.Addr(), []byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("send after Close: %v", err)
		}
		d.Close()
		unaccepted.Close()
	})
}

func TestHalfHandshakesTimeOut(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		b := n.listen("b", withTimeout(n.patience))
		a := n.listen("a")
		whole := hello{version: preambleVersion, kind: KindCall, cluster: "c"}.encode()
		for _, k := range []int{0, 1, preambleHeader, len(whole) - 1} {
			raw := n.raw(a, b.Addr())
			start := time.Now()
			raw.Write(whole[:k])
			wantBroken(t, raw)
			if d := time.Since(start); d < n.patience/2 {
				t.Errorf("%d bytes: closed after %v already", k, d)
			}
		}
	})
}

func TestGarbageIsDroppedAtOnce(t *testing.T) {
	huge := []byte(preambleMagic + "\x01C\xff\xff")
	liar := hello{version: preambleVersion, kind: KindCall, cluster: "c"}.encode()
	binary.BigEndian.PutUint16(liar[preambleHeader:], 0xffff)
	eachLab(t, func(t *testing.T, n *network) {
		b, a := n.listen("b"), n.listen("a")
		for _, junk := range [][]byte{[]byte("GET / HTTP/1.1\r\n\r\n"), huge, liar, make([]byte, 100)} {
			raw := n.raw(a, b.Addr())
			start := time.Now()
			raw.Write(junk)
			wantBroken(t, raw)
			if d := time.Since(start); d > defaultHandshakeTimeout/2 {
				t.Errorf("%q: closed only after %v", junk, d)
			}
		}
		n.pair(a, b, KindCall)
	})
}

func TestSilentConnectionsDoNotBlockHonestOnes(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		b, mallory, honest := n.listen("b"), n.listen("mallory"), n.listen("honest")
		for range 300 {
			n.raw(mallory, b.Addr())
		}
		start := time.Now()
		n.pair(honest, b, KindCall)
		if d := time.Since(start); d > defaultHandshakeTimeout/2 {
			t.Errorf("honest dial took %v", d)
		}
		if got := b.(*endpoint).pending.count(); got == 0 || got > maxPendingPerSource {
			t.Errorf("%d handshakes pending, want 1 to %d", got, maxPendingPerSource)
		}
	})
}

func TestQueueNobodyEmptiesRefuses(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		a, b := n.listen("a"), n.listen("b")
		for range acceptQueue {
			c := must[Conn](t)(a.Dial(n.ctx(5*time.Second), KindGossip, b.Addr(), ""))
			defer c.Close()
		}
		_, err := a.Dial(n.ctx(5*time.Second), KindGossip, b.Addr(), "")
		wantRefused(t, err, RefusedBusy)
		n.pair(a, b, KindCall) // other kinds do not suffer
		must[Conn](t)(b.Accept(KindGossip))
		c := must[Conn](t)(a.Dial(n.ctx(5*time.Second), KindGossip, b.Addr(), ""))
		c.Close()
	})
}

func TestCutRaft(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		a, b := n.listen("a"), n.listen("b")
		raftOut, raftOutPeer := n.pair(b, a, KindRaft)
		raftIn, raftInPeer := n.pair(a, b, KindRaft)
		callIn, callInPeer := n.pair(a, b, KindCall)

		b.CutRaft()
		for _, c := range []Conn{raftOut, raftOutPeer, raftIn, raftInPeer} {
			wantBroken(t, c)
		}
		wantCarries(t, callIn, callInPeer, "calls go on")
		_, err := a.Dial(n.ctx(5*time.Second), KindRaft, b.Addr(), "b")
		wantRefused(t, err, RefusedCut)
		_, err = b.Dial(n.ctx(5*time.Second), KindRaft, a.Addr(), "a")
		wantRefused(t, err, RefusedCut)
		n.pair(a, b, KindGossip)

		b.RestoreRaft()
		n.pair(a, b, KindRaft)
		n.pair(b, a, KindRaft)
	})
}

// Whoever gives a cluster id up cuts and restores: a handshake that had read the id before, on either side, must not become a stream afterwards.
func TestCutRaftEndsHandshakesUnderWay(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		var cutting atomic.Pointer[endpoint]
		member, guest := n.listen("member", withRaftID(func() string {
			if e := cutting.Load(); e != nil {
				e.CutRaft()
				e.RestoreRaft()
			}
			return "id"
		})), n.listen("guest")
		cutting.Store(member.(*endpoint))

		_, err := guest.Dial(n.ctx(5*time.Second), KindRaft, member.Addr(), "member")
		wantRefused(t, err, RefusedCut)
		_, err = member.Dial(n.ctx(5*time.Second), KindRaft, guest.Addr(), "guest")
		wantRefused(t, err, RefusedCut)
		wantBroken(t, must[Conn](t)(guest.Accept(KindRaft)))
		n.pair(guest, member, KindCall)

		cutting.Store(nil)
		n.pair(guest, member, KindRaft)
		n.pair(member, guest, KindRaft)
	})
}

func TestAddressInUse(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		a := n.listen("a")
		_, err := n.tryListen("a", withAddr(a.Addr()))
		var bad *AddrError
		if !errors.As(err, &bad) || bad.Option != "Addr" || !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("got %v", err)
		}
	})
}

func TestListenCloseOnFixedPort(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		a := n.listen("a")
		addr := a.Addr()
		a.Close()
		for i := range 200 {
			e, err := n.tryListen("a", withAddr(addr))
			if err != nil {
				t.Fatalf("round %d: %v", i, err)
			}
			if i%20 == 0 {
				n.pair(e, e, KindCall)
			}
			if err := e.Close(); err != nil {
				t.Fatalf("round %d: %v", i, err)
			}
		}
	})
}

func TestMalformedConfig(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		for what, o := range map[string]option{
			"no port":      withAddr("127.0.0.1"),
			"word port":    withAddr("127.0.0.1:http"),
			"large port":   withAddr("127.0.0.1:70000"),
			"half tls":     withTLS(&TLS{}),
			"no server id": func(c *Config) { c.ServerID = "" },
			"long name":    func(c *Config) { c.Cluster = string(make([]byte, maxNameLen+1)) },
		} {
			if e, err := n.tryListen("a", o); err == nil {
				t.Errorf("%s: accepted", what)
				e.Close()
			}
		}
	})
}

func TestPackets(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		a, b := n.listen("a"), n.listen("b")
		sent := []byte("hello")
		if err := a.SendPacket(b.Addr(), sent); err != nil {
			t.Fatal(err)
		}
		p := <-b.Packets()
		if string(p.Data) != "hello" || p.From != a.Addr() || p.At.IsZero() {
			t.Errorf("got %+v", p)
		}
		if err := b.SendPacket(p.From, []byte("back")); err != nil {
			t.Fatal(err)
		}
		if p := <-a.Packets(); string(p.Data) != "back" {
			t.Errorf("got %+v", p)
		}
		if err := a.SendPacket(b.Addr(), make([]byte, maxPacket+1)); err == nil {
			t.Error("a packet over the limit was sent")
		}
	})
}

// A consumer that is behind loses packets and never blocks the sockets.
func TestPacketsAreDroppedForASlowConsumer(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		a := n.listen("a").(*endpoint)
		for range packetQueue + 10 {
			a.deliver(Packet{Data: []byte("x")})
		}
		if got := len(a.packets); got != packetQueue {
			t.Errorf("%d packets queued", got)
		}
	})
}

// A handshake for a call or for gossip that meets another cluster of the name tells both sides which. One for raft tells nobody: it may
// be refused between nodes that are about to be of one cluster; and a node without a cluster meets no foreign one.
func TestForeignClusterIsTold(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		met := make(chan string, 10)
		as := func(id string) []option {
			return []option{withClusterID(id), func(c *Config) { c.OnForeign = func(other string) { met <- id + " met " + other } }}
		}
		a, b, none := n.listen("a", as("x")...), n.listen("b", as("y")...), n.listen("none", as("")...)
		for _, kind := range []Kind{KindCall, KindGossip} {
			_, err := a.Dial(n.ctx(5*time.Second), kind, b.Addr(), "")
			wantRefused(t, err, RefusedClusterID)
			told := []string{<-met, <-met}
			slices.Sort(told)
			if !slices.Equal(told, []string{"x met y", "y met x"}) {
				t.Errorf("%v: %v", kind, told)
			}
		}
		_, err := a.Dial(n.ctx(5*time.Second), KindRaft, b.Addr(), "b")
		wantRefused(t, err, RefusedClusterID)
		_, err = a.Dial(n.ctx(5*time.Second), KindRaft, none.Addr(), "none")
		wantRefused(t, err, RefusedClusterID)
		n.pair(a, none, KindCall)
		if len(met) > 0 {
			t.Errorf("%s", <-met)
		}
	})
}
