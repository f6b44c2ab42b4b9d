package wire

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// goldenLater has what level 2 brought: of kinds that came with it, and more values of those that were there.
func goldenLater() map[string]any {
	return map[string]any{
		"act request": ActRequest{Act: locktable.ActRemove, ServerID: "server-3", Force: true, Actor: "ops", Reason: "dead"},
		"renew request": RenewRequest{Hops: 1, Timeout: 900 * time.Millisecond, Renewals: []Renewal{
			{Session: goldenSession, Since: goldenRev}, {Session: goldenSession + 1},
		}},
		"renew reply": RenewReply{
			Status: StatusDone, LeaderID: "server-2", LeaderAddr: "10.0.0.2:7946", Detail: "in words", Results: []locktable.Result{
				{Code: locktable.CodeOK, Index: 300, Rev: goldenRev, Renewed: true, Grants: []locktable.Grant{{Seq: 7, Token: goldenToken}}},
				{Code: locktable.CodeNoSession, Index: 300, Rev: goldenRev},
			},
		},
		"batch-acts": Batch{Wall: goldenWall, Level: 2, Commands: []locktable.Command{
			{Op: locktable.OpSessions, Rev: goldenRev, Count: 100},
			{Op: locktable.OpAudit, Rev: goldenRev, Count: 100},
			{Op: locktable.OpEnd, Session: goldenSession, Now: true, Note: "stuck", Actor: "ops"},
			{Op: locktable.OpAct, Act: locktable.ActRemove, Node: "server-3", NodeName: "web-3", Note: "dead", Actor: "ops"},
		}},
		"result-sessions": locktable.Result{Code: locktable.CodeOK, Index: 300, Rev: goldenRev, More: true, Sessions: []locktable.SessionInfo{
			{ID: goldenSession, Node: "server-1", NodeName: "web-1", TTL: 10 * time.Second, Opened: goldenWall, Holding: 2, Waiting: 1},
			{ID: goldenSession + 1, Node: "server-2", TTL: 5 * time.Second},
		}},
		"result-audit": locktable.Result{Code: locktable.CodeOK, Index: 300, Rev: goldenRev, Audit: goldenActs().audit},
		"result-ended": locktable.Result{Code: locktable.CodeNoSession, Index: 300, Rev: goldenRev, Lost: []locktable.Lost{
			{Cause: locktable.LostSession, Reason: "stuck", Actor: "ops", Rev: goldenRev},
		}},
	}
}

func TestGoldenLaterValues(t *testing.T) {
	for name, kind := range map[string]string{"batch-acts": "batch", "result-sessions": "result", "result-audit": "result", "result-ended": "result"} {
		t.Run(name, func(t *testing.T) {
			for _, k := range valueKinds {
				if k.name != kind {
					continue
				}
				want := goldenLater()[name]
				b := goldenOf(t, "level2", name, k.encode(nil, want))
				if got, err := k.decode(b); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
				}
			}
		})
	}
}

// goldenActs is a state of level 2: sessions that know when they were opened and one that does not, and each kind of act.
func goldenActs() *records {
	const c = goldenRev
	s := newRecords(locktable.Header{ClusterID: "cluster-1", Counter: c + 30, Index: 300, Level: 2, MaxTTL: time.Minute})
	s.sessions = []locktable.SessionRecord{
		{ID: locktable.SessionID(c), Node: "server-1", NodeName: "web-1", TTL: 10 * time.Second, RenewIndex: 290},
		{ID: locktable.SessionID(c + 3), Node: "server-2", TTL: 5 * time.Second, RenewIndex: 300, Opened: goldenWall},
	}
	s.audit = []locktable.AuditRecord{
		{Rev: c + 8, Wall: goldenWall + 3, Name: "job", Token: locktable.Token(c + 2), Actor: "ops", Reason: "stuck"},
		{
			Rev: c + 9, Wall: goldenWall + 4, Now: true, Actor: "ops", Reason: "stuck", Act: locktable.ActEnd, Session: locktable.SessionID(c + 1), Node: "server-1",
			NodeName: "web-1",
		},
		{Rev: c + 10, Wall: goldenWall + 5, Actor: "ops", Reason: "restart", Act: locktable.ActTransfer, Node: "server-2", NodeName: "web-2"},
		{Rev: c + 11, Wall: goldenWall + 6, Actor: "ops", Reason: "dead", Act: locktable.ActRemove, Node: "server-3", NodeName: "web-3"},
	}
	s.count()
	return s
}

// What an addition must not say: nothing at all, something of a record that is not there, or the same twice, or at a level that does not know it.
func TestAdditionsAreChecked(t *testing.T) {
	for name, change := range map[string]func(s *records){
		"opened at the first level":     func(s *records) { s.head.Level, s.audit = 1, s.audit[:1] },
		"acts at the first level":       func(s *records) { s.head.Level, s.sessions[1].Opened = 1, 0 },
		"unknown act":                   func(s *records) { s.audit[3].Act = 9 },
		"act with a lock":               func(s *records) { s.audit[3].Name = "job" },
		"end of no session":             func(s *records) { s.audit[1].Session = 0 },
		"session of another act":        func(s *records) { s.audit[2].Session = 5 },
		"force with a node":             func(s *records) { s.audit[0].Node = "n" },
		"act by nobody":                 func(s *records) { s.audit[2].Actor = "" },
		"end of a session to come":      func(s *records) { s.audit[1].Session = locktable.SessionID(s.audit[1].Rev) },
		"opened before time began":      func(s *records) { s.sessions[1].Opened = -1 },
		"transfer that is done \"now\"": func(s *records) { s.audit[2].Now = true },
	} {
		s := goldenActs()
		change(s)
		s.count()
		if _, err := ReadSnapshot(bytes.NewReader(encodeState(t, s))); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ReadSnapshot(bytes.NewReader(encodeState(t, goldenActs()))); err != nil {
		t.Errorf("unchanged: %v", err)
	}
}

func TestAdditionsHaveOneLayout(t *testing.T) {
	record := func(write func(w *Writer)) string {
		var w Writer
		write(&w)
		return string(w.buf)
	}
	opened := func(id locktable.SessionID) string {
		return record(func(w *Writer) { w.openedRecord(&openedRecord{id, 5}) })
	}
	act := func(rev locktable.Rev) string {
		return record(func(w *Writer) {
			w.actRecord(&actRecord{rev, locktable.AuditRecord{Act: locktable.ActRemove}})
		})
	}
	for name, script := range map[string]func(*snapshotScript){
		"no openings":            func(s *snapshotScript) { s.section(sectionOpenings, true) },
		"no acts":                func(s *snapshotScript) { s.section(sectionActs, true) },
		"opening of nobody":      func(s *snapshotScript) { s.section(sectionOpenings, true, opened(1)) },
		"act without its record": func(s *snapshotScript) { s.section(sectionActs, true, act(1)) },
		"acts first": func(s *snapshotScript) {
			s.section(sectionActs, true, act(1))
			s.section(sectionOpenings, true, opened(1))
		},
	} {
		var s snapshotScript
		s.head(1, 2)
		s.known(1, 6)
		script(&s)
		s.end()
		if _, err := ReadSnapshot(bytes.NewReader(seal(s.buf))); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
