package scenario_test

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/sim"
	"github.com/quorumlock/quorumlock/internal/store"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// voterDisk is what a raft voter keeps, over the deaths of its processes.
type voterDisk interface {
	// open gives a new process its stores. die ends the process: from then on nothing that it writes has an effect. leave ends
	// what die left.
	open(t *testing.T) (logs raft.LogStore, stable raft.StableStore, die, leave func())
}

// guardedDisk is a member's own disk, as nodes have it.
type guardedDisk struct{ disk *store.Disk }

func (d guardedDisk) open(t *testing.T) (raft.LogStore, raft.StableStore, func(), func()) {
	t.Helper()
	s, err := store.Open(context.Background(), store.Options{Disk: d.disk, Cluster: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return s.Logs(), s.Stable(), d.disk.Crash, func() { _ = s.Close() }
}

// plainDisk writes what raft writes as it comes.
type plainDisk struct{ kept *raft.InmemStore }

func (d plainDisk) open(*testing.T) (raft.LogStore, raft.StableStore, func(), func()) {
	stable := &plainStable{InmemStore: d.kept}
	return d.kept, stable, func() { stable.dead = true }, func() {}
}

type plainStable struct {
	*raft.InmemStore
	dead bool
}

func (s *plainStable) Set(key, value []byte) error {
	if s.dead {
		return store.ErrCrashed
	}
	return s.InmemStore.Set(key, value)
}

// dyingStable is a StableStore whose process dies when it has written the term of its next vote, and not yet the candidate.
type dyingStable struct {
	raft.StableStore
	die func() // nil: it lives on
}

func (s *dyingStable) SetUint64(key []byte, value uint64) error {
	err := s.StableStore.SetUint64(key, value)
	if s.die != nil && string(key) == "LastVoteTerm" {
		s.die()
	}
	return err
}

// voter is one process of a real raft voter. The other two members of its group are played by the test.
type voter struct {
	t      *testing.T
	raft   *raft.Raft
	stable *dyingStable
	die    func()
	stop   func()
	peer   *raft.InmemTransport
}

func startVoter(t *testing.T, disk voterDisk) *voter {
	t.Helper()
	logs, stable, die, leave := disk.open(t)
	v := &voter{t: t, stable: &dyingStable{StableStore: stable}, die: die}
	_, trans := raft.NewInmemTransport("voter")
	_, v.peer = raft.NewInmemTransport("peer")
	v.peer.Connect("voter", trans)
	conf := raft.DefaultConfig()
	conf.LocalID, conf.Logger = "voter", hclog.NewNullLogger()
	conf.HeartbeatTimeout, conf.ElectionTimeout = time.Hour, time.Hour // it does not run itself
	var err error
	if v.raft, err = raft.NewRaft(conf, noFSM{}, logs, v.stable, raft.NewDiscardSnapshotStore(), trans); err != nil {
		t.Fatal(err)
	}
	v.stop = func() {
		_ = v.raft.Shutdown().Error()
		_ = trans.Close()
		_ = v.peer.Close()
		leave()
	}
	return v
}

func (v *voter) bootstrap() {
	v.t.Helper()
	var group raft.Configuration
	for _, id := range []string{"voter", "old", "new"} {
		group.Servers = append(group.Servers, raft.Server{ID: raft.ServerID(id), Address: raft.ServerAddress(id)})
	}
	if err := v.raft.BootstrapCluster(group).Error(); err != nil {
		v.t.Fatal(err)
	}
}

func header(id string) raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(id), Addr: []byte(id)}
}

// asked tells whether the voter gives its vote to a candidate whose log ends with the given entry.
func (v *voter) asked(candidate string, term, lastIndex, lastTerm uint64) bool {
	v.t.Helper()
	req := &raft.RequestVoteRequest{RPCHeader: header(candidate), Term: term, LastLogIndex: lastIndex, LastLogTerm: lastTerm}
	var resp raft.RequestVoteResponse
	if err := v.peer.RequestVote("voter", "voter", req, &resp); err != nil {
		v.t.Fatal(err)
	}
	return resp.Granted
}

// append has a leader give the voter its next entry.
func (v *voter) append(leader string, term, prevIndex, prevTerm uint64) {
	v.t.Helper()
	req := &raft.AppendEntriesRequest{
		RPCHeader: header(leader), Term: term, PrevLogEntry: prevIndex, PrevLogTerm: prevTerm, LeaderCommitIndex: prevIndex + 1,
		Entries: []*raft.Log{{Index: prevIndex + 1, Term: term, Type: raft.LogCommand, Data: []byte("grant")}},
	}
	var resp raft.AppendEntriesResponse
	if err := v.peer.AppendEntries("voter", "voter", req, &resp); err != nil || !resp.Success {
		v.t.Fatalf("append: %+v, %v", resp, err)
	}
}

type noFSM struct{}

func (noFSM) Apply(*raft.Log) any                 { return nil }
func (noFSM) Snapshot() (raft.FSMSnapshot, error) { return nil, io.EOF }
func (noFSM) Restore(r io.ReadCloser) error       { return r.Close() }

// S74: a voter dies between the two writes of a vote, term and candidate, whose former candidate lacks an entry that was
// committed since. On a plain store the two writes come out as a vote for that candidate, which would make it the leader (the
// control: the fault is real); on ours the vote was never given, and goes to whoever may have it, once.
func TestVoterDiesBetweenTermAndCandidate(t *testing.T) {
	for name, test := range map[string]struct {
		disk    func() voterDisk
		misled  bool
		regrant bool
	}{
		"plain store": {func() voterDisk { return plainDisk{raft.NewInmemStore()} }, true, false},
		"our store":   {func() voterDisk { return guardedDisk{store.NewDisk()} }, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				disk := test.disk()
				v := startVoter(t, disk)
				v.bootstrap() // entry 1 of term 1
				if !v.asked("old", 2, 1, 1) {
					t.Fatal("no vote for the first candidate")
				}
				v.append("new", 3, 1, 1) // the others elected it; the entry is committed with this voter's help
				v.stable.die = v.die
				if v.asked("new", 4, 2, 3) {
					t.Fatal("a vote was given that was not kept: the fault did not bite")
				}
				v.stop()

				v = startVoter(t, disk)
				defer func() { v.stop() }()
				if got := v.asked("old", 4, 1, 1); got != test.misled {
					t.Errorf("vote for a candidate that lacks a committed entry: %v, want %v", got, test.misled)
				}
				if got := v.asked("new", 4, 2, 3); got != test.regrant {
					t.Errorf("vote for the candidate that has it: %v, want %v", got, test.regrant)
				}
				if !test.regrant {
					return
				}
				v.stop()
				v = startVoter(t, disk) // and once given, it is kept
				if v.asked("other", 4, 9, 3) || v.asked("old", 4, 9, 3) {
					t.Error("two votes in one term")
				}
				if !v.asked("new", 4, 2, 3) {
					t.Error("the vote is forgotten")
				}
			})
		})
	}
}

// S74: one voter after the other is killed at every write of an election, on slow disks, and starts again at once. Nobody leads
// in a term in which another one does, and no leader lacks a grant that was acknowledged before: a client that is no voter
// collects holds all the way.
func TestVotersDieAtEveryWriteOfAnElection(t *testing.T) {
	const write, moments = 16 * time.Millisecond, 14 // an election takes so many half writes, with the barrier before it
	for victim, name := range []string{"old leader", "one voter", "other voter"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, heard := keepDiary()
				c := quorumlocktest.New(t, 3, heard)
				client := c.Grow()
				c.WaitReady()
				s := openSession(t, c.Node(client))
				var holds []*quorumlock.Hold
				for moment := range moments {
					holds = append(holds, lockIn(t, s, fmt.Sprint(moment), grantBound))
					leader := c.Leader()
					leads := c.Node(leader)
					slowDisks(c, write, 0, 1, 2)
					go sim.HandOver(leads)
					time.Sleep(time.Millisecond + time.Duration(moment)*write/2)
					dead := (leader + victim) % 3
					c.Crash(dead)
					c.Start(dead)
					time.Sleep(4 * write) // it comes back into the same election
					slowDisks(c, 0, 0, 1, 2)
					c.Leader()
					readyIn(t, c.Node(dead), grantBound)
					leaderHasAll(t, c, holds)
				}
				if led := d.leaders(t); len(led) < moments/2 {
					t.Errorf("terms led: %v: the fault did not bite", led)
				}
				for _, h := range holds {
					unlock(t, h)
				}
				c.CheckState()
			})
		})
	}
}

// leaderHasAll fails the test unless the leader knows every hold.
func leaderHasAll(t *testing.T, c *quorumlocktest.Cluster, holds []*quorumlock.Hold) {
	t.Helper()
	for _, h := range holds {
		info := lockShown(t, c, h.Name())
		if len(info.Holders) != 1 || info.Holders[0].Token != h.Token() {
			t.Errorf("lock %q, held with token %v: %+v", h.Name(), h.Token(), info.Holders)
		}
		if err := h.Err(); err != nil {
			t.Errorf("lock %q: %v", h.Name(), err)
		}
	}
}
