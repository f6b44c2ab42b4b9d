package quorumlock

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

const (
	reachPace  = 100 * time.Millisecond // between two attempts to reach a peer that has entries to get
	reachBound = time.Minute            // of them, after which raft counts one failure
)

// errUnreached is a stream to a peer that could not be opened, so nothing was sent.
var errUnreached = errors.New("not reached")

// reach makes a call to a peer until something could be sent, for as long as this node leads in the term of the call.
//
// Raft (v1.8.0) waits after each failed call to a follower for twice as long as after the one before, up to ten seconds, and looks at nothing else meanwhile: one that comes back after half a minute
// follows the leader at once, since heartbeats have a shorter limit, but gets no entry for up to ten seconds. Who waits only until it is back before the next one is restarted, as every rolling update does, then
// stops a cluster of three. So a peer that cannot be reached is not a failed call here but a long one, that ends when it is back. Calls that were sent fail as before.
func (t *raftTransport) reach(term uint64, call func() error) error {
	err := call()
	for end := time.Now().Add(reachBound); errors.Is(err, errUnreached) && time.Now().Before(end) && t.leads(term); {
		if pause(t.life, reachPace); t.life.Err() != nil {
			break
		}
		err = call()
	}
	return err
}

func (t *raftTransport) leads(term uint64) bool {
	r := t.raft.Load()
	return r == nil || r.State() == raft.Leader && r.CurrentTerm() == term
}

// AppendEntries implements raft.Transport. Heartbeats have a pace of their own.
func (t *raftTransport) AppendEntries(
	id raft.ServerID, target raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse,
) error {
	call := func() error { return t.NetworkTransport.AppendEntries(id, target, req, resp) }
	if heartbeat(req) {
		return call()
	}
	boundCommit(req)
	return t.reach(req.Term, call)
}

func heartbeat(req *raft.AppendEntriesRequest) bool {
	return len(req.Entries) == 0 && req.PrevLogEntry == 0 && req.PrevLogTerm == 0 && req.LeaderCommitIndex == 0
}

// InstallSnapshot implements raft.Transport. Nothing of data is read before the peer is reached.
func (t *raftTransport) InstallSnapshot(
	id raft.ServerID, target raft.ServerAddress, req *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader,
) error {
	return t.reach(req.Term, func() error { return t.NetworkTransport.InstallSnapshot(id, target, req, resp, data) })
}

// raftTransport is raft's network transport with a pipeline that cannot get stuck, and more patience with peers that are away.
type raftTransport struct {
	*raft.NetworkTransport
	raft atomic.Pointer[raft.Raft] // set once it has started
	life context.Context           // ends before raft is stopped
}
