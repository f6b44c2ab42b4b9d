package quorumlock

import "github.com/hashicorp/raft"

// AppendEntries implements raft.AppendPipeline.
func (d *drainedPipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	boundCommit(args)
	return d.AppendPipeline.AppendEntries(args, resp)
}

// boundCommit tells a follower of no commit beyond what the request shows to be the same in both logs.
//
// Raft's follower (v1.8.0) commits up to the leader's commit index or the end of its own log, whichever is lower. The end of its log may be entries of a former term that no majority has and
// that the leader is about to replace, if the request has no entries after the last one that is known to be equal. Raft's leader sends such a request when it
// retries after a pause: it then has the end of the log from before the pause, and the commit index from after it. The follower would apply what nobody else ever does.
func boundCommit(a *raft.AppendEntriesRequest) {
	a.LeaderCommitIndex = min(a.LeaderCommitIndex, a.PrevLogEntry+uint64(len(a.Entries)))
}
