package quorumlock

import (
	"errors"

	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/store"
)

// endFormer ends the sessions that the former process opened in this data directory, where the store has proven that it is over. What the store cannot see, a proof that is
// wrong, the log may: the sessions are ended only if none of them was renewed after this node asked for the index to compare with.
//
// It is done in the background: until then the former process's locks are simply held, and claims for them wait.
func (n *Node) endFormer() {
	former, why := n.store.Former()
	switch {
	case errors.Is(why, store.ErrNoFormer):
		return
	case why != nil:
		n.log.Warn("no restart in place: the former process's locks are free after their TTL", "reason", why)
		return
	}
	const op = "restart in place"
	mark, err := n.ask(n.life, op, "", &locktable.Command{Op: locktable.OpBarrier})
	if err == nil {
		var res locktable.Result
		res, err = n.ask(n.life, op, "", &locktable.Command{
			Op: locktable.OpRestart, Node: n.id, Incarnation: former, RenewIndex: mark.Index,
		})
		if err == nil && res.Code == locktable.CodeStale {
			err = errSignOfLife
		}
		if err == nil {
			n.log.Info("restarted in place: the former process's sessions are ended", "sessions", res.Ended)
			return
		}
	}
	if n.life.Err() == nil {
		n.log.Warn("no restart in place: the former process's locks are free after their TTL", "reason", err)
	}
}

var errSignOfLife = errors.New("one of its sessions was renewed after this process had started")
