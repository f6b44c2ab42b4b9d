package quorumlock

import (
	"io"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// appliedFSM tells what is applied.
type appliedFSM chan string

func (f appliedFSM) Apply(l *raft.Log) any               { f <- string(l.Data); return nil }
func (f appliedFSM) Snapshot() (raft.FSMSnapshot, error) { return nil, io.EOF }
func (f appliedFSM) Restore(r io.ReadCloser) error       { return r.Close() }

// A follower whose log ends with an entry that no majority has, of a leader that was deposed, hears from the next leader by a request without entries that more has been
// committed: as raft sends it when it retries after a pause. The follower must not apply that entry, but the one that takes its place.
func TestFollowerAppliesNothingThatTheLeaderDoesNotHave(t *testing.T) {
	for name, send := range map[string]func(*testing.T, *raftTransport, raft.ServerAddress, *raft.AppendEntriesRequest){
		"single":    sendSingle,
		"pipelined": sendPipelined,
	} {
		t.Run(name, func(t *testing.T) {
			follower, applied := followerWith(t, &raft.Log{Index: 2, Term: 1, Type: raft.LogCommand, Data: []byte("never committed")})
			leader := &raftTransport{NetworkTransport: tcpTransport(t), life: t.Context()}
			header := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("leader"), Addr: []byte("leader")}
			send(t, leader, follower, &raft.AppendEntriesRequest{
				RPCHeader: header, Term: 2, PrevLogEntry: 1, PrevLogTerm: 1, LeaderCommitIndex: 7,
			})
			send(t, leader, follower, &raft.AppendEntriesRequest{
				RPCHeader: header, Term: 2, PrevLogEntry: 1, PrevLogTerm: 1, LeaderCommitIndex: 7,
				Entries: []*raft.Log{{Index: 2, Term: 2, Type: raft.LogCommand, Data: []byte("committed")}},
			})
			select {
			case data := <-applied:
				if data != "committed" {
					t.Errorf("applied %q", data)
				}
			case <-time.After(10 * time.Second):
				t.Error("nothing is applied")
			}
		})
	}
}

func sendSingle(t *testing.T, leader *raftTransport, to raft.ServerAddress, req *raft.AppendEntriesRequest) {
	t.Helper()
	var resp raft.AppendEntriesResponse
	if err := leader.AppendEntries("follower", to, req, &resp); err != nil || !resp.Success {
		t.Fatalf("%+v, %v", resp, err)
	}
}

func sendPipelined(t *testing.T, leader *raftTransport, to raft.ServerAddress, req *raft.AppendEntriesRequest) {
	t.Helper()
	p, err := leader.AppendEntriesPipeline("follower", to)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.AppendEntries(req, new(raft.AppendEntriesResponse)); err != nil {
		t.Fatal(err)
	}
	if f := <-p.Consumer(); f.Error() != nil || !f.Response().Success {
		t.Fatalf("%+v, %v", f.Response(), f.Error())
	}
}

// followerWith is a follower of two whose log has one more entry than is committed.
func followerWith(t *testing.T, last *raft.Log) (raft.ServerAddress, <-chan string) {
	t.Helper()
	trans := tcpTransport(t)
	store, snapshots := raft.NewInmemStore(), raft.NewInmemSnapshotStore()
	conf := raft.DefaultConfig()
	conf.LocalID, conf.LogOutput = "follower", io.Discard
	conf.HeartbeatTimeout, conf.ElectionTimeout = time.Minute, time.Minute
	members := raft.Configuration{Servers: []raft.Server{{ID: "follower", Address: trans.LocalAddr()}, {ID: "leader", Address: "leader"}}}
	if err := raft.BootstrapCluster(conf, store, store, snapshots, trans, members); err != nil {
		t.Fatal(err)
	}
	if err := store.StoreLog(last); err != nil {
		t.Fatal(err)
	}
	applied := make(appliedFSM, 8)
	r, err := raft.NewRaft(conf, applied, store, store, snapshots, trans)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Shutdown().Error(); err != nil {
			t.Error(err)
		}
	})
	return trans.LocalAddr(), applied
}

func tcpTransport(t *testing.T) *raft.NetworkTransport {
	t.Helper()
	trans, err := raft.NewTCPTransport("127.0.0.1:0", nil, 1, 5*time.Second, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = trans.Close() })
	return trans
}
