package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/gossip"
	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/router"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/transport"
)

// The calls that nodes make to each other. The list is append-only.
const (
	methodPropose transport.Method = 1 // wire.ProposeRequest: bring a command to the leader
	methodStatus  transport.Method = 2 // empty: who are you, whom do you follow
	methodFound   transport.Method = 3 // membership's message: found a cluster together
	methodJoin    transport.Method = 4 // wire.JoinRequest: let me in
	methodLeave   transport.Method = 5 // wire.LeaveRequest: take me out
	methodGrants  transport.Method = 6 // push, wire.GrantPush: news about claims of your sessions
	methodHashes  transport.Method = 7 // empty: which hashes did your state have

	// What clients ask members.
	methodRoster transport.Method = 8  // empty: who is in the group
	methodRead   transport.Method = 9  // wire.ReadRequest: answer from your own state
	methodWatch  transport.Method = 10 // wire.WatchRequest: what happened since

	methodAct      transport.Method = 11 // wire.ActRequest: do what an operator wants done to the group; answered by wire.LeaveReply
	methodSnapshot transport.Method = 12 // wire.SnapshotRequest: your state, in pieces

	methodRenew transport.Method = 13 // wire.RenewRequest: bring renewals of many sessions to the leader. Older binaries do not know it, see renewCaller
)

// usualMessage is room for most requests, replies and pushes, so that they do not grow while they are written.
const usualMessage = 96

// serve answers one call of another node.
func (n *Node) serve(ctx context.Context, from transport.Peer, m transport.Method, payload []byte) ([]byte, error) {
	select {
	case <-n.started:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := n.isCopy("serve", ""); err != nil {
		return nil, err
	}
	switch m {
	case methodPropose:
		req, err := wire.DecodeProposeRequest(payload)
		if err != nil {
			return nil, err
		}
		reply := n.router.Serve(ctx, req)
		return wire.AppendProposeReply(make([]byte, 0, usualMessage), &reply), nil
	case methodRenew:
		req, err := wire.DecodeRenewRequest(payload)
		if err != nil {
			return nil, err
		}
		reply := n.router.ServeRenew(ctx, req)
		return wire.AppendRenewReply(nil, &reply), nil
	case methodStatus:
		if err := n.failed(); err != nil {
			return nil, err // it votes no more, so it must not pass for a voter that is there
		}
		reply := n.status()
		return wire.AppendStatusReply(nil, &reply), nil
	case methodFound:
		return n.founding.Handle(ctx, from.ServerID, payload)
	case methodJoin:
		req, err := wire.DecodeJoinRequest(payload)
		if err != nil {
			return nil, err
		}
		reply := n.serveJoin(ctx, req)
		return wire.AppendJoinReply(nil, &reply), nil
	case methodHashes:
		reply := n.hashesReply()
		return wire.AppendHashesReply(nil, &reply), nil
	case methodRoster:
		reply := n.rosterReply()
		return wire.AppendRosterReply(nil, &reply), nil
	case methodRead:
		req, err := wire.DecodeReadRequest(payload)
		if err != nil {
			return nil, err
		}
		reply := n.serveRead(req)
		return wire.AppendReadReply(nil, &reply), nil
	case methodWatch:
		req, err := wire.DecodeWatchRequest(payload)
		if err != nil {
			return nil, err
		}
		reply := n.serveWatch(ctx, req)
		return wire.AppendWatchReply(nil, &reply), nil
	case methodAct:
		req, err := wire.DecodeActRequest(payload)
		if err != nil {
			return nil, err
		}
		reply := n.serveAct(ctx, req)
		return wire.AppendLeaveReply(nil, &reply), nil
	case methodSnapshot:
		req, err := wire.DecodeSnapshotRequest(payload)
		if err != nil {
			return nil, err
		}
		reply := n.serveSnapshot(ctx, req)
		return wire.AppendSnapshotReply(nil, &reply), nil
	case methodLeave:
		req, err := wire.DecodeLeaveRequest(payload)
		if err != nil {
			return nil, err
		}
		reply := n.serveLeave(ctx, req)
		return wire.AppendLeaveReply(nil, &reply), nil
	}
	return nil, fmt.Errorf("method %d is not known", m)
}

// takePush takes in what the leader pushed. It is a hint: whatever is lost of it, renewals bring again.
func (n *Node) takePush(_ transport.Peer, m transport.Method, payload []byte) {
	if m != methodGrants || !n.isStarted() {
		return
	}
	push, err := wire.DecodeGrantPush(payload)
	if err != nil {
		n.log.Warn("malformed push", "error", err)
		return
	}
	now := n.clock.Now()
	for _, g := range push.Events {
		kind := locktable.EventGranted
		if g.Kind != wire.PushGranted {
			kind = locktable.EventForced
		}
		n.deliver(&locktable.Event{Kind: kind, Session: g.Session, Seq: g.Seq, Token: g.Token}, now)
	}
}

func (n *Node) status() wire.StatusReply {
	leader, term := n.leader()
	addr, _ := n.resolve(leader)
	return wire.StatusReply{
		ServerID: n.id, Name: n.cfg.Name, ClusterID: n.clusterIDNow(), LeaderID: leader, LeaderAddr: addr,
		Term: term, AppliedIndex: n.group.appliedIndex(), LastIndex: n.group.lastIndex(),
		Level: n.binary.Highest(), Voter: n.votes(), Boot: n.boot, Zone: n.cfg.Zone,
	}
}

func (n *Node) votes() bool {
	for _, s := range n.servers() {
		if s.ID == n.id {
			return s.Voter
		}
	}
	return false
}

func (n *Node) callPropose(ctx context.Context, p router.Peer, req wire.ProposeRequest) (wire.ProposeReply, error) {
	begun := time.Now()
	b, err := n.calls.Call(ctx, p.Addr, p.ID, methodPropose, wire.AppendProposeRequest(make([]byte, 0, usualMessage), &req))
	if err != nil {
		return wire.ProposeReply{}, err
	}
	reply, err := wire.DecodeProposeReply(b)
	if reply.Status == wire.StatusDone {
		n.trips.took(req.Command.Op, begun, err)
	}
	return reply, err
}

func (n *Node) callStatus(ctx context.Context, addr, target string) (wire.StatusReply, error) {
	b, err := n.calls.Call(ctx, addr, target, methodStatus, nil)
	if err != nil {
		return wire.StatusReply{}, err
	}
	return wire.DecodeStatusReply(b)
}

func (n *Node) callFound(ctx context.Context, addr, target string, msg []byte) ([]byte, error) {
	return n.calls.Call(ctx, addr, target, methodFound, msg)
}

// joinHops is how often a joining or leaving node follows a hint to the leader before it asks somebody else.
const joinHops = 3

// join asks a member of an existing cluster to let this node in, and follows its hints to the leader. From the answer to a first status call on, raft
// streams of that cluster are accepted; the id is kept on disk only once the leader has taken this node in.
func (n *Node) join(ctx context.Context, m gossip.Member) error {
	status, err := n.callStatus(ctx, m.Addr, m.ServerID)
	if err != nil {
		return fmt.Errorf("ask %s: %w", m.Addr, err)
	}
	if status.ClusterID == "" {
		return fmt.Errorf("%s does not belong to a cluster yet", m.Addr)
	}
	if err := n.checkCluster(status.ClusterID); err != nil {
		return err
	}
	// Kept before the leader hears of this node: its first entries may arrive, and the process be killed, before the answer does.
	if err := n.keepIntention(status.ClusterID); err != nil {
		return err
	}
	n.adopt(status.ClusterID)
	if n.standsOutside(&status) {
		if err := n.keepIdentity(status.ClusterID); err != nil {
			return err
		}
		n.becomeClient()
		return nil
	}
	req := wire.JoinRequest{
		ServerID: n.id, Name: n.cfg.Name, Addr: n.endpoint.Advertise(), Zone: n.cfg.Zone, Level: n.binary.Highest(), Boot: n.boot, Client: n.cfg.Role == RoleClient,
	}
	n.standing.doubt.Store(!req.Client)
	err = n.askLeader(router.Peer{ID: m.ServerID, Addr: m.Addr}, status.ClusterID, func(p router.Peer) (wire.JoinReply, error) {
		b, err := n.calls.Call(ctx, p.Addr, p.ID, methodJoin, wire.AppendJoinRequest(nil, &req))
		if err != nil {
			return wire.JoinReply{}, err
		}
		return wire.DecodeJoinReply(b)
	})
	enough := errors.Is(err, errEnough)
	if err != nil && !enough {
		return n.belowLevel(fmt.Errorf("join: %w", err))
	}
	if err := n.keepIdentity(status.ClusterID); err != nil {
		return err
	}
	if enough {
		n.standing.doubt.Store(false)
		n.becomeClient()
	}
	return nil
}

// askLeader makes a membership call to p, of that cluster, and follows the hints in the answers.
func (n *Node) askLeader(p router.Peer, cluster string, call func(router.Peer) (wire.JoinReply, error)) error {
	for range joinHops {
		reply, err := call(p)
		if err != nil {
			return err
		}
		if reply.ClusterID != cluster {
			return fmt.Errorf("%w: %s answers for cluster %s, not %s", ErrClusterChanged, p.Addr, reply.ClusterID, cluster)
		}
		switch reply.Status {
		case wire.StatusDone:
			return nil
		case wire.StatusEnough:
			return errEnough
		case wire.StatusLevel:
			return fmt.Errorf("%w: %s says: %s", ErrLevel, p.Addr, reply.Detail)
		}
		if reply.Status != wire.StatusNotLeader || reply.LeaderID == "" || reply.LeaderAddr == "" {
			return &turnedDown{by: p.Addr, status: reply.Status, detail: reply.Detail}
		}
		p = router.Peer{ID: reply.LeaderID, Addr: reply.LeaderAddr}
	}
	return fmt.Errorf("%v after %d hints", wire.StatusNotLeader, joinHops)
}

func (n *Node) serveJoin(ctx context.Context, req wire.JoinRequest) wire.JoinReply {
	lead := n.lead.Load()
	if lead == nil {
		return n.notLeading()
	}
	n.gossip.Learn(req.ServerID, req.Addr)
	return n.membershipReply(lead.admit(ctx, &req))
}

func (n *Node) serveLeave(ctx context.Context, req wire.LeaveRequest) wire.LeaveReply {
	lead := n.lead.Load()
	if lead == nil {
		return wire.LeaveReply(n.notLeading())
	}
	n.farewells.add(req.ServerID, n.gossip.Members())
	return wire.LeaveReply(n.membershipReply(lead.dismiss(ctx, req.ServerID)))
}

func (n *Node) notLeading() wire.JoinReply {
	leader, _ := n.leader()
	addr, _ := n.resolve(leader)
	return wire.JoinReply{Status: wire.StatusNotLeader, ClusterID: n.clusterIDNow(), LeaderID: leader, LeaderAddr: addr}
}

func (n *Node) membershipReply(err error) wire.JoinReply {
	if err != nil {
		status := wire.StatusUnknown
		switch {
		case errors.Is(err, errEnough):
			status = wire.StatusEnough
		case errors.As(err, new(refused)):
			status = wire.StatusRefused
		case errors.As(err, new(*tooOld)):
			status = wire.StatusLevel
		}
		return wire.JoinReply{Status: status, ClusterID: n.clusterIDNow(), Detail: err.Error()}
	}
	return wire.JoinReply{Status: wire.StatusDone, ClusterID: n.clusterIDNow()}
}

// pushNews tells other nodes, on the connections on which their renewals arrive, what an entry did to their sessions' claims. Only the
// leader does; it never dials, and a push that cannot be sent at once is dropped, since the next renewal brings the same news.
func (n *Node) pushNews(events []locktable.Event) {
	var one map[string]*wire.GrantPush
	for i := range events {
		e := &events[i]
		kind, ok := pushKind(e)
		if !ok || e.Node == n.id {
			continue
		}
		if one == nil {
			one = make(map[string]*wire.GrantPush, 1)
		}
		push := one[e.Node]
		if push == nil {
			push = &wire.GrantPush{}
			one[e.Node] = push
		}
		push.Events = append(push.Events, wire.GrantEvent{Session: e.Session, Seq: e.Seq, Token: e.Token, Kind: kind, Index: e.Index, Rev: e.Rev})
	}
	for node, push := range one {
		n.calls.Push(node, methodGrants, wire.AppendGrantPush(make([]byte, 0, usualMessage), push))
	}
}

func pushKind(e *locktable.Event) (wire.PushKind, bool) {
	switch e.Kind {
	case locktable.EventSessionClosed:
		return wire.PushLost, e.Note != "" // by force
	case locktable.EventGranted:
		return wire.PushGranted, true
	case locktable.EventForced:
		return wire.PushLost, true
	case locktable.EventDraining:
		return wire.PushDraining, true
	}
	return 0, false
}

// probe is a short status call; the time bounds how long a dead peer holds up a round.
func (n *Node) probe(ctx context.Context, id string) (wire.StatusReply, error) {
	addr, ok := n.resolve(id)
	if !ok {
		return wire.StatusReply{}, fmt.Errorf("no address known for server %s", id)
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return n.callStatus(ctx, addr, id)
}

const probeTimeout = time.Second
