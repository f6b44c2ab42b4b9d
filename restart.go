package quorumlock

import (
	"errors"

	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/store"
)

// endFormer ends the sessions that former processes opened in this data directory, where the store has proven that they are over. As a rule that is the one before; one that died
// before it had ended its predecessor's leaves both. What the store cannot see, a proof that is wrong, the log may: a process's sessions are ended only if none of
// them was renewed after this node asked for the index to compare with.
//
// It is done in the background: until then the former processes' locks are simply held, and claims for them wait.
func (n *Node) endFormer() {
	formers, err := n.store.Formers()
	if errors.Is(err, store.ErrNoFormer) {
		return
	}
	if err == nil {
		err = n.restartAfter(formers)
	}
	if err != nil && n.life.Err() == nil {
		n.log.Warn("no restart in place: the former process's locks are free after their TTL", "reason", err)
	}
}

// restartAfter ends what each of formers has left. One of which there is a sign of life is left to its TTL and keeps nobody from ending the others.
func (n *Node) restartAfter(formers []string) error {
	const op = "restart in place"
	mark, err := n.ask(n.life, op, "", &locktable.Command{Op: locktable.OpBarrier})
	if err != nil {
		return err
	}
	ended := 0
	var alive error
	for _, former := range formers {
		res, err := n.ask(n.life, op, "", &locktable.Command{
			Op: locktable.OpRestart, Node: n.id, Incarnation: former, RenewIndex: mark.Index,
		})
		switch {
		case err != nil:
			return err // and a later start asks for all of them again
		case res.Code == locktable.CodeStale:
			alive = errSignOfLife
		default:
			ended += res.Ended
		}
	}
	if err := n.store.FormersEnded(); err != nil {
		n.log.Warn("the lock file still names former processes: the next start asks for their end once more", "error", err)
	}
	if alive == nil {
		n.log.Info("restarted in place: the former process's sessions are ended", "sessions", ended, "starts", len(formers))
	}
	return alive
}

var errSignOfLife = errors.New("one of its sessions was renewed after this process had started")
