package transport

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// service is a Calls with its endpoint.
type service struct {
	*Calls
	Endpoint
	pushes chan string
}

func (s service) Close() error { return errors.Join(s.Calls.Close(), s.Endpoint.Close()) }

func (n *network) serve(host string, h Handler, opts ...option) service {
	n.t.Helper()
	s := service{Endpoint: n.listen(host, opts...), pushes: make(chan string, 1000)}
	s.Calls = NewCalls(s.Endpoint, h, func(from Peer, m Method, payload []byte) {
		s.pushes <- fmt.Sprintf("%s %d %s", from.ServerID, m, payload)
	}, CallOptions{})
	n.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			n.t.Error(err)
		}
	})
	return s
}

func echo(_ context.Context, from Peer, m Method, payload []byte) ([]byte, error) {
	return fmt.Appendf(nil, "%s %d %s", from.ServerID, m, payload), nil
}

// untilDone is a handler that waits for its ctx and tells about it.
func untilDone(started chan<- struct{}, ended chan<- error) Handler {
	return func(ctx context.Context, _ Peer, _ Method, _ []byte) ([]byte, error) {
		started <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	}
}

func TestCallRoundTrip(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		a, b := n.serve("a", echo), n.serve("b", echo)
		for _, target := range []string{"b", ""} {
			got, err := a.Call(n.ctx(5*time.Second), b.Addr(), target, 7, []byte("hi"))
			if err != nil || string(got) != "a 7 hi" {
				t.Errorf("target %q: %q, %v", target, got, err)
			}
		}
		if got, err := a.Call(n.ctx(5*time.Second), a.Addr(), "a", 1, nil); err != nil || string(got) != "a 1 " {
			t.Errorf("call to itself: %q, %v", got, err)
		}
		big := bytes.Repeat([]byte("x"), outboxLimit+1) // more than the outbox holds otherwise
		if got, err := a.Call(n.ctx(10*time.Second), b.Addr(), "b", 1, big); err != nil || len(got) != len(big)+4 {
			t.Errorf("large payload: %d bytes, %v", len(got), err)
		}
	})
}

func TestManyCallersShareAConnection(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		a, b := n.serve("a", nil), n.serve("b", echo)
		ctx := n.ctx(20 * time.Second)
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				for j := range 20 {
					text := fmt.Sprintf("%d.%d", i, j)
					got, err := a.Call(ctx, b.Addr(), "b", 1, []byte(text))
					if err != nil || string(got) != "a 1 "+text {
						t.Errorf("%s: %q, %v", text, got, err)
					}
				}
			})
		}
		all.Wait()
		if got := len(b.conns); got != 1 {
			t.Errorf("%d connections", got)
		}
	})
}

func TestRepliesOvertakeEachOther(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		release := make(chan struct{})
		slow := make(chan struct{})
		b := n.serve("b", func(_ context.Context, _ Peer, m Method, _ []byte) ([]byte, error) {
			if m == 1 {
				close(slow)
				<-release
			}
			return []byte{byte(m)}, nil
		})
		a := n.serve("a", nil)
		first := make(chan error, 1)
		go func() {
			_, err := a.Call(n.ctx(5*time.Second), b.Addr(), "b", 1, nil)
			first <- err
		}()
		<-slow
		if _, err := a.Call(n.ctx(5*time.Second), b.Addr(), "b", 2, nil); err != nil {
			t.Error(err)
		}
		close(release)
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}

func TestRemoteErrors(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		b := n.serve("b", func(_ context.Context, _ Peer, m Method, _ []byte) ([]byte, error) {
			switch m {
			case 1:
				return nil, errors.New("plain")
			case 2:
				return nil, fmt.Errorf("wrapped: %w", &RemoteError{Code: 42, Text: "coded"})
			}
			return make([]byte, MaxPayload+1), nil
		})
		a := n.serve("a", nil)
		for m, want := range map[Method]RemoteError{1: {0, "plain"}, 2: {42, "coded"}, 3: {0, "reply: payload too large"}} {
			_, err := a.Call(n.ctx(5*time.Second), b.Addr(), "b", m, nil)
			var remote *RemoteError
			if !errors.As(err, &remote) || *remote != want {
				t.Errorf("method %d: %v, want %v", m, err, want)
			}
		}
		_, err := b.Call(n.ctx(5*time.Second), a.Addr(), "a", 1, nil)
		if remote := (*RemoteError)(nil); !errors.As(err, &remote) {
			t.Errorf("call to a side without handler: %v", err)
		}
	})
}

func wantNotSent(t *testing.T, err, cause error) {
	t.Helper()
	var d *DialError
	if !errors.As(err, &d) || cause != nil && !errors.Is(err, cause) {
		t.Errorf("got %v, want a DialError with %v", err, cause)
	}
}

func wantUnknown(t *testing.T, err, cause error) {
	t.Helper()
	var u *UnknownError
	if !errors.As(err, &u) || cause != nil && !errors.Is(err, cause) {
		t.Errorf("got %v, want an UnknownError with %v", err, cause)
	}
}

func TestCallsThatWereNotSent(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		a, b := n.serve("a", nil), n.serve("b", echo)
		gone := n.listen("gone")
		gone.Close()
		cancelled, cancel := context.WithCancel(context.Background())
		cancel()
		quit := make(chan struct{})
		defer close(quit)
		mute := n.acceptor("mute", silent(quit))

		_, err := a.Call(n.ctx(5*time.Second), gone.Addr(), "", 1, nil)
		wantNotSent(t, err, nil)
		_, err = a.Call(n.ctx(5*time.Second), b.Addr(), "x", 1, nil)
		wantNotSent(t, err, &RefusedError{Code: RefusedTarget})
		_, err = a.Call(cancelled, b.Addr(), "b", 1, nil)
		wantNotSent(t, err, context.Canceled)
		_, err = a.Call(n.ctx(n.patience), mute, "", 1, nil)
		wantNotSent(t, err, context.DeadlineExceeded)
		_, err = a.Call(n.ctx(5*time.Second), b.Addr(), "b", 1, make([]byte, MaxPayload+1))
		wantNotSent(t, err, ErrTooLarge)
		a.Close()
		_, err = a.Call(n.ctx(5*time.Second), b.Addr(), "b", 1, nil)
		wantNotSent(t, err, net.ErrClosed)
	})
}

func TestDeadlineTravels(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		left := make(chan time.Duration, 1)
		b := n.serve("b", func(ctx context.Context, _ Peer, _ Method, _ []byte) ([]byte, error) {
			deadline, ok := ctx.Deadline()
			if !ok {
				deadline = time.Now()
			}
			left <- time.Until(deadline)
			return nil, nil
		})
		a := n.serve("a", nil)
		if _, err := a.Call(n.ctx(time.Minute), b.Addr(), "b", 1, nil); err != nil {
			t.Fatal(err)
		}
		if d := <-left; d > time.Minute || d < 50*time.Second {
			t.Errorf("the handler had %v left", d)
		}
		if _, err := a.Call(context.Background(), b.Addr(), "b", 1, nil); err != nil {
			t.Fatal(err)
		}
		if d := <-left; d > 0 {
			t.Errorf("without a deadline the handler had %v", d)
		}
	})
}

func TestCancelledCallReturnsAtOnceAndItsReplyIsDropped(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		started, release := make(chan struct{}, 1), make(chan struct{})
		b := n.serve("b", func(ctx context.Context, p Peer, m Method, payload []byte) ([]byte, error) {
			if m == 1 {
				started <- struct{}{}
				<-release
			}
			return echo(ctx, p, m, payload)
		})
		a := n.serve("a", nil)
		ctx, cancel := context.WithCancel(context.Background())
		result := make(chan error, 1)
		go func() {
			_, err := a.Call(ctx, b.Addr(), "b", 1, []byte("late"))
			result <- err
		}()
		<-started
		cancel()
		wantUnknown(t, <-result, context.Canceled)
		close(release) // now the late reply comes; later calls must not take it for theirs
		for i := range 20 {
			text := fmt.Sprint(i)
			if got, err := a.Call(n.ctx(5*time.Second), b.Addr(), "b", 2, []byte(text)); err != nil || string(got) != "a 2 "+text {
				t.Fatalf("%q, %v", got, err)
			}
		}
	})
}

func TestHandlerCtxEndsWithTheConnection(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		started, ended := make(chan struct{}, 1), make(chan error, 1)
		b := n.serve("b", untilDone(started, ended))
		a := n.serve("a", nil)
		result := make(chan error, 1)
		go func() {
			_, err := a.Call(context.Background(), b.Addr(), "b", 1, nil)
			result <- err
		}()
		<-started
		a.Close()
		wantUnknown(t, <-result, net.ErrClosed)
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("handler: %v", err)
		}
	})
}

func TestHandlerCtxEndsAtTheCallersDeadline(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		started, ended := make(chan struct{}, 1), make(chan error, 1)
		b := n.serve("b", untilDone(started, ended))
		a := n.serve("a", nil)
		_, err := a.Call(n.ctx(n.patience), b.Addr(), "b", 1, nil)
		var remote *RemoteError // both ends know the deadline, either may be first
		if !errors.As(err, &remote) {
			wantUnknown(t, err, context.DeadlineExceeded)
		}
		if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("handler: %v", err)
		}
	})
}

func TestServerThatGoesLeavesTheOutcomeUnknownAndIsDialledAgain(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		started, ended := make(chan struct{}, 1), make(chan error, 1)
		b := n.serve("b", untilDone(started, ended))
		a := n.serve("a", nil)
		addr := b.Addr()
		result := make(chan error, 1)
		go func() {
			_, err := a.Call(context.Background(), addr, "b", 1, nil)
			result <- err
		}()
		<-started
		b.Close()
		wantUnknown(t, <-result, nil)
		n.serve("b", echo, withAddr(addr))
		if got, err := a.Call(n.ctx(5*time.Second), addr, "b", 2, nil); err != nil || string(got) != "a 2 " {
			t.Errorf("after the restart: %q, %v", got, err)
		}
	})
}

func TestDeadPeerDoesNotHoldOthers(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		quit := make(chan struct{})
		defer close(quit)
		reached := make(chan struct{}, 1)
		mute := n.acceptor("mute", func(net.Conn) { reached <- struct{}{}; <-quit })
		a, b := n.serve("a", nil), n.serve("b", echo)
		ctx, cancel := context.WithCancel(context.Background())
		var stuck sync.WaitGroup
		for range 10 {
			stuck.Go(func() {
				_, err := a.Call(ctx, mute, "", 1, nil)
				wantNotSent(t, err, nil)
			})
		}
		<-reached
		if _, err := a.Call(n.ctx(2*time.Second), b.Addr(), "b", 1, nil); err != nil {
			t.Error(err)
		}
		cancel()
		stuck.Wait()
	})
}

func TestPush(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		a, b := n.serve("a", nil), n.serve("b", echo)
		if b.Push("a", 1, nil) {
			t.Error("pushed without a connection")
		}
		if _, err := a.Call(n.ctx(5*time.Second), b.Addr(), "b", 1, nil); err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			if !b.Push("a", Method(i), []byte("x")) {
				t.Fatal("not pushed")
			}
		}
		for i := range 100 {
			if got, want := <-a.pushes, fmt.Sprintf("b %d x", i); got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
		}
		if a.Push("b", 1, nil) {
			t.Error("pushed on a connection this side dialled")
		}
		if b.Push("a", 1, make([]byte, MaxPayload+1)) {
			t.Error("pushed too much")
		}
		a.Close()
		soon(t, "push to a closed peer is refused", func() bool { return !b.Push("a", 1, nil) })
	})
}

// A server may have two connections here (it joined by address, then called by id); either one will do for a push.
func TestPushFallsBackToAnOlderConnection(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		b, a := n.serve("b", echo), n.listen("a")
		older := must[Conn](t)(a.Dial(n.ctx(5*time.Second), KindCall, b.Addr(), "b"))
		defer older.Close()
		soon(t, "b has the older connection", func() bool { return b.connections() == 1 })
		newer := must[Conn](t)(a.Dial(n.ctx(5*time.Second), KindCall, b.Addr(), "b"))
		soon(t, "b has both connections", func() bool { return b.connections() == 2 })
		newer.Close()
		soon(t, "b has lost the newer one", func() bool { return b.connections() == 1 })
		if !b.Push("a", 7, []byte("x")) {
			t.Fatal("not pushed")
		}
		f := must[frame](t)(readFrame(bufio.NewReader(older)))
		if f.kind != framePush || f.method != 7 {
			t.Errorf("got %+v", f)
		}
	})
}

// A peer that does not read fills the queue; Push must say so and not wait.
func TestPushToASlowPeerIsRefused(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		b, a := n.serve("b", echo), n.listen("a")
		c := must[Conn](t)(a.Dial(n.ctx(5*time.Second), KindCall, b.Addr(), "b"))
		defer c.Close()
		soon(t, "b knows a", func() bool { return b.Push("a", 1, nil) })
		for i := 0; b.Push("a", 1, make([]byte, 64<<10)); i++ {
			if i > 1000 {
				t.Fatal("the queue has no bound")
			}
		}
	})
}

func TestServedCallsAreBounded(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		release := make(chan struct{})
		var serving, most atomic.Int64
		b := n.serve("b", func(context.Context, Peer, Method, []byte) ([]byte, error) {
			now := serving.Add(1)
			for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
			}
			<-release
			serving.Add(-1)
			return nil, nil
		})
		a := n.serve("a", nil)
		ctx := n.ctx(30 * time.Second)
		var all sync.WaitGroup
		for range maxServing + 100 {
			all.Go(func() {
				if _, err := a.Call(ctx, b.Addr(), "b", 1, nil); err != nil {
					t.Error(err)
				}
			})
		}
		soon(t, "all places are taken", func() bool { return serving.Load() == maxServing })
		if n.mem != nil {
			time.Sleep(10 * time.Second) // the reader waits, but neither side takes the other for dead
		}
		close(release)
		all.Wait()
		if got := most.Load(); got != maxServing {
			t.Errorf("%d calls served at once, want %d", got, maxServing)
		}
	})
}

func TestProtocolViolationsEndTheConnection(t *testing.T) {
	for what, junk := range map[string][]byte{
		"huge length":  {0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"short length": make([]byte, frameHeader),
		"unknown kind": appendFrame(nil, &frame{kind: 99}),
		"reply":        appendFrame(nil, &frame{kind: frameReply, id: 1}),
		"push":         appendFrame(nil, &frame{kind: framePush}),
		"fat ping":     appendFrame(nil, &frame{kind: framePing, payload: []byte("x")}),
	} {
		t.Run(what, func(t *testing.T) {
			eachLab(t, func(t *testing.T, n *network) {
				b, a := n.serve("b", echo), n.listen("a")
				c := must[Conn](t)(a.Dial(n.ctx(5*time.Second), KindCall, b.Addr(), "b"))
				defer c.Close()
				must[int](t)(c.Write(junk))
				wantBroken(t, c)
			})
		})
	}
}

func TestCallsCloseLeavesTheEndpointUsable(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		a, b := n.serve("a", nil), n.serve("b", echo)
		b.Calls.Close()
		b.Calls.Close()
		n.pair(a, b, KindGossip)
		again := NewCalls(b.Endpoint, echo, nil, CallOptions{})
		defer again.Close()
		if _, err := a.Call(n.ctx(5*time.Second), b.Addr(), "b", 1, nil); err != nil {
			t.Error(err)
		}
	})
}

func TestCloseReportsAHandlerThatDoesNotEnd(t *testing.T) {
	inMemory(t, func(t *testing.T, n *network) {
		started, release := make(chan struct{}), make(chan struct{})
		ep := n.listen("b")
		b := NewCalls(ep, func(context.Context, Peer, Method, []byte) ([]byte, error) {
			close(started)
			<-release
			return nil, nil
		}, nil, CallOptions{})
		a := n.serve("a", nil)
		go a.Call(n.ctx(time.Second), ep.Addr(), "b", 1, nil)
		<-started
		if err := b.Close(); err == nil {
			t.Error("Close said nothing")
		}
		close(release)
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
}
