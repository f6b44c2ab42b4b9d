//go:build unix

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/quorumlock/quorumlock/internal/demokit"
	"github.com/quorumlock/quorumlock/internal/servers"
)

// One Redis server and the recipe of its documentation: SET NX PX with a random token, a script that deletes what still has it, and another attempt after a random pause. It has no
// queue, no quorum and no number that rises.
var (
	redisPlain = &system{key: "redis", name: "Redis, one node", keeps: "nothing", quick: true,
		serve: serveRedis(), open: openRedis}
	redisAlways = &system{key: "redis-always", name: "Redis, one node, fsync", keeps: "one node, fsync", quick: true,
		serve: serveRedis("--appendonly", "yes", "--appendfsync", "always"), open: openRedis}
)

// The pause of redsync, the library in common use.
const (
	redisPauseLeast = 50 * time.Millisecond
	redisPauseMost  = 250 * time.Millisecond
)

func serveRedis(settings ...string) func(context.Context, *demokit.Launcher, string) (*service, error) {
	return func(ctx context.Context, _ *demokit.Launcher, dir string) (*service, error) {
		s, err := servers.Redis(ctx, dir, settings...)
		if err != nil {
			return nil, err
		}
		return &service{addrs: []string{s.Addr}, pids: []int{s.Pid()}, stop: s.Stop}, nil
	}
}

type redisPlace struct{ db *redis.Client }

func openRedis(ctx context.Context, p placing) (place, error) {
	db := redis.NewClient(&redis.Options{
		Addr: p.Servers[0], PoolSize: 256, MaxRetries: -1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}, // Redis 7 has none
	})
	return &redisPlace{db}, db.Ping(ctx).Err()
}

func (p *redisPlace) Close() error { return p.db.Close() }

func (p *redisPlace) client(_ context.Context, ttl time.Duration) (client, error) {
	c := &redisClient{db: p.db, ttl: ttl, held: map[string]string{}, over: make(chan struct{})}
	c.renewing.Go(c.renew)
	return c, nil
}

// redisClient renews what it holds, as a holder of a lock with a TTL must.
type redisClient struct {
	db       *redis.Client
	ttl      time.Duration
	over     chan struct{}
	renewing sync.WaitGroup

	mu   sync.Mutex
	held map[string]string // names to tokens
}

var (
	redisDelete = redis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) else return 0 end`)
	redisRenew  = redis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2]) else return 0 end`)
)

func (c *redisClient) lock(ctx context.Context, name string) (func(context.Context) error, error) {
	token := rand.Text()
	for {
		got, err := c.db.SetNX(ctx, name, token, c.ttl).Result()
		if err != nil {
			return nil, err
		}
		if got {
			break
		}
		pause := redisPauseLeast + mrand.N(redisPauseMost-redisPauseLeast)
		if !until(ctx, now().add(pause)) {
			return nil, context.Cause(ctx)
		}
	}
	c.note(name, token)
	return func(ctx context.Context) error { return c.release(ctx, name, token) }, nil
}

func (c *redisClient) note(name, token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held[name] = token
}

func (c *redisClient) release(ctx context.Context, name, token string) error {
	c.mu.Lock()
	delete(c.held, name)
	c.mu.Unlock()
	n, err := redisDelete.Run(ctx, c.db, []string{name}, token).Int()
	if err == nil && n != 1 {
		return fmt.Errorf("%s was no longer held", name)
	}
	return err
}

// renew prolongs each lock three times in its TTL.
func (c *redisClient) renew() {
	tick := time.NewTicker(c.ttl / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-c.over:
			return
		}
		c.mu.Lock()
		names := make(map[string]string, len(c.held))
		for name, token := range c.held {
			names[name] = token
		}
		c.mu.Unlock()
		for name, token := range names {
			// What fails is tried again at the next tick.
			_ = redisRenew.Run(context.Background(), c.db, []string{name}, token, c.ttl.Milliseconds()).Err()
		}
	}
}

// Close gives back what is held.
func (c *redisClient) Close() (err error) {
	close(c.over)
	c.renewing.Wait()
	for name, token := range c.held {
		err = errors.Join(err, redisDelete.Run(context.Background(), c.db, []string{name}, token).Err())
	}
	return err
}
