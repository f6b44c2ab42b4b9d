package quorumlock

import (
	"context"

	"github.com/quorumlock/quorumlock/internal/sim"
)

// init opens the seam of package sim; nothing outside this module can reach it.
func init() {
	sim.Attach = func(config any, env *sim.Env) { config.(*Config).sim = env }
	sim.Abort = func(node any) { node.(*Node).abort() }
	sim.HandOver = func(node any) { node.(*Node).handOver(context.Background()) }
	sim.Leading = func(node any) bool { return node.(*Node).lead.Load() != nil }
	sim.State = func(node any) (uint64, [32]byte) {
		view := node.(*Node).fsm.view()
		return view.Header().Index, view.Hash()
	}
}

// abort stops without a word to anybody.
func (n *Node) abort() {
	if !n.closing.CompareAndSwap(false, true) {
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
