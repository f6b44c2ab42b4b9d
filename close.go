package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/router"
	"github.com/quorumlock/quorumlock/internal/wire"
)

const (
	handOverBound = time.Second     // handing leadership over
	departBound   = 2 * time.Second // leaving the group in Close of a node without a data directory
	stopBound     = 2 * time.Second // the end of raft and of the background, both of which may be waiting for a disk write that hangs
)

// Close stops the node so that it can be started again later: it releases what its sessions hold, hands leadership
// over, and keeps its membership. A node without a data directory cannot come back as itself, so its Close tries to
// leave, for at most 2 s.
//
// It first marks every hold as not held and ends the contexts of running callbacks, and waits for those at most until
// their lease ends. Otherwise it takes at most 5 s, with or without a quorum. When it returns, every goroutine, file
// and port is gone. Closing twice is fine: the second call waits for the first. One beside a Leave waits for it, and
// cuts its removal short after 2 s.
func (n *Node) Close() error {
	if !n.beginEnd() {
		return n.hurryEnd(context.Background(), departBound)
	}
	if n.store.Durable() {
		return n.shut(nil)
	}
	return n.shut(func() error {
		ctx, cancel := context.WithTimeout(n.removal, departBound)
		defer cancel()
		_, err := n.depart(ctx)
		n.departed = err == nil // if not, the others notice by themselves that it is gone
		return nil
	})
}

// Leave takes the node out of the cluster for good: it releases what its sessions hold, hands leadership over, is
// removed from the group, and stops. A data directory is of no use afterwards; a node that starts with it joins as a
// new member. ctx bounds the removal; if it is not confirmed the error says so and the node is closed all the same. The
// last member of a cluster only closes. Of several calls at once the first ctx to end bounds the removal; after a Close
// there is none any more, and the error says that the node is still a member.
func (n *Node) Leave(ctx context.Context) error {
	if !n.beginEnd() {
		err := n.hurryEnd(ctx, 0)
		if err == nil && n.isMember() && !n.departed {
			return fmt.Errorf("leave: still a member: %w", ErrClosed)
		}
		return err
	}
	return n.shut(func() error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(n.removal, func() { cancel(errCutShort) })()
		removed, err := n.depart(ctx)
		if err != nil {
			return fmt.Errorf("leave: still a member: %w", err)
		}
		n.departed = true
		if !removed {
			return nil
		}
		return n.store.Retire()
	})
}

// errCutShort ends a removal for which somebody else has no more time.
var errCutShort = errors.New("cut short by another call that ends the node")

// beginEnd tells whether this call is the one that ends the node.
func (n *Node) beginEnd() bool { return n.closing.CompareAndSwap(false, true) }

// hurryEnd waits for the call that ends the node. A removal that it makes lasts until the end of ctx at most, and if patience is not zero for as long
// as that: who closes must not wait for somebody whose patience has no end.
func (n *Node) hurryEnd(ctx context.Context, patience time.Duration) error {
	select {
	case <-n.departing:
	case <-n.closed:
	}
	if patience > 0 {
		bounded, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		ctx = bounded
	}
	defer context.AfterFunc(ctx, n.endRemoval)()
	<-n.closed
	return n.closeErr
}

// shut is called once.
func (n *Node) shut(depart func() error) error {
	defer close(n.closed)
	err := n.sessions.close()
	n.handOver(context.Background())
	close(n.departing)
	if depart != nil {
		err = errors.Join(err, depart())
	}
	if !n.duplicate.Load() {
		_ = n.gossip.Leave() // a copy would take leave in the name of the original
	}
	n.endLife()
	n.markClosed()
	n.closeErr = errors.Join(err, n.stopParts())
	return n.closeErr
}

func (n *Node) markClosed() {
	n.doneMu.Lock()
	defer n.doneMu.Unlock()
	if n.doneErr == nil {
		n.doneErr = ErrClosed
		close(n.done)
	}
}

// errDiskHangs is Close's answer when a write has not returned in time. Everything else of the node is gone by then.
var errDiskHangs = errors.New("a disk write hangs: the data directory stays in use until it returns")

// stopParts ends what start began, in the order in which parts depend on each other; parts that were never started are nil. Raft goes before the
// background, since it is what the background waits for.
func (n *Node) stopParts() error {
	n.endLife()
	ctx, cancel := context.WithTimeout(context.Background(), stopBound)
	defer cancel()
	stopped := n.group == nil || n.group.stop(ctx)
	select {
	case <-n.tasks.close():
	case <-ctx.Done():
		stopped = false
	}
	if n.gossip != nil {
		_ = n.gossip.Close()
	}
	if n.calls != nil {
		_ = n.calls.Close()
	}
	if n.router != nil {
		n.router.Wait()
	}
	if n.endpoint != nil {
		_ = n.endpoint.Close()
	}
	n.hub.Close(ErrClosed)
	switch {
	case n.store == nil:
		return nil
	case !stopped:
		go func() {
			if n.group != nil {
				<-n.group.stopped
			}
			<-n.tasks.close()
			_ = n.store.Close()
		}()
		return errDiskHangs
	}
	return n.store.Close()
}

// handOver gives leadership to a voter that answered just now, which takes milliseconds where an election takes a second.
func (n *Node) handOver(ctx context.Context) {
	if n.failed() != nil || !n.group.leading() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, handOverBound)
	defer cancel()
	for v := range n.answering(ctx) {
		if err := n.group.transfer(ctx, v.ServerID, v.LastIndex); err != nil {
			n.log.Warn("leadership not handed over", "to", v.ServerID, "error", err)
			continue
		}
		return
	}
}

// answering asks all other voters at once and gives their answers, first come first; it is closed when all have been heard. One that is dead must not use up the
// time of the others.
func (n *Node) answering(ctx context.Context) <-chan wire.StatusReply {
	servers := n.group.servers()
	answers := make(chan wire.StatusReply, len(servers))
	var asked sync.WaitGroup
	for _, s := range servers {
		if !s.Voter || s.ID == n.id {
			continue
		}
		asked.Go(func() {
			if status, err := n.probe(ctx, s.ID); err == nil {
				status.ServerID = s.ID // whatever it calls itself
				answers <- status
			}
		})
	}
	heard := func() {
		asked.Wait()
		close(answers)
	}
	if !n.spawn(heard) { // Close waits for it
		heard()
	}
	return answers
}

var errStillLeading = errors.New("leadership could not be handed over")

// depart has this node removed from the group by the leader, and says whether it was. The last member stays one, and so does a node that has failed, which
// cannot say goodbye, and one that does not know yet to which cluster its state belongs.
func (n *Node) depart(ctx context.Context) (removed bool, err error) {
	if !n.isMember() || n.failed() != nil {
		return false, nil
	}
	if n.isClient() && n.outside(ctx) {
		return true, nil
	}
	for ctx.Err() == nil {
		if n.alone() { // perhaps since a moment ago: those that it would have handed over to left, too
			n.awaitFarewells(ctx)
			return false, nil
		}
		asked := n.askToLeave(ctx)
		if asked == nil {
			return true, nil
		}
		if err == nil || ctx.Err() == nil { // else it tells of the end of ctx, and not of what was in the way
			err = asked
		}
		pause(ctx, pace)
	}
	return false, n.stillMember(ctx, err)
}

// stillMember says why a removal that was asked for until the end of ctx, perhaps in vain with err, was not confirmed.
func (n *Node) stillMember(ctx context.Context, err error) error {
	switch {
	case n.leaderless() && !errors.Is(err, ErrNoQuorum): // whoever else was asked could not help
		err = n.noQuorum()
	case err == nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", err, context.Cause(ctx))
}

func (n *Node) askToLeave(ctx context.Context) error {
	if n.group.leading() {
		if n.handOver(ctx); n.group.leading() {
			return errStillLeading
		}
	}
	leader, ok := n.whoMayLead()
	if !ok {
		return n.noQuorum()
	}
	req := wire.AppendLeaveRequest(nil, &wire.LeaveRequest{ServerID: n.id})
	return n.askLeader(leader, n.clusterIDNow(), func(p router.Peer) (wire.JoinReply, error) {
		b, err := n.calls.Call(ctx, p.Addr, p.ID, methodLeave, req)
		if err != nil {
			return wire.JoinReply{}, err
		}
		reply, err := wire.DecodeLeaveReply(b)
		return wire.JoinReply(reply), err
	})
}

// whoMayLead is the leader as this node knows it, or else any other member, which can tell. A node that was taken out, and has not got the answer, hears no leader any more.
func (n *Node) whoMayLead() (router.Peer, bool) {
	if leader, _ := n.knownLeader(); leader.ID != "" && leader.ID != n.id {
		return leader, true
	}
	others := n.members()
	if len(others) == 0 {
		return router.Peer{}, false
	}
	return others[rand.IntN(len(others))], true
}

// alone tells whether the group has no other member.
func (n *Node) alone() bool {
	if n.isClient() {
		return false // it may not have been told of the others yet
	}
	for _, s := range n.servers() {
		if s.ID != n.id {
			return false
		}
	}
	return true
}
