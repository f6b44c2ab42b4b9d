package quorumlock

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// A snapshot is due after a fixed amount of log while the state is small, and after as much log as the state takes once it is larger; a member that got its state by a restore goes by that
// one's size. One that was not finished counts for nothing.
func TestSnapshotsArePacedByTheSizeOfTheState(t *testing.T) {
	m := holding(2_000, 10)
	if m.snapshotDue(1 << 30) {
		t.Error("due before anything like it was applied")
	}
	if !m.snapshotDue(1_000) {
		t.Fatal("not due although the log is long and no snapshot was ever taken")
	}
	const least = 1_000
	var snapshot bytes.Buffer
	persisted(t, m, &snapshot)
	grow := func(m *machine) (applied int) {
		m.hashes.least = 1 << 62
		id := m.commands(t, open("busy"))[0].Session
		for seq := uint64(1); !m.snapshotDue(least); seq++ {
			entry := wire.AppendBatch(nil, 1, []*locktable.Command{{
				Op: locktable.OpClaim, Session: id, Seq: seq, Floor: seq, Names: []string{fmt.Sprintf("more/%07d", seq)},
			}})
			if m.entry(entry); applied > 10*snapshot.Len() {
				t.Fatal("never due")
			}
			applied += len(entry)
		}
		return applied
	}
	if applied := grow(m); applied < snapshot.Len()-200 || applied > snapshot.Len()+200 {
		t.Errorf("due after %d bytes of log, the snapshot has %d", applied, snapshot.Len())
	}

	// The next one fails. Its beginning has taken what was applied before along, as ever, but the size stays the former one's.
	failing, err := m.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if err := failing.Persist(&sink{Writer: brokenPipe{}}); err == nil {
		t.Fatal("persisted into a broken pipe")
	}
	if applied := grow(m); applied < snapshot.Len()-200 || applied > snapshot.Len()+200 {
		t.Errorf("after a snapshot that failed, due after %d bytes of log, want %d", applied, snapshot.Len())
	}

	restored := newMachine()
	if err := restore(restored, snapshot.Bytes()); err != nil {
		t.Fatal(err)
	}
	if applied := grow(restored); applied < snapshot.Len()-200 || applied > snapshot.Len()+200 {
		t.Errorf("after a restore, due after %d bytes of log, want %d", applied, snapshot.Len())
	}

	small := newMachine()
	small.commands(t, found())
	var tiny bytes.Buffer
	persisted(t, small, &tiny)
	if applied := grow(small); tiny.Len() >= least || applied < least-200 || applied > least+200 {
		t.Errorf("with a state of %d bytes due after %d bytes of log, want %d", tiny.Len(), applied, least)
	}
}

func persisted(t *testing.T, m *machine, w io.Writer) {
	t.Helper()
	snapshot, err := m.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if err := snapshot.Persist(&sink{Writer: w}); err != nil {
		t.Fatal(err)
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }
