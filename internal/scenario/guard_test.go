package scenario_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// under gives a context that shows a fence the grant of lock "k" with a token, as the contexts of its hold do; unlike those it lives on when the hold is lost.
func under(token quorumlock.Token) context.Context {
	return fence.NewContext(context.Background(), fence.Grant{Cluster: "test", Lock: "k", Token: token})
}

// claim makes a resource refuse all tokens lower than this one.
func claim(g *quorumlock.Guard, resource string, token quorumlock.Token) error {
	return fence.Claim(under(token), g, resource)
}

// journal is a resource that notes the token of each write. Its writers are kept apart by who calls it, if anybody does.
type journal struct{ written []quorumlock.Token }

func (l *journal) write(token quorumlock.Token) func(context.Context) error {
	return func(context.Context) error {
		l.written = append(l.written, token)
		return nil
	}
}

func (l *journal) is(t *testing.T, want ...quorumlock.Token) {
	t.Helper()
	if len(l.written) != len(want) {
		t.Fatalf("written: %v, want %v", l.written, want)
	}
	for i := range want {
		if l.written[i] != want[i] {
			t.Fatalf("written: %v, want %v", l.written, want)
		}
	}
}

// stopHolder takes a lock on instance a, stops that instance until another one has the lock, and lets it go on.
func stopHolder(t *testing.T, c *quorumlocktest.Cluster, a, b int) (stopped, next *quorumlock.Hold) {
	t.Helper()
	stopped = lockIn(t, c.Node(a), "k", time.Second)
	c.Pause(a)
	next = lockIn(t, c.Node(b), "k", deadBound)
	follows(t, stopped, next)
	c.Resume(a)
	return stopped, next
}

// S35: a holder is stopped just before its write, with another one queued in its driver; its lease ends and a successor writes.
// On going on it writes without a look at its hold: nothing of that reaches the resource. A successor that has written nothing
// yet, but has claimed the resource, is as safe.
func TestStoppedHolderWritesNothing(t *testing.T) {
	for name, begin := range map[string]func(g *quorumlock.Guard, l *journal, token quorumlock.Token) error{
		"successor wrote": func(g *quorumlock.Guard, l *journal, token quorumlock.Token) error {
			return g.Do(under(token), "r", l.write(token))
		},
		"successor claimed": func(g *quorumlock.Guard, _ *journal, token quorumlock.Token) error { return claim(g, "r", token) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3)
				_, f := roles(c)
				var guard quorumlock.Guard
				var l journal
				a, b := stopHolder(t, c, f[0], f[1])
				if err := begin(&guard, &l, b.Token()); err != nil {
					t.Fatal(err)
				}
				before := len(l.written)
				for _, which := range []string{"interrupted", "queued"} {
					var stale *quorumlock.StaleTokenError
					err := guard.Do(under(a.Token()), "r", l.write(a.Token()))
					if !errors.As(err, &stale) || stale.Token != a.Token() || stale.Highest != b.Token() {
						t.Errorf("the %s write: %v", which, err)
					}
				}
				if err := a.Err(); !errors.Is(err, quorumlock.ErrLost) {
					t.Errorf("the stopped holder is told %v", err)
				}
				if err := guard.Do(under(b.Token()), "r", l.write(b.Token())); err != nil {
					t.Errorf("the successor: %v", err)
				}
				if len(l.written) != before+1 {
					t.Errorf("written: %v", l.written)
				}
				unlock(t, b)
				c.CheckState()
			})
		})
	}
}

// S38: the holder is stopped in the middle of its write, past the check. Judging and writing are one step, so the successor's
// write waits for it and comes last; what the old holder wants to write after that is refused.
func TestWriteThatWasStoppedInTheMiddleComesFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		_, f := roles(c)
		a := lockIn(t, c.Node(f[0]), "k", time.Second)
		var guard quorumlock.Guard
		var l journal
		inside, goOn := make(chan struct{}), make(chan struct{})
		wrote := make(chan error, 2)
		go func() {
			wrote <- guard.Do(under(a.Token()), "r", func(ctx context.Context) error {
				close(inside)
				<-goOn
				return l.write(a.Token())(ctx)
			})
		}()
		<-inside
		c.Pause(f[0])
		b := lockIn(t, c.Node(f[1]), "k", deadBound)
		c.Resume(f[0])
		if err := a.Err(); !errors.Is(err, quorumlock.ErrLost) {
			t.Fatalf("the holder in the middle of its write: %v; the fault did not bite", err)
		}
		go func() { wrote <- guard.Do(under(b.Token()), "r", l.write(b.Token())) }()
		for range 1000 { // fake time stands still while the successor waits in the guard
			runtime.Gosched()
		}
		if len(wrote) > 0 {
			t.Error("the successor has written beside the old holder")
		}
		close(goOn)
		for range 2 {
			if err := <-wrote; err != nil {
				t.Error(err)
			}
		}
		if err := guard.Do(under(a.Token()), "r", l.write(a.Token())); !errors.Is(err, quorumlock.ErrStaleToken) {
			t.Errorf("the next write of the old holder: %v", err)
		}
		l.is(t, a.Token(), b.Token())
		unlock(t, b)
		c.CheckState()
	})
}

// The negative control of S38: with the check in one step and the write in another, the very same schedule ends with the old
// holder's write over the successor's.
func TestCheckApartFromTheWriteLosesAnUpdate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		_, f := roles(c)
		a := lockIn(t, c.Node(f[0]), "k", time.Second)
		var guard quorumlock.Guard
		var l journal
		apart := func(token quorumlock.Token, stopped func()) {
			t.Helper()
			if err := claim(&guard, "r", token); err != nil {
				t.Error(err)
			}
			stopped()
			_ = l.write(token)(context.Background())
		}
		var b *quorumlock.Hold
		apart(a.Token(), func() {
			c.Pause(f[0])
			b = lockIn(t, c.Node(f[1]), "k", deadBound)
			apart(b.Token(), func() {})
			c.Resume(f[0])
		})
		l.is(t, b.Token(), a.Token())
		unlock(t, b)
		c.CheckState()
	})
}
