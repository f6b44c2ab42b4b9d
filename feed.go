package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/hub"
	"github.com/quorumlock/quorumlock/internal/router"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/watch"
)

// feed brings one subscriber the events under a prefix, in revision order and without a gap: from this node's own state machine while it replicates, and from
// the members while it is a client. Revisions are the cluster's, so it may change its source at any event. It is used by one goroutine.
type feed struct {
	node   *Node
	prefix string
	seen   int64             // all up to here have been given; 0: it begins with the first answer
	own    *hub.Subscription // nil while the members are asked
	queue  []watch.Event     // answered by a member, not given yet
	asked  router.Peer       // who answered last, and is asked first
}

// subscribe begins after revision since, or now if that is 0. Close must be called when done.
func (n *Node) subscribe(prefix string, since int64) *feed {
	f := &feed{node: n, prefix: prefix, seen: since}
	if !n.isClient() {
		f.own = n.hub.Subscribe(prefix, since)
	}
	return f
}

func (f *feed) close() {
	if f.own != nil {
		f.own.Close()
	}
}

// next waits for the next event; ctx bounds the wait. After an error that is not ctx's the feed is over.
func (f *feed) next(ctx context.Context) (watch.Event, error) {
	for {
		switch {
		case f.own != nil:
			e, err := f.own.Next(ctx)
			if err == nil {
				f.seen = e.Rev
				return e, nil
			}
			moved := (*hub.MovedError)(nil)
			if !errors.As(err, &moved) {
				return e, err
			}
			f.own, f.seen = nil, max(f.seen, moved.Rev)
		case len(f.queue) > 0:
			e := f.queue[0]
			f.queue, f.seen = f.queue[1:], e.Rev
			return e, nil
		default:
			if err := f.fetch(ctx); err != nil {
				return watch.Event{}, err
			}
		}
	}
}

const (
	watchWait  = 2 * time.Second // that a member waits for an event
	watchPause = 200 * time.Millisecond
	watchBatch = 256 // events in one answer
)

// fetch gets what has happened since, or waits for it, from whoever answers. When this node replicates again and has not missed anything, that is its own state machine.
func (f *feed) fetch(ctx context.Context) error {
	n := f.node
	if !n.isClient() && f.seen > 0 && n.hub.Reaches(f.seen) {
		f.own = n.hub.Subscribe(f.prefix, f.seen)
		return nil
	}
	var behind *watch.FellBehindError
	for _, p := range f.sources() {
		reply, err := f.ask(ctx, p)
		switch {
		case err != nil:
			if end := f.over(ctx); end != nil {
				return end
			}
		case reply.Status != wire.StatusDone:
		case reply.Behind:
			behind = &watch.FellBehindError{Since: f.seen, Now: reply.Seen} // another member may keep more
		default:
			f.asked, f.queue = p, reply.Events
			if len(reply.Events) == 0 {
				f.seen = max(f.seen, reply.Seen)
			}
			return nil
		}
	}
	if behind != nil {
		return behind
	}
	pause(ctx, watchPause)
	return f.over(ctx)
}

// over tells why nothing more will come.
func (f *feed) over(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("wait for an event under %q: %w", f.prefix, ctx.Err())
	case <-f.node.life.Done():
		return ErrClosed
	case <-f.node.done:
		return f.node.failed()
	default:
		return nil
	}
}

// sources are the members to ask: first the one that answered last, whose next answer is the least likely to be late.
func (f *feed) sources() []router.Peer {
	peers := f.node.members()
	for i, p := range peers {
		if p == f.asked {
			copy(peers[1:i+1], peers[:i])
			peers[0] = p
		}
	}
	return peers
}

func (f *feed) ask(ctx context.Context, p router.Peer) (wire.WatchReply, error) {
	ctx, cancel := context.WithTimeout(ctx, watchWait+probeTimeout)
	defer cancel()
	stop := context.AfterFunc(f.node.life, cancel)
	defer stop()
	req := wire.WatchRequest{Prefix: f.prefix, Since: f.seen, Wait: watchWait}
	b, err := f.node.calls.Call(ctx, p.Addr, p.ID, methodWatch, wire.AppendWatchRequest(nil, &req))
	if err != nil {
		return wire.WatchReply{}, err
	}
	return wire.DecodeWatchReply(b)
}

// serveWatch answers a client. A member that hears no leader would only keep it from asking another one.
func (n *Node) serveWatch(ctx context.Context, req wire.WatchRequest) wire.WatchReply {
	if n.isClient() || n.group.leader() == "" || n.failed() != nil {
		return wire.WatchReply{Status: wire.StatusNotLeader, Detail: "no state that is up to date"}
	}
	sub := n.hub.Subscribe(req.Prefix, req.Since)
	defer sub.Close()
	if req.Since == 0 {
		return wire.WatchReply{Status: wire.StatusDone, Seen: max(sub.Seen(), int64(n.fsm.header().Counter))}
	}
	ctx, cancel := context.WithTimeout(ctx, min(req.Wait, watchWait))
	defer cancel()
	var events []watch.Event
	for len(events) < watchBatch {
		e, err := sub.Next(ctx)
		if behind := (*watch.FellBehindError)(nil); errors.As(err, &behind) && len(events) == 0 {
			return wire.WatchReply{Status: wire.StatusDone, Behind: true, Seen: behind.Now}
		}
		if err != nil {
			break
		}
		e.Node = n.nameOf(e.ServerID)
		if events = append(events, e); sub.Empty() {
			break
		}
	}
	return wire.WatchReply{Status: wire.StatusDone, Events: events, Seen: sub.Seen()}
}
