package scenario_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/store"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// goldenLog writes the log of a member beside a table that says what comes of it.
type goldenLog struct {
	t           *testing.T
	store       *store.Store
	table       *locktable.Table
	index, term uint64
	level       uint32
	next        map[locktable.SessionID]uint64 // sequences
}

const goldenWall = 1_780_000_000_000 // Unix milliseconds of the first entry

func writeGoldenMember(t *testing.T, dir string, level uint32) {
	s, err := store.Open(context.Background(), store.Options{Dir: dir, Cluster: "golden"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	g := &goldenLog{t: t, store: s, table: locktable.New(), term: 2, level: level, next: map[locktable.SessionID]uint64{}}
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
	a, b := g.open("web-1", "start-1"), g.open("web-2", "")
	if g.level >= locktable.LevelActs { // the sessions before do not know when they were opened
		g.entry(locktable.CodeOK, locktable.Command{Op: locktable.OpLevel, Level: g.level})
		g.formerActs()
	}
	dead := g.open("web-3", "start-3")
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

// formerActs is what level 2 adds to the snapshot, and latterActs to the log after it.
func (g *goldenLog) formerActs() {
	g.open("web-9", "") // lives on, and knows when it was opened
	for i, now := range []bool{false, true} {
		s := g.open("web-6", "start-6")
		g.hold(s, locktable.Command{}, []string{"ended", "freed"}[i])
		g.entry(locktable.CodeOK, locktable.Command{Op: locktable.OpEnd, Session: s, Now: now, Note: "stuck", Actor: "ops"})
	}
	g.entry(locktable.CodeOK, locktable.Command{Op: locktable.OpAct, Act: locktable.ActTransfer, Node: "server-web-1", NodeName: "web-1", Note: "restart", Actor: "ops"})
	for _, act := range []locktable.Act{locktable.ActDrain, locktable.ActUndrain, locktable.ActDrain} {
		g.entry(locktable.CodeOK, locktable.Command{Op: locktable.OpAct, Act: act, Node: "server-web-2", NodeName: "web-2", Note: "new kernel", Actor: "ops"})
	}
}

func (g *goldenLog) latterActs() {
	s := g.open("web-7", "start-7")
	g.hold(s, locktable.Command{Delay: time.Second, Mode: locktable.Shared}, "read")
	g.entry(locktable.CodeOK, locktable.Command{Op: locktable.OpEnd, Session: s, Note: "stuck", Actor: "ops"})
	g.entry(locktable.CodeNoSession, locktable.Command{Op: locktable.OpRenew, Session: s})
	g.entry(locktable.CodeOK, locktable.Command{Op: locktable.OpAct, Act: locktable.ActRemove, Node: "server-web-8", Note: "dead", Actor: "ops"})
	g.entry(locktable.CodeOK, locktable.Command{Op: locktable.OpSessions, Count: 10}, locktable.Command{Op: locktable.OpAudit, Rev: 1, Count: 2})
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
	if g.level >= locktable.LevelActs {
		g.latterActs()
	}
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
