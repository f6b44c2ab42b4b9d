package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// What level 1 wrote must be readable for ever. The files in testdata/level1 are therefore never changed: -update writes only
// those that are missing. A later level gets a folder of its own beside it, and its tests keep reading this one.
var update = flag.Bool("update", false, "write golden files that do not exist yet")

// golden compares b with the committed file and returns what is committed.
func golden(t *testing.T, name string, b []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", "level1", name+".hex")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && *update {
		text = []byte(hexLines(b))
		err = os.WriteFile(path, text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	want, err := hex.DecodeString(strings.ReplaceAll(string(text), "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, want) {
		t.Errorf("%s is written otherwise than level 1 wrote it:\ngot  %x\nwant %x", name, b, want)
	}
	return want
}

func hexLines(b []byte) string {
	var lines strings.Builder
	for len(b) > 0 {
		n := min(len(b), 32)
		lines.WriteString(hex.EncodeToString(b[:n]) + "\n")
		b = b[n:]
	}
	return lines.String()
}

const (
	goldenSession = locktable.SessionID(1_780_000_000_000_001)
	goldenToken   = locktable.Token(1_780_000_000_000_002)
	goldenRev     = locktable.Rev(1_780_000_000_000_003)
	goldenWall    = 1_780_000_000_123
)

// goldenBatch has every op with every field that it may have.
func goldenBatch() Batch {
	return Batch{Wall: goldenWall, Level: 1, Commands: []locktable.Command{
		{Op: locktable.OpFound, ClusterID: "cluster-1", Rev: 1_780_000_000_000_000, TTL: time.Minute},
		{Op: locktable.OpOpen, Node: "server-1", NodeName: "web-1", TTL: 10 * time.Second},
		{Op: locktable.OpRenew, Session: goldenSession, Since: goldenRev},
		{Op: locktable.OpClose, Session: goldenSession},
		{Op: locktable.OpExpire, Session: goldenSession, RenewIndex: 300, Term: 4},
		{
			Op: locktable.OpClaim, Session: goldenSession, Seq: 7, Floor: 5, Names: []string{"job-x", "größe"},
			Try: true, Note: strings.Repeat("a note that makes the frame's length take two bytes ", 3),
		},
		{Op: locktable.OpCancel, Session: goldenSession, Seq: 7, Floor: 6},
		{Op: locktable.OpUnlock, Session: goldenSession, Seq: 8, Floor: 6, Token: goldenToken},
		{Op: locktable.OpForce, Names: []string{"job-x"}, Token: goldenToken, Now: true, Note: "stuck", Actor: "ops"},
		{Op: locktable.OpDrained, Token: goldenToken, RenewIndex: 301, Term: 4},
		{Op: locktable.OpInspect, Names: []string{"job-x"}},
		{Op: locktable.OpBarrier},
		{Op: locktable.OpLevel, Level: 1},
	}}
}

func goldenResult() locktable.Result {
	holder := locktable.Holder{
		Session: goldenSession, Node: "server-1", NodeName: "web-1", Note: "nightly",
		Token: goldenToken, Since: goldenWall, Draining: true,
	}
	waiter := locktable.Waiter{
		Session: goldenSession, Node: "server-2", NodeName: "web-2", Note: "n", Rev: goldenRev, Since: goldenWall,
	}
	return locktable.Result{
		Code: locktable.CodeWaiting, Index: 300, Rev: goldenRev, Token: goldenToken, Session: goldenSession, Renewed: true,
		Blocker: &holder, Ahead: 2, Waiters: 3,
		Grants: []locktable.Grant{{Seq: 7, Token: goldenToken}},
		Lost: []locktable.Lost{
			{Seq: 6, Token: goldenToken, Cause: locktable.LostDrained, Reason: "stuck", Actor: "ops", Rev: goldenRev},
		},
		Info: &locktable.Info{
			Name: "job-x", Holders: []locktable.Holder{holder}, Waiters: []locktable.Waiter{waiter}, Waiting: 1,
			Index: 300, Rev: goldenRev,
		},
		DrainIndex: 299, Detail: "in words",
	}
}

// goldenValues has one value, with every field set, of each kind.
func goldenValues() map[string]any {
	batch := goldenBatch()
	return map[string]any{
		"batch":           batch,
		"command":         batch.Commands[5],
		"result":          goldenResult(),
		"propose request": ProposeRequest{Hops: 1, Timeout: 1500 * time.Millisecond, Command: batch.Commands[7]},
		"propose reply": ProposeReply{
			Status: StatusNotLeader, Result: locktable.Result{Code: locktable.CodeOK, Index: 300},
			LeaderID: "server-2", LeaderAddr: "10.0.0.2:7946", Detail: "in words",
		},
		"status reply": StatusReply{
			ServerID: "server-1", Name: "web-1", ClusterID: "cluster-1", LeaderID: "server-2", LeaderAddr: "10.0.0.2:7946",
			Term: 4, AppliedIndex: 300, LastIndex: 301, Level: 1, Voter: true, Boot: "b00t",
		},
		"join request": JoinRequest{
			ServerID: "server-1", Name: "web-1", Addr: "10.0.0.1:7946", Zone: "zone-a", Level: 1, Boot: "b00t",
		},
		"join reply": JoinReply{
			Status: StatusDone, ClusterID: "cluster-1", LeaderID: "server-2", LeaderAddr: "10.0.0.2:7946", Detail: "d",
		},
		"leave request": LeaveRequest{ServerID: "server-1"},
		"leave reply": LeaveReply{
			Status: StatusNoQuorum, ClusterID: "cluster-1", LeaderID: "server-2", LeaderAddr: "10.0.0.2:7946", Detail: "d",
		},
		"hashes reply": HashesReply{
			ClusterID: "cluster-1", Level: 1, HashVersion: 2,
			Points: []HashPoint{{Index: 1024, Hash: [32]byte{1, 31: 2}}, {Index: 2048, Hash: [32]byte{3, 31: 4}}},
		},
		"grant push": GrantPush{Events: []GrantEvent{
			{Session: goldenSession, Seq: 7, Token: goldenToken, Kind: PushGranted, Index: 300, Rev: goldenRev},
			{Session: goldenSession, Seq: 6, Token: goldenToken, Kind: PushDraining, Index: 300, Rev: goldenRev + 1},
		}},
	}
}

func TestGoldenValues(t *testing.T) {
	values := goldenValues()
	for _, k := range valueKinds {
		t.Run(k.name, func(t *testing.T) {
			want := values[k.name]
			b := golden(t, strings.ReplaceAll(k.name, " ", "-"), k.encode(nil, want))
			got, err := k.decode(b)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
			}
		})
	}
}

// goldenRecords has records in every section: a drained hold with its waiter, a plain hold, remembered answers, a forced release.
// It is written down rather than made by commands, so that the file depends on the encoding alone.
func goldenRecords() *records {
	const c = goldenRev // the counter value of the session a
	a, b := locktable.SessionID(c), locktable.SessionID(c+1)
	drained, plain, forced, released := locktable.Token(c+2), locktable.Token(c+5), locktable.Token(c+6), locktable.Token(c+7)
	const drainRev, forceRev = c + 8, c + 9
	s := newRecords(locktable.Header{ClusterID: "cluster-1", Counter: c + 20, Index: 300, Level: 1, MaxTTL: time.Minute})
	s.sessions = []locktable.SessionRecord{
		{ID: a, Node: "server-1", NodeName: "web-1", TTL: 10 * time.Second, RenewIndex: 290, Floor: 2},
		{ID: b, Node: "server-2", TTL: 5 * time.Second, RenewIndex: 300},
	}
	s.claims = []locktable.ClaimRecord{
		{
			Rev: c + 2, Session: a, Seq: 1, Names: []string{"drained", "größe"}, Note: "nightly", Created: goldenWall,
			Token: drained, Granted: goldenWall, DrainIndex: 280, DrainRev: drainRev, DrainNote: "stuck", DrainActor: "ops",
		},
		{Rev: c + 4, Session: b, Seq: 1, Names: []string{"drained"}, Created: goldenWall + 1},
		{Rev: c + 5, Session: b, Seq: 2, Names: []string{"plain"}, Created: goldenWall + 2, Token: plain, Granted: goldenWall + 2},
	}
	s.finished = []locktable.FinishedRecord{
		{Session: a, Seq: 2, Op: locktable.OpClaim, Code: locktable.CodeCancelled, Token: forced},
		{Session: a, Seq: 4, Op: locktable.OpUnlock, Code: locktable.CodeReleased, Token: released},
	}
	s.lost = []locktable.LostRecord{
		{Session: a, Lost: locktable.Lost{
			Seq: 1, Token: drained, Cause: locktable.LostDrained, Reason: "stuck", Actor: "ops", Rev: drainRev,
		}},
		{Session: a, Lost: locktable.Lost{
			Seq: 2, Token: forced, Cause: locktable.LostForced, Reason: "stuck", Actor: "ops", Rev: forceRev,
		}},
	}
	s.audit = []locktable.AuditRecord{
		{Rev: drainRev, Wall: goldenWall + 3, Name: "drained", Token: drained, Actor: "ops", Reason: "stuck"},
		{Rev: forceRev, Wall: goldenWall + 4, Name: "forced", Token: forced, Now: true, Actor: "ops", Reason: "stuck"},
	}
	s.count()
	return s
}

func TestGoldenSnapshot(t *testing.T) {
	want := goldenRecords()
	b := golden(t, "snapshot", encodeState(t, want))
	got, _, err := readState(bytes.NewReader(b), newRecordBuilder)
	if err != nil || !reflect.DeepEqual(got.records, want) {
		t.Errorf("got  %+v, %v\nwant %+v", got.records, err, want)
	}
	table, err := ReadSnapshot(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(encodeState(t, table.Snapshot()), b) {
		t.Errorf("the table that was read is written otherwise")
	}
}
