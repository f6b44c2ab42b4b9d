//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/quorumlock/quorumlock/internal/store"
)

// bareGroup is raft as quorumlock sets it up, without quorumlock: the limit of what a group can do.
type bareGroup struct {
	leader atomic.Pointer[raft.Raft]
	nodes  []*raft.Raft
	stores []*store.Store
	nets   []*raft.NetworkTransport
}

func newBareGroup(g Group) (_ *bareGroup, err error) {
	b := &bareGroup{}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	var servers raft.Configuration
	for range g.Voters {
		t, err := raft.NewTCPTransportWithLogger("127.0.0.1:0", nil, 3, 2*time.Second, hclog.NewNullLogger())
		if err != nil {
			return nil, err
		}
		b.nets = append(b.nets, t)
		servers.Servers = append(servers.Servers, raft.Server{ID: raft.ServerID(t.LocalAddr()), Address: t.LocalAddr()})
	}
	for i, t := range b.nets {
		s, err := store.Open(context.Background(), store.Options{Dir: filepath.Join(g.Dir, fmt.Sprint("bare-", i)), Cluster: "bare"})
		if err != nil {
			return nil, err
		}
		b.stores = append(b.stores, s)
		r, err := raft.NewRaft(bareConfig(servers.Servers[i].ID), nothing{}, s.Logs(), s.Stable(), s.Snapshots(), t)
		if err != nil {
			return nil, err
		}
		b.nodes = append(b.nodes, r)
	}
	if err := b.nodes[0].BootstrapCluster(servers).Error(); err != nil {
		return nil, err
	}
	return b, b.elect()
}

func bareConfig(id raft.ServerID) *raft.Config {
	conf := raft.DefaultConfig()
	conf.LocalID = id
	conf.HeartbeatTimeout, conf.ElectionTimeout, conf.LeaderLeaseTimeout = 500*time.Millisecond, 500*time.Millisecond, 250*time.Millisecond
	conf.MaxAppendEntries = 512
	conf.SnapshotThreshold = 1 << 62
	conf.NoLegacyTelemetry = true
	conf.Logger = hclog.NewNullLogger()
	return conf
}

const electBound = 20 * time.Second

func (b *bareGroup) elect() error {
	for end := time.Now().Add(electBound); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		for _, r := range b.nodes {
			if r.State() == raft.Leader && r.Barrier(time.Second).Error() == nil {
				b.leader.Store(r)
				return nil
			}
		}
	}
	return errors.New("nobody leads")
}

// apply has callers apply entries one after the other, for a while. On a starved machine the leader changes now and then; the entry that it cost is tried again, as a client of the library would.
func (b *bareGroup) apply(callers int, window time.Duration) (median, p99 time.Duration, perSecond float64, err error) {
	entry := make([]byte, 100)
	end := time.Now().Add(window)
	waits := make([][]time.Duration, callers)
	errs := make([]error, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for began := time.Now(); began.Before(end) && errs[i] == nil; began = time.Now() {
				err := b.leader.Load().Apply(entry, time.Second).Error()
				for errors.Is(err, raft.ErrLeadershipLost) || errors.Is(err, raft.ErrNotLeader) {
					if err = b.elect(); err == nil {
						err = b.leader.Load().Apply(entry, time.Second).Error()
					}
				}
				errs[i] = err
				waits[i] = append(waits[i], time.Since(began))
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return 0, 0, 0, err // of the same cause as the others'
		}
	}
	list := slices.Concat(waits...)
	slices.Sort(list)
	n := len(list)
	return list[n/2], list[n-1-n/100], float64(n) / window.Seconds(), nil
}

func (b *bareGroup) close() {
	for _, r := range b.nodes {
		_ = r.Shutdown().Error()
	}
	for _, t := range b.nets {
		t.CloseStreams() // Close leaves what peers opened
		_ = t.Close()
	}
	for _, s := range b.stores {
		_ = s.Close()
	}
}

// nothing is a state machine without a state.
type nothing struct{}

func (nothing) Apply(*raft.Log) any                 { return nil }
func (nothing) Snapshot() (raft.FSMSnapshot, error) { return nil, errors.New("there is no state") }
func (nothing) Restore(r io.ReadCloser) error       { return r.Close() }
