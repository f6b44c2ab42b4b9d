package quorumlock

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"sync"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/store"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// snapshotOf is a snapshot of the machine's state, and one that is as sound and says that it was taken of another state.
func snapshotOf(t *testing.T, m *machine) (good, bad []byte) {
	t.Helper()
	var b bytes.Buffer
	if err := wire.WriteSnapshot(&b, m.view()); err != nil {
		t.Fatal(err)
	}
	body, hash := bytes.Clone(b.Bytes()[:b.Len()-sha256.Size]), m.view().Hash()
	body[bytes.Index(body, hash[:])] ^= 1
	sum := sha256.Sum256(body)
	return b.Bytes(), append(body, sum[:]...)
}

func restore(m *machine, snapshot []byte) error {
	return m.Restore(io.NopCloser(bytes.NewReader(snapshot)))
}

// A snapshot that is sound and yet gives another state than the one it was taken of stops the member before it serves any of it. It is not told that its own state
// differs, since nobody knows that; and it takes no older snapshot instead.
func TestSnapshotOfAnotherStateStopsTheMember(t *testing.T) {
	from := newMachine()
	from.commands(t, found(), open("a"))
	good, bad := snapshotOf(t, from)
	m := newMachine()
	m.commands(t, found())
	before := m.view().Hash()
	err := restore(m, bad)
	var s *SnapshotError
	if !errors.As(err, &s) || s.Taken || s.Index != 1 || len(m.failures) != 1 || !errors.As(m.failures[0], &s) || errors.Is(err, ErrDiverged) {
		t.Errorf("%v, failures %v", err, m.failures)
	}
	if err := restore(m, good); err == nil {
		t.Error("it takes another snapshot")
	}
	if _, is := m.entry(wire.AppendBatch(nil, 1, []*locktable.Command{open("b")})).(error); !is || m.view().Hash() != before {
		t.Error("the member goes on")
	}
}

// faultySink changes a byte on its way from the member's memory to its disk.
type faultySink struct {
	raft.SnapshotSink
	once sync.Once
}

func (s *faultySink) Write(p []byte) (int, error) {
	p = bytes.Clone(p)
	s.once.Do(func() { p[len(p)/2] ^= 1 })
	return s.SnapshotSink.Write(p)
}

// A member reads back what it writes: a snapshot that it cannot read as its own state is never seen by anybody, and stops it. Sound ones, and one that is
// given up because the node closes, do not.
func TestMemberReadsItsOwnSnapshotBack(t *testing.T) {
	for name, test := range map[string]struct {
		faulty, closing bool
		kept, failures  int
	}{
		"sound":   {kept: 1},
		"faulty":  {faulty: true, failures: 1},
		"closing": {closing: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := &Node{}
			n.life, n.endLife = context.WithCancel(t.Context())
			s, err := store.Open(t.Context(), store.Options{Cluster: "c", VerifySnapshot: n.verifySnapshot})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			m := newMachine()
			m.hashes.goOn = func() bool { return n.life.Err() == nil }
			m.commands(t, found(), open("a"))
			snap, err := m.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			var sink raft.SnapshotSink
			if sink, err = s.Snapshots().Create(1, 1, 1, raft.Configuration{}, 1, nil); err != nil {
				t.Fatal(err)
			}
			if test.faulty {
				sink = &faultySink{SnapshotSink: sink}
			}
			if test.closing {
				n.endLife()
			}
			if err := snap.Persist(sink); (err == nil) != (test.kept == 1) {
				t.Error(err)
			}
			if list, err := s.Snapshots().List(); err != nil || len(list) != test.kept || s.Failed() != nil {
				t.Errorf("%d snapshots, %v, failed %v", len(list), err, s.Failed())
			}
			var own *SnapshotError
			if len(m.failures) != test.failures || test.failures > 0 && (!errors.As(m.failures[0], &own) || !own.Taken) {
				t.Errorf("failures %v", m.failures)
			}
		})
	}
}

// An empty state too: raft may ask for a snapshot when all that it has is its configuration.
func TestEmptyStateGoesThroughASnapshot(t *testing.T) {
	m := newMachine()
	m.StoreConfiguration(1, raft.Configuration{})
	good, _ := snapshotOf(t, m)
	if err := restore(newMachine(), good); err != nil {
		t.Error(err)
	}
}
