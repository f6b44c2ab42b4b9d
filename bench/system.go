//go:build unix

package main

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/demokit"
)

// system is one way to lock.
type system struct {
	key   string
	name  string // for people
	keeps string // where a lock is before it is granted
	most  int    // clients; 0 if it takes as many as there are
	quick bool   // it is part of -quick

	// warm is how long it works before it is measured: what compiles as it runs is slow at first.
	warm time.Duration

	embedded bool // its workers are its servers
	inMemory bool // embedded: without directories
	logStore quorumlock.LogStore

	// serve starts the servers, each with a directory of its own in dir; nil if there are none. A program that is not installed is a *servers.MissingError.
	serve func(ctx context.Context, l *demokit.Launcher, dir string) (*service, error)
	// open is what a worker does to have clients.
	open func(ctx context.Context, p placing) (place, error)
}

// systems are those that are measured, in the order of the table.
var systems = []*system{quorumDisk, quorumBolt, quorumMemory, etcdSystem, zooKeeper, redisPlain, redisAlways, postgres}

// service is the servers of one system.
type service struct {
	addrs []string // what its clients are told
	pids  []int
	// leader is the server that the others follow, as an index of pids; nil where there is one server only.
	leader func(ctx context.Context) (int, error)
	stop   func()
}

// killLeader does what a crash of the leader's machine would.
func (s *service) killLeader(ctx context.Context) (instant, error) {
	if s.leader == nil {
		return 0, errors.New("one server has no leader")
	}
	i, err := s.leader(ctx)
	if err != nil {
		return 0, err
	}
	at := now()
	return at, syscall.Kill(s.pids[i], syscall.SIGKILL)
}

// subdirectory is a new one.
func subdirectory(dir, name string) (string, error) {
	path := dir + string(os.PathSeparator) + name
	return path, os.MkdirAll(path, 0o700)
}
