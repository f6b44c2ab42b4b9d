package quorumlock

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// nodeAlone is a cluster of one, for tests of what concerns a single process.
func nodeAlone(t *testing.T) *Node {
	t.Helper()
	n, err := Open(t.Context(), Config{Cluster: "signal", Name: t.Name(), Expect: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := n.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return n
}

// closedNow fails unless Close has done everything.
func closedNow(t *testing.T, n *Node) {
	t.Helper()
	select {
	case <-n.closed:
	default:
		t.Error("the node is not closed")
	}
}

func TestBoundOfSignalMustBePositive(t *testing.T) {
	n := nodeAlone(t)
	for name, end := range map[string]func(context.Context, time.Duration, ...os.Signal) error{
		"leave": n.LeaveOnSignal, "close": n.CloseOnSignal,
	} {
		for _, bound := range []time.Duration{0, -time.Second} {
			var field *FieldError
			if err := end(t.Context(), bound); !errors.As(err, &field) || field.Field != "bound" {
				t.Errorf("%s within %v: %v", name, bound, err)
			}
		}
	}
	if n.closing.Load() {
		t.Error("the node was closed all the same")
	}
}

func TestEndOfContextEndsTheNode(t *testing.T) {
	for name, end := range map[string]func(*Node, context.Context) error{
		"leave": func(n *Node, ctx context.Context) error { return n.LeaveOnSignal(ctx, 20*time.Second) },
		"close": func(n *Node, ctx context.Context) error { return n.CloseOnSignal(ctx, 20*time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			n := nodeAlone(t)
			hold, err := NewMutex(n, "k").Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if err := end(n, ended); err != nil {
				t.Error(err)
			}
			closedNow(t, n)
			if err := hold.Err(); !errors.Is(err, ErrClosed) {
				t.Errorf("the hold says %v", err)
			}
		})
	}
}

// A service whose node fails must not wait for a signal that nobody sends.
func TestFailedNodeEndsTheWait(t *testing.T) {
	n := nodeAlone(t)
	n.fail(errors.New("the disk is gone"))
	if err := n.LeaveOnSignal(t.Context(), 20*time.Second); !errors.Is(err, ErrFailed) {
		t.Errorf("ended with %v", err)
	}
	closedNow(t, n)
}

// A node that somebody else closes ends the wait, too, and is no failure.
func TestClosedNodeEndsTheWait(t *testing.T) {
	n := nodeAlone(t)
	ended := make(chan error, 1)
	go func() { ended <- n.CloseOnSignal(t.Context(), 20*time.Second) }()
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}

// TestEndWithin: how long the end may take, and what it is told of that.
func TestEndWithin(t *testing.T) {
	stillMember := errors.New("still a member")
	type end func(ctx context.Context, release <-chan struct{}) error
	removal := func(ctx context.Context, _ <-chan struct{}) error { <-ctx.Done(); return stillMember }
	callback := func(_ context.Context, release <-chan struct{}) error { <-release; return nil }
	for name, c := range map[string]struct {
		bound, signal time.Duration // the latter is when one comes, 0 for never
		end           end
		want          error
		took          time.Duration
	}{
		"at once":                      {10 * time.Second, 0, func(context.Context, <-chan struct{}) error { return nil }, nil, 0},
		"its own error":                {10 * time.Second, 0, func(context.Context, <-chan struct{}) error { return stillMember }, stillMember, 0},
		"a removal without a quorum":   {20 * time.Second, 0, removal, stillMember, 17 * time.Second},
		"the same within little":       {4 * time.Second, 0, removal, stillMember, 3 * time.Second},
		"a callback that hangs":        {20 * time.Second, 0, callback, context.DeadlineExceeded, 20 * time.Second},
		"a callback cut short":         {20 * time.Second, 2 * time.Second, callback, context.Canceled, 2 * time.Second},
		"a removal cut short":          {20 * time.Second, 2 * time.Second, removal, context.Canceled, 2 * time.Second},
		"an echo of what began it":     {20 * time.Second, 100 * time.Millisecond, removal, stillMember, 17 * time.Second},
		"a signal that comes too late": {20 * time.Second, 18 * time.Second, removal, stillMember, 17 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				defer close(release)
				caught := make(chan os.Signal, 1)
				if c.signal > 0 {
					time.AfterFunc(c.signal, func() { caught <- os.Interrupt })
				}
				begun := time.Now()
				ended, cancel := context.WithCancel(t.Context())
				cancel() // what began the end does not bound it
				err := endWithin(ended, "leave on signal", func(ctx context.Context) error { return c.end(ctx, release) }, c.bound, caught)
				if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
					t.Errorf("ended with %v, not %v", err, c.want)
				}
				if c.want == context.Canceled || c.want == context.DeadlineExceeded {
					if wait := (*WaitError)(nil); !errors.As(err, &wait) {
						t.Errorf("%T is no *WaitError", err)
					}
				}
				if took := time.Since(begun); took != c.took {
					t.Errorf("took %v, not %v", took, c.took)
				}
			})
		})
	}
}
