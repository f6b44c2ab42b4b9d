package scenario_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// clientOf is a cluster of one member and one client whose state takes several pieces.
func clientOf(t *testing.T) *quorumlocktest.Cluster {
	t.Helper()
	c := quorumlocktest.New(t, 2, quorumlocktest.Configure(func(i int, cfg *quorumlock.Config) {
		cfg.Expect, cfg.Voters = 1, 1
		if i == 1 {
			cfg.Expect, cfg.Role = 0, quorumlock.RoleClient
		}
	}))
	var all sync.WaitGroup
	for worker := range 10 {
		all.Go(func() {
			for i := range 60 {
				names := make([]string, 10)
				for k := range names {
					names[k] = fmt.Sprintf("%s-%d-%d-%d", strings.Repeat("x", 480), worker, i, k)
				}
				if _, err := quorumlock.NewMultiMutex(c.Node(0), names...).Lock(context.Background()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	return c
}

// A client gets a state of many pieces whole; the member that gives it is not held up, forgets it when nobody asks any more, and gives no more than a few at a time.
func TestClientFetchesTheState(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := clientOf(t)
		own, from := snapshotFrom(t, c.Node(0))
		fetched, info := snapshotFrom(t, c.Node(1))
		if len(fetched) < 5<<19 || info.Holds != 600 || info.ClusterID != from.ClusterID || info.TokensUpTo != from.TokensUpTo || len(fetched)-len(own) > 1000 || len(own)-len(fetched) > 1000 {
			t.Errorf("%d bytes, %+v; the member's own: %d bytes, %+v", len(fetched), info, len(own), from)
		}
		// A reader that takes its time, longer than a state is kept for one who does not come back.
		slow := &slowWriter{pause: 10 * time.Second}
		if _, err := c.Node(1).Snapshot(context.Background(), slow); err != nil {
			t.Errorf("slowly: %v", err)
		}
		if _, err := quorumlock.VerifySnapshot(context.Background(), &slow.Buffer, nil); err != nil {
			t.Errorf("what was written slowly: %v", err)
		}
		stopped := &slowWriter{pause: 40 * time.Second}
		if _, err := c.Node(1).Snapshot(context.Background(), stopped); err == nil {
			t.Error("who did not ask for 40 s got the rest")
		}
		if _, err := quorumlock.VerifySnapshot(context.Background(), &stopped.Buffer, nil); !errors.Is(err, quorumlock.ErrSnapshotTruncated) {
			t.Errorf("what was written of it: %v", err)
		}
		unlock(t, lockIn(t, c.Node(1), "k", time.Second))
	})
}

// slowWriter pauses at each half MiB.
type slowWriter struct {
	bytes.Buffer
	pause time.Duration
	since int
}

func (w *slowWriter) Write(p []byte) (int, error) {
	if w.since += len(p); w.since > 1<<19 {
		w.since = 0
		time.Sleep(w.pause)
	}
	return w.Buffer.Write(p)
}

// Snapshots end with their contexts, and with either node; several at a time are refused or whole.
func TestFetchIsEnded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := clientOf(t)
		const many = 8
		errs := make(chan error, many)
		for range many {
			go func() {
				w := &slowWriter{pause: time.Second}
				_, err := c.Node(1).Snapshot(context.Background(), w)
				if err == nil {
					_, err = quorumlock.VerifySnapshot(context.Background(), &w.Buffer, nil)
					if err != nil {
						t.Error(err)
					}
				}
				errs <- err
			}()
		}
		whole := 0
		for range many {
			if err := <-errs; err == nil {
				whole++
			} else if !errors.Is(err, quorumlock.ErrOverloaded) || errors.Is(err, quorumlock.ErrNoQuorum) {
				t.Error(err)
			}
		}
		if whole < 4 || whole == many {
			t.Errorf("%d of %d were given", whole, many)
		}
		for _, test := range []struct {
			name string
			end  func(cancel func())
		}{
			{"context", func(cancel func()) { cancel() }},
			{"client", func(func()) { _ = c.Stop(1); c.Start(1); readyIn(t, c.Node(1), restartBound) }},
			{"member", func(func()) { _ = c.Stop(0) }}, // last, since it releases all
		} {
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			w := &slowWriter{pause: 2 * time.Second}
			go func() {
				_, err := c.Node(1).Snapshot(ctx, w)
				ended <- err
			}()
			time.Sleep(3 * time.Second)
			test.end(cancel)
			select {
			case err := <-ended:
				if err == nil {
					t.Errorf("%s: it was given whole", test.name)
				}
			case <-time.After(20 * time.Second):
				t.Fatalf("%s: it goes on", test.name)
			}
			cancel()
		}
	})
}
