package quorumlock

import (
	"fmt"
	"sync"
	"time"
)

// copyLingers is how long a node that has found out that it is a copy answers the others' questions, and nothing else: each member needs its answer and the original's as proof,
// and the first ones ask within a round trip of meeting it.
const copyLingers = 3 * time.Second

// idConflict: two processes use one server id. The one that started later is the copy, and takes no further part: the older one has state that others rely on.
func (n *Node) idConflict(id, first, second string) {
	n.log.Error("two processes use one server id: was a data directory copied?", "server", id, "first", first, "second", second)
	if id != n.id || second != n.endpoint.Advertise() || !n.duplicate.CompareAndSwap(false, true) {
		return
	}
	n.fail(fmt.Errorf("server id %s is in use at %s, and at %s by this node, which started later: "+
		"was the data directory copied?", id, first, second))
	n.endAsking()
	n.spawn(n.withdraw)
}

// isCopy is the error of every call once this node has found out that it is a copy, nil before.
func (n *Node) isCopy(op, name string) error {
	if !n.duplicate.Load() {
		return nil
	}
	err := n.failed()
	if err == nil {
		err = ErrFailed // it is about to be there
	}
	return &WaitError{Op: op, Name: name, Err: err}
}

// withdraw takes a copy away from where the others could meet it. Any other node that fails goes on as a client under its own id; a copy has none: what is sent to its id, be it the
// commands for a leader or the grants for its sessions, would be divided between it and the original. So its sessions are closed, not left to other members; it answers no
// call; and then its address falls silent. It does not say goodbye in gossip: that would be said of the original.
func (n *Node) withdraw() {
	select {
	case <-n.started:
	case <-n.life.Done():
		return // whoever ended it stops the parts
	}
	begun := time.Now()
	n.closeSessions(CauseCopied)
	pause(n.life, copyLingers-time.Since(begun))
	_ = n.gossip.Close()
	_ = n.calls.Close()
	_ = n.endpoint.Close()
}

// closeSessions closes the sessions there are; none is added that was asked for before.
func (n *Node) closeSessions(cause Cause) {
	var closed sync.WaitGroup
	for _, s := range n.sessions.turn() {
		closed.Go(func() {
			if err := s.close(cause); err != nil {
				n.log.Warn("session not closed: its locks are free after its TTL", "session", int64(s.id), "error", err)
			}
		})
	}
	closed.Wait()
}
