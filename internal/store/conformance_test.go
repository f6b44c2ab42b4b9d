package store

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"testing"

	"github.com/hashicorp/raft"
)

func TestEmptyStore(t *testing.T) {
	eachForm(t, func(t *testing.T, f form, opt Options) {
		s := mustOpen(t, opt)
		wantLog(t, s, 0, 0)
		if _, err := s.Stable().GetUint64([]byte(keyCurrentTerm)); err == nil || err.Error() != "not found" {
			t.Errorf("term of an empty store: %v", err)
		}
		if _, err := s.Stable().Get([]byte(keyLastVoteCand)); err == nil || err.Error() != "not found" {
			t.Errorf("vote of an empty store: %v", err)
		}
		if list, err := s.Snapshots().List(); err != nil || len(list) != 0 {
			t.Errorf("snapshots: %v, %v", list, err)
		}
		if has, err := s.HasState(); has || err != nil {
			t.Errorf("has state: %v, %v", has, err)
		}
		if id := s.Identity(); id.ClusterID != "" || id.Promise != nil {
			t.Errorf("identity: %+v", id)
		}
		if len(s.ServerID()) != 32 || s.Durable() != f.lasting || s.Failed() != nil {
			t.Errorf("id %q, durable %v, failed %v", s.ServerID(), s.Durable(), s.Failed())
		}
	})
}

func TestLogDeletes(t *testing.T) {
	const chunk = 8
	const n = 2*chunk + 7
	tests := []struct {
		name        string
		from, to    uint64 // deleted
		first, last uint64 // left
	}{
		{"nothing beyond the end", n + 1, n + 5, 1, n},
		{"an empty range", 9, 3, 1, n},
		{"a short head", 1, 5, 6, n},
		{"a long head", 0, chunk + 1, chunk + 2, n},
		{"a tail", n - 9, n, 1, n - 10},
		{"a long tail", 5, n, 1, 4},
		{"all", 1, n, 0, 0},
		{"more than all", 0, ^uint64(0), 0, 0},
	}
	eachForm(t, func(t *testing.T, f form, _ Options) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				opt := f.opts(t)
				s := mustOpen(t, opt)
				s.logs.sealed.chunk = chunk
				mustAppend(t, s, 1, n)
				if err := s.Logs().DeleteRange(test.from, test.to); err != nil {
					t.Fatal(err)
				}
				wantBounds(t, s, test.first, test.last)
				next := test.last + 1
				if test.last == 0 {
					next = 77 // behind a snapshot
				}
				mustAppend(t, s, next, next+2)
				first := test.first
				if first == 0 {
					first = next
				}
				wantBounds(t, s, first, next+2)
				if f.lasting && first == 1 { // else a snapshot is missing
					mustClose(t, s)
					wantBounds(t, mustOpen(t, opt), first, next+2)
				}
			})
		}
	})
}

func TestDeletionRefusesGap(t *testing.T) {
	eachForm(t, func(t *testing.T, f form, opt Options) {
		s := mustOpen(t, opt)
		mustAppend(t, s, 1, 9)
		if err := s.Logs().DeleteRange(3, 5); err == nil || s.Failed() == nil {
			t.Errorf("a gap was made: %v, failed %v", err, s.Failed())
		}
	})
}

// TestDeletionDiesAnywhere stops a deletion of head, tail or all after each of its steps: what is left has no gap, and joins the
// snapshot that raft has finished before it deletes.
func TestDeletionDiesAnywhere(t *testing.T) {
	const chunk, n = 8, 24
	for _, del := range []deletion{{1, n - 5}, {6, n}, {1, n}} {
		for done := 0; ; done++ {
			d := NewDisk()
			s := mustOpen(t, Options{Disk: d})
			s.logs.sealed.chunk = chunk
			mustAppend(t, s, 1, n)
			mustSnapshot(t, s, n-5, "")
			steps, err := s.logs.sealed.planDeletion(del.from, del.to)
			if err != nil {
				t.Fatal(err)
			}
			for _, step := range steps[:done] {
				if err := s.logs.sealed.remove(step); err != nil {
					t.Fatal(err)
				}
			}
			d.Crash()
			mustOpen(t, Options{Disk: d})
			if done == len(steps) {
				break
			}
		}
	}
}

func TestLogReopens(t *testing.T) {
	eachForm(t, func(t *testing.T, f form, opt Options) {
		if !f.lasting {
			t.Skip("memory does not last")
		}
		s := mustOpen(t, opt)
		id := s.ServerID()
		mustAppend(t, s, 1, 20)
		mustAppend(t, s, 21, 21)
		mustSnapshot(t, s, 10, "ten")
		if err := s.Logs().DeleteRange(1, 8); err != nil {
			t.Fatal(err)
		}
		if err := s.Stable().SetUint64([]byte(keyCurrentTerm), 7); err != nil {
			t.Fatal(err)
		}
		if err := s.SetIdentity(Identity{ClusterID: "x", Promise: []byte{0, 1, 255}}); err != nil {
			t.Fatal(err)
		}
		mustClose(t, s)

		s = mustOpen(t, opt)
		wantLog(t, s, 9, 21)
		if term, err := s.Stable().GetUint64([]byte(keyCurrentTerm)); term != 7 || err != nil {
			t.Errorf("term %d, %v", term, err)
		}
		if got := s.Identity(); got.ClusterID != "x" || !bytes.Equal(got.Promise, []byte{0, 1, 255}) {
			t.Errorf("identity %+v", got)
		}
		if s.ServerID() != id {
			t.Errorf("server id changed from %s to %s", id, s.ServerID())
		}
		if has, err := s.HasState(); !has || err != nil {
			t.Errorf("has state: %v, %v", has, err)
		}
	})
}

func TestMemoryIsFreshEachTime(t *testing.T) {
	a, b := mustOpen(t, Options{}), mustOpen(t, Options{})
	if a.ServerID() == b.ServerID() {
		t.Error("two memory stores share a server id")
	}
}

func TestEntriesComeBackUnchanged(t *testing.T) {
	eachForm(t, func(t *testing.T, f form, opt Options) {
		s := mustOpen(t, opt)
		in := []*raft.Log{
			{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: []byte("c"), Extensions: []byte("ext")},
			{Index: 2, Term: 1, Type: raft.LogNoop},
			{Index: 3, Term: 2, Type: raft.LogBarrier, Data: bytes.Repeat([]byte{7}, 1<<18)},
		}
		if err := s.Logs().StoreLogs(in); err != nil {
			t.Fatal(err)
		}
		if string(in[0].Extensions) != "ext" || in[1].Extensions != nil {
			t.Fatalf("the caller's entries were changed: %+v", in)
		}
		for _, want := range in {
			var got raft.Log
			if err := s.logs.sealed.get(want.Index, &got); err != nil { // below the cache
				t.Fatal(err)
			}
			if got.Term != want.Term || got.Type != want.Type || !bytes.Equal(got.Data, want.Data) ||
				!bytes.Equal(got.Extensions, want.Extensions) {
				t.Errorf("entry %d came back as %+v", want.Index, got)
			}
		}
	})
}

func TestAppendRefusesGap(t *testing.T) {
	eachForm(t, func(t *testing.T, f form, opt Options) {
		s := mustOpen(t, opt)
		mustAppend(t, s, 5, 7)
		if err := s.Logs().StoreLog(entry(9)); err == nil {
			t.Error("a gap was accepted")
		}
		if s.Failed() == nil {
			t.Error("the latch is up")
		}
	})
}

func TestVoteIsOneWrite(t *testing.T) {
	eachForm(t, func(t *testing.T, f form, opt Options) {
		s := mustOpen(t, opt)
		vote := func(term uint64, candidate string) {
			t.Helper()
			if err := s.Stable().SetUint64([]byte(keyLastVoteTerm), term); err != nil {
				t.Fatal(err)
			}
			if candidate == "" {
				return
			}
			if err := s.Stable().Set([]byte(keyLastVoteCand), []byte(candidate)); err != nil {
				t.Fatal(err)
			}
		}
		want := func(term uint64, candidate string) {
			t.Helper()
			gotTerm, err := s.Stable().GetUint64([]byte(keyLastVoteTerm))
			if err != nil || gotTerm != term {
				t.Errorf("term %d, %v; want %d", gotTerm, err, term)
			}
			got, err := s.Stable().Get([]byte(keyLastVoteCand))
			if err != nil || string(got) != candidate {
				t.Errorf("candidate %q, %v; want %q", got, err, candidate)
			}
		}
		vote(3, "x")
		want(3, "x")
		vote(5, "") // the process dies before the candidate is written
		want(3, "x")
		if !f.lasting {
			return
		}
		mustClose(t, s)
		s = mustOpen(t, opt)
		want(3, "x")
		vote(6, "y")
		want(6, "y")
	})
}

func TestSnapshotsKeepTheLastFinished(t *testing.T) {
	eachForm(t, func(t *testing.T, f form, opt Options) {
		s := mustOpen(t, opt)
		snaps := s.Snapshots()
		mustSnapshot(t, s, 10, "ten")
		mustSnapshot(t, s, 20, "twenty")
		open, err := snaps.Create(1, 40, 3, someConfiguration, 1, anyTransport)
		if err != nil {
			t.Fatal(err)
		}
		id := mustSnapshot(t, s, 30, "thirty")
		cancelled, err := snaps.Create(1, 50, 3, someConfiguration, 1, anyTransport)
		if err != nil {
			t.Fatal(err)
		}
		if err := cancelled.Cancel(); err != nil {
			t.Fatal(err)
		}
		list, err := snaps.List()
		if err != nil || len(list) != 2 || list[0].Index != 30 || list[1].Index != 20 || list[0].ID != id {
			t.Fatalf("list %+v, %v", list, err)
		}
		meta, content, err := snaps.Open(id)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(content)
		if err != nil || string(got) != "thirty" || meta.Size != 6 || meta.Configuration.Servers[0].ID != "a" {
			t.Fatalf("%q, %+v, %v", got, meta, err)
		}
		if err := content.Close(); err != nil {
			t.Fatal(err)
		}
		if err := open.Close(); err != nil { // finished after a later-created one
			t.Fatal(err)
		}
		if list, err := snaps.List(); err != nil || len(list) != 2 || list[0].Index != 40 || list[1].Index != 30 {
			t.Fatalf("list %+v, %v", list, err)
		}
		if _, _, err := snaps.Open("3-10-1"); !errors.Is(err, fs.ErrNotExist) || s.Failed() != nil {
			t.Errorf("a snapshot that was replaced: %v, failed %v", err, s.Failed())
		}
	})
}

func TestOpenDropsLogThatSnapshotCovers(t *testing.T) {
	eachForm(t, func(t *testing.T, f form, opt Options) {
		if !f.lasting {
			t.Skip("memory does not last")
		}
		s := mustOpen(t, opt)
		mustAppend(t, s, 1, 50)
		mustSnapshot(t, s, 1000, "installed") // and the process dies before raft empties the log
		mustClose(t, s)
		s = mustOpen(t, opt)
		wantLog(t, s, 0, 0)
		mustAppend(t, s, 1001, 1002)
		wantLog(t, s, 1001, 1002)
	})
}

func TestOpenFindsGapBehindSnapshot(t *testing.T) {
	eachForm(t, func(t *testing.T, f form, opt Options) {
		if !f.lasting {
			t.Skip("memory does not last")
		}
		s := mustOpen(t, opt)
		mustSnapshot(t, s, 10, "ten")
		mustAppend(t, s, 12, 13)
		mustClose(t, s)
		_, err := Open(context.Background(), opt)
		asError[*CorruptError](t, err)
	})
}

func TestOpenRefusesForeignCluster(t *testing.T) {
	eachForm(t, func(t *testing.T, f form, opt Options) {
		if !f.lasting {
			t.Skip("memory does not last")
		}
		mustClose(t, mustOpen(t, opt))
		opt.Cluster = "other"
		_, err := Open(context.Background(), opt)
		if e := asError[*ForeignError](t, err); e.Found != "c" || e.Asked != "other" {
			t.Errorf("%+v", e)
		}
	})
}

func TestClosedStoreRefuses(t *testing.T) {
	eachForm(t, func(t *testing.T, f form, opt Options) {
		s := mustOpen(t, opt)
		mustAppend(t, s, 1, 1)
		mustClose(t, s)
		mustClose(t, s)
		if err := s.Logs().StoreLog(entry(2)); !errors.Is(err, ErrClosed) {
			t.Errorf("append: %v", err)
		}
		if _, err := getLog(s, 1); !errors.Is(err, ErrClosed) {
			t.Errorf("read: %v", err)
		}
		if err := s.SetIdentity(Identity{}); !errors.Is(err, ErrClosed) {
			t.Errorf("identity: %v", err)
		}
		if _, err := s.HasState(); !errors.Is(err, ErrClosed) {
			t.Logf("raft hides the cause: %v", err)
		}
		if s.Failed() != nil {
			t.Errorf("closing felled the latch: %v", s.Failed())
		}
	})
}
