package store

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// An install that comes late, when the follower has already acknowledged entries after the snapshot, takes none of them away: they may be committed by that
// acknowledgement. raft applies them afterwards, and they are there after a restart.
func TestSnapshotBehindTheEndOfTheLogKeepsWhatFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group := startGroup(t, 3)
		f, next := feedFollower(t, group)
		last, term := f.raft.LastIndex(), next.term-9
		var entries []*raft.Log
		for i := range uint64(5) {
			entries = append(entries, &raft.Log{Index: last + 1 + i, Term: term + 9, Type: raft.LogCommand, Data: []byte("x")})
		}
		if !next.append(t, last, term, last, entries) {
			t.Fatal("the entries were not acknowledged")
		}
		next.install(t, last+2, []byte("32\n"))
		if first, end := bounds(t, f.store); first > last+3 || end != last+5 {
			t.Errorf("the log holds %d to %d, want up to %d", first, end, last+5)
		}
		if !next.append(t, last+5, term+9, last+5, nil) {
			t.Error("the entries are acknowledged no more")
		}
		time.Sleep(time.Second)
		if got := f.raft.AppliedIndex(); got != last+5 {
			t.Errorf("applied up to %d, want %d", got, last+5)
		}
		for _, m := range group {
			m.stop()
		}
	})
}

// A committed entry that is missing fails the member, and not the process.
func TestCommittedEntryThatIsMissingFailsTheMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group := startGroup(t, 3)
		f, next := feedFollower(t, group)
		last, term := f.raft.LastIndex(), next.term-9
		if !next.append(t, last, term, last, []*raft.Log{{Index: last + 1, Term: term + 9, Type: raft.LogCommand, Data: []byte("x")}}) {
			t.Fatal("the entry was not acknowledged")
		}
		if err := f.store.Logs().DeleteRange(last+1, last+1); err != nil { // behind raft's back
			t.Fatal(err)
		}
		go func() {
			var reply raft.AppendEntriesResponse
			_ = next.trans.AppendEntries(raft.ServerID(f.id), f.trans.LocalAddr(), &raft.AppendEntriesRequest{
				RPCHeader: next.header, Term: next.term, PrevLogEntry: last + 1, PrevLogTerm: next.term, LeaderCommitIndex: last + 1,
			}, &reply)
		}()
		time.Sleep(time.Second)
		if corrupt := (*CorruptError)(nil); !errors.As(f.store.Failed(), &corrupt) {
			t.Errorf("the store says %v", f.store.Failed())
		}
		for _, m := range group {
			m.stop()
		}
		time.Sleep(time.Minute) // for the request that is not answered
	})
}

// A log that ends before an installed snapshot begins anew behind it, without a gap; without such a snapshot the gap is refused.
func TestLogBeginsAnewBehindASnapshot(t *testing.T) {
	d := NewDisk()
	s := mustOpen(t, Options{Disk: d})
	store := func(index uint64) error {
		return s.Logs().StoreLog(&raft.Log{Index: index, Term: 1, Data: []byte("x")})
	}
	for i := range uint64(10) {
		if err := store(i + 1); err != nil {
			t.Fatal(err)
		}
	}
	sink, err := s.Snapshots().Create(raft.SnapshotVersionMax, 20, 1, raft.Configuration{}, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sink.Write([]byte("state")); err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	if first, last := bounds(t, s); first != 1 || last != 10 {
		t.Errorf("after the install the log holds %d to %d", first, last)
	}
	if err := store(21); err != nil {
		t.Fatal(err)
	}
	if first, last := bounds(t, s); first != 21 || last != 21 {
		t.Errorf("behind the snapshot the log holds %d to %d", first, last)
	}
	if err := store(23); err == nil || errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("entry 23 after 21: %v", err)
	}
}

func bounds(t *testing.T, s *Store) (first, last uint64) {
	t.Helper()
	first, err := s.Logs().FirstIndex()
	if err != nil {
		t.Fatal(err)
	}
	if last, err = s.Logs().LastIndex(); err != nil {
		t.Fatal(err)
	}
	return first, last
}

// feed speaks to a follower as a leader of a later term would.
type feed struct {
	to     *member
	trans  *raft.InmemTransport
	header raft.RPCHeader
	term   uint64
	config []byte
}

// feedFollower cuts a follower of a group at work off, and gives the feed that takes the leader's place, nine terms later.
func feedFollower(t *testing.T, group []*member) (*member, *feed) {
	t.Helper()
	l := leader(t, group)
	mustApply(t, l, 30)
	time.Sleep(time.Second)
	f := group[0]
	if f == l {
		f = group[1]
	}
	f.cut()
	return f, newFeed(f, l, l.raft.CurrentTerm()+9)
}

func newFeed(to, leader *member, term uint64) *feed {
	_, trans := raft.NewInmemTransport("feed")
	trans.Connect(to.trans.LocalAddr(), to.trans)
	id := []byte(leader.id)
	return &feed{
		to: to, trans: trans, header: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: id, Addr: id}, term: term,
		config: raft.EncodeConfiguration(to.raft.GetConfiguration().Configuration()),
	}
}

func (f *feed) append(t *testing.T, prev, prevTerm, commit uint64, entries []*raft.Log) bool {
	t.Helper()
	var reply raft.AppendEntriesResponse
	err := f.trans.AppendEntries(raft.ServerID(f.to.id), f.to.trans.LocalAddr(), &raft.AppendEntriesRequest{
		RPCHeader: f.header, Term: f.term, PrevLogEntry: prev, PrevLogTerm: prevTerm, Entries: entries, LeaderCommitIndex: commit,
	}, &reply)
	if err != nil {
		t.Fatal(err)
	}
	return reply.Success
}

func (f *feed) install(t *testing.T, index uint64, state []byte) {
	t.Helper()
	var reply raft.InstallSnapshotResponse
	err := f.trans.InstallSnapshot(raft.ServerID(f.to.id), f.to.trans.LocalAddr(), &raft.InstallSnapshotRequest{
		RPCHeader: f.header, SnapshotVersion: raft.SnapshotVersionMax, Term: f.term, LastLogIndex: index, LastLogTerm: f.term,
		Configuration: f.config, ConfigurationIndex: 1, Size: int64(len(state)),
	}, &reply, bytes.NewReader(state))
	if err != nil || !reply.Success {
		t.Fatalf("install: %v, %v", reply.Success, err)
	}
}
