//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/internal/servers"

	"github.com/quorumlock/quorumlock/internal/demokit"
)

// redlock is three independent Redis servers.
type redlock struct {
	*lane
	servers  []*servers.Server
	dirs     []string
	settings []string
	a, b     *process
}

// appendAlways has Redis write each command to its file, and fsync it, before it answers.
var appendAlways = []string{"--appendonly", "yes", "--appendfsync", "always"}

// startRedlock starts the servers, with what they are to keep on disk, and the workers named.
func startRedlock(ctx context.Context, l *lane, settings []string, workers ...string) (*redlock, error) {
	s := &redlock{lane: l, settings: settings}
	var addrs []string
	for range 3 {
		server, err := l.redis(ctx, settings...)
		if err != nil {
			return nil, err
		}
		s.servers, s.dirs = append(s.servers, server), append(s.dirs, l.lastDir())
		addrs = append(addrs, server.Addr)
	}
	for _, name := range workers {
		p, err := startWorker(l.launcher, workerOptions{kind: kindRedlock, name: name, ttl: l.ttl, servers: addrs})
		if err != nil {
			return nil, err
		}
		l.procs = append(l.procs, p)
	}
	s.a, s.b = l.procs[0], l.procs[len(l.procs)-1]
	return s, l.ready(ctx, l.procs...)
}

func (l *lane) lastDir() string { return filepath.Join(l.dir, fmt.Sprint(l.dirs)) }

// runRedlock does to Redlock what the table says: with servers that keep nothing, and the crash also with servers that keep
// everything.
func runRedlock(ctx context.Context, l *lane) ([]row, error) {
	rows, err := runForgetful(ctx, l)
	if err != nil {
		return nil, err
	}
	if err := l.stop(); err != nil {
		return nil, err
	}
	s, err := startRedlock(ctx, l, appendAlways, "redlock-c", "redlock-d")
	if err != nil {
		return nil, err
	}
	l.say(demokit.Plain, "started", "three servers that fsync each command, TTL %v", l.ttl)
	crashed, err := repeat(ctx, 1, s.crash)
	if err != nil {
		return nil, err
	}
	kept := row{system: "Redlock, 3 servers", keeps: "each command"}
	return append(rows, kept.with("a server killed, restarted with its data", 1, crashed, expectation{})), nil
}

func runForgetful(ctx context.Context, l *lane) ([]row, error) {
	s, err := startRedlock(ctx, l, nil, "redlock-a", "redlock-b")
	if err != nil {
		return nil, err
	}
	l.say(demokit.Plain, "started", "three servers that keep nothing on disk, TTL %v", l.ttl)
	crashed, err := repeat(ctx, l.rounds, s.crash)
	if err != nil {
		return nil, err
	}
	paused, err := repeat(ctx, 1, func(ctx context.Context, r *room) error { return l.pauseHolder(ctx, r, s.a, s.b) })
	if err != nil {
		return nil, err
	}
	base := row{system: "Redlock, 3 servers", keeps: "nothing"}
	return []row{
		base.with("a server killed, restarted within the TTL", l.rounds, crashed, expectation{overlap: true}),
		base.with("holder paused past its TTL", 1, paused, expectation{stale: true}),
	}, nil
}

// crash is the known case: one holder has two of three servers, and one of the two crashes and comes back within the TTL.
//
// That a holder has only two is made certain by a contender that reached the third one first: it had a minority, and gives
// that back once the holder has its majority.
func (s *redlock) crash(ctx context.Context, r *room) error {
	const contender = "a contender that reached one server first"
	third := s.servers[2]
	err := at(third, func(c *redis.Client) error {
		won, err := c.SetNX(ctx, lockName, contender, s.ttl).Result()
		if err == nil && !won {
			err = errors.New("the third server has the lock already")
		}
		return err
	})
	if err != nil {
		return err
	}
	return s.faultWhileHeld(ctx, r, s.a, s.b, func(ctx context.Context) error {
		err := at(third, func(c *redis.Client) error {
			n, err := compareAndDelete.Run(ctx, c, []string{lockName}, contender).Int64()
			if err == nil && n != 1 {
				err = errors.New("the fault did not bite: the contender's minority had expired too early")
			}
			return err
		})
		if err != nil {
			return err
		}
		return s.restart(ctx, 1)
	})
}

// restart kills a server that has the lock and starts it again at its address, in its directory.
func (s *redlock) restart(ctx context.Context, i int) error {
	old := s.servers[i]
	before, err := lockValue(ctx, old)
	if err != nil {
		return err
	}
	old.Kill()
	next, err := servers.RedisAt(ctx, s.dirs[i], old.Addr, s.settings...)
	if err != nil {
		return err
	}
	s.servers[i] = next
	s.lane.servers = append(s.lane.servers, next)
	s.say(demokit.Trouble, "crash", "server %d of 3 is killed (SIGKILL) and started again", i+1)
	after, err := lockValue(ctx, next)
	if err != nil {
		return err
	}
	kept, want := before == after, len(s.settings) > 0
	if before == "" || kept != want {
		return fmt.Errorf("the fault did not bite: the server had the value %q before the crash, %q after it", before, after)
	}
	return nil
}

// lockValue is the value of whoever a server says has the lock, "" if nobody has.
func lockValue(ctx context.Context, server *servers.Server) (value string, err error) {
	err = at(server, func(c *redis.Client) error {
		value, err = c.Get(ctx, lockName).Result()
		if errors.Is(err, redis.Nil) {
			return nil
		}
		return err
	})
	return value, err
}
