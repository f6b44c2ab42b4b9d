package httpfence_test

import (
	"context"
	"errors"
	"testing"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/fence"
)

// openNode starts a cluster of one node.
func openNode(t *testing.T) *quorumlock.Node {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	node, err := quorumlock.Open(ctx, quorumlock.Config{Cluster: "httpfence", Expect: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := node.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := node.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return node
}

// A lock's holder writes by the context it was given alone; when its lock has been taken from it and given to another, its late
// write is refused.
func TestFromLockToGuard(t *testing.T) {
	node, v := openNode(t), new(values)
	c := newClient(t, v.routes())
	mutex := quorumlock.NewMutex(node, "job-x")
	err := mutex.Do(t.Context(), func(first context.Context, old quorumlock.Token) error {
		if err := c.Write(first, "ledger", "first"); err != nil {
			return err
		}
		force := quorumlock.ForceOptions{Actor: "operator", Reason: "test", Now: true}
		if err := node.ForceRelease(t.Context(), "job-x", old, force); err != nil {
			return err
		}
		err := mutex.Do(t.Context(), func(second context.Context, new quorumlock.Token) error {
			if err := c.Write(second, "ledger", "second"); err != nil {
				return err
			}
			var stale *fence.StaleTokenError
			late := context.WithoutCancel(first) // as if it had been sent and not arrived
			want := fence.StaleTokenError{Resource: "ledger", Token: old, Highest: new}
			if err := c.Write(late, "ledger", "late"); !errors.As(err, &stale) || *stale != want {
				t.Errorf("late write: %v, want %v", err, &want)
			}
			return nil
		})
		if err != nil {
			return err
		}
		<-first.Done() // it is told in the end
		return nil
	})
	if !errors.Is(err, quorumlock.ErrLost) {
		t.Errorf("first holder: %v", err)
	}
	if value, err := c.Read(t.Context(), "ledger"); value != "second" || err != nil {
		t.Errorf("the value is %q, %v", value, err)
	}
	if g := v.guard.Last("ledger"); g.Cluster != node.ClusterID() || g.Lock != "job-x" {
		t.Errorf("kept %v", g)
	}
	if err := c.Write(t.Context(), "ledger", "without a lock"); !errors.Is(err, fence.ErrNoGrant) {
		t.Errorf("without a lock: %v", err)
	}
}

// Of the grants of a MultiMutex the server picks that of the resource.
func TestFromMultiMutexToGuard(t *testing.T) {
	node, v := openNode(t), new(values)
	c := newClient(t, v.routes())
	err := quorumlock.NewMultiMutex(node, "from, jöb", "to").Do(t.Context(), func(ctx context.Context, _ quorumlock.Token) error {
		for _, resource := range []string{"from, jöb", "to"} {
			if err := c.Write(ctx, resource, "x"); err != nil || v.guard.Last(resource).Lock != resource {
				t.Errorf("%s: %v, kept %v", resource, err, v.guard.Last(resource))
			}
		}
		if err := c.Write(ctx, "elsewhere", "x"); !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("another resource: %v", err)
		}
		if err := c.Write(fence.For(ctx, "to"), "elsewhere", "x"); err != nil || v.guard.Last("elsewhere").Lock != "to" {
			t.Errorf("another resource, guarded by one of them: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = quorumlock.NewSemaphore(node, "permits", 2).Do(t.Context(), 1, func(ctx context.Context) error {
		return c.Write(ctx, "r", "x")
	})
	if !errors.Is(err, fence.ErrNoGrant) {
		t.Errorf("under a semaphore, whose holders have no order: %v", err)
	}
}
