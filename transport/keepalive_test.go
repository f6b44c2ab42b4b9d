package transport

import (
	"errors"
	"testing"
	"time"
)

func (c *Calls) connections() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.conns)
}

func TestOutstandingCallEndsWhenThePeerFallsSilent(t *testing.T) {
	inMemory(t, func(t *testing.T, n *network) {
		started, ended := make(chan struct{}, 1), make(chan error, 1)
		a, b := n.serve("a", nil), n.serve("b", untilDone(started, ended))
		go func() { <-started; n.mem.Isolate("b") }()
		start := time.Now()
		_, err := a.Call(n.ctx(time.Minute), b.Addr(), "b", 1, nil)
		wantUnknown(t, err, errSilent)
		if d := time.Since(start); d < deadAfter || d > deadAfter+pingAfter {
			t.Errorf("given up after %v", d)
		}
		if err := <-ended; err == nil {
			t.Error("the handler's ctx did not end")
		}
		if got := a.connections() + b.connections(); got != 0 {
			t.Errorf("%d connections left", got)
		}
	})
}

func TestSlowHandlerIsNotTakenForDead(t *testing.T) {
	inMemory(t, func(t *testing.T, n *network) {
		started, ended := make(chan struct{}, 1), make(chan error, 1)
		b := n.serve("b", untilDone(started, ended))
		ep := n.listen("a")
		a := NewCalls(ep, nil, nil, CallOptions{}) // without pushes only the call makes it ping
		defer a.Close()
		_, err := a.Call(n.ctx(time.Minute), b.Addr(), "b", 1, nil)
		if errors.Is(err, errSilent) {
			t.Error(err)
		}
		<-ended
	})
}

func TestIdleConnectionFindsOutThatThePeerDied(t *testing.T) {
	inMemory(t, func(t *testing.T, n *network) {
		a, b := n.serve("a", nil), n.serve("b", echo)
		if _, err := a.Call(n.ctx(time.Second), b.Addr(), "b", 1, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if a.connections() != 1 || b.connections() != 1 {
			t.Fatal("an idle connection was given up")
		}
		n.mem.Isolate("b")
		time.Sleep(deadAfter + pingAfter)
		if a.connections() != 0 || b.connections() != 0 {
			t.Error("a push registration with a dead peer is kept")
		}
		if b.Push("a", 1, nil) {
			t.Error("pushed to a dead peer")
		}
	})
}

// Callers that give up faster than the keepalive must not keep a dead connection alive by asking again and again.
func TestImpatientCallersFindOutToo(t *testing.T) {
	inMemory(t, func(t *testing.T, n *network) {
		b := n.serve("b", echo)
		a := NewCalls(n.listen("a"), nil, nil, CallOptions{})
		defer a.Close()
		call := func() error {
			_, err := a.Call(n.ctx(500*time.Millisecond), b.Addr(), "b", 1, nil)
			return err
		}
		if err := call(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		n.mem.Crash("b")
		start := time.Now()
		for a.connections() > 0 {
			wantUnknown(t, call(), nil)
			time.Sleep(time.Millisecond)
		}
		if d := time.Since(start); d > deadAfter+2*pingAfter {
			t.Errorf("dead connection kept for %v", d)
		}
	})
}

func TestWatch(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		what       string
		w          watch
		now, heard time.Duration
		ping, dead bool
		wait       time.Duration
	}{
		{"just heard", watch{}, 10 * s, 10 * s, false, false, s},
		{"a second of silence", watch{}, 10 * s, 9 * s, true, false, s},
		{"pinged already", watch{lastPing: 10 * s}, 10*s + s/2, 9 * s, false, false, s / 2},
		{"pinged a second ago", watch{lastPing: 10 * s}, 11 * s, 9 * s, true, false, s},
		{"almost dead", watch{lastPing: 10 * s}, 11*s + s/2, 9 * s, true, false, s / 2},
		{"dead", watch{lastPing: 11 * s}, 12 * s, 9 * s, false, true, 0},
		{"silent for long, of interest since now", watch{since: 60 * s, lastPing: 60 * s}, 60 * s, s, false, false, s},
	} {
		ping, dead := c.w.look(c.now, c.heard)
		if ping != c.ping || dead != c.dead || !dead && c.w.wait != c.wait {
			t.Errorf("%s: ping %v, dead %v, wait %v", c.what, ping, dead, c.w.wait)
		}
	}
}

// A call on an idle connection tells keepAlive, which may be about to look anyway: the call must not wait for it.
func TestCallOnIdleConnectionDoesNotWaitForKeepAlive(t *testing.T) {
	inMemory(t, func(t *testing.T, n *network) {
		a, b := n.listen("a"), n.listen("b")
		x, _ := n.pair(a, b, KindCall)
		c := newCallConn(&Calls{}, x, "")
		for range 3 {
			c.idle = true
			id, ok := c.enter(newPendingCall().(*pendingCall))
			if !ok || c.take(id) == nil {
				t.Fatal("not entered")
			}
		}
	})
}
