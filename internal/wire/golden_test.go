package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/watch"
)

// What a released level 1 wrote must be readable for ever. From the first release on the files in testdata/level1 are therefore never
// changed: -update writes only those that are missing, and who changes a format before that release takes its file away by hand. A later
// level gets a folder of its own beside it, and its tests keep reading this one.
var update = flag.Bool("update", false, "write golden files that do not exist yet")

// goldenOf compares b with the committed file of a level and returns what is committed.
func goldenOf(t *testing.T, level, name string, b []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", level, name+".hex")
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
		t.Errorf("%s is written otherwise than %s wrote it:\ngot  %x\nwant %x", name, level, b, want)
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
		{Op: locktable.OpOpen, Node: "server-1", NodeName: "web-1", TTL: 10 * time.Second, Incarnation: "start-1"},
		{Op: locktable.OpRenew, Session: goldenSession, Since: goldenRev},
		{Op: locktable.OpClose, Session: goldenSession, Now: true},
		{Op: locktable.OpExpire, Session: goldenSession, RenewIndex: 300, Term: 4},
		{
			Op: locktable.OpClaim, Session: goldenSession, Seq: 7, Floor: 5, Names: []string{"job-x", "größe"},
			Try: true, Note: strings.Repeat("a note that makes the frame's length take two bytes ", 3),
			Value: "10.0.0.1:8080", Delay: 15 * time.Second,
		},
		{Op: locktable.OpCancel, Session: goldenSession, Seq: 7, Floor: 6},
		{Op: locktable.OpUnlock, Session: goldenSession, Seq: 8, Floor: 6, Of: 7, Token: goldenToken},
		{
			Op: locktable.OpForce, Names: []string{"job-x"}, Token: goldenToken, Session: goldenSession, Now: true,
			Note: "stuck", Actor: "ops",
		},
		{Op: locktable.OpDrained, Rev: goldenRev, RenewIndex: 301, Term: 4},
		{Op: locktable.OpInspect, Names: []string{"job-x"}},
		{Op: locktable.OpBarrier},
		{Op: locktable.OpLevel, Level: 1},
		{
			Op: locktable.OpDowngrade, Session: goldenSession, Seq: 9, Floor: 6, Of: 7, Token: goldenToken, Note: "reads on",
		},
		{
			Op: locktable.OpProclaim, Session: goldenSession, Seq: 10, Floor: 6, Of: 7, Token: goldenToken, Value: "10.0.0.1:8081",
		},
		{
			Op: locktable.OpHandOver, Session: goldenSession, Seq: 11, Floor: 6, Of: 7, Token: goldenToken, Rev: goldenRev,
		},
		{Op: locktable.OpResize, Session: goldenSession, Seq: 12, Floor: 6, Names: []string{"pool"}, Limit: 300, Former: 200},
		{
			Op: locktable.OpOffer, Session: goldenSession, Seq: 13, Floor: 6, Of: 7, Token: goldenToken,
			Secret: locktable.OfferHash("secret"),
		},
		{
			Op: locktable.OpAccept, Session: goldenSession + 1, Seq: 1, Floor: 1, From: goldenSession, Of: 7, Token: goldenToken,
			Secret: "secret", Note: "takes over",
		},
		{Op: locktable.OpList, Names: []string{"job-"}, After: "job-x", Count: 100},
		{Op: locktable.OpRestart, Node: "server-1", Incarnation: "start-1", RenewIndex: 300},
		{
			Op: locktable.OpClaim, Session: goldenSession, Seq: 14, Floor: 6, Names: []string{"pool"}, Mode: locktable.Permits,
			Count: 2, Limit: 300,
		},
		{Op: locktable.OpClaim, Session: goldenSession, Seq: 15, Floor: 6, Names: []string{"table"}, Mode: locktable.Shared},
		{Op: locktable.OpUnlock, Session: goldenSession, Seq: 16, Floor: 6, Of: 15, Token: goldenToken, Barring: true},
	}}
}

func goldenResult() locktable.Result {
	holder := locktable.Holder{
		Session: goldenSession, Node: "server-1", NodeName: "web-1", Note: "nightly", Token: goldenToken, Since: goldenWall,
		Draining: true, Barred: true, Offered: true, Mode: locktable.Permits, Count: 2, Value: "10.0.0.1:8080",
	}
	waiter := locktable.Waiter{
		Session: goldenSession, Node: "server-2", NodeName: "web-2", Note: "n", Rev: goldenRev, Since: goldenWall,
		Mode: locktable.Permits, Count: 300,
	}
	info := locktable.Info{
		Name: "pool", Holders: []locktable.Holder{holder}, Holding: 65, Waiters: []locktable.Waiter{waiter}, Waiting: 66,
		Limit: 300, InUse: 130, Index: 300, Rev: goldenRev,
	}
	return locktable.Result{
		Code: locktable.CodeWaiting, Index: 300, Rev: goldenRev, Token: goldenToken, Session: goldenSession, Renewed: true,
		Blocker: &holder, Ahead: 2, Waiters: 3,
		Grants: []locktable.Grant{{Seq: 7, Token: goldenToken}},
		Lost: []locktable.Lost{
			{Seq: 6, Token: goldenToken, Cause: locktable.LostDrained, Reason: "stuck", Actor: "ops", Rev: goldenRev},
			{Seq: 8, Cause: locktable.LostLimit, Rev: goldenRev + 1, Limit: 300},
		},
		Info: &info, DrainIndex: 299, Detail: "in words", Limit: 300,
		Infos: []locktable.Info{info, {Name: "pool/2", Index: 300, Rev: goldenRev}}, More: true, Ended: 2,
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
			Term: 4, AppliedIndex: 300, LastIndex: 301, Level: 1, Voter: true, Boot: "b00t", Zone: "zone-a",
		},
		"join request": JoinRequest{
			ServerID: "server-1", Name: "web-1", Addr: "10.0.0.1:7946", Zone: "zone-a", Level: 1, Boot: "b00t", Client: true,
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
		"roster reply": RosterReply{
			ClusterID: "cluster-1", LeaderID: "server-2", Term: 4, Index: 17, Level: 1, Servers: []RosterServer{
				{ServerID: "server-1", Name: "web-1", Addr: "10.0.0.1:7946"}, {ServerID: "server-2", Name: "web-2", Addr: "10.0.0.2:7946", Voter: true},
			},
		},
		"read request":     ReadRequest{Command: locktable.Command{Op: locktable.OpInspect, Names: []string{"job-x"}}},
		"snapshot request": SnapshotRequest{ID: 9, Piece: 300, Local: true},
		"snapshot reply":   SnapshotReply{Status: StatusDone, ID: 9, Header: []byte("header"), Data: []byte("data"), Sum: []byte("sum"), Detail: "detail"},
		"read reply": ReadReply{
			Status: StatusDone, Result: locktable.Result{Code: locktable.CodeOK, Index: 300}, Age: 1500 * time.Millisecond, Detail: "d",
		},
		"watch request": WatchRequest{Prefix: "job-", Since: int64(goldenRev), Wait: 2 * time.Second},
		"watch reply": WatchReply{Status: StatusDone, Seen: int64(goldenRev) + 2, Behind: true, Detail: "d", Events: []watch.Event{{
			Rev: int64(goldenRev), Kind: watch.Granted, Name: "job-x", Token: fence.Token(goldenToken), Session: int64(goldenSession), Claim: 7, Node: "web-1",
			ServerID: "server-1", Index: 300, Time: time.UnixMilli(1764600000123), Note: "note", Mode: watch.Permits, Permits: 3, Value: "value",
		}}},
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
			level := "level1"
			if want == nil {
				level, want = "level2", goldenLater()[k.name]
			}
			b := goldenOf(t, level, strings.ReplaceAll(k.name, " ", "-"), k.encode(nil, want))
			got, err := k.decode(b)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
			}
		})
	}
}

// goldenRecords has records in every section, and every field in some record. It is written down rather than made by commands, so that the file
// depends on the encoding alone.
func goldenRecords() *records {
	const c = goldenRev // the counter value of the session a
	a, b := locktable.SessionID(c), locktable.SessionID(c+1)
	s := newRecords(locktable.Header{ClusterID: "cluster-1", Counter: c + 30, Index: 300, Level: 1, MaxTTL: time.Minute})
	s.sessions = []locktable.SessionRecord{
		{ID: a, Node: "server-1", NodeName: "web-1", TTL: 10 * time.Second, RenewIndex: 290, Floor: 2, Incarnation: "start-1"},
		{ID: b, Node: "server-2", TTL: 5 * time.Second, RenewIndex: 300},
	}
	s.claims = goldenClaims(c, a, b)
	s.finished = []locktable.FinishedRecord{
		{Session: a, Seq: 2, Op: locktable.OpClaim, Code: locktable.CodeCancelled, Token: locktable.Token(c + 6)},
		{Session: a, Seq: 4, Op: locktable.OpUnlock, Code: locktable.CodeReleased, Token: locktable.Token(c + 7)},
		{Session: b, Seq: 9, Op: locktable.OpHandOver, Code: locktable.CodeNoWaiter, Token: locktable.Token(c + 15)},
	}
	s.lost = []locktable.LostRecord{
		{Session: a, Lost: locktable.Lost{
			Seq: 1, Token: locktable.Token(c + 2), Cause: locktable.LostDrained, Reason: "stuck", Actor: "ops", Rev: c + 8,
		}},
		{Session: a, Lost: locktable.Lost{
			Seq: 2, Token: locktable.Token(c + 6), Cause: locktable.LostForced, Reason: "stuck", Actor: "ops", Rev: c + 9,
		}},
		{Session: b, Lost: locktable.Lost{Seq: 8, Cause: locktable.LostLimit, Rev: c + 22, Limit: 3}},
	}
	s.audit = []locktable.AuditRecord{
		{Rev: c + 8, Wall: goldenWall + 3, Name: "drained", Token: locktable.Token(c + 2), Actor: "ops", Reason: "stuck"},
		{Rev: c + 9, Wall: goldenWall + 4, Name: "forced", Token: locktable.Token(c + 6), Now: true, Actor: "ops", Reason: "stuck"},
	}
	s.limits = []locktable.LimitRecord{
		{Name: "idle", Limit: 300, Former: 200, Set: true},
		{Name: "pool", Limit: 3, Former: 4, Set: true},
	}
	s.count()
	return s
}

// goldenClaims are a name with a lock delay and its waiter, a drained hold of two names and its waiter, a hold that was handed over and is offered
// again, a plain hold, a semaphore, and two readers of one phase.
func goldenClaims(c locktable.Rev, a, b locktable.SessionID) []locktable.ClaimRecord {
	const wall = goldenWall
	token := func(rev locktable.Rev) locktable.Token { return locktable.Token(rev) }
	return []locktable.ClaimRecord{
		{
			Rev: c + 10, Session: a - 2, Seq: 1, Names: []string{"crane"}, Created: wall + 5, Token: token(c + 10), Granted: wall + 5,
			Pos: c + 10, Grant: c + 10, Delay: 15 * time.Second, DrainIndex: 285, DrainRev: c + 11,
			Barred: true, Node: "server-0", NodeName: "web-0",
		},
		{Rev: c + 12, Session: b, Seq: 3, Names: []string{"crane"}, Created: wall + 6, Pos: c + 12},
		{
			Rev: c + 2, Session: a, Seq: 1, Names: []string{"drained", "größe"}, Note: "nightly", Created: wall,
			Token: token(c + 2), Granted: wall, DrainIndex: 280, DrainRev: c + 8, DrainNote: "stuck", DrainActor: "ops",
			Pos: c + 2, Grant: c + 2,
		},
		{Rev: c + 4, Session: b, Seq: 1, Names: []string{"drained"}, Created: wall + 1, Pos: c + 4},
		{
			Rev: c + 14, Session: b, Seq: 4, Names: []string{"leader"}, Created: wall + 7, Token: token(c + 15), Granted: wall + 8,
			Pos: c + 13, Grant: c + 15, Value: "10.0.0.2:8080", Offer: locktable.OfferHash("secret"),
		},
		{
			Rev: c + 5, Session: b, Seq: 2, Names: []string{"plain"}, Created: wall + 2, Token: token(c + 5), Granted: wall + 2,
			Pos: c + 5, Grant: c + 5,
		},
		{
			Rev: c + 16, Session: b, Seq: 5, Names: []string{"pool"}, Mode: locktable.Permits, Created: wall + 9,
			Token: token(c + 16), Granted: wall + 9, Pos: c + 16, Grant: c + 16, Count: 2,
		},
		{
			Rev: c + 17, Session: b, Seq: 6, Names: []string{"pool"}, Mode: locktable.Permits, Created: wall + 9, Pos: c + 17, Count: 2,
		},
		{
			Rev: c + 18, Session: a, Seq: 7, Names: []string{"table"}, Mode: locktable.Shared, Created: wall + 10,
			Token: token(c + 18), Granted: wall + 10, Pos: c + 18, Grant: c + 18,
		},
		{
			Rev: c + 19, Session: b, Seq: 7, Names: []string{"table"}, Mode: locktable.Shared, Created: wall + 11,
			Token: token(c + 18), Granted: wall + 12, Pos: c + 19, Grant: c + 20,
		},
	}
}

// That a field is never set in the golden records is easy to miss, and then the files say nothing about it.
func TestGoldenValuesSetEveryField(t *testing.T) {
	set := map[string]bool{}
	s := goldenRecords()
	for _, v := range []any{s.head, goldenQuarantine().head, s.sessions, s.claims, s.finished, s.lost, s.audit, s.limits, goldenValues(), goldenLater(), goldenActs().sessions, goldenActs().audit} {
		markFields(set, reflect.ValueOf(v))
	}
	for field, is := range set {
		if !is {
			t.Errorf("%s is zero in all golden values", field)
		}
	}
}

// markFields notes every field of every struct below v, and whether it is set in one of them.
func markFields(set map[string]bool, v reflect.Value) {
	if _, is := v.Interface().(time.Time); is {
		return
	}
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if !v.IsNil() {
			markFields(set, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			markFields(set, v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			markFields(set, v.MapIndex(key))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Name() + "." + v.Type().Field(i).Name
			set[name] = set[name] || !v.Field(i).IsZero()
			markFields(set, v.Field(i))
		}
	}
}

// goldenQuarantine is a state in quarantine, which has no claims.
func goldenQuarantine() *records {
	const c = goldenRev
	s := newRecords(locktable.Header{
		ClusterID: "cluster-2", Counter: c + 41, Index: 305, Level: 1, MaxTTL: time.Minute,
		Quarantine: locktable.Quarantine{Rev: c + 40, Index: 301, Wait: 95 * time.Second},
	})
	s.sessions = []locktable.SessionRecord{{ID: locktable.SessionID(c + 41), Node: "server-3", TTL: 10 * time.Second, RenewIndex: 304}}
	s.limits = []locktable.LimitRecord{{Name: "idle", Limit: 300, Former: 200, Set: true}}
	s.count()
	return s
}

func TestGoldenSnapshot(t *testing.T) {
	for name, want := range map[string]*records{"snapshot": goldenRecords(), "snapshot-quarantine": goldenQuarantine(), "snapshot-acts": goldenActs()} {
		t.Run(name, func(t *testing.T) { checkGoldenSnapshot(t, name, want) })
	}
}

func checkGoldenSnapshot(t *testing.T, name string, want *records) {
	b := goldenOf(t, fmt.Sprintf("level%d", want.head.Level), name, encodeState(t, want))
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
