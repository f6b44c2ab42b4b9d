//go:build unix

package redisfence_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/redisfence"
	"github.com/quorumlock/quorumlock/fence/redisfence/goredis"
	"github.com/quorumlock/quorumlock/internal/servers/servertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const resource = "shard-7"

// data is a key in the resource's slot.
func data(resource string) redisfence.Key {
	return redisfence.Key(redisfence.Tag(resource) + ":value:" + resource)
}

// dial gives a client that sends a request again as often as told when no answer comes; -1 is never.
func dial(t testing.TB, addr string, retries int) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: retries, ContextTimeoutEnabled: true, DisableIdentity: true})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func newFence(t testing.TB, c *redis.Client, cfg redisfence.Config) *redisfence.Fence {
	t.Helper()
	f, err := redisfence.New(goredis.New(c), cfg)
	must(t, err)
	return f
}

// start gives a server of its own, a client and its fences.
func start(t testing.TB, settings ...string) (*redis.Client, *redisfence.Fence) {
	t.Helper()
	c := dial(t, servertest.Redis(t, settings...).Addr, -1)
	return c, newFence(t, c, redisfence.Config{})
}

func background(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// under gives a context that shows a grant of this token and ends in good time.
func under(t testing.TB, token fence.Token) context.Context {
	t.Helper()
	return fence.NewContext(background(t), fence.Grant{Cluster: "cluster-1", Lock: "job-x", Token: token})
}

func set(value string) redisfence.Command {
	return redisfence.Cmd("SET", data(resource), value)
}

func holds(t testing.TB, c *redis.Client, want string) {
	t.Helper()
	if got, err := c.Get(background(t), string(data(resource))).Result(); err != nil && !errors.Is(err, redis.Nil) || got != want {
		t.Fatalf("the value is %q, %v; want %q", got, err, want)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustDo(t testing.TB, f *redisfence.Fence, token fence.Token, commands ...redisfence.Command) []any {
	t.Helper()
	replies, err := f.Do(under(t, token), resource, commands...)
	must(t, err)
	return replies
}
