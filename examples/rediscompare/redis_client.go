//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// redisClient is a client of one server. A deadline of a context is kept on the wire too: Redlock asks each server for a
// bounded time only.
func redisClient(addr string, dial func(ctx context.Context, network, addr string) (net.Conn, error)) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr:                     addr,
		Dialer:                   dial,
		ContextTimeoutEnabled:    true,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}, // a cloud service's
		PoolSize:                 2 * mostCallers,
	})
}

// toPrimary dials the server that is the primary now, by the word of whoever promotes replicas: what a sentinel is to its
// clients.
func toPrimary(directory string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, directory, nil)
		if err != nil {
			return nil, fmt.Errorf("find the primary: %w", err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, fmt.Errorf("find the primary: %w", err)
		}
		defer resp.Body.Close()
		addr, err := io.ReadAll(io.LimitReader(resp.Body, messageBytes))
		if err != nil {
			return nil, fmt.Errorf("find the primary: %w", err)
		}
		return new(net.Dialer).DialContext(ctx, network, string(addr))
	}
}
