package quorumlock

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// million is a state machine with that many locks held by a thousand sessions, built once for all benchmarks.
var million = sync.OnceValue(func() *machine { return holding(1_000_000, 1_000) })

// holding applies entries of 250 claims each.
func holding(holds, sessions int) *machine {
	m := newMachine()
	m.hashes.least = 1 << 62
	apply := func(cmds ...*locktable.Command) []locktable.Result {
		results := m.entry(wire.AppendBatch(nil, 1, cmds)).(*answered).take()
		m.events = nil
		return results
	}
	apply(found())
	ids := make([]locktable.SessionID, sessions)
	for i := range ids {
		ids[i] = apply(open(fmt.Sprintf("node-%d", i%50)))[0].Session
	}
	var batch []*locktable.Command
	for i := range holds {
		seq := uint64(i/sessions + 1)
		name := fmt.Sprintf("tenant/%07d/job-nightly", i*7919%holds)
		batch = append(batch, &locktable.Command{Op: locktable.OpClaim, Session: ids[i%sessions], Seq: seq, Floor: seq, Names: []string{name}})
		if len(batch) == 250 || i == holds-1 {
			apply(batch...)
			batch = batch[:0]
		}
	}
	return m
}

// sink is a snapshot on its way to a writer. (A buffer that grows would stop the program while it is copied.)
type sink struct {
	io.Writer
	written int
}

func (s *sink) Write(b []byte) (int, error) {
	n, err := s.Writer.Write(b)
	s.written += n
	return n, err
}

func (*sink) ID() string    { return "bench" }
func (*sink) Cancel() error { return nil }
func (*sink) Close() error  { return nil }

// BenchmarkSnapshotStops is for how long Apply is stopped when a snapshot is taken.
func BenchmarkSnapshotStops(b *testing.B) {
	m := million()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Snapshot(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkApplyBesidePersist writes a million holds down while entries of 64 commands are applied one after the other, and then applies as many without a snapshot: the two longest
// show what stopping there is besides taking the snapshot (the first writes after it copy nodes, and the collector works harder).
func BenchmarkApplyBesidePersist(b *testing.B) {
	m := million()
	id := m.entry(wire.AppendBatch(nil, 1, []*locktable.Command{open("busy")})).([]locktable.Result)[0].Session
	var seq uint64
	var beside, alone []time.Duration
	timed := func() time.Duration {
		start := time.Now()
		cycleEntry(b, m, id, &seq)
		return time.Since(start)
	}
	for b.Loop() {
		snapshot, err := m.Snapshot()
		if err != nil {
			b.Fatal(err)
		}
		written := make(chan error, 1)
		go func() { written <- snapshot.Persist(&sink{Writer: io.Discard}) }()
		for done := false; !done; {
			beside = append(beside, timed())
			select {
			case err := <-written:
				if done = true; err != nil {
					b.Fatal(err)
				}
			default:
			}
		}
		for len(alone) < len(beside) {
			alone = append(alone, timed())
		}
	}
	for what, took := range map[string][]time.Duration{"beside": beside, "alone": alone} {
		slices.Sort(took)
		for at, name := range map[int]string{len(took) / 2: "p50", len(took) - 1 - len(took)/1_000: "p99.9", len(took) - 1: "max"} {
			b.ReportMetric(float64(took[at].Microseconds())/1000, "ms/"+name+"-"+what)
		}
	}
	b.ReportMetric(float64(len(beside))/float64(b.N), "entries/snapshot")
	m.entry(wire.AppendBatch(nil, 1, []*locktable.Command{{Op: locktable.OpClose, Session: id, Now: true}}))
	m.events = nil
}

// cycleEntry claims 32 locks and gives them back, in one entry.
func cycleEntry(b *testing.B, m *machine, id locktable.SessionID, seq *uint64) {
	cmds := make([]*locktable.Command, 0, 64)
	for i := range 32 {
		*seq++
		cmds = append(cmds, &locktable.Command{Op: locktable.OpClaim, Session: id, Seq: *seq, Floor: *seq, Names: []string{fmt.Sprintf("busy/%02d", i)}})
		*seq++
		cmds = append(cmds, &locktable.Command{Op: locktable.OpCancel, Session: id, Seq: *seq - 1, Floor: *seq})
	}
	results := m.entry(wire.AppendBatch(nil, 1, cmds)).(*answered).take()
	if r := results[0]; r.Code != locktable.CodeGranted {
		b.Fatal(r.Code)
	}
	m.events = m.events[:0]
}

// BenchmarkPersist encodes a million holds, without a disk.
func BenchmarkPersist(b *testing.B) {
	m := million()
	b.ReportAllocs()
	size := 0
	for b.Loop() {
		snapshot, err := m.Snapshot()
		if err != nil {
			b.Fatal(err)
		}
		out := sink{Writer: io.Discard}
		if err := snapshot.Persist(&out); err != nil {
			b.Fatal(err)
		}
		size = out.written
	}
	b.SetBytes(int64(size))
}

// BenchmarkRestore reads a million holds, verifies them, and puts them in the place of what was there.
func BenchmarkRestore(b *testing.B) {
	snapshot, err := million().Snapshot()
	if err != nil {
		b.Fatal(err)
	}
	var out bytes.Buffer
	if err := snapshot.Persist(&sink{Writer: &out}); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(out.Len()))
	b.ReportAllocs()
	for b.Loop() {
		m := newMachine()
		if err := m.Restore(io.NopCloser(bytes.NewReader(out.Bytes()))); err != nil {
			b.Fatal(err)
		}
	}
}

var _ raft.SnapshotSink = (*sink)(nil)
