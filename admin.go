package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
	"unicode/utf8"

	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/watch"
)

// LockInfo shows one lock.
type LockInfo struct {
	Name    string
	Holders []Holder
	Queue   []Waiter // the first of those that wait, in the order in which they will be served
	Waiting int      // all that wait
	Index   uint64   // log index of the state shown
	Rev     int64    // cluster-wide revision of the state shown
}

// Waiter is a claim that waits for a lock.
type Waiter struct {
	Node     string
	ServerID string
	Session  SessionID
	Note     string
	Since    time.Time // leader's wall clock, for display
}

// Inspect shows who holds a lock and who waits for it. The answer is linearizable: it comes through the log, so it is no older than the call. An unknown name is a free
// lock. ctx bounds the round trip.
func (n *Node) Inspect(ctx context.Context, name string) (LockInfo, error) {
	const op = "inspect"
	if err := n.usable(ctx, op); err != nil {
		return LockInfo{}, err
	}
	if err := locktable.CheckName(name); err != nil {
		return LockInfo{}, fieldError(err, name)
	}
	res, err := n.ask(ctx, op, name, &locktable.Command{Op: locktable.OpInspect, Names: []string{name}})
	if err != nil {
		return LockInfo{}, err
	}
	if res.Code != locktable.CodeOK || res.Info == nil {
		return LockInfo{}, refusal(op, name, &res)
	}
	return lockInfo(res.Info), nil
}

func lockInfo(i *locktable.Info) LockInfo {
	info := LockInfo{Name: i.Name, Waiting: i.Waiting, Index: i.Index, Rev: int64(i.Rev)}
	for k := range i.Holders {
		info.Holders = append(info.Holders, holderOf(&i.Holders[k]))
	}
	for _, w := range i.Waiters {
		info.Queue = append(info.Queue, Waiter{
			Node: w.NodeName, ServerID: w.Node, Session: SessionID(w.Session), Note: w.Note, Since: time.UnixMilli(w.Since),
		})
	}
	return info
}

// ForceOptions say how and why a lock is released by force.
type ForceOptions struct {
	// Actor is who does it and Reason why, for the audit record and for the holder. Both are required, at most 1 KiB each.
	Actor  string
	Reason string
	// Now releases at once. The old holder may then still believe that it holds the lock while the next one does, so only fenced resources
	// stay safe. Without it the hold is drained: its deadline is frozen, its holder told, and the lock passes on
	// after one TTL, when the old holder has stopped by its own clock.
	Now bool
}

// ForceRelease takes a lock from its holder. It names the token that the caller saw (Inspect shows it): if another one holds by now, it is refused with
// a *LockedError that shows the present holder, and with an ErrUnlocked if nobody does. Without Now it returns when the drain has begun; calling again is
// harmless. ctx bounds the round trip. If the answer of a release that worked is lost on the way, the retry finds another holder or none and says so: inspect
// the lock after such an error.
func (n *Node) ForceRelease(ctx context.Context, name string, t Token, opt ForceOptions) error {
	const op = "force release"
	if err := n.usable(ctx, op); err != nil {
		return err
	}
	if err := checkForce(name, t, opt); err != nil {
		return err
	}
	cmd := &locktable.Command{
		Op: locktable.OpForce, Names: []string{name}, Token: locktable.Token(t), Now: opt.Now, Note: opt.Reason, Actor: opt.Actor,
	}
	res, err := n.ask(ctx, op, name, cmd)
	if err != nil {
		return err
	}
	switch res.Code {
	case locktable.CodeReleased, locktable.CodeOK, locktable.CodeDraining:
		return nil
	case locktable.CodeNotHeld:
		return &WaitError{Op: op, Name: name, Waiting: "nobody holds it", Err: ErrUnlocked}
	case locktable.CodeMismatch:
		e := &LockedError{Name: name, Queue: res.Waiters}
		if res.Blocker != nil {
			e.Holder = holderOf(res.Blocker)
			e.Since = e.Holder.Since
		}
		return fmt.Errorf("force release: token %v does not hold: %w", t, e)
	}
	return refusal(op, name, &res)
}

func checkForce(name string, t Token, opt ForceOptions) error {
	if err := locktable.CheckName(name); err != nil {
		return fieldError(err, name)
	}
	if t <= 0 {
		return &FieldError{Field: "token", Value: int64(t), Problem: "must be positive"}
	}
	return errors.Join(checkWords("ForceOptions.Actor", opt.Actor), checkWords("ForceOptions.Reason", opt.Reason))
}

func checkWords(field, words string) error {
	switch {
	case words == "":
		return &FieldError{Field: field, Problem: "must not be empty"}
	case len(words) > locktable.MaxNoteLen:
		return &FieldError{Field: field, Value: words, Problem: fmt.Sprintf("has %d bytes; %d is the most", len(words), locktable.MaxNoteLen)}
	case !utf8.ValidString(words) || containsControl(words):
		return &FieldError{Field: field, Value: words, Problem: "must be UTF-8 without control characters"}
	}
	return nil
}

// Member is one instance as this node sees it.
type Member struct {
	ServerID string
	Name     string
	Addr     string
	Voter    bool // in the group's configuration, with a vote
	InGroup  bool // in the group's configuration
	Alive    bool // believed alive by gossip
	Leader   bool
}

// Members lists the instances in the group's configuration and those that gossip knows, as this node sees them, by server id. It asks nobody, so it answers without a
// quorum too, and may be stale.
func (n *Node) Members(ctx context.Context) ([]Member, error) {
	if err := n.usable(ctx, "members"); err != nil {
		return nil, err
	}
	return n.membersNow(), nil
}

// Watch tells what happens to locks whose names begin with prefix, from now on: the loop is the lifetime. Events come in revision order without gap or duplicate, as this
// node's own state machine applies them, so a little later than to the callers concerned. The loop ends with an error that matches
// watch.ErrFellBehind when it was too slow, and with one that matches ErrClosed when the node closes; when ctx ends, with its error.
func (n *Node) Watch(ctx context.Context, prefix string) iter.Seq2[watch.Event, error] {
	return func(yield func(watch.Event, error) bool) {
		sub := n.hub.Subscribe(prefix, 0)
		defer sub.Close()
		for {
			e, err := sub.Next(ctx)
			if err != nil {
				yield(watch.Event{}, err)
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}
