package quorumlock

import (
	"context"

	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/sim"
)

// init opens the seam of package sim; nothing outside this module can reach it.
func init() {
	sim.Attach = func(config any, env *sim.Env) { config.(*Config).sim = env }
	sim.Attached = func(config any) *sim.Env { return config.(*Config).sim }
	sim.Abort = func(node any) { node.(*Node).abort() }
	sim.HandOver = func(node any) { node.(*Node).handOver(context.Background()) }
	sim.Snapshot = func(ctx context.Context, node any) error { return node.(*Node).group.snapshot(ctx) }
	sim.Expire = func(node any) {
		for _, s := range node.(*Node).sessions.all(nil) {
			s.lose(&LostError{Cause: CauseExpired})
		}
	}
	sim.Leading = func(node any) bool { return node.(*Node).lead.Load() != nil }
	sim.Replicates = func(node any) bool { return !node.(*Node).isClient() }
	sim.State = func(node any) (uint64, [32]byte) {
		view := node.(*Node).fsm.view()
		return view.Header().Index, view.Hash()
	}
	sim.Level = func(node any) uint32 { return node.(*Node).level() }
	sim.Flip = func(node any, session func(*locktable.SessionRecord) bool, claim func(*locktable.ClaimRecord) bool) bool {
		return node.(*Node).fsm.flip(session, claim)
	}
}

// abort stops without a word to anybody.
func (n *Node) abort() {
	if !n.beginEnd() {
		n.endRemoval()
		<-n.closed
		return
	}
	defer close(n.closed)
	for _, s := range n.sessions.all(nil) {
		s.lose(&LostError{Cause: CauseNodeClosed})
	}
	n.markClosed()
	n.closeErr = n.stopParts()
}

// flip replaces the table by one that is built from the same records but for those that session or claim changes.
func (f *fsm) flip(session func(*locktable.SessionRecord) bool, claim func(*locktable.ClaimRecord) bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.table.Snapshot()
	b := locktable.NewBuilder(was.Header())
	flipped := false
	for r := range was.Sessions() {
		flipped = session != nil && session(&r) || flipped
		_ = b.Session(r) // the builder keeps its first error
	}
	for r := range was.Claims() {
		flipped = claim != nil && claim(&r) || flipped
		_ = b.Claim(r)
	}
	for r := range was.Finished() {
		_ = b.Finished(r)
	}
	for r := range was.Lost() {
		_ = b.Lost(r)
	}
	for r := range was.Audit() {
		_ = b.Audit(r)
	}
	for r := range was.Limits() {
		_ = b.Limit(r)
	}
	table, err := b.Table()
	if err != nil || !flipped {
		return false
	}
	f.table = table
	return true
}
