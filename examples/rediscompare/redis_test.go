//go:build unix

package main

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/internal/servers"
	"github.com/quorumlock/quorumlock/internal/servers/servertest"
)

// Both locks of Redis, correctly used, keep what their recipes promise while no fault happens. If they did not, the
// comparison would show nothing.
func TestRedisLocks(t *testing.T) {
	const ttl = 600 * time.Millisecond
	t.Run(kindSingle, func(t *testing.T) {
		s := servertest.Redis(t)
		testRedisLock(t, []*servers.Server{s}, func() locker { return newSingle(t, s, ttl) })
	})
	t.Run(kindRedlock, func(t *testing.T) {
		all := []*servers.Server{servertest.Redis(t), servertest.Redis(t), servertest.Redis(t)}
		addrs := []string{all[0].Addr, all[1].Addr, all[2].Addr}
		testRedisLock(t, all, func() locker { return newRedlock(addrs, ttl) })
	})
}

func newSingle(t *testing.T, s *servers.Server, ttl time.Duration) *singleLocker {
	t.Helper()
	var d directory
	d.addr.Store(s.Addr)
	url, stop, err := serveHTTP(&d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); http.DefaultClient.CloseIdleConnections() })
	return &singleLocker{client: redisClient("primary", toPrimary(url)), ttl: ttl}
}

func testRedisLock(t *testing.T, all []*servers.Server, open func() locker) {
	ctx := t.Context()
	a, b := open(), open()
	defer a.close()
	defer b.close()
	first := mustAcquire(t, a)
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if h, err := b.acquire(short, lockName, true); err == nil {
		t.Fatalf("granted twice: %v and %v", first, h)
	}
	// Longer than the TTL: it is held because it is extended.
	for began := time.Now(); time.Since(began) < time.Second; time.Sleep(20 * time.Millisecond) {
		if !first.held(ctx) {
			t.Fatalf("lost after %v", time.Since(began))
		}
	}
	if err := first.release(ctx); err != nil {
		t.Fatal(err)
	}
	second := mustAcquire(t, b)
	if first.value() == second.value() {
		t.Error("two grants have one value")
	}
	if err := first.release(ctx); err == nil {
		t.Error("a holder of before released its successor's lock")
	}
	if !second.held(ctx) {
		t.Fatal("the second holder lost the lock")
	}
	// Somebody else has it now: the holder finds out when it extends, not later.
	for _, s := range all {
		usurp(t, s)
	}
	began := time.Now()
	for second.held(ctx) {
		if time.Since(began) > 400*time.Millisecond { // it extends after 200 ms
			t.Fatal("an extension that was refused went unnoticed")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := second.release(ctx); err == nil {
		t.Error("the release of a lost lock says nothing")
	}
}

func mustAcquire(t *testing.T, l locker) hold {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	h, err := l.acquire(ctx, lockName, true)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func usurp(t *testing.T, s *servers.Server) {
	t.Helper()
	err := at(s, func(c *redis.Client) error { return c.Set(t.Context(), lockName, "another", time.Minute).Err() })
	if err != nil {
		t.Fatal(err)
	}
}

// A server that does not answer says nothing about the lock: the holder goes by its clock, and no longer.
func TestSilentServer(t *testing.T) {
	s := servertest.Redis(t)
	l := newSingle(t, s, 600*time.Millisecond)
	defer l.close()
	h := mustAcquire(t, l)
	if h.grant().Token != 1 {
		t.Errorf("the first token is %v", h.grant().Token)
	}
	until := h.(*singleHold).until
	s.Kill()
	for time.Now().Before(until.Add(-50 * time.Millisecond)) {
		if !h.held(t.Context()) && time.Now().Before(until) {
			t.Fatal("gave up though nothing was said")
		}
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(time.Until(until))
	if h.held(t.Context()) {
		t.Error("held beyond its validity")
	}
}
