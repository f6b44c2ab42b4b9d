package store

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// countFSM counts commands, and nothing else.
type countFSM struct {
	mu sync.Mutex
	n  int
}

func (f *countFSM) Apply(*raft.Log) any {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	return f.n
}

func (f *countFSM) Snapshot() (raft.FSMSnapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return countSnapshot(f.n), nil
}

func (f *countFSM) Restore(r io.ReadCloser) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := fmt.Fscan(r, &f.n)
	return err
}

func (f *countFSM) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}

type countSnapshot int

func (c countSnapshot) Persist(sink raft.SnapshotSink) error {
	if _, err := fmt.Fprintf(sink, "%d\n", int(c)); err != nil {
		return err
	}
	return sink.Close()
}

func (countSnapshot) Release() {}

// member is one real raft node on a Disk.
type member struct {
	t      *testing.T
	id     raft.ServerID
	disk   *Disk
	store  *Store
	fsm    *countFSM
	raft   *raft.Raft
	trans  *raft.InmemTransport
	failed chan error // the latch's cause; then cut is called, as the node would cut its streams
	cut    func()

	beforeRaft func()      // runs between Open and NewRaft
	failDelete atomic.Bool // deletions from the log fail
}

func raftConfig(id raft.ServerID) *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = id
	c.Logger = hclog.NewNullLogger()
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = 500*time.Millisecond, 500*time.Millisecond, 250*time.Millisecond
	c.SnapshotInterval, c.SnapshotThreshold, c.TrailingLogs = time.Hour, 1<<40, 10
	return c
}

func (m *member) start() error {
	m.failed = make(chan error, 1)
	m.store = mustOpen(m.t, Options{Disk: m.disk, OnFail: func(err error) {
		m.failed <- err
		m.cut()
	}})
	m.store.logs.sealed.base = memberLogs{m.store.medium.logs, m}
	m.fsm = &countFSM{}
	if m.beforeRaft != nil {
		m.beforeRaft()
	}
	return m.store.Guard(func() (err error) {
		m.raft, err = raft.NewRaft(raftConfig(m.id), m.fsm, m.store.Logs(), m.store.Stable(), m.store.Snapshots(), m.trans)
		return err
	})
}

func (m *member) stop() {
	if m.raft != nil {
		if err := m.raft.Shutdown().Error(); err != nil {
			m.t.Errorf("%s: shutdown: %v", m.id, err)
		}
	}
	mustClose(m.t, m.store)
}

// reconnect undoes cut, towards the given members.
func (m *member) reconnect(group []*member) {
	for _, other := range group {
		m.trans.Connect(other.trans.LocalAddr(), other.trans)
		other.trans.Connect(m.trans.LocalAddr(), m.trans)
	}
}

func without(group []*member, m *member) []*member {
	return slices.DeleteFunc(slices.Clone(group), func(other *member) bool { return other == m })
}

// startGroup starts n voters in the bubble of t.
func startGroup(t *testing.T, n int) []*member {
	t.Helper()
	var group []*member
	var configuration raft.Configuration
	for i := range n {
		id := raft.ServerID(fmt.Sprint("n", i))
		_, trans := raft.NewInmemTransport(raft.ServerAddress(id))
		m := &member{t: t, id: id, disk: NewDisk(), trans: trans}
		group = append(group, m)
		configuration.Servers = append(configuration.Servers, raft.Server{ID: id, Address: raft.ServerAddress(id)})
	}
	for _, m := range group {
		m.cut = func() {
			for _, other := range group {
				m.trans.Disconnect(other.trans.LocalAddr())
				other.trans.Disconnect(m.trans.LocalAddr())
			}
		}
		for _, other := range group {
			m.trans.Connect(other.trans.LocalAddr(), other.trans)
		}
	}
	for _, m := range group {
		if err := m.start(); err != nil {
			t.Fatal(err)
		}
		if err := m.raft.BootstrapCluster(configuration).Error(); err != nil {
			t.Fatal(err)
		}
	}
	return group
}

// leader waits for a leader among the members whose store is whole.
func leader(t *testing.T, group []*member) *member {
	t.Helper()
	for range 1000 {
		for _, m := range group {
			if m.store.Failed() == nil && m.raft.State() == raft.Leader && m.raft.VerifyLeader().Error() == nil {
				return m
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("no leader")
	return nil
}

func (m *member) apply(n int) error {
	for range n {
		if err := m.raft.Apply([]byte("x"), time.Second).Error(); err != nil {
			return err
		}
	}
	return nil
}

func mustApply(t *testing.T, m *member, n int) {
	t.Helper()
	if err := m.apply(n); err != nil {
		t.Fatal(err)
	}
}

func wantFailed(t *testing.T, m *member) {
	t.Helper()
	select {
	case err := <-m.failed:
		t.Logf("%s failed as planned: %v", m.id, err)
	case <-time.After(time.Minute):
		t.Fatalf("%s: the fault did not bite", m.id)
	}
}
