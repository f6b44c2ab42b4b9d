package quorumlocktest_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// exporter is a service that one instance at a time runs: it counts rows out until its lock is lost.
type exporter struct{ rows atomic.Int64 }

func (x *exporter) run(ctx context.Context, n *quorumlock.Node) error {
	return quorumlock.NewMutex(n, "export").Do(ctx, func(ctx context.Context, _ quorumlock.Token) error {
		for ctx.Err() == nil {
			x.rows.Add(1)
			time.Sleep(100 * time.Millisecond)
		}
		return context.Cause(ctx)
	})
}

// A service's loss path in ten lines.
func TestExportStopsWhenItsLockIsLost(t *testing.T) {
	quorumlocktest.Run(t, 3, func(t *testing.T, c *quorumlocktest.Cluster) {
		var x exporter
		done := make(chan error, 1)
		go func() { done <- x.run(t.Context(), c.Node(0)) }()
		time.Sleep(time.Second) // fake time: it works by now
		c.Expire(0)
		if err := <-done; !errors.Is(err, quorumlock.ErrLost) || x.rows.Load() == 0 {
			t.Errorf("export ended with %v after %d rows", err, x.rows.Load())
		}
	})
}

func ExampleRun() {
	var export func(ctx context.Context, n *quorumlock.Node) error // the code under test: it works under a lock until that is lost

	// In a file of tests this is func TestExportStopsWhenItsLockIsLost(t *testing.T).
	_ = func(t *testing.T) {
		quorumlocktest.Run(t, 3, func(t *testing.T, c *quorumlocktest.Cluster) {
			done := make(chan error, 1)
			go func() { done <- export(t.Context(), c.Node(0)) }()
			time.Sleep(time.Second) // fake time: it works by now
			c.Expire(0)
			if err := <-done; !errors.Is(err, quorumlock.ErrLost) {
				t.Errorf("export went on: %v", err)
			}
		})
	}
}

func ExampleCluster_Partition() {
	// In a file of tests this is func TestMinorityStandsStill(t *testing.T).
	_ = func(t *testing.T) {
		quorumlocktest.Run(t, 3, func(t *testing.T, c *quorumlocktest.Cluster) {
			hold, err := quorumlock.NewMutex(c.Node(0), "job").Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			c.Partition([]int{0}) // from the rest
			<-hold.Jeopardy()     // the warning, after 0.4 TTL
			<-hold.Done()         // lost, after 0.8 TTL
			if _, err := quorumlock.NewMutex(c.Node(1), "job").Lock(t.Context()); err != nil {
				t.Errorf("the majority goes on: %v", err)
			}
			c.Heal()
		})
	}
}
