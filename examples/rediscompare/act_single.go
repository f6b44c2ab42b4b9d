//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/internal/servers"

	"github.com/quorumlock/quorumlock/internal/demokit"
)

// single is one Redis primary with a replica, and who tells clients which one is the primary.
type single struct {
	*lane
	primary, replica *servers.Server
	directory        directory
	url              string // of the directory
	a, b             *process
}

// directory tells the primary's address by HTTP.
type directory struct{ addr atomic.Value }

func (d *directory) ServeHTTP(rw http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(rw, d.addr.Load().(string))
}

// startSingle starts the servers, with what the primary is to keep on disk, and the workers named.
func startSingle(ctx context.Context, l *lane, settings []string, workers ...string) (s *single, stop func(), err error) {
	s = &single{lane: l}
	if s.primary, err = l.redis(ctx, append(settings, "--repl-diskless-sync-delay", "0")...); err != nil {
		return nil, nil, err
	}
	if err := s.addReplica(ctx, settings); err != nil {
		return nil, nil, err
	}
	s.directory.addr.Store(s.primary.Addr)
	if s.url, stop, err = serveHTTP(&s.directory); err != nil {
		return nil, nil, err
	}
	for _, name := range workers {
		p, err := startWorker(l.launcher, workerOptions{kind: kindSingle, name: name, ttl: l.ttl, primary: s.url})
		if err != nil {
			stop()
			return nil, nil, err
		}
		l.procs = append(l.procs, p)
	}
	s.a, s.b = l.procs[0], l.procs[len(l.procs)-1]
	return s, stop, l.ready(ctx, l.procs...)
}

// addReplica starts a replica of the primary, and waits until it has acknowledged what the primary has.
func (s *single) addReplica(ctx context.Context, settings []string) (err error) {
	host, port, _ := net.SplitHostPort(s.primary.Addr)
	settings = append([]string{"--replicaof", host, port, "--repl-diskless-sync-delay", "0"}, settings...)
	if s.replica, err = s.redis(ctx, settings...); err != nil {
		return err
	}
	ctx, cancel := demokit.Within(ctx, startBound, "the replica is not in step")
	defer cancel()
	return s.atPrimary(func(c *redis.Client) error {
		return demokit.Poll(ctx, func() error {
			if err := c.Incr(ctx, "in-step").Err(); err != nil {
				return err
			}
			n, err := c.Wait(ctx, 1, demokit.PollPause).Result()
			if err == nil && n < 1 {
				err = errors.New("no replica has acknowledged")
			}
			return err
		})
	})
}

func (s *single) atPrimary(do func(c *redis.Client) error) error { return at(s.primary, do) }

func at(server *servers.Server, do func(c *redis.Client) error) error {
	c := redisClient(server.Addr, nil)
	defer c.Close()
	return do(c)
}

// runSingle does to one Redis what the table says.
func runSingle(ctx context.Context, l *lane) ([]row, error) {
	s, stop, err := startSingle(ctx, l, nil, "redis-a", "redis-b")
	if err != nil {
		return nil, err
	}
	defer stop()
	l.say(demokit.Plain, "started", "a primary and its replica, TTL %v", l.ttl)
	base := row{system: "Single Redis lock", keeps: "nothing, replica"}
	lost, err := repeat(ctx, l.rounds, s.failOver)
	if err != nil {
		return nil, err
	}
	paused, err := repeat(ctx, 1, func(ctx context.Context, r *room) error { return l.pauseHolder(ctx, r, s.a, s.b) })
	if err != nil {
		return nil, err
	}
	return []row{
		base.with("primary killed before replication", l.rounds, lost, expectation{overlap: true}),
		base.with("holder paused past its TTL", 1, paused, expectation{stale: true}),
	}, nil
}

func (r row) with(fault string, times int, t tally, must expectation) row {
	r.fault, r.times, r.tally, r.must = fault, times, t, must
	return r
}

// failOver has the primary grant what the replica does not hear of, and puts the replica in its place.
func (s *single) failOver(ctx context.Context, r *room) error {
	if err := s.cutReplica(ctx); err != nil {
		return err
	}
	err := s.faultWhileHeld(ctx, r, s.a, s.b, s.promote)
	if err != nil {
		return err
	}
	return s.addReplica(ctx, nil)
}

// cutReplica freezes the replica and has the primary close the connection to it. Frozen alone, it would find in its socket
// what the primary had sent, once it goes on.
func (s *single) cutReplica(ctx context.Context) error {
	if err := s.replica.Freeze(); err != nil {
		return err
	}
	return s.atPrimary(func(c *redis.Client) error {
		if err := c.ClientKillByFilter(ctx, "TYPE", "replica").Err(); err != nil {
			return fmt.Errorf("cut the replica: %w", err)
		}
		info, err := c.Info(ctx, "replication").Result()
		if err != nil {
			return fmt.Errorf("cut the replica: %w", err)
		}
		if !strings.Contains(info, "connected_slaves:0") {
			return errors.New("cut the replica: it is still connected")
		}
		s.say(demokit.Trouble, "replica lags", "it is frozen (SIGSTOP) and its connection is cut")
		return nil
	})
}

// promote kills the primary and makes the replica the primary.
func (s *single) promote(ctx context.Context) error {
	s.primary.Kill()
	if err := s.replica.Thaw(); err != nil {
		return err
	}
	err := at(s.replica, func(c *redis.Client) error {
		if err := c.ReplicaOf(ctx, "NO", "ONE").Err(); err != nil {
			return fmt.Errorf("promote: %w", err)
		}
		n, err := c.Exists(ctx, lockName).Result()
		if err == nil && n > 0 {
			err = errors.New("the fault did not bite: the replica has heard of the grant")
		}
		return err
	})
	if err != nil {
		return err
	}
	s.primary, s.replica = s.replica, nil
	s.directory.addr.Store(s.primary.Addr)
	s.say(demokit.Trouble, "fail-over", "the primary is killed (SIGKILL), the replica promoted (REPLICAOF NO ONE)")
	return nil
}
