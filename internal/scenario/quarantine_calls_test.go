package scenario_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// In a quarantine no kind of lock is granted, each kind of call says why, and sessions and limits work. A recovered node that crashes in it begins it anew, and it ends.
func TestEveryCallInAQuarantine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		last := grantMany(t, c.Node(0), "k", 3)
		time.Sleep(time.Second)
		survivor, _ := loseMajority(t, c)
		c.Crash(survivor)
		r := recovered(t, c, survivor, 0)
		for range 2 {
			readyIn(t, c.Start(survivor), restartBound)
			nothingIsGranted(t, c.Node(survivor))
			time.Sleep(r.Quarantine - 20*time.Second)
			c.Crash(survivor)
		}
		start := time.Now()
		n := c.Start(survivor)
		if h := lockAfter(t, n, "k", start, r.Quarantine); h.Token() <= last {
			t.Errorf("token %v after %v", h.Token(), last)
		}
		all, err := quorumlock.NewSemaphore(n, "pool", 5).Acquire(context.Background(), 5)
		if err != nil {
			t.Fatalf("with the limit that was set in the quarantine: %v", err)
		}
		unlock(t, all)
	})
}

func nothingIsGranted(t *testing.T, n *quorumlock.Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s := openSession(t, n)
	patience := quorumlock.MaxWait(500 * time.Millisecond)
	for call, err := range map[string]error{
		"read":     errorOf(quorumlock.NewRWMutex(s, "rw").TryRLock(ctx)),
		"acquire":  errorOf(quorumlock.NewSemaphore(s, "pool", 3).TryAcquire(ctx, 2)),
		"set":      errorOf(quorumlock.NewMultiMutex(s, "a", "b").TryLock(ctx)),
		"bounded":  errorOf(quorumlock.NewMutex(s, "k", patience).Lock(context.Background())),
		"campaign": errorOf(quorumlock.NewElection(s, "e").Campaign(ctx, "v")),
		"do": quorumlock.NewMutex(s, "k", patience).Do(context.Background(), func(context.Context, quorumlock.Token) error {
			t.Error("the callback ran")
			return nil
		}),
	} {
		if !errors.Is(err, quorumlock.ErrQuarantine) {
			t.Errorf("%s: %v", call, err)
		}
	}
	if err := quorumlock.NewSemaphore(n, "pool", 3).Resize(context.Background(), 5); err != nil {
		t.Errorf("resize: %v", err)
	}
}

func errorOf[T any](_ T, err error) error { return err }
