package store

import (
	"context"
	"testing"

	"github.com/hashicorp/raft"
)

// lastingForms are the stores that survive Close.
func lastingForms(t *testing.T) map[string]Options {
	return map[string]Options{
		"directory": {Dir: t.TempDir(), Cluster: "c"},
		"segments":  {Dir: t.TempDir(), Segments: true, Cluster: "c"},
		"disk":      {Disk: NewDisk(), Cluster: "c"},
	}
}

func openAgain(t *testing.T, s *Store, opt Options) *Store {
	t.Helper()
	if s != nil {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(context.Background(), opt)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestARetiredStoreComesBackEmptyUnderANewID(t *testing.T) {
	for name, opt := range lastingForms(t) {
		t.Run(name, func(t *testing.T) {
			s := openAgain(t, nil, opt)
			id := s.ServerID()
			if err := s.SetIdentity(Identity{ClusterID: "x"}); err != nil {
				t.Fatal(err)
			}
			if err := s.Logs().StoreLog(&raft.Log{Index: 1, Term: 1, Data: []byte("a")}); err != nil {
				t.Fatal(err)
			}
			if err := s.Retire(); err != nil {
				t.Fatal(err)
			}
			if s.ServerID() != id {
				t.Error("the open store changed its id")
			}
			s = openAgain(t, s, opt)
			defer func() { s.Close() }()
			has, err := s.HasState()
			if s.ServerID() == id || has || err != nil || s.Identity().ClusterID != "" {
				t.Errorf("same id %v, has state %v (%v), identity %+v", s.ServerID() == id, has, err, s.Identity())
			}
			fresh := s.ServerID()
			if s = openAgain(t, s, opt); s.ServerID() != fresh {
				t.Error("the new id did not last")
			}
		})
	}
}

func TestABootstrapCutShortStartsAnew(t *testing.T) {
	term := func(s *Store, v uint64) {
		t.Helper()
		if err := s.Stable().SetUint64([]byte(keyCurrentTerm), v); err != nil {
			t.Fatal(err)
		}
	}
	for name, opt := range lastingForms(t) {
		t.Run(name, func(t *testing.T) {
			s := openAgain(t, nil, opt)
			term(s, 1)
			s = openAgain(t, s, opt)
			if has, err := s.HasState(); has || err != nil {
				t.Errorf("after a bootstrap cut short: has state %v, %v", has, err)
			}
			// A member that voted, or saw a later term, must not forget it.
			term(s, 1)
			if err := s.Stable().SetUint64([]byte(keyLastVoteTerm), 1); err != nil {
				t.Fatal(err)
			}
			if err := s.Stable().Set([]byte(keyLastVoteCand), []byte("b")); err != nil {
				t.Fatal(err)
			}
			s = openAgain(t, s, opt)
			if has, err := s.HasState(); !has || err != nil {
				t.Errorf("after a vote: has state %v, %v", has, err)
			}
			if got, err := s.Stable().Get([]byte(keyLastVoteCand)); string(got) != "b" || err != nil {
				t.Errorf("the vote is %q, %v", got, err)
			}
			s.Close()
		})
	}
}
