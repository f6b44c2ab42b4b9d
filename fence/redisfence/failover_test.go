//go:build unix

package redisfence_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/redisfence"
	"github.com/quorumlock/quorumlock/internal/servers"
	"github.com/quorumlock/quorumlock/internal/servers/servertest"
)

// group is a primary and replicas, each of which hears the primary through a line that can be cut.
type group struct {
	primary  *servers.Server
	client   *redis.Client // of the primary
	replicas []*redis.Client
	lines    []*proxy
}

func startGroup(t *testing.T, replicas int) *group {
	t.Helper()
	g := &group{primary: servertest.Redis(t, "--repl-diskless-sync-delay", "0")}
	g.client = dial(t, g.primary.Addr, -1)
	for range replicas {
		line := newProxy(t, g.primary.Addr)
		r := dial(t, servertest.Redis(t).Addr, -1)
		host, port := split(t, line.addr)
		must(t, r.ReplicaOf(background(t), host, port).Err())
		g.replicas, g.lines = append(g.replicas, r), append(g.lines, line)
	}
	return g
}

// inSync waits until all replicas have what was written.
func (g *group) inSync(t *testing.T) {
	t.Helper()
	for _, r := range g.replicas {
		eventually(t, "the replica has the fence", func(ctx context.Context) bool {
			last, err := newFence(t, r, redisfence.Config{}).Last(ctx, resource)
			return err == nil && last.Token != 0
		})
	}
}

// failOver kills the primary as a loss of power would, and promotes a replica.
func (g *group) failOver(t *testing.T, to int) *redisfence.Fence {
	t.Helper()
	g.primary.Kill()
	must(t, g.replicas[to].ReplicaOf(background(t), "NO", "ONE").Err())
	return newFence(t, g.replicas[to], redisfence.Config{})
}

// accepts fails the test unless the fence takes a write under a token that it refused before the failover: this is why it is
// called best effort.
func accepts(t *testing.T, f *redisfence.Fence, c *redis.Client, stale fence.Token) {
	t.Helper()
	if _, err := f.Do(under(t, stale), resource, set("stale")); err != nil {
		t.Fatalf("the stale write was refused after the failover (%v): nothing was lost, and this test shows nothing", err)
	}
	holds(t, c, "stale")
}

// The fence is lost in a failover: the primary dies before its replica has heard of the successor's token, and the stale holder
// is accepted.
func TestFailoverLosesTheFence(t *testing.T) {
	g := startGroup(t, 1)
	f := newFence(t, g.client, redisfence.Config{})
	mustDo(t, f, 41, set("old"))
	g.inSync(t)
	g.lines[0].cut()
	mustDo(t, f, 42, set("new"))
	if _, err := f.Do(under(t, 41), resource, set("stale")); !errors.Is(err, fence.ErrStaleToken) {
		t.Fatalf("before the failover: %v", err)
	}
	accepts(t, g.failOver(t, 0), g.replicas[0], 41)
}

// Had the successor waited for the replica it would have known that its write was at risk: the write is done, and the error
// says what it lacks.
func TestWriteThatNoReplicaConfirms(t *testing.T) {
	g := startGroup(t, 1)
	f := newFence(t, g.client, redisfence.Config{Replicas: 1, ReplicaTimeout: 20 * time.Second})
	mustDo(t, f, 41, set("old")) // confirmed as soon as the replica is in sync
	g.inSync(t)
	g.lines[0].cut()
	f = newFence(t, g.client, redisfence.Config{Replicas: 1, ReplicaTimeout: 100 * time.Millisecond})
	replies, err := f.Do(under(t, 42), resource, set("new"))
	var few *redisfence.ReplicationError
	if !errors.As(err, &few) || !errors.Is(err, redisfence.ErrUnreplicated) || few.Wanted != 1 || few.Got != 0 || len(replies) != 1 {
		t.Fatalf("%v, %v", replies, err)
	}
	holds(t, g.client, "new")
	if _, err := f.Do(under(t, 41), resource, set("stale")); !errors.Is(err, fence.ErrStaleToken) {
		t.Errorf("a stale write: %v", err)
	}
}

// WAIT is no guarantee: one replica confirms, and the other one is promoted.
func TestConfirmedWriteIsLostAllTheSame(t *testing.T) {
	g := startGroup(t, 2)
	f := newFence(t, g.client, redisfence.Config{Replicas: 1, ReplicaTimeout: 20 * time.Second})
	mustDo(t, f, 41, set("old"))
	g.inSync(t)
	g.lines[1].cut()
	mustDo(t, f, 42, set("new")) // confirmed by the first
	accepts(t, g.failOver(t, 1), g.replicas[1], 41)
}
