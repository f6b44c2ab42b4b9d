//go:build unix

package redisfence_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/redisfence"
	"github.com/quorumlock/quorumlock/fence/redisfence/goredis"
)

func TestReplies(t *testing.T) {
	_, f := start(t)
	k := data(resource)
	hash := redisfence.Key(redisfence.Tag(resource) + ":hash")
	got := mustDo(t, f, 1<<53-1,
		redisfence.Cmd("GET", k), set("zwölf \x00\xff"), redisfence.Cmd("GET", k),
		redisfence.Cmd("DEL", k), redisfence.Cmd("INCRBY", k, int64(41)),
		redisfence.Cmd("HSET", hash, "float", 0.1, "int", 1, "uint", uint64(1<<64-1), "bytes", []byte{0, 255}, "token", fence.Token(7)),
		redisfence.Cmd("HMGET", hash, "float", "int", "uint", "bytes", "token", "none"))
	want := []any{nil, "OK", "zwölf \x00\xff", int64(1), int64(41), int64(5),
		[]any{"0.1", "1", "18446744073709551615", "\x00\xff", "7", nil}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%#v, want %#v", got, want)
	}
	if got := mustDo(t, f, 1<<53-1); got == nil || len(got) != 0 {
		t.Errorf("a claim: %#v", got)
	}
}

// The server restarts without its scripts, or somebody flushes them: the text is sent again.
func TestScriptIsForgotten(t *testing.T) {
	c, f := start(t)
	mustDo(t, f, 1, set("a"))
	must(t, c.ScriptFlush(background(t)).Err())
	mustDo(t, f, 1, set("b"))
	holds(t, c, "b")
}

// A command that fails ends the write there. The ones before it stay, as Redis has no way back, and the grant counts as accepted.
func TestCommandFails(t *testing.T) {
	c, f := start(t)
	_, err := f.Do(under(t, 42), resource, set("x"), redisfence.Cmd("LPUSH", data(resource), "y"), redisfence.Cmd("DEL", data(resource)))
	var failed *redisfence.CommandError
	if !errors.As(err, &failed) || !errors.Is(err, redisfence.ErrCommand) || failed.Index != 1 ||
		failed.Name != "LPUSH" || !strings.HasPrefix(failed.Message, "WRONGTYPE") {
		t.Fatalf("%v", err)
	}
	holds(t, c, "x")
	if _, err := f.Do(under(t, 41), resource, set("stale")); !errors.Is(err, fence.ErrStaleToken) {
		t.Errorf("a stale write after it: %v", err)
	}
	if _, err := f.Do(under(t, 42), resource, redisfence.Cmd("NOSUCHCOMMAND", data(resource))); !errors.Is(err, redisfence.ErrCommand) {
		t.Errorf("a command that does not exist: %v", err)
	}
	mustDo(t, f, 42, set("good")) // the failure is the other write's
}

func TestBadCommands(t *testing.T) {
	c, f := start(t)
	k := data(resource)
	for name, commands := range map[string][]redisfence.Command{
		"no name":            {redisfence.Cmd("", k)},
		"two words":          {redisfence.Cmd("CONFIG SET", k)},
		"no key":             {redisfence.Cmd("FLUSHALL")},
		"key as a string":    {redisfence.Cmd("SET", string(k), "x")},
		"type":               {redisfence.Cmd("SET", k, struct{}{})},
		"too many arguments": {redisfence.Cmd("DEL", append(make([]any, 0), manyKeys(1000)...)...)},
		"too many commands":  make([]redisfence.Command, 1001),
		"key of a fence":     {redisfence.Cmd("DEL", redisfence.Key(redisfence.DefaultPrefix+"{shard-7}shard-7"))},
		"second is bad":      {set("x"), redisfence.Cmd("SET", k, nil)},
	} {
		if _, err := f.Do(under(t, 1), resource, commands...); !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n, err := c.DBSize(background(t)).Result(); err != nil || n != 0 {
		t.Errorf("%d keys were written, %v", n, err)
	}
	mustDo(t, f, 1, redisfence.Cmd("DEL", manyKeys(999)...)) // the most that is allowed
}

func manyKeys(n int) (keys []any) {
	for range n {
		keys = append(keys, data(resource))
	}
	return keys
}

func TestBadConfig(t *testing.T) {
	c, _ := start(t)
	client := goredis.New(c)
	for name, cfg := range map[string]redisfence.Config{
		"brace":    {Prefix: "{x}"},
		"long":     {Prefix: strings.Repeat("x", 129)},
		"replicas": {Replicas: -1},
		"timeout":  {ReplicaTimeout: time.Microsecond},
		"attempts": {Attempts: -1},
	} {
		if _, err := redisfence.New(client, cfg); !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := redisfence.New(nil, redisfence.Config{}); !errors.Is(err, fence.ErrInvalid) {
		t.Errorf("no client: %v", err)
	}
}

func TestNoClient(t *testing.T) {
	for _, client := range []redisfence.Client{goredis.New(nil), goredis.NewCluster(nil)} {
		f, err := redisfence.New(client, redisfence.Config{})
		must(t, err)
		if _, err := f.Do(under(t, 1), resource, set("x")); !errors.Is(err, fence.ErrInvalid) || errors.Is(err, fence.ErrUnknownOutcome) {
			t.Errorf("a write: %v", err)
		}
		if _, err := f.Last(background(t), resource); !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("a look: %v", err)
		}
	}
}

// A fence that somebody else has written to is not guessed at.
func TestDamagedFence(t *testing.T) {
	c, f := start(t)
	key := redisfence.DefaultPrefix + redisfence.Tag(resource) + resource
	ctx := background(t)
	for name, damage := range map[string]func() error{
		"another type":     func() error { return c.Set(ctx, key, "x", 0).Err() },
		"a missing field":  func() error { return c.HDel(ctx, key, "lock").Err() },
		"other fields":     func() error { return c.HDel(ctx, key, "lock", "cluster", "token").Err() },
		"no number":        func() error { return c.HSet(ctx, key, "token", "1e3").Err() },
		"a leading zero":   func() error { return c.HSet(ctx, key, "token", "042").Err() },
		"too many digits":  func() error { return c.HSet(ctx, key, "token", strings.Repeat("9", 20)).Err() },
		"beyond an int64":  func() error { return c.HSet(ctx, key, "token", "9223372036854775808").Err() },
		"a negative token": func() error { return c.HSet(ctx, key, "token", "-1").Err() },
	} {
		must(t, c.FlushAll(ctx).Err())
		mustDo(t, f, 1, set("x"))
		must(t, damage())
		_, err := f.Do(under(t, 2), resource, set("y"))
		var bad *redisfence.DamagedError
		if !errors.As(err, &bad) || !errors.Is(err, redisfence.ErrDamaged) || bad.Key != key {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := f.Last(ctx, resource); !errors.Is(err, redisfence.ErrDamaged) {
			t.Errorf("%s: to a reader: %v", name, err)
		}
		holds(t, c, "x")
	}
}

// Somebody gives all keys a TTL: the fence's is taken off with the next write, and fences have none of their own.
func TestFenceHasNoTTL(t *testing.T) {
	c, f := start(t)
	key, ctx := redisfence.DefaultPrefix+redisfence.Tag(resource)+resource, background(t)
	for range 2 {
		mustDo(t, f, 1, set("x"))
		if ttl, err := c.TTL(ctx, key).Result(); err != nil || ttl != -1 {
			t.Errorf("TTL %v, %v", ttl, err)
		}
		if ok, err := c.Expire(ctx, key, time.Hour).Result(); err != nil || !ok {
			t.Fatalf("no TTL was set: %v", err)
		}
	}
}

// A server that evicts any key forgets fences when it is short of memory: shown, and refused.
func TestEviction(t *testing.T) {
	c, f := start(t, "--maxmemory", "3mb", "--maxmemory-policy", "allkeys-random")
	_, err := f.Do(under(t, 42), resource, set("x"))
	var evicts *redisfence.EvictionError
	if !errors.As(err, &evicts) || !errors.Is(err, redisfence.ErrEvicts) || evicts.Policy != "allkeys-random" {
		t.Fatalf("%v", err)
	}
	holds(t, c, "")

	loose := newFence(t, c, redisfence.Config{AllowEviction: true})
	mustDo(t, loose, 42, set("x"))
	ctx := background(t)
	for i := 0; ; i++ {
		if g, err := loose.Last(ctx, resource); err != nil {
			t.Fatal(err)
		} else if g == (fence.Grant{}) {
			break
		}
		if i > 20_000 {
			t.Fatal("the fence was not evicted: this test shows nothing")
		}
		must(t, c.Set(ctx, fence.Token(i).String(), strings.Repeat("x", 4<<10), 0).Err())
	}
	if _, err := loose.Do(under(t, 41), resource, set("stale")); err != nil {
		t.Errorf("with its fence evicted, it still refuses: %v", err)
	}

	kept, strict := start(t, "--maxmemory", "3mb", "--maxmemory-policy", "volatile-lru")
	if _, err := strict.Do(under(t, 42), resource, set("x")); err != nil {
		t.Errorf("a policy that spares keys without a TTL: %v", err)
	}
	holds(t, kept, "x")
}

// A read-only replica, which a demoted primary is, writes nothing and says so.
func TestReplicaRefuses(t *testing.T) {
	primary, _ := start(t)
	c, f := start(t)
	must(t, c.ConfigSet(background(t), "replica-serve-stale-data", "yes").Err())
	host, port := split(t, primary.Options().Addr)
	must(t, c.ReplicaOf(background(t), host, port).Err())
	_, err := f.Do(under(t, 1), resource, set("x"))
	var refused *redisfence.ServerError
	if !errors.As(err, &refused) || !strings.Contains(refused.Message, "READONLY") && !strings.Contains(refused.Message, "read only") ||
		errors.Is(err, redisfence.ErrUncertain) {
		t.Errorf("%v", err)
	}
}

func TestCancelledBefore(t *testing.T) {
	c, f := start(t)
	cause := errors.New("mine")
	ctx, cancel := context.WithCancelCause(under(t, 1))
	cancel(cause)
	if _, err := f.Do(ctx, resource, set("x")); !errors.Is(err, context.Canceled) || !errors.Is(err, cause) ||
		errors.Is(err, redisfence.ErrUncertain) {
		t.Errorf("%v", err)
	}
	holds(t, c, "")
}
