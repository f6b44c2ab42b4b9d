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
		fresh := foundAnewWithout(t, c, survivor)
		for _, i := range fresh {
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

// foundAnewWithout cuts one instance off, and has the others, which keep nothing, and one more found another cluster.
func foundAnewWithout(t *testing.T, c *quorumlocktest.Cluster, survivor int) (fresh []int) {
	t.Helper()
	c.Isolate(survivor)
	dead := others(c, survivor)
	for _, i := range dead {
		c.Crash(i)
	}
	fresh = append(dead, c.Grow())
	for _, i := range dead {
		c.Start(i)
	}
	for _, i := range fresh {
		if err := c.Node(i).Ready(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	return fresh
}

// A hold that lives until the survivor of a lost cluster meets the new one is lost with that cause, at the deadline that it had; one that ends while nobody is in sight, with the lack of a quorum.
func TestHoldOfALostClusterEndsWithItsCause(t *testing.T) {
	for name, meets := range map[string]bool{"it meets the new cluster": true, "it meets nobody": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				expect := quorumlocktest.Configure(func(_ int, cfg *quorumlock.Config) { cfg.Expect = 3 })
				c := quorumlocktest.New(t, 3, quorumlocktest.InMemory(), expect)
				survivor := others(c, c.Leader())[0]
				s, err := c.Node(survivor).NewSession(context.Background(), quorumlock.MaxSessionTTL)
				if err != nil {
					t.Fatal(err)
				}
				h := lockIn(t, s, "k", time.Second)
				foundAnewWithout(t, c, survivor)
				if meets {
					c.Heal()
				}
				<-h.Done()
				want := quorumlock.CauseNoQuorum
				if meets {
					want = quorumlock.CauseClusterChanged
				}
				var lost *quorumlock.LostError
				err = h.Err()
				changed := errors.Is(err, quorumlock.ErrClusterChanged)
				if !errors.As(err, &lost) || lost.Cause != want || !errors.Is(err, quorumlock.ErrNoQuorum) || changed != meets {
					t.Errorf("%v, want the cause %v", err, want)
				}
			})
		})
	}
}
