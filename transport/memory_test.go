package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// arrives tells how long it takes until the text can be read.
func arrives(t *testing.T, c net.Conn, text string) time.Duration {
	t.Helper()
	start := time.Now()
	buf := make([]byte, len(text))
	c.SetReadDeadline(start.Add(time.Hour))
	if _, err := io.ReadFull(c, buf); err != nil || string(buf) != text {
		t.Fatalf("read %q, %v; want %q", buf, err, text)
	}
	return time.Since(start)
}

func write(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// nothingArrives checks that a read of d gets no byte.
func nothingArrives(t *testing.T, c net.Conn, d time.Duration) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(d))
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d bytes, %v; want silence", n, err)
	}
	c.SetReadDeadline(time.Time{})
}

func packetArrives(e Endpoint, d time.Duration) bool {
	select {
	case <-e.Packets():
		return true
	case <-time.After(d):
		return false
	}
}

func TestMemoryCutHoldsStreamsOneWay(t *testing.T) {
	inMemory(t, func(t *testing.T, n *network) {
		a, b := n.listen("a"), n.listen("b")
		x, y := n.pair(a, b, KindCall)
		write(t, x, "before")
		n.mem.Cut("a", "b")
		if d := arrives(t, y, "before"); d != 0 {
			t.Errorf("what had arrived took %v", d)
		}
		write(t, x, "one ")
		write(t, x, "two")
		nothingArrives(t, y, time.Minute)
		write(t, y, "back")
		if d := arrives(t, x, "back"); d != 0 {
			t.Errorf("the other way took %v", d)
		}
		x.Close() // the end is held too
		n.mem.Heal("a", "b")
		if d := arrives(t, y, "one two"); d != 0 {
			t.Errorf("after the heal it took %v", d)
		}
		if _, err := y.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("end: %v", err)
		}
	})
}

func TestMemoryCutHoldsDialsAndLosesPackets(t *testing.T) {
	for _, c := range [][2]string{{"a", "b"}, {"b", "a"}, {"*", "b"}, {"b", "*"}, {"*", "*"}} {
		inMemory(t, func(t *testing.T, n *network) {
			a, b := n.listen("a"), n.listen("b")
			n.mem.Cut(c[0], c[1])
			if _, err := a.Dial(n.ctx(2*time.Second), KindCall, b.Addr(), ""); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v: dial: %v", c, err)
			}
			a.SendPacket(b.Addr(), []byte("x"))
			if cut := c != [2]string{"b", "a"} && c != [2]string{"b", "*"}; packetArrives(b, time.Second) == cut {
				t.Errorf("%v: cut is %v, and so is arrival", c, cut)
			}
			go func() { time.Sleep(time.Second); n.mem.HealAll() }()
			start := time.Now()
			n.pair(a, b, KindCall)
			if d := time.Since(start); d != time.Second {
				t.Errorf("%v: dial over the heal took %v", c, d)
			}
			a.SendPacket(b.Addr(), []byte("x"))
			if !packetArrives(b, time.Second) {
				t.Errorf("%v: packet lost after the heal", c)
			}
		})
	}
}

func TestMemoryIsolateSparesTheRest(t *testing.T) {
	inMemory(t, func(t *testing.T, n *network) {
		a, b, c := n.listen("a"), n.listen("b"), n.listen("c")
		n.mem.Isolate("a")
		n.pair(b, c, KindCall)
		n.pair(a, a, KindCall)
		if _, err := c.Dial(n.ctx(time.Second), KindCall, a.Addr(), ""); err == nil {
			t.Error("reached the isolated host")
		}
		n.mem.Heal("a", "b")
		n.mem.Heal("b", "a")
		n.pair(a, b, KindCall)
		if _, err := a.Dial(n.ctx(time.Second), KindCall, c.Addr(), ""); err == nil {
			t.Error("healed more than was asked")
		}
	})
}

func TestMemoryDelayKeepsStreamsInOrder(t *testing.T) {
	inMemory(t, func(t *testing.T, n *network) {
		a, b := n.listen("a"), n.listen("b")
		x, y := n.pair(a, b, KindCall)
		n.mem.SetDelay("a", "*", 100*time.Millisecond, 50*time.Millisecond)
		all := ""
		for i := range 100 {
			write(t, x, fmt.Sprint(i))
			all += fmt.Sprint(i)
		}
		if d := arrives(t, y, all); d < 100*time.Millisecond || d > 150*time.Millisecond {
			t.Errorf("took %v", d)
		}
		write(t, y, "back")
		if d := arrives(t, x, "back"); d != 0 {
			t.Errorf("the other way took %v", d)
		}
		start := time.Now()
		n.pair(a, b, KindCall)
		if d := time.Since(start); d < 200*time.Millisecond || d > 400*time.Millisecond {
			t.Errorf("dial with preamble took %v", d)
		}
		a.SendPacket(b.Addr(), []byte("x"))
		if packetArrives(b, 99*time.Millisecond) || !packetArrives(b, 60*time.Millisecond) {
			t.Error("packet not delayed")
		}
	})
}

func TestMemoryLossIsOfPacketsOnlyAndSeeded(t *testing.T) {
	count := func(seed uint64) (got int) {
		synctest.Test(t, func(t *testing.T) {
			m := NewMemory(seed)
			n := &network{t: t, mem: m, host: m.Host, addr: func(s string) string { return s + ":0" }}
			a, b := n.listen("a"), n.listen("b")
			m.SetLoss("a", "b", 0.3)
			for range 1000 {
				a.SendPacket(b.Addr(), []byte("x"))
			}
			got = len(b.Packets())
			x, y := n.pair(a, b, KindCall)
			wantCarries(t, x, y, "streams lose nothing")
			m.SetLoss("*", "*", 0)
			a.SendPacket(b.Addr(), []byte("x"))
			if len(b.Packets()) != got+1 {
				t.Error("lost without loss")
			}
		})
		return got
	}
	first, second := count(1), count(1)
	if first < 600 || first > 800 || first != second {
		t.Errorf("%d and %d of 1000 arrived, want about 700 and both the same", first, second)
	}
}

func TestMemoryPauseHoldsEverything(t *testing.T) {
	inMemory(t, func(t *testing.T, n *network) {
		a, b := n.listen("a"), n.listen("b")
		x, y := n.pair(a, b, KindCall)
		write(t, x, "arrived")
		n.mem.Pause("b")
		nothingArrives(t, y, time.Second) // a stopped process reads nothing
		write(t, x, " later")
		write(t, y, "from the paused")
		nothingArrives(t, x, time.Second)
		a.SendPacket(b.Addr(), []byte("x"))
		b.SendPacket(a.Addr(), []byte("x"))
		if packetArrives(a, time.Second) || packetArrives(b, time.Second) {
			t.Error("a packet passed")
		}
		n.mem.Resume("b")
		arrives(t, y, "arrived later")
		arrives(t, x, "from the paused")
		if !packetArrives(a, time.Second) || !packetArrives(b, time.Second) {
			t.Error("a packet was lost")
		}
	})
}

func TestMemoryCrash(t *testing.T) {
	inMemory(t, func(t *testing.T, n *network) {
		a, b := n.listen("a"), n.listen("b")
		x, y := n.pair(a, b, KindCall)
		n.mem.SetDelay("*", "*", time.Second, 0)
		write(t, y, "lost")
		n.mem.Crash("b")
		if _, err := y.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("local side: %v", err)
		}
		if _, err := b.Accept(KindCall); !errors.Is(err, net.ErrClosed) {
			t.Errorf("accept: %v", err)
		}
		write(t, x, "to nobody")
		nothingArrives(t, x, deadHostTimeout-time.Second)
		if _, err := a.Dial(n.ctx(time.Second), KindCall, b.Addr(), ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dial of a dead host: %v", err)
		}
		if _, err := x.Read(make([]byte, 1)); !errors.Is(err, syscall.ETIMEDOUT) {
			t.Errorf("after a while: %v", err)
		}
		n.mem.SetDelay("*", "*", 0, 0)
		again := n.listen("b", withAddr(b.Addr()))
		x2, _ := n.pair(a, again, KindCall)
		n.mem.Crash("b")
		n.listen("b", withAddr(b.Addr()))
		if _, err := x2.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("write after the host came back: %v", err)
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestMemoryDropConns(t *testing.T) {
	inMemory(t, func(t *testing.T, n *network) {
		a, b, c := n.listen("a"), n.listen("b"), n.listen("c")
		x, y := n.pair(a, b, KindCall)
		p, q := n.pair(a, c, KindCall)
		write(t, x, "arrived, but a reset loses it")
		n.mem.DropConns("b", "a")
		for _, end := range []Conn{x, y} {
			if _, err := end.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("read: %v", err)
			}
		}
		wantCarries(t, p, q, "others live")
		n.pair(a, b, KindCall)
	})
}

func TestMemoryHoldReplies(t *testing.T) {
	inMemory(t, func(t *testing.T, n *network) {
		a, b := n.serve("a", echo), n.serve("b", echo)
		call := func(from, to service, d time.Duration) error {
			_, err := from.Call(n.ctx(d), to.Addr(), "", 1, nil)
			return err
		}
		if err := errors.Join(call(a, b, time.Second), call(b, a, time.Second)); err != nil {
			t.Fatal(err)
		}
		n.mem.HoldReplies("b", true)
		wantUnknown(t, call(a, b, time.Second), context.DeadlineExceeded)
		if err := call(b, a, time.Second); err != nil {
			t.Errorf("calls that leave the host: %v", err)
		}
		go func() { time.Sleep(time.Second); n.mem.HoldReplies("b", false) }()
		if err := call(a, b, 5*time.Second); err != nil {
			t.Errorf("late reply: %v", err)
		}
	})
}

func TestMemoryBufferIsBounded(t *testing.T) {
	inMemory(t, func(t *testing.T, n *network) {
		a, b := n.listen("a"), n.listen("b")
		x, y := n.pair(a, b, KindCall)
		x.SetWriteDeadline(time.Now().Add(time.Second))
		wrote, err := x.Write(make([]byte, 2*flowBuffer))
		if wrote != flowBuffer || !errors.Is(err, os.ErrDeadlineExceeded) || !isTimeout(err) {
			t.Fatalf("wrote %d, %v", wrote, err)
		}
		x.SetWriteDeadline(time.Time{})
		go x.Write(make([]byte, flowBuffer))
		if _, err := io.ReadFull(y, make([]byte, 2*flowBuffer)); err != nil {
			t.Error(err)
		}
		x.Write(make([]byte, flowBuffer))
		blocked := make(chan error, 1)
		go func() {
			_, err := x.Write(make([]byte, 1))
			blocked <- err
		}()
		synctest.Wait()
		y.Close()
		if err := <-blocked; !errors.Is(err, syscall.EPIPE) {
			t.Errorf("write to a closed peer: %v", err)
		}
	})
}

func TestMemoryAddresses(t *testing.T) {
	inMemory(t, func(t *testing.T, n *network) {
		a := n.listen("a")
		if _, err := a.Dial(n.ctx(time.Second), KindCall, "nowhere:1", ""); !errors.Is(err, errNoSuchHost) {
			t.Errorf("unknown host: %v", err)
		}
		if _, err := a.Dial(n.ctx(time.Second), KindCall, "a:1", ""); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("nobody listens: %v", err)
		}
		if _, err := n.tryListen("a", withAddr("b:1")); !errors.Is(err, syscall.EADDRNOTAVAIL) {
			t.Errorf("other host's address: %v", err)
		}
		if e := n.listen("b", withAddr(":7")); e.Addr() != "b:7" || e.Advertise() != "b:7" {
			t.Errorf("got %s, %s", e.Addr(), e.Advertise())
		}
	})
}

func TestRulesTheLatestDecides(t *testing.T) {
	var r rules[int]
	r.set("a", "b", 1)
	r.set("*", "b", 2)
	r.set("c", "b", 3)
	for pair, want := range map[[2]string]int{{"a", "b"}: 2, {"c", "b"}: 3, {"b", "b"}: 0, {"b", "a"}: 0} {
		if got := r.get(pair[0], pair[1]); got != want {
			t.Errorf("%v: %d, want %d", pair, got, want)
		}
	}
	if r.set("*", "*", 9); len(r) != 1 {
		t.Errorf("%d rules kept, want the one that covers all", len(r))
	}
}
