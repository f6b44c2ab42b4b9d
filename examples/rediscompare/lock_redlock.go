//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/fence"

	"github.com/quorumlock/quorumlock/internal/demokit"
)

// redlockLocker is Redlock over independent servers, by the best-known Go implementation: a majority, and a validity of the
// TTL less what the asking took and 1 % for drift.
type redlockLocker struct {
	clients []*redis.Client
	sync    *redsync.Redsync
	ttl     time.Duration
}

func newRedlock(addrs []string, ttl time.Duration) *redlockLocker {
	l := &redlockLocker{ttl: ttl}
	pools := make([]redsyncredis.Pool, len(addrs))
	for i, addr := range addrs {
		c := redisClient(addr, nil)
		l.clients = append(l.clients, c)
		pools[i] = goredis.NewPool(c)
	}
	l.sync = redsync.New(pools...)
	return l
}

// acquire ends between two tries, never in one: a try that ctx breaks off takes back nothing of what it got, since the
// library asks for that under the same ctx, and a minority of the servers would keep the name locked for the TTL.
func (l *redlockLocker) acquire(ctx context.Context, name string, _ bool) (hold, error) {
	m := l.sync.NewMutex(name, redsync.WithExpiry(l.ttl))
	for {
		err := m.TryLockContext(context.WithoutCancel(ctx)) // each server is given 5 % of the TTL
		if err == nil {
			return &redlockHold{mutex: m, ttl: l.ttl}, nil
		}
		if demokit.Sleep(ctx, retryPause()) != nil {
			return nil, fmt.Errorf("lock %s: %w; last answer: %w", name, context.Cause(ctx), err)
		}
	}
}

func (l *redlockLocker) ready(ctx context.Context) (status, error) {
	for _, c := range l.clients {
		if err := c.Ping(ctx).Err(); err != nil {
			return status{}, fmt.Errorf("ready: %w", err)
		}
	}
	return status{}, nil
}

func (l *redlockLocker) close() error {
	var errs []error
	for _, c := range l.clients {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// redlockHold is used by one goroutine.
type redlockHold struct {
	mutex   *redsync.Mutex
	ttl     time.Duration
	refused bool // a majority said that the lock is not this holder's
}

// held extends when a third of the validity has gone. A server that does not answer has not said that the lock is lost; then
// the clock decides.
func (h *redlockHold) held(ctx context.Context) bool {
	left := time.Until(h.mutex.Until())
	if !h.refused && left > 0 && left < h.ttl/3*2 {
		h.extend(ctx)
	}
	return !h.refused && time.Now().Before(h.mutex.Until())
}

func (h *redlockHold) extend(ctx context.Context) {
	ctx, cancel := context.WithDeadline(ctx, h.mutex.Until())
	defer cancel()
	_, err := h.mutex.ExtendContext(ctx)
	var taken *redsync.ErrTaken
	h.refused = errors.As(err, &taken)
}

func (h *redlockHold) grant() fence.Grant { return fence.Grant{} } // independent servers have no counter in common

func (h *redlockHold) value() string { return h.mutex.Value() }

func (h *redlockHold) release(ctx context.Context) error {
	if ok, err := h.mutex.UnlockContext(ctx); !ok {
		return fmt.Errorf("release %s: %w", h.mutex.Name(), errors.Join(errLost, err))
	}
	return nil
}
