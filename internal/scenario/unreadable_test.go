package scenario_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/sim"
	"github.com/quorumlock/quorumlock/internal/store"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// usedDisk is the disk of a one-node cluster that has granted a lock and was closed, and the token of that grant.
func usedDisk(t *testing.T) (*store.Disk, quorumlock.Token) {
	t.Helper()
	disk := store.NewDisk()
	n, err := quorumlock.Open(context.Background(), aloneOn(disk))
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	readyIn(t, n, restartBound)
	last := grantMany(t, n, "k", 3)
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	return disk, last
}

// onDisk opens what a node keeps, while it is down.
func onDisk(t *testing.T, disk *store.Disk, change func(s *store.Store, last *raft.Log)) {
	t.Helper()
	s, err := store.Open(context.Background(), store.Options{Disk: disk, Cluster: "test"})
	if err != nil {
		t.Fatal(err)
	}
	index, err := s.Logs().LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	var last raft.Log
	if err := s.Logs().GetLog(index, &last); err != nil {
		t.Fatal(err)
	}
	change(s, &last)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// S89, S103: after a downgrade a node meets an entry in its log that needs a newer binary. It fails with an error that says so,
// to its host and to every caller, and does so at every start: it never goes on past the entry. What is no entry at all is
// passed over on every member alike, and an entry of its own level is applied (the control).
func TestNodeMeetsAnEntryThatItCanNotRead(t *testing.T) {
	level := func(l uint32) []byte {
		return wire.AppendBatch(nil, 1, []*locktable.Command{{Op: locktable.OpLevel, Level: l}})
	}
	for name, test := range map[string]struct {
		entry []byte
		want  error
	}{
		"newer level": {level(wire.Level + 1), wire.ErrLevel},
		"own level":   {level(wire.Level), nil},
		"malformed":   {[]byte{1, 1, 0xff, 0xff}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				disk, last := usedDisk(t)
				onDisk(t, disk, func(s *store.Store, end *raft.Log) {
					entry := &raft.Log{Index: end.Index + 1, Term: end.Term, Type: raft.LogCommand, Data: test.entry}
					if err := s.Logs().StoreLog(entry); err != nil {
						t.Fatal(err)
					}
				})
				for range 2 {
					n, err := quorumlock.Open(context.Background(), aloneOn(disk))
					if err != nil {
						t.Fatal(err)
					}
					defer n.Close()
					if test.want != nil {
						failsFor(t, n, test.want)
					} else if h := lockIn(t, n, "k", grantBound); h.Token() <= last {
						t.Errorf("token %v after %v", h.Token(), last)
					}
					endsIn(t, "close", closeBound, func() { _ = n.Close() })
				}
			})
		})
	}
}

// failsFor fails the test unless the node fails for a reason, and grants nothing.
func failsFor(t *testing.T, n *quorumlock.Node, why error) {
	t.Helper()
	select {
	case <-n.Done():
	case <-time.After(grantBound):
		t.Fatal("the node goes on")
	}
	if err := n.Err(); !errors.Is(err, quorumlock.ErrFailed) || !errors.Is(err, why) {
		t.Errorf("the node reports %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), grantBound)
	defer cancel()
	if h, err := quorumlock.NewMutex(n, "k").Lock(ctx); err == nil {
		t.Errorf("a node that failed grants token %v", h.Token())
	}
	if err := n.Ready(ctx); err == nil {
		t.Error("a node that failed is ready")
	}
}

// S89, S103: a snapshot that needs a newer binary, or that ends half way, is what a node starts from. It says so and takes no
// part, also where raft would then fall back to an older snapshot that is sound: the state that it would go on from is not the
// one that it had acknowledged.
func TestNodeMeetsASnapshotThatItCanNotRead(t *testing.T) {
	newer := func(b []byte) []byte { return raised(t, b) }
	half := func(b []byte) []byte { return b[:len(b)/2] }
	same := func(b []byte) []byte { return b }
	for name, test := range map[string]struct {
		snapshots []func(sound []byte) []byte // from the oldest to the newest
		want      error
	}{
		"newer level":                {[]func([]byte) []byte{newer}, wire.ErrLevel},
		"half":                       {[]func([]byte) []byte{half}, wire.ErrMalformed},
		"newer level over an older":  {[]func([]byte) []byte{same, newer}, wire.ErrLevel},
		"half over an older":         {[]func([]byte) []byte{same, half}, wire.ErrMalformed},
		"sound, to show that it can": {[]func([]byte) []byte{same, same}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				disk, last := usedDisk(t)
				sound := snapshotOf(t, disk)
				onDisk(t, disk, func(s *store.Store, end *raft.Log) {
					for _, change := range test.snapshots {
						keepSnapshot(t, s, end, change(sound))
					}
				})
				n, err := quorumlock.Open(context.Background(), aloneOn(disk))
				if test.want == nil {
					if err != nil {
						t.Fatal(err)
					}
					defer n.Close()
					if h := lockIn(t, n, "k", grantBound); h.Token() <= last {
						t.Errorf("token %v after %v", h.Token(), last)
					}
					return
				}
				if err != nil {
					if !errors.Is(err, test.want) {
						t.Errorf("open: %v", err)
					}
					return
				}
				defer n.Close()
				failsFor(t, n, test.want)
			})
		})
	}
}

// snapshotOf is a snapshot of what the log on a disk makes of an empty state.
func snapshotOf(t *testing.T, disk *store.Disk) []byte {
	t.Helper()
	table := locktable.New()
	onDisk(t, disk, func(s *store.Store, end *raft.Log) {
		for index := uint64(1); index <= end.Index; index++ {
			var entry raft.Log
			if err := s.Logs().GetLog(index, &entry); err != nil {
				t.Fatal(err)
			}
			if entry.Type != raft.LogCommand {
				continue
			}
			batch, err := wire.DecodeBatch(entry.Data)
			if err != nil {
				t.Fatal(err)
			}
			for k := range batch.Commands {
				table.Apply(entry.Index, entry.Term, batch.Wall, &batch.Commands[k], &locktable.Effects{})
			}
		}
	})
	return written(t, table)
}

func written(t *testing.T, table *locktable.Table) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := wire.WriteSnapshot(&b, table.Snapshot()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// raised is a snapshot of the same state at the next feature level.
func raised(t *testing.T, snapshot []byte) []byte {
	t.Helper()
	table, err := wire.ReadSnapshot(bytes.NewReader(snapshot))
	if err != nil {
		t.Fatal(err)
	}
	h := table.Header()
	raise := &locktable.Command{Op: locktable.OpLevel, Level: wire.Level + 1}
	if r := table.Apply(h.Index+1, 1, 1, raise, &locktable.Effects{}); r.Code != locktable.CodeOK {
		t.Fatalf("level not raised: %+v", r)
	}
	return written(t, table)
}

// keepSnapshot puts a snapshot on a disk that covers the whole log.
func keepSnapshot(t *testing.T, s *store.Store, end *raft.Log, content []byte) {
	t.Helper()
	alone := raft.Configuration{Servers: []raft.Server{{ID: raft.ServerID(s.ServerID()), Address: raft.ServerAddress(s.ServerID())}}}
	sink, err := s.Snapshots().Create(raft.SnapshotVersionMax, end.Index, end.Term, alone, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(sink, bytes.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
}

// S89: an entry on the disk of one member is damaged. The member stays out, and says which entry it is, at every start; the
// others go on, and with an empty disk it joins them as a new member.
func TestMemberWithADamagedEntryStaysOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		_, f := roles(c)
		last := grantMany(t, c.Node(f[1]), "k", 10)
		id := c.Node(f[0]).ID()
		index, _ := sim.State(c.Node(f[0]))
		c.Crash(f[0])
		if !c.Disk(f[0]).Corrupt(index - 5) {
			t.Fatalf("no entry %d: the fault did not bite", index-5)
		}
		for range 2 {
			var damage *store.CorruptError
			if err := c.TryStart(f[0]); !errors.As(err, &damage) {
				t.Fatalf("open: %v", err)
			}
		}
		if next := grantMany(t, c.Node(f[1]), "k", 1); next <= last {
			t.Errorf("token %v after %v", next, last)
		}
		c.Replace(f[0])
		c.Start(f[0])
		c.WaitReady()
		if c.Node(f[0]).ID() == id {
			t.Error("the id was used again")
		}
		unlock(t, lockIn(t, c.Node(f[0]), "k", grantBound))
		awaitVoters(t, c, 30*time.Second, 0, 1, 2)
		c.CheckState()
	})
}
