//go:build unix

package main

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock"
)

// With quorumlock the three workers are the cluster: each opens a node with the options that are the default.
var (
	quorumDisk = &system{key: "quorumlock", name: "quorumlock", keeps: "majority, fsync", quick: true,
		embedded: true, open: openQuorum}
	quorumBolt = &system{key: "quorumlock-bolt", name: "quorumlock, LogStoreBolt", keeps: "majority, fsync",
		embedded: true, logStore: quorumlock.LogStoreBolt, open: openQuorum}
	quorumMemory = &system{key: "quorumlock-memory", name: "quorumlock, no Dir", keeps: "majority, memory", quick: true,
		embedded: true, inMemory: true, open: openQuorum}
)

type quorumPlace struct{ node *quorumlock.Node }

func openQuorum(ctx context.Context, p placing) (place, error) {
	node, err := quorumlock.Open(ctx, quorumlock.Config{
		Cluster: "bench", Name: p.Name, Dir: p.Dir, Addr: p.Addr, Join: p.Servers, Expect: len(p.Servers),
		LogStore: p.LogStore,
	})
	if err != nil {
		return nil, err
	}
	return &quorumPlace{node}, nil
}

func (p *quorumPlace) Close() error { return p.node.Close() }

func (p *quorumPlace) status(ctx context.Context) (leads bool, voters int, err error) {
	if err := p.node.Ready(ctx); err != nil {
		return false, 0, err
	}
	members, err := p.node.Members(ctx)
	for _, m := range members {
		if m.Voter && m.Reachable {
			voters++
		}
		leads = leads || m.Self && m.Leader
	}
	return leads, voters, err
}

func (p *quorumPlace) client(ctx context.Context, ttl time.Duration) (client, error) {
	s, err := p.node.NewSession(ctx, ttl)
	if err != nil {
		return nil, err
	}
	return &quorumClient{s}, nil
}

type quorumClient struct{ session *quorumlock.Session }

func (c *quorumClient) lock(ctx context.Context, name string) (func(context.Context) error, error) {
	h, err := quorumlock.NewMutex(c.session, name).Lock(ctx)
	if err != nil {
		return nil, err
	}
	return func(context.Context) error { return h.Unlock() }, nil
}

func (c *quorumClient) Close() error { return c.session.Close() }
