package scenario_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

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

// Each feature level leaves data directories here, which every later version must read: log, snapshot and identity as they stand on the disk. What a level has left is
// never changed once it is released: -update writes only what is missing, and who changes a format before that takes its files away by hand. A later level gets a folder of its
// own, made by a golden log with what it adds.
var updateGolden = flag.Bool("update", false, "write golden directories that do not exist yet")

// goldenDirs are the directories of a folder: one of a plain member, and one of a member that was recovered.
var goldenDirs = []string{"member", "recovered"}

// goldenOps are what the log of a level must have, so that its files prove something.
var goldenOps = map[string]locktable.Op{"level1": locktable.OpRestart}

// Every golden directory is opened by this binary: what its log and its snapshot give is what was written down when it was made, each by itself, and a node goes on from it.
func TestGoldenDirectories(t *testing.T) {
	if *updateGolden {
		makeGolden(t, "level1")
	}
	folders, err := filepath.Glob("testdata/level*")
	if err != nil || len(folders) < 1 {
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

// goldenPrint tells what a directory holds: its identity, what its snapshot gives with the rest of its log, and that the whole log, if it goes back to the first entry, gives the same.
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

// requireEachRecord: a snapshot of a member has records of each kind, and claims of each sort; one in quarantine has what is left then.
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

// setFields tells the fields of a record that are not zero, so that a field that a later version adds does not show in what an earlier one left.
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

// makeGolden writes the directories of a level, as this binary does, that are not there yet.
func makeGolden(t *testing.T, level string) {
	folder := filepath.Join("testdata", level)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	writeGoldenMember(t, dir)
	keepGolden(t, folder, "member", dir)
	was, err := quorumlock.Recover(context.Background(), goldenConfig(dir), quorumlock.RecoverOptions{GiveUp: "golden-cluster"})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(was)
	s, err := store.Open(context.Background(), store.Options{Dir: dir, Cluster: "golden"}) // sweeps what was given up
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	keepGolden(t, folder, "recovered", dir)
}

func keepGolden(t *testing.T, folder, name, dir string) {
	t.Helper()
	packed, text := filepath.Join(folder, name+".tar.gz"), filepath.Join(folder, name+".txt")
	if _, err := os.Stat(packed); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	printed, _ := goldenPrint(t, dir, goldenOps[filepath.Base(folder)])
	pack(t, dir, packed)
	if err := os.WriteFile(text, []byte(printed), 0o644); err != nil {
		t.Fatal(err)
	}
}

// pack leaves out the lock file, which tells of this machine and means nothing elsewhere.
func pack(t *testing.T, dir, to string) {
	t.Helper()
	var packed bytes.Buffer
	zip, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewWriter(zip)
	err = fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == "LOCK" || path == "." {
			return err
		}
		h := &tar.Header{Name: path, Mode: 0o700, Typeflag: tar.TypeDir}
		if e.IsDir() {
			return archive.WriteHeader(h)
		}
		content, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			return err
		}
		h.Typeflag, h.Mode, h.Size = tar.TypeReg, 0o600, int64(len(content))
		if err := archive.WriteHeader(h); err != nil {
			return err
		}
		_, err = archive.Write(content)
		return err
	})
	if err := errors.Join(err, archive.Close(), zip.Close(), os.WriteFile(to, packed.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func unpack(t *testing.T, from, dir string) {
	t.Helper()
	f, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewReader(zip)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if !filepath.IsLocal(h.Name) {
			t.Fatalf("%s lies outside", h.Name)
		}
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o700)
		} else {
			var content []byte
			if content, err = io.ReadAll(archive); err == nil {
				err = os.WriteFile(path, content, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// goldenLog writes the log of a member beside a table that says what comes of it.
type goldenLog struct {
	t           *testing.T
	store       *store.Store
	table       *locktable.Table
	index, term uint64
	next        map[locktable.SessionID]uint64 // sequences
}

const goldenWall = 1_780_000_000_000 // Unix milliseconds of the first entry

func writeGoldenMember(t *testing.T, dir string) {
	s, err := store.Open(context.Background(), store.Options{Dir: dir, Cluster: "golden"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	g := &goldenLog{t: t, store: s, table: locktable.New(), term: 2, next: map[locktable.SessionID]uint64{}}
	self := membership.Server{ID: s.ServerID(), Name: "alone", Addr: "host:7000", Voter: true}
	promise := membership.Promise{ID: "golden-cluster", Proposer: self, Boot: "b00t", Founders: []membership.Server{self}}
	g.must(s.SetIdentity(store.Identity{ClusterID: promise.ID, Joining: "golden-cluster", Promise: promise.Encode()}))
	id := raft.ServerID(s.ServerID())
	servers := []raft.Server{{ID: id, Address: raft.ServerAddress(id), Suffrage: raft.Voter}}
	configuration := raft.Configuration{Servers: servers}
	g.append(raft.LogConfiguration, raft.EncodeConfiguration(configuration))
	g.append(raft.LogNoop, nil)
	g.former()
	g.keepSnapshot(configuration)
	g.term++
	g.append(raft.LogNoop, nil)
	g.append(raft.LogBarrier, nil)
	g.latter()
	g.must(s.Stable().SetUint64([]byte("LastVoteTerm"), g.term))
	g.must(s.Stable().Set([]byte("LastVoteCand"), []byte(id)))
	g.must(s.Stable().SetUint64([]byte("CurrentTerm"), g.term))
}

func (g *goldenLog) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

func (g *goldenLog) append(kind raft.LogType, data []byte) {
	g.t.Helper()
	g.index++
	g.must(g.store.Logs().StoreLog(&raft.Log{Index: g.index, Term: g.term, Type: kind, Data: data}))
}

// entry is one entry of these commands; each must be answered as said.
func (g *goldenLog) entry(want locktable.Code, cmds ...locktable.Command) (last locktable.Result) {
	g.t.Helper()
	var all []*locktable.Command
	for i := range cmds {
		all = append(all, &cmds[i])
	}
	wall := int64(goldenWall + 1000*(g.index+1))
	g.append(raft.LogCommand, wire.AppendBatch(nil, wall, all))
	for _, c := range all {
		if last = g.table.Apply(g.index, g.term, wall, c, nil); last.Code != want {
			g.t.Fatalf("%v: %v %s, want %v", c.Op, last.Code, last.Detail, want)
		}
	}
	return last
}

func (g *goldenLog) open(node, start string) locktable.SessionID {
	return g.entry(locktable.CodeOK, locktable.Command{
		Op: locktable.OpOpen, Node: "server-" + node, NodeName: node, TTL: 10 * time.Second, Incarnation: start,
	}).Session
}

// of completes a command of a session with the next sequence.
func (g *goldenLog) of(s locktable.SessionID, c locktable.Command) locktable.Command {
	g.next[s]++
	c.Session, c.Seq = s, g.next[s]
	return c
}

// hold claims names that are free, and tells the hold as commands about it name it.
func (g *goldenLog) hold(s locktable.SessionID, c locktable.Command, names ...string) (of uint64, token locktable.Token) {
	c.Op, c.Names = locktable.OpClaim, names
	c = g.of(s, c)
	return c.Seq, g.entry(locktable.CodeGranted, c).Token
}

// wait claims names that are taken.
func (g *goldenLog) wait(s locktable.SessionID, c locktable.Command, names ...string) locktable.Rev {
	c.Op, c.Names = locktable.OpClaim, names
	return g.entry(locktable.CodeWaiting, g.of(s, c)).Rev
}

// former is what the snapshot has: each kind of record, each sort of claim.
func (g *goldenLog) former() {
	g.entry(locktable.CodeOK, locktable.Command{Op: locktable.OpFound, ClusterID: "golden-cluster", Rev: goldenWall * 1000, TTL: time.Minute})
	a, b, dead := g.open("web-1", "start-1"), g.open("web-2", ""), g.open("web-3", "start-3")
	g.hold(a, locktable.Command{Note: "nightly", Value: "10.0.0.1:8080"}, "plain", "größe")
	g.wait(b, locktable.Command{Note: "next"}, "plain")
	pool := locktable.Command{Mode: locktable.Permits, Count: 2, Limit: 5}
	g.hold(a, pool, "pool")
	g.hold(b, pool, "pool")
	g.entry(locktable.CodeOK, g.of(b, locktable.Command{Op: locktable.OpResize, Names: []string{"pool"}, Limit: 4}))
	g.entry(locktable.CodeOK, g.of(b, locktable.Command{Op: locktable.OpResize, Names: []string{"idle"}, Limit: 300, Former: 200}))
	g.hold(a, locktable.Command{Mode: locktable.Shared}, "table")
	g.hold(b, locktable.Command{Mode: locktable.Shared}, "table")
	of, token := g.hold(a, locktable.Command{}, "offered")
	g.entry(locktable.CodeOK, g.of(a, locktable.Command{Op: locktable.OpOffer, Of: of, Token: token, Secret: locktable.OfferHash("secret")}))
	g.hold(dead, locktable.Command{Delay: 15 * time.Second}, "crane")
	g.entry(locktable.CodeOK, locktable.Command{Op: locktable.OpExpire, Session: dead, RenewIndex: g.renewed(dead), Term: g.term})
	_, token = g.hold(a, locktable.Command{}, "drained")
	g.entry(locktable.CodeDraining, locktable.Command{Op: locktable.OpForce, Names: []string{"drained"}, Token: token, Note: "stuck", Actor: "ops"})
	_, token = g.hold(b, locktable.Command{}, "forced")
	g.entry(locktable.CodeOK, locktable.Command{Op: locktable.OpForce, Names: []string{"forced"}, Token: token, Now: true, Note: "stuck", Actor: "ops"})
	g.entry(locktable.CodeLocked, g.of(b, locktable.Command{Op: locktable.OpClaim, Names: []string{"plain"}, Try: true}))
}

// renewed is the index that an expiry of the session has to name.
func (g *goldenLog) renewed(id locktable.SessionID) uint64 {
	for s := range g.table.Sessions() {
		if s.ID == id {
			return s.RenewIndex
		}
	}
	g.t.Fatalf("no session %d", id)
	return 0
}

// latter has the operations that the former part has not, and changes of what the snapshot has.
func (g *goldenLog) latter() {
	ids := slices.Collect(g.table.Sessions())
	a, b := ids[0].ID, ids[1].ID
	g.entry(locktable.CodeOK, locktable.Command{Op: locktable.OpRenew, Session: a}, locktable.Command{Op: locktable.OpRenew, Session: b, Since: goldenWall * 1000}, locktable.Command{Op: locktable.OpBarrier})
	g.entry(locktable.CodeOK, locktable.Command{Op: locktable.OpLevel, Level: 1})
	for d := range g.table.Drains() {
		g.entry(locktable.CodeOK, locktable.Command{Op: locktable.OpDrained, Rev: d.Grant, RenewIndex: d.Index, Term: g.term})
		break
	}
	of, token := g.hold(a, locktable.Command{}, "moved")
	g.entry(locktable.CodeOK, g.of(a, locktable.Command{Op: locktable.OpProclaim, Of: of, Token: token, Value: "10.0.0.1:8081"}))
	rev := g.wait(b, locktable.Command{}, "moved")
	g.entry(locktable.CodeReleased, g.of(a, locktable.Command{Op: locktable.OpHandOver, Of: of, Token: token, Rev: rev}))
	of, token = g.hold(a, locktable.Command{}, "doc")
	g.entry(locktable.CodeGranted, g.of(a, locktable.Command{Op: locktable.OpDowngrade, Of: of, Token: token, Note: "reads on"}))
	of, token = g.hold(a, locktable.Command{}, "given")
	g.entry(locktable.CodeOK, g.of(a, locktable.Command{Op: locktable.OpOffer, Of: of, Token: token, Secret: locktable.OfferHash("other")}))
	g.entry(locktable.CodeGranted, g.of(b, locktable.Command{Op: locktable.OpAccept, From: a, Of: of, Token: token, Secret: "other", Note: "takes over"}))
	of, token = g.hold(b, locktable.Command{Delay: 20 * time.Second}, "job")
	g.entry(locktable.CodeReleased, g.of(b, locktable.Command{Op: locktable.OpUnlock, Of: of, Token: token, Barring: true}))
	of, token = g.hold(b, locktable.Command{}, "short")
	g.entry(locktable.CodeReleased, g.of(b, locktable.Command{Op: locktable.OpUnlock, Of: of, Token: token, Floor: 2}))
	g.wait(b, locktable.Command{}, "doc")
	g.entry(locktable.CodeCancelled, locktable.Command{Op: locktable.OpCancel, Session: b, Seq: g.next[b]})
	g.entry(locktable.CodeOK, locktable.Command{Op: locktable.OpInspect, Names: []string{"plain"}}, locktable.Command{Op: locktable.OpList, Names: []string{"p"}, Count: 10})
	c, d := g.open("web-4", "start-4"), g.open("web-5", "start-5")
	g.hold(c, locktable.Command{}, "closed")
	g.entry(locktable.CodeOK, locktable.Command{Op: locktable.OpClose, Session: c, Now: true})
	g.hold(d, locktable.Command{}, "restarted")
	g.entry(locktable.CodeOK, locktable.Command{Op: locktable.OpRestart, Node: "server-web-5", Incarnation: "start-5", RenewIndex: g.index})
}

func (g *goldenLog) keepSnapshot(c raft.Configuration) {
	g.t.Helper()
	sink, err := g.store.Snapshots().Create(raft.SnapshotVersionMax, g.index, g.term, c, 1, peerNames{})
	g.must(err)
	g.must(wire.WriteSnapshot(sink, g.table.Snapshot()))
	g.must(sink.Close())
}

// peerNames is what raft's file store wants of a transport.
type peerNames struct{ raft.Transport }

func (peerNames) EncodePeer(_ raft.ServerID, addr raft.ServerAddress) []byte { return []byte(addr) }
