package scenario_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/clock"
	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/sim"
	"github.com/quorumlock/quorumlock/internal/store"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/transport"
)

// Each feature level leaves data directories here, which every later version must read: log, snapshot and identity as they stand
// on the disk. What a level has left is never changed once it is released: -update writes only what is missing, and who changes a
// format before that takes its files away by hand. A later level gets a folder of its own, made by a golden log with what it
// adds.
var updateGolden = flag.Bool("update", false, "write golden directories that do not exist yet")

// goldenDirs are the directories of a folder: one of a plain member, and one of a member that was recovered.
var goldenDirs = []string{"member", "recovered"}

// goldenOps are what the log of a level must have, so that its files prove something.
var goldenOps = map[string]locktable.Op{"level1": locktable.OpRestart, "level2": locktable.OpAct}

var goldenLevels = map[string]uint32{"level1": 1, "level2": 2}

// Every golden directory is opened by this binary: what its log and its snapshot give is what was written down when it was made,
// each by itself, and a node goes on from it.
func TestGoldenDirectories(t *testing.T) {
	if *updateGolden {
		for level := range goldenLevels {
			makeGolden(t, level)
		}
	}
	folders, err := filepath.Glob("testdata/level*")
	if err != nil || len(folders) != len(goldenLevels) {
		t.Fatalf("folders %v, %v", folders, err)
	}
	for _, folder := range folders {
		for _, name := range goldenDirs {
			t.Run(filepath.Base(folder)+" "+name, func(t *testing.T) {
				bubble(t, func(t *testing.T) { checkGolden(t, folder, name) })
			})
		}
	}
}

func checkGolden(t *testing.T, folder, name string) {
	dir := t.TempDir()
	unpack(t, filepath.Join(folder, name+".tar.gz"), dir)
	want, err := os.ReadFile(filepath.Join(folder, name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	got, state := goldenPrint(t, dir, goldenOps[filepath.Base(folder)])
	if got != string(want) {
		t.Errorf("the directory is read otherwise than it was written:\ngot\n%s\nwant\n%s", got, want)
	}
	n, err := quorumlock.Open(context.Background(), goldenConfig(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	readyIn(t, n, restartBound)
	if _, hash := sim.State(n); hash != state.Hash() {
		t.Error("the node has another state")
	}
	h := state.Header()
	if next := lockIn(t, n, "new", h.Quarantine.Wait+grantBound); next.Token() <= quorumlock.Token(h.Counter) {
		t.Errorf("token %v, counter %v", next.Token(), h.Counter)
	}
}

func goldenConfig(dir string) quorumlock.Config {
	cfg := quorumlock.Config{
		Cluster: "golden", Name: "alone", Addr: "host:7000", Dir: dir, Expect: 1, AllowPlaintext: true, Transport: transport.NewMemory(1).Host("host"),
	}
	sim.Attach(&cfg, &sim.Env{Clock: clock.NewFake(), MemoryGossip: true})
	return cfg
}

// goldenPrint tells what a directory holds: its identity, what its snapshot gives with the rest of its log, and that the whole
// log, if it goes back to the first entry, gives the same.
func goldenPrint(t *testing.T, dir string, lastOp locktable.Op) (string, *locktable.Snapshot) {
	t.Helper()
	s, err := store.Open(context.Background(), store.Options{Dir: dir, Cluster: "golden", Existing: true, VerifySnapshot: func(r io.Reader) error {
		return wire.VerifySnapshot(r, func() bool { return true })
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	term, err := s.Stable().GetUint64([]byte("CurrentTerm"))
	if err != nil {
		t.Fatal(err)
	}
	identity := s.Identity()
	line("server %s, term %d, cluster %s, joining %q", s.ServerID(), term, identity.ClusterID, identity.Joining)
	if len(identity.Promise) > 0 {
		promise, err := membership.DecodePromise(identity.Promise)
		if err != nil {
			t.Fatal(err)
		}
		line("promise%s", setFields(promise))
	}
	table, meta := newestTable(t, s)
	line("snapshot at %d of term %d, configuration %+v of %d", meta.Index, meta.Term, meta.Configuration.Servers, meta.ConfigurationIndex)
	requireEachRecord(t, table)
	whole, seen := locktable.New(), map[locktable.Op]bool{}
	first := eachEntry(t, s, func(e *raft.Log) {
		line("entry %d of term %d: %v, %d bytes", e.Index, e.Term, e.Type, len(e.Data))
		if e.Type != raft.LogCommand {
			return
		}
		batch, err := wire.DecodeBatch(e.Data)
		if err != nil {
			t.Fatalf("entry %d: %v", e.Index, err)
		}
		for i := range batch.Commands {
			c := &batch.Commands[i]
			seen[c.Op] = true
			r := whole.Apply(e.Index, e.Term, batch.Wall, c, nil)
			line("  %v -> %v", c.Op, r.Code)
			if e.Index > meta.Index {
				table.Apply(e.Index, e.Term, batch.Wall, c, nil)
			}
		}
	})
	state := table.Snapshot()
	if first == 1 {
		if whole.Snapshot().Hash() != state.Hash() {
			t.Error("the log alone gives another state than the snapshot and the rest of the log")
		}
		for op := locktable.OpFound; op <= lastOp; op++ {
			if !seen[op] {
				t.Errorf("no %v in the log", op)
			}
		}
	}
	printState(line, state)
	return b.String(), state
}

func newestTable(t *testing.T, s *store.Store) (*locktable.Table, *raft.SnapshotMeta) {
	t.Helper()
	list, err := s.Snapshots().List()
	if err != nil || len(list) == 0 {
		t.Fatalf("no snapshot: %v", err)
	}
	meta, content, err := s.Snapshots().Open(list[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	table, err := wire.ReadSnapshot(content)
	if err != nil {
		t.Fatal(err)
	}
	return table, meta
}

// requireEachRecord: a snapshot of a member has records of each kind, and claims of each sort; one in quarantine has what is left
// then.
func requireEachRecord(t *testing.T, table *locktable.Table) {
	t.Helper()
	h := table.Header()
	if h.Quarantine != (locktable.Quarantine{}) {
		if h.Audit == 0 || h.Limits == 0 {
			t.Errorf("records missing: %+v", h)
		}
		return
	}
	if h.Sessions == 0 || h.Claims == 0 || h.Finished == 0 || h.Lost == 0 || h.Audit == 0 || h.Limits == 0 {
		t.Errorf("records missing: %+v", h)
	}
	have := map[string]bool{}
	for c := range table.Snapshot().Claims() {
		have["waiting"] = have["waiting"] || c.Grant == 0
		have["barred"] = have["barred"] || c.Barred
		have["draining"] = have["draining"] || c.DrainRev != 0 && !c.Barred
		have["offered"] = have["offered"] || c.Offer != ""
		have["several names"] = have["several names"] || len(c.Names) > 1
		have[fmt.Sprint("mode ", c.Mode)] = true
	}
	for _, kind := range []string{"waiting", "barred", "draining", "offered", "several names", "mode exclusive", "mode shared", "mode permits"} {
		if !have[kind] {
			t.Errorf("no claim of the kind %q", kind)
		}
	}
}

func eachEntry(t *testing.T, s *store.Store, visit func(e *raft.Log)) (first uint64) {
	t.Helper()
	first, err := s.Logs().FirstIndex()
	if err != nil {
		t.Fatal(err)
	}
	last, err := s.Logs().LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	for index := max(first, 1); index <= last; index++ {
		var e raft.Log
		if err := s.Logs().GetLog(index, &e); err != nil {
			t.Fatal(err)
		}
		visit(&e)
	}
	return first
}

func printState(line func(string, ...any), s *locktable.Snapshot) {
	line("header%s", setFields(s.Header()))
	for r := range s.Sessions() {
		line("session%s", setFields(r))
	}
	for r := range s.Claims() {
		line("claim%s", setFields(r))
	}
	for r := range s.Finished() {
		line("finished%s", setFields(r))
	}
	for r := range s.Lost() {
		line("lost%s", setFields(r))
	}
	for r := range s.Audit() {
		line("audit%s", setFields(r))
	}
	for r := range s.Limits() {
		line("limit%s", setFields(r))
	}
}

// setFields tells the fields of a record that are not zero, so that a field that a later version adds does not show in what an
// earlier one left.
func setFields(record any) string {
	var b strings.Builder
	v := reflect.ValueOf(record)
	for i := range v.NumField() {
		if f := v.Field(i); !f.IsZero() {
			fmt.Fprintf(&b, " %s=%+v", v.Type().Field(i).Name, f)
		}
	}
	return b.String()
}
