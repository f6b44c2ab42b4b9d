//go:build unix

package main

import (
	"context"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/fence"
)

// quorumLocker is quorumlock: the worker's process is one instance of the lock service itself.
type quorumLocker struct{ node *quorumlock.Node }

func (l *quorumLocker) acquire(ctx context.Context, name string, _ bool) (hold, error) {
	h, err := quorumlock.NewMutex(l.node, name).Lock(ctx)
	if err != nil {
		return nil, err
	}
	return &quorumHold{hold: h}, nil
}

func (l *quorumLocker) ready(ctx context.Context) (status, error) {
	if err := l.node.Ready(ctx); err != nil {
		return status{}, err
	}
	members, err := l.node.Members(ctx)
	if err != nil {
		return status{}, err
	}
	var s status
	for _, m := range members {
		if m.Voter && m.Reachable {
			s.Voters++
		}
		if m.Leader {
			s.Leader = m.Name
		}
	}
	return s, nil
}

func (l *quorumLocker) close() error { return l.node.Close() }

type quorumHold struct{ hold *quorumlock.Hold }

func (h *quorumHold) held(context.Context) bool { return h.hold.Err() == nil }

func (h *quorumHold) grant() fence.Grant {
	ctx, cancel := h.hold.Context(context.Background())
	defer cancel()
	g, _ := fence.FromContext(ctx, resource) // the context of a hold carries its grant
	return g
}

func (h *quorumHold) value() string { return "" }

func (h *quorumHold) release(context.Context) error { return h.hold.Unlock() }
