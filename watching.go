package quorumlock

import (
	"context"
	"iter"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/watch"
)

// Watch tells what happens to locks whose names begin with prefix, from now on: the loop is the lifetime. A prefix is
// bytes of the name: "job-x" is that lock and "job-xyz" too; "" is all locks, and the events about sessions. Names made
// for it end their parts with a separator, and a watcher of one lock looks at Event.Name.
//
// Events come in revision order without gap or duplicate, as this node's own state machine applies them, so a little
// later than to the callers concerned, and on a node that is cut off only when it is back. A client (see Role) gets
// them from a member, and from another one when that goes away. "Now" is this node's own
// now: where that matters, read the state by Inspect or Locks and go on by WatchFrom. The loop ends with an error that
// matches watch.ErrFellBehind when it was too slow or the node was brought up to date by a snapshot, and with one that
// matches ErrClosed when the node closes; when ctx ends, with its error; with a *FieldError for what no name can begin
// with.
func (n *Node) Watch(ctx context.Context, prefix string) iter.Seq2[watch.Event, error] {
	return n.WatchFrom(ctx, prefix, 0)
}

// WatchFrom is Watch from after a revision on: the Rev of what Inspect or Locks showed (of Locks that of the first
// lock, since later pages are younger), that of the last event seen, or the Since of a *watch.FellBehindError. So
// nothing is missed between a read and the watch, and a watch can go on at another node, which may be ahead of the
// first one or behind it. A node keeps the last 16,384 events; a revision from before them ends the loop with
// watch.ErrFellBehind at once. Zero is from now on.
func (n *Node) WatchFrom(ctx context.Context, prefix string, rev int64) iter.Seq2[watch.Event, error] {
	return func(yield func(watch.Event, error) bool) {
		if err := checkPrefix(prefix); err != nil {
			yield(watch.Event{}, err)
			return
		}
		f := n.subscribe(prefix, rev)
		defer f.close()
		for {
			e, err := f.next(ctx)
			if err != nil {
				yield(watch.Event{}, err)
				return
			}
			if name := n.nameOf(e.ServerID); name != "" {
				e.Node = name
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// watchEvents appends the state machine's events in the public form.
func watchEvents(list []watch.Event, events []locktable.Event) []watch.Event {
	for i := range events {
		e := &events[i]
		list = append(list, watch.Event{
			Rev: int64(e.Rev), Kind: watch.Kind(e.Kind), Name: e.Name, Token: Token(e.Token), Session: int64(e.Session), Claim: e.Seq, ServerID: e.Node,
			Index: e.Index, Time: time.UnixMilli(e.Wall), Note: e.Note,
			Mode: watch.Mode(e.Mode), Permits: int(e.Count), Value: e.Value,
		})
	}
	return list
}
