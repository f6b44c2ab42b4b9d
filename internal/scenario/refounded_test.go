package scenario_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// S28: a cluster without data directories dies but for one member, which is cut off, and is founded anew. The survivor's holds end by its own clock; when the two meet, its calls
// say that the cluster changed, and nothing of the old history gets into the new one.
func TestSurvivorOfALostClusterIsTold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		expect := quorumlocktest.Configure(func(_ int, cfg *quorumlock.Config) { cfg.Expect = 3 })
		c := quorumlocktest.New(t, 3, quorumlocktest.InMemory(), expect)
		survivor := others(c, c.Leader())[0]
		n := c.Node(survivor)
		old := lockIn(t, n, "k", time.Second)
		lost := c.Node(survivor).ClusterID()
		waits := wait(context.Background(), t, n, "k")
		c.Isolate(survivor)
		dead := others(c, survivor)
		for _, i := range dead {
			c.Crash(i)
		}
		fresh := append(dead, c.Grow())
		for _, i := range dead {
			c.Start(i)
		}
		for _, i := range fresh {
			if err := c.Node(i).Ready(context.Background()); err != nil {
				t.Fatal(err)
			}
			if id := c.Node(i).ClusterID(); id == lost || id == "" {
				t.Fatalf("instance %d is in cluster %q", i, id)
			}
		}
		next := lockIn(t, c.Node(fresh[0]), "k", grantBound)
		if next.Token() <= old.Token() {
			t.Errorf("token %v of the new cluster after %v of the old one", next.Token(), old.Token())
		}
		<-old.Done()
		expired(t, old)
		waits.failed(time.Second, quorumlock.ErrLost)

		c.Heal()
		time.Sleep(15 * time.Second) // by then gossip has tried every address
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		_, err := quorumlock.NewMutex(n, "k").Lock(ctx)
		if !errors.Is(err, quorumlock.ErrClusterChanged) {
			t.Errorf("the survivor's call: %v, want %v", err, quorumlock.ErrClusterChanged)
		}
		if err := next.Err(); err != nil {
			t.Errorf("the new cluster's hold: %v", err)
		}
		unlock(t, next)
	})
}
