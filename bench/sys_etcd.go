//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/quorumlock/quorumlock/internal/demokit"
)

// etcd runs as three processes of this program, each the server that etcd's own command starts, with the settings that are the default there. Its clients use the recipe of its client
// library: a session with a lease, and a mutex; one connection of all clients of a worker, to all servers, as one service has it.
var etcdSystem = &system{key: "etcd", name: "etcd, 3 nodes", keeps: "majority, fsync", quick: true, serve: serveEtcd, open: openEtcd}

const etcdNodes = 3

func serveEtcd(ctx context.Context, l *demokit.Launcher, dir string) (*service, error) {
	addrs, err := demokit.FreeAddrs(2 * etcdNodes)
	if err != nil {
		return nil, err
	}
	clients, peers := addrs[:etcdNodes], addrs[etcdNodes:]
	var nodes []*process
	s := &service{addrs: clients, stop: func() {
		for _, p := range nodes {
			p.kill()
		}
	}}
	for i := range etcdNodes {
		name := fmt.Sprint("etcd-", i)
		p, err := startSelf(l, name, "etcd", name, dir+string(os.PathSeparator)+name, clients[i], peers[i], strings.Join(peers, ","))
		if err != nil {
			s.stop()
			return nil, err
		}
		nodes = append(nodes, p)
		s.pids = append(s.pids, p.pid())
	}
	s.leader = func(ctx context.Context) (int, error) { return etcdLeader(ctx, clients) }
	ctx, cancel := demokit.Within(ctx, time.Minute, "no etcd")
	defer cancel()
	err = demokit.Poll(ctx, func() error {
		for _, p := range nodes {
			if p.gone() {
				return fmt.Errorf("%s has ended: %s", p.name, p.log)
			}
		}
		_, err := etcdLeader(ctx, clients)
		return err
	})
	if err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// runEtcd is one server, until in ends.
func runEtcd(args []string, in io.Reader) error {
	if len(args) != 5 {
		return errors.New("etcd: name, directory, two addresses and those of all peers are wanted")
	}
	name, dir, client, peer := args[0], args[1], httpURL(args[2]), httpURL(args[3])
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir = name, dir
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	var all []string
	for i, p := range strings.Split(args[4], ",") {
		all = append(all, fmt.Sprintf("etcd-%d=http://%s", i, p))
	}
	cfg.InitialCluster = strings.Join(all, ",")
	cfg.LogLevel = "error"
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	defer e.Close()
	_, err = io.Copy(io.Discard, in)
	return err
}

func httpURL(addr string) url.URL { return url.URL{Scheme: "http", Host: addr} }

func etcdLeader(ctx context.Context, addrs []string) (int, error) {
	c, err := dialEtcd(addrs)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	ctx, cancel := demokit.Within(ctx, 2*time.Second, "no status")
	defer cancel()
	leader := -1
	for i, addr := range addrs {
		status, err := c.Status(ctx, addr)
		if err != nil {
			return 0, err
		}
		if status.Leader == 0 {
			return 0, errors.New("etcd has no leader")
		}
		if status.Leader == status.Header.MemberId {
			leader = i
		}
	}
	if leader < 0 {
		return 0, errors.New("etcd's leader does not answer")
	}
	return leader, nil
}

func dialEtcd(addrs []string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: addrs, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
}

type etcdPlace struct{ c *clientv3.Client }

func openEtcd(_ context.Context, p placing) (place, error) {
	c, err := dialEtcd(p.Servers)
	if err != nil {
		return nil, err
	}
	return &etcdPlace{c}, nil
}

func (p *etcdPlace) Close() error { return p.c.Close() }

func (p *etcdPlace) client(_ context.Context, ttl time.Duration) (client, error) {
	s, err := concurrency.NewSession(p.c, concurrency.WithTTL(int(ttl/time.Second)))
	if err != nil {
		return nil, err
	}
	return &etcdClient{s}, nil
}

// unlockAttempts is how often a release is tried: an overloaded etcd ends some with "request timed out".
const unlockAttempts = 3

type etcdClient struct{ s *concurrency.Session }

func (c *etcdClient) lock(ctx context.Context, name string) (func(context.Context) error, error) {
	m := concurrency.NewMutex(c.s, "/"+name)
	if err := m.Lock(ctx); err != nil {
		return nil, err
	}
	return func(ctx context.Context) (err error) {
		for range unlockAttempts {
			if err = m.Unlock(ctx); err == nil || ctx.Err() != nil {
				break
			}
		}
		return err
	}, nil
}

func (c *etcdClient) Close() error { return c.s.Close() }
