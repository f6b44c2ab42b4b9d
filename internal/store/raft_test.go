package store

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// TestRaftSurvivesItsDisk fails the disk of one voter, in each role and on each of raft's calls that meet the disk. The process
// must not panic, the others must go on, and every member must stop cleanly.
func TestRaftSurvivesItsDisk(t *testing.T) {
	tests := []struct {
		name   string
		voters int
		fail   func(t *testing.T, group []*member, l, f *member) *member // returns the failed one
	}{
		{"leader appends", 3, func(t *testing.T, _ []*member, l, _ *member) *member {
			l.disk.FailWrites(errDisk)
			if err := l.apply(1); err == nil {
				t.Error("an entry that could not be written was acknowledged")
			}
			return l
		}},
		{"follower appends", 3, func(t *testing.T, _ []*member, l, f *member) *member {
			f.disk.FailWrites(errDisk)
			mustApply(t, l, 1)
			return f
		}},
		{"follower saves the term of an election", 3, func(t *testing.T, _ []*member, l, f *member) *member {
			f.disk.FailWrites(errDisk)
			l.cut() // somebody stands for election now
			return f
		}},
		{"lone leader appends", 1, func(t *testing.T, _ []*member, l, _ *member) *member {
			l.disk.FailWrites(errDisk)
			if err := l.apply(1); err == nil {
				t.Error("an entry that could not be written was acknowledged")
			}
			return l
		}},
		{"leader takes a snapshot", 3, func(t *testing.T, _ []*member, l, _ *member) *member {
			l.disk.FailWrites(errDisk)
			if err := l.raft.Snapshot().Error(); err == nil {
				t.Error("a snapshot was taken")
			}
			return l
		}},
		{"leader compacts", 1, func(t *testing.T, _ []*member, l, _ *member) *member {
			// the snapshot's own writes pass: create, content, finish
			l.failDelete.Store(true)
			if err := l.raft.Snapshot().Error(); err == nil {
				t.Error("the log was compacted")
			}
			return l
		}},
		{"follower reads damage that it is to apply", 3, func(t *testing.T, group []*member, _, f *member) *member {
			// After a restart it learns from the leader what is committed, and reads that to apply it. NewRaft has read it all
			// once, so the damage has to come after.
			f.cut()
			f.stop()
			if err := f.start(); err != nil {
				t.Fatal(err)
			}
			if !f.disk.Corrupt(15) {
				t.Fatal("no entry to damage")
			}
			f.reconnect(group)
			return f
		}},
		{"leader reads damage that it is to send", 3, func(t *testing.T, group []*member, l, f *member) *member {
			f.cut()
			mustApply(t, l, 20)
			last := mustLast(t, l.store)
			l.store.logs.recent.forget()
			for i := last - 15; i <= last; i++ {
				l.disk.Corrupt(i)
			}
			f.reconnect(group)
			return l
		}},
		{"follower installs a snapshot", 3, func(t *testing.T, group []*member, l, f *member) *member {
			f.cut()
			mustApply(t, l, 30)
			if err := l.raft.Snapshot().Error(); err != nil {
				t.Fatal(err)
			}
			f.disk.FailWrites(errDisk)
			f.reconnect(group)
			return f
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				group := startGroup(t, test.voters)
				l := leader(t, group)
				mustApply(t, l, 30)
				time.Sleep(time.Second) // until every follower has them
				f := group[0]
				if f == l && test.voters > 1 {
					f = group[1]
				}
				failed := test.fail(t, group, l, f)
				wantFailed(t, failed)
				time.Sleep(10 * time.Second) // failed elections and retries of the failed member, were there any
				if failed != l {
					l.reconnect(without(group, failed)) // it was cut off to provoke the failure
				}
				if len(group) > 1 {
					mustApply(t, leader(t, group), 5)
				}
				if failed.apply(1) == nil {
					t.Error("the failed member still acknowledges")
				}
				for _, m := range group {
					m.stop()
				}
			})
		})
	}
}

// memberLogs fails deletions alone, which a Disk cannot.
type memberLogs struct {
	raft.LogStore
	m *member
}

func (l memberLogs) DeleteRange(from, to uint64) error {
	if l.m.failDelete.Load() {
		return errDisk
	}
	return l.LogStore.DeleteRange(from, to)
}

// TestNewRaftOnFailingDisk: what would panic or end the caller's goroutine comes back from Guard as an error.
func TestNewRaftOnFailingDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, trans := raft.NewInmemTransport("n")
		m := &member{t: t, id: "n", disk: NewDisk(), trans: trans, cut: func() {}}
		m.disk.FailWrites(errDisk)
		if err := m.start(); !errors.Is(err, errDisk) {
			t.Errorf("NewRaft on a failing disk: %v", err)
		}
		wantFailed(t, m)
		m.stop()
		m.disk.FailWrites(nil)

		if err := m.start(); err != nil {
			t.Fatal(err)
		}
		m.disk.FailWrites(errDisk)
		err := m.store.Guard(func() error {
			return raft.BootstrapCluster(raftConfig("n"), m.store.Logs(), m.store.Stable(), m.store.Snapshots(), m.trans,
				raft.Configuration{Servers: []raft.Server{{ID: "n", Address: "n"}}})
		})
		if !errors.Is(err, errDisk) {
			t.Errorf("BootstrapCluster on a failing disk: %v", err)
		}
		m.stop()
		m.disk.FailWrites(nil)

		m.raft = nil
		m.beforeRaft = func() {
			if err := m.store.Logs().StoreLogs([]*raft.Log{{Index: 1, Term: 1}, {Index: 2, Term: 1}}); err != nil {
				t.Fatal(err)
			}
			m.store.logs.recent.forget()
			m.disk.Corrupt(1)
		}
		err = m.start()
		asError[*CorruptError](t, err)
		m.stop()
	})
}

func TestGuardReturnsPanics(t *testing.T) {
	s := mustOpen(t, Options{})
	if err := s.Guard(func() error { panic("boo") }); err == nil {
		t.Error("no error")
	}
	if err := s.Guard(func() error { return errDisk }); err != errDisk {
		t.Error(err)
	}
}

// TestCrashOfMembers crashes all members of a group at once, with their raft instances running on, and starts them again on their
// disks: everything acknowledged is there, and the crashed instances can be shut down.
func TestCrashOfMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group := startGroup(t, 3)
		acknowledged := 0
		for round := range 3 {
			l := leader(t, group)
			mustApply(t, l, 20)
			acknowledged += 20
			if round == 1 {
				if err := l.raft.Snapshot().Error(); err != nil {
					t.Fatal(err)
				}
			}
			for _, m := range group {
				m.disk.Crash()
			}
			time.Sleep(3 * time.Second) // elections of the dead
			for _, m := range group {
				if m.store.Failed() != nil {
					t.Errorf("a crash felled the latch: %v", m.store.Failed())
				}
				m.stop()
				_, m.trans = raft.NewInmemTransport(raft.ServerAddress(m.id))
			}
			for _, m := range group {
				for _, other := range group {
					m.trans.Connect(other.trans.LocalAddr(), other.trans)
				}
				if err := m.start(); err != nil {
					t.Fatal(err)
				}
			}
			l = leader(t, group)
			if err := l.raft.Barrier(0).Error(); err != nil {
				t.Fatal(err)
			}
			if got := l.fsm.count(); got != acknowledged {
				t.Fatalf("%d commands after the crash, %d were acknowledged", got, acknowledged)
			}
		}
		for _, m := range group {
			m.stop()
		}
	})
}

// TestLogStaysGapless lets a member fall behind a snapshot: raft empties its log instead of leaving a gap.
func TestLogStaysGapless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group := startGroup(t, 3)
		l := leader(t, group)
		mustApply(t, l, 5)
		time.Sleep(time.Second) // a pipeline that raft's in-memory transport opens in the moment of a cut outlives it
		f := group[0]
		if f == l {
			f = group[1]
		}
		f.cut()
		mustApply(t, l, 50)
		if err := l.raft.Snapshot().Error(); err != nil {
			t.Fatal(err)
		}
		f.reconnect(group)
		time.Sleep(10 * time.Second)
		mustApply(t, leader(t, group), 5)
		time.Sleep(time.Second)
		if got := f.fsm.count(); got != 60 {
			t.Errorf("the member that fell behind has %d commands", got)
		}
		first, last := f.store.logs.sealed.bounds()
		if list, err := f.store.Snapshots().List(); err != nil || len(list) == 0 || first != list[0].Index+1 || last < first {
			t.Errorf("log %d to %d beside snapshots %v, %v", first, last, list, err)
		}
		for _, m := range group {
			m.stop()
		}
	})
}
