//go:build !wasip1

package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// heirState is what a successor's snapshot holds in these tests.
const heirState = "the state that is left to the successor"

func leave(state string) Succession {
	return Succession{
		Identity: Identity{ClusterID: "new"}, Index: 7, Term: 3,
		State: func(w io.Writer) error { _, err := io.WriteString(w, state); return err },
	}
}

// inhabited opens a store and leaves a term, a vote, entries, a snapshot and an identity in it.
func inhabited(t *testing.T, opt Options) *Store {
	t.Helper()
	s := openAgain(t, nil, opt)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.SetIdentity(Identity{ClusterID: "old", Promise: []byte("p")}))
	must(s.Stable().SetUint64([]byte(keyCurrentTerm), 5))
	must(s.Stable().SetUint64([]byte(keyLastVoteTerm), 5))
	must(s.Stable().Set([]byte(keyLastVoteCand), []byte("somebody")))
	for i := uint64(1); i <= 6; i++ {
		must(s.Logs().StoreLog(&raft.Log{Index: i, Term: 2, Data: []byte("entry")}))
	}
	sink, err := s.Snapshots().Create(raft.SnapshotVersionMax, 4, 2, raft.Configuration{}, 1, plainPeers{})
	must(err)
	_, err = io.WriteString(sink, "the former state")
	must(err)
	must(sink.Close())
	return s
}

// requireFormer fails the test unless a store is what inhabited left.
func requireFormer(t *testing.T, s *Store, id string) {
	t.Helper()
	term, err := s.Stable().GetUint64([]byte(keyCurrentTerm))
	last, lastErr := s.Logs().LastIndex()
	identity := s.Identity()
	if s.ServerID() != id || term != 5 || err != nil || last != 6 || lastErr != nil || identity.ClusterID != "old" || string(identity.Promise) != "p" {
		t.Errorf("server %s (was %s), term %d (%v), log up to %d (%v), %+v", s.ServerID(), id, term, err, last, lastErr, identity)
	}
	if got := newestSnapshot(t, s); got != "the former state" {
		t.Errorf("snapshot %q", got)
	}
}

func requireSuccessor(t *testing.T, s *Store, id string) {
	t.Helper()
	term, err := s.Stable().GetUint64([]byte(keyCurrentTerm))
	last, lastErr := s.Logs().LastIndex()
	identity := s.Identity()
	if s.ServerID() != id || term != 3 || err != nil || last != 0 || lastErr != nil || identity.ClusterID != "new" || identity.Promise != nil {
		t.Errorf("server %s (want %s), term %d (%v), log up to %d (%v), %+v", s.ServerID(), id, term, err, last, lastErr, identity)
	}
	if _, err := s.Stable().Get([]byte(keyLastVoteCand)); !errors.Is(err, errNotFound) {
		t.Errorf("a vote of the former member: %v", err)
	}
	list, err := s.Snapshots().List()
	if err != nil || len(list) != 1 || list[0].Index != 7 || list[0].Term != 3 {
		t.Fatalf("snapshots %+v (%v)", list, err)
	}
	servers := list[0].Configuration.Servers
	if len(servers) != 1 || string(servers[0].ID) != id || string(servers[0].Address) != id || servers[0].Suffrage != raft.Voter {
		t.Errorf("configuration %+v", servers)
	}
	if got := newestSnapshot(t, s); got != heirState {
		t.Errorf("snapshot %q", got)
	}
	if err := s.Logs().StoreLog(&raft.Log{Index: 8, Term: 4, Data: []byte("next")}); err != nil {
		t.Errorf("the next entry: %v", err)
	}
}

func newestSnapshot(t *testing.T, s *Store) string {
	t.Helper()
	list, err := s.Snapshots().List()
	if err != nil || len(list) == 0 {
		t.Fatalf("no snapshot: %v", err)
	}
	_, content, err := s.Snapshots().Open(list[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	b, err := io.ReadAll(content)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The store that is open goes on; the next one is that of the successor, at each start, and nothing of the former member is left.
// A successor can be succeeded, and can retire.
func TestASuccessorComesAlone(t *testing.T) {
	for name, opt := range lastingForms(t) {
		t.Run(name, func(t *testing.T) {
			s := inhabited(t, opt)
			former := s.ServerID()
			id, err := s.Succeed(leave(heirState))
			if err != nil || id == former {
				t.Fatalf("%s after %s: %v", id, former, err)
			}
			requireFormer(t, s, former)
			s = openAgain(t, s, opt)
			requireSuccessor(t, s, id)
			if opt.Dir != "" {
				requireFiles(t, opt.Dir, lockName, heirPrefix+id, metaName)
			}
			again := leave(heirState)
			next, err := s.Succeed(again)
			if err != nil || next == id {
				t.Fatalf("%s after %s: %v", next, id, err)
			}
			s = openAgain(t, s, opt)
			requireSuccessor(t, s, next)
			if err := s.Retire(); err != nil {
				t.Fatal(err)
			}
			s = openAgain(t, s, opt)
			defer func() { s.Close() }()
			if has, err := s.HasState(); has || err != nil || s.ServerID() == next {
				t.Errorf("after it retired: state %v (%v), same id %v", has, err, s.ServerID() == next)
			}
			if opt.Dir != "" {
				requireFiles(t, opt.Dir, memberFiles(opt)...)
			}
		})
	}
}

// memberFiles are the names in the directory of a member.
func memberFiles(opt Options) []string {
	files := []string{lockName, identityName, metaName, boltName, snapshotsDir}
	if opt.Segments {
		files = append(files, segmentsName)
	}
	return files
}

func requireFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("files %v, want %v", got, want)
	}
}

// Whatever goes wrong before the last step leaves the former store as it was.
func TestAFailedSuccessionChangesNothing(t *testing.T) {
	broken := errors.New("broken")
	refuse := func(r io.Reader) error {
		if b, err := io.ReadAll(r); err != nil || strings.HasPrefix(string(b), "the state") {
			return broken
		}
		return nil
	}
	for what, change := range map[string]func(sn *Succession, opt *Options){
		"no state": func(sn *Succession, _ *Options) { sn.State = func(io.Writer) error { return broken } },
		"half": func(sn *Succession, _ *Options) {
			sn.State = func(w io.Writer) error { _, _ = w.Write([]byte("h")); return broken }
		},
		"read back": func(_ *Succession, opt *Options) { opt.VerifySnapshot = refuse },
	} {
		for name, opt := range lastingForms(t) {
			t.Run(what+" "+name, func(t *testing.T) {
				sn := leave(heirState)
				change(&sn, &opt)
				s := inhabited(t, opt)
				id := s.ServerID()
				if _, err := s.Succeed(sn); !errors.Is(err, broken) {
					t.Fatalf("%v", err)
				}
				s = openAgain(t, s, opt)
				defer func() { s.Close() }()
				requireFormer(t, s, id)
				if opt.Dir != "" {
					requireFiles(t, opt.Dir, memberFiles(opt)...)
				}
			})
		}
	}
}

// Each write of a succession fails in turn, and then it stops being one of them: the next Open finds one of the two members,
// whole.
func TestSuccessionFailsAtEachWrite(t *testing.T) {
	broken := errors.New("broken")
	for nth := 1; ; nth++ {
		disk := NewDisk()
		opt := Options{Disk: disk, Cluster: "c"}
		s := inhabited(t, opt)
		former := s.ServerID()
		disk.FailWrite(nth, broken)
		id, err := s.Succeed(leave(heirState))
		disk.FailWrite(0, nil)
		failed := disk.Refused() > 0
		if failed != (err != nil) {
			t.Fatalf("write %d: failed %v, error %v", nth, failed, err)
		}
		s = openAgain(t, s, opt)
		if failed {
			requireFormer(t, s, former)
		} else {
			requireSuccessor(t, s, id)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if !failed {
			if nth < 4 {
				t.Errorf("only %d writes", nth-1)
			}
			return
		}
	}
}

// A directory as a crash leaves it in the middle of a succession, or right after, is opened: it is that of the former member, or
// that of the successor.
func TestCrashOfASuccessionInADirectory(t *testing.T) {
	for name, opt := range lastingForms(t) {
		if opt.Dir != "" {
			t.Run(name, func(t *testing.T) { testCrashOfASuccession(t, opt) })
		}
	}
}

func testCrashOfASuccession(t *testing.T, opt Options) {
	s := inhabited(t, opt)
	defer func() { s.Close() }()
	former := s.ServerID()
	sn := leave(heirState)
	inner := sn.State
	middle, after := filepath.Join(t.TempDir(), "middle"), filepath.Join(t.TempDir(), "after")
	sn.State = func(w io.Writer) error {
		err := inner(w)
		copyTree(t, opt.Dir, middle)
		return err
	}
	id, err := s.Succeed(sn)
	if err != nil {
		t.Fatal(err)
	}
	copyTree(t, opt.Dir, after)
	requireFiles(t, middle, append(memberFiles(opt), heirPrefix+id)...)
	for range 2 {
		m := openAgain(t, nil, Options{Dir: middle, Cluster: "c"})
		requireFormer(t, m, former)
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		requireFiles(t, middle, memberFiles(opt)...)
	}
	a := openAgain(t, nil, Options{Dir: after, Cluster: "c"})
	defer a.Close()
	requireSuccessor(t, a, id)
	requireFiles(t, after, lockName, metaName, heirPrefix+id)
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// What was damaged after a succession is refused, as it is in a directory that never had one.
func TestDamagedSuccessorIsRefused(t *testing.T) {
	for what, damage := range map[string]func(dir, heir string) error{
		"meta lost":      func(dir, _ string) error { return os.Remove(filepath.Join(dir, metaName)) },
		"identity lost":  func(dir, heir string) error { return os.Remove(filepath.Join(dir, heir, identityName)) },
		"log lost":       func(dir, heir string) error { return os.Remove(filepath.Join(dir, heir, boltName)) },
		"segments lost":  func(dir, heir string) error { return os.RemoveAll(filepath.Join(dir, heir, segmentsName)) },
		"directory lost": func(dir, heir string) error { return os.RemoveAll(filepath.Join(dir, heir)) },
		"led astray": func(dir, heir string) error {
			body := fmt.Sprintf(`{"server_id":"x","cluster":"c","complete":true,"heir":"../%s"}`, heir)
			return writeRecord(filepath.Join(dir, metaName), "meta", dirFormat, []byte(body))
		},
	} {
		t.Run(what, func(t *testing.T) {
			opt := Options{Dir: t.TempDir(), Segments: true, Cluster: "c"}
			s := inhabited(t, opt)
			id, err := s.Succeed(leave(heirState))
			if err != nil {
				t.Fatal(err)
			}
			if s = openAgain(t, s, opt); s.Close() != nil {
				t.Fatal("not closed")
			}
			if err := damage(opt.Dir, heirPrefix+id); err != nil {
				t.Fatal(err)
			}
			s, err = Open(context.Background(), opt)
			if !errors.As(err, new(*CorruptError)) {
				t.Errorf("open: %v", err)
			}
			if err == nil {
				s.Close()
			}
		})
	}
}

// A store that must exist is not made, and a condemned one is refused.
func TestExistingMakesNothing(t *testing.T) {
	absent, empty := filepath.Join(t.TempDir(), "absent"), t.TempDir()
	for what, opt := range map[string]Options{
		"absent directory": {Dir: absent}, "empty directory": {Dir: empty}, "new disk": {Disk: NewDisk()},
	} {
		opt.Cluster, opt.Existing = "c", true
		if _, err := Open(context.Background(), opt); !errors.As(err, new(*DirError)) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := os.Stat(absent); err == nil {
		t.Error("the directory was made")
	}
	requireFiles(t, empty)
	for name, opt := range lastingForms(t) {
		s := inhabited(t, opt)
		opt.Existing = true
		s = openAgain(t, s, opt)
		requireFormer(t, s, s.ServerID())
		if err := errors.Join(s.Condemn("a reason"), s.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(context.Background(), opt); !errors.As(err, new(*CondemnedError)) {
			t.Errorf("%s, condemned: %v", name, err)
		}
	}
}
