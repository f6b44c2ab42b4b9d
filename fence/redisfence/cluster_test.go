//go:build unix

package redisfence_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/fence/redisfence"
	"github.com/quorumlock/quorumlock/fence/redisfence/goredis"
	"github.com/quorumlock/quorumlock/internal/servers/servertest"
)

// startCluster gives a Redis Cluster of one server, which has all slots: it checks slots as a larger one does.
func startCluster(t *testing.T) (*redis.ClusterClient, *redisfence.Fence) {
	t.Helper()
	s := servertest.Redis(t, "--cluster-enabled", "yes")
	ctx := background(t)
	must(t, dial(t, s.Addr, -1).ClusterAddSlotsRange(ctx, 0, 16383).Err())
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{s.Addr}, ContextTimeoutEnabled: true, DisableIdentity: true})
	t.Cleanup(func() { _ = c.Close() })
	eventually(t, "the cluster is ready", func(ctx context.Context) bool {
		info, err := c.ClusterInfo(ctx).Result()
		return err == nil && strings.Contains(info, "cluster_state:ok")
	})
	f, err := redisfence.New(goredis.NewCluster(c), redisfence.Config{})
	must(t, err)
	return c, f
}

// eventually waits for what a server does in its own time.
func eventually(t *testing.T, what string, is func(ctx context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for !is(ctx) {
		select {
		case <-ctx.Done():
			t.Fatalf("not within 20 s: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// The fence lies in the slot of the keys that have its resource's tag, and of the key that has the resource's name.
func TestFenceIsInTheSlotOfItsData(t *testing.T) {
	c, f := startCluster(t)
	ctx := under(t, 1)
	slot := func(key string) int64 {
		n, err := c.ClusterKeySlot(ctx, key).Result()
		must(t, err)
		return n
	}
	for name, ownSlot := range map[string]bool{
		"shard-7": true, "{user:1}:profile": true, "a{user:1}b{x}": true, "a{b": true,
		"{}x": false, "x}": false, "}{x}": true, "}x": false, "}": false, "a{}b}": false, "{{x}}": true, "ü": true,
	} {
		key := redisfence.Tag(name) + ":anything"
		_, err := f.Do(ctx, name, redisfence.Cmd("SET", redisfence.Key(key), "x")) // refused by the server unless the fence is in its slot
		must(t, err)
		if own := slot(name) == slot(key); own != ownSlot {
			t.Errorf("%q: in the slot of its own name: %v, want %v", name, own, ownSlot)
		}
	}
}

func TestKeysOfAnotherSlotAreRefused(t *testing.T) {
	c, f := startCluster(t)
	mine, other := data(resource), redisfence.Key("{elsewhere}")
	_, err := f.Do(under(t, 1), resource, redisfence.Cmd("SET", mine, "x"), redisfence.Cmd("SET", other, "y"))
	var refused *redisfence.ServerError
	if !errors.As(err, &refused) || errors.Is(err, redisfence.ErrUncertain) {
		t.Errorf("%v", err)
	}
	for _, key := range []redisfence.Key{mine, other} {
		if n, err := c.Exists(background(t), string(key)).Result(); err != nil || n != 0 {
			t.Errorf("%s exists: %d, %v", key, n, err)
		}
	}
}
