//go:build unix

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/fence"

	"github.com/quorumlock/quorumlock/internal/demokit"
)

// singleLocker is the lock of one Redis server: SET NX PX with a random value, released and extended by scripts that compare
// the value first.
type singleLocker struct {
	client *redis.Client
	ttl    time.Duration
}

var (
	// grantWithToken takes the lock and counts its grants in one step. The counter is no part of the recipe: it is what its
	// users add who want a fencing token. In one script, since a counter that is asked after the grant can be asked too late.
	grantWithToken = redis.NewScript(`
		if redis.call("SET", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) then return redis.call("INCR", KEYS[2]) end
		return 0`)
	compareAndDelete = redis.NewScript(`
		if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end
		return 0`)
	compareAndExtend = redis.NewScript(`
		if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2]) end
		return 0`)
)

// errLost is a release that found nothing of its own to release.
var errLost = errors.New("the lock had been lost")

// The share of the TTL by which a server's clock may run fast against the holder's, and the pauses between two tries, both as
// in Redlock.
const driftShare = 100

func retryPause() time.Duration { return 50*time.Millisecond + mrand.N(200*time.Millisecond) }

// acquire ends between two tries, never in one, which could leave the lock behind for its TTL.
func (l *singleLocker) acquire(ctx context.Context, name string, fenced bool) (hold, error) {
	h := &singleHold{locker: l, name: name, random: rand.Text()}
	for {
		began := time.Now()
		won, err := l.try(context.WithoutCancel(ctx), h, fenced)
		if won {
			h.extended(began)
			return h, nil
		}
		// An error is a server that is gone: another one may be the primary at the next try.
		if demokit.Sleep(ctx, retryPause()) != nil {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", name, context.Cause(ctx)), err)
		}
	}
}

func (l *singleLocker) try(ctx context.Context, h *singleHold, fenced bool) (bool, error) {
	if !fenced {
		return l.client.SetNX(ctx, h.name, h.random, l.ttl).Result()
	}
	n, err := grantWithToken.Run(ctx, l.client, []string{h.name, h.name + ":token"}, h.random, l.ttl.Milliseconds()).Int64()
	if err != nil || n == 0 {
		return false, err
	}
	h.token = fence.Token(n)
	return true, nil
}

func (l *singleLocker) ready(ctx context.Context) (status, error) {
	if err := l.client.Ping(ctx).Err(); err != nil {
		return status{}, fmt.Errorf("ready: %w", err)
	}
	return status{}, nil
}

func (l *singleLocker) close() error { return l.client.Close() }

// singleHold is used by one goroutine.
type singleHold struct {
	locker  *singleLocker
	name    string
	random  string
	token   fence.Token
	until   time.Time // the end of the validity, by this process's clock, counted from before the request
	extends time.Time // when to extend it
	refused bool      // the server said that the lock is another's
}

func (h *singleHold) extended(began time.Time) {
	h.until = began.Add(h.locker.ttl - h.locker.ttl/driftShare)
	h.extends = began.Add(h.locker.ttl / 3)
}

// held believes an error no more than the clock does: a server that does not answer has not said that the lock is lost.
func (h *singleHold) held(ctx context.Context) bool {
	if now := time.Now(); !h.refused && now.After(h.extends) && now.Before(h.until) {
		h.extend(ctx)
	}
	return !h.refused && time.Now().Before(h.until)
}

func (h *singleHold) extend(ctx context.Context) {
	ctx, cancel := context.WithDeadline(ctx, h.until)
	defer cancel()
	began := time.Now()
	n, err := compareAndExtend.Run(ctx, h.locker.client, []string{h.name}, h.random, h.locker.ttl.Milliseconds()).Int64()
	switch {
	case err == nil && n == 1:
		h.extended(began)
	case err == nil:
		h.refused = true
	}
}

func (h *singleHold) grant() fence.Grant {
	if h.token == 0 {
		return fence.Grant{}
	}
	return fence.Grant{Cluster: "redis", Lock: h.name, Token: h.token}
}

func (h *singleHold) value() string { return h.random }

// release leaves to the expiry what it cannot delete.
func (h *singleHold) release(ctx context.Context) error {
	n, err := compareAndDelete.Run(ctx, h.locker.client, []string{h.name}, h.random).Int64()
	if err != nil {
		return fmt.Errorf("release %s: %w", h.name, err)
	}
	if n == 0 {
		return fmt.Errorf("release %s: %w", h.name, errLost)
	}
	return nil
}
