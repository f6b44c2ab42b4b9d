// Package watch says what happens to locks: every change in the cluster is an Event with a revision. The events
// themselves come from quorumlock.Node.Watch and WatchFrom:
//
//	for event, err := range node.Watch(ctx, "jobs/") {
//		if err != nil {
//			return err // errors.Is(err, watch.ErrFellBehind): read the state, and watch from its revision
//		}
//		fmt.Println(event.Rev, event.Kind, event.Name, event.Token, event.Node)
//	}
//
// A watcher sees the events under its prefix in revision order, without gap and without duplicate, or it is told in so
// many words that it fell behind (ErrFellBehind). What is not promised: that an event is recent. A node that lags shows
// its own past, in order.
package watch

import (
	"strconv"
	"time"

	"github.com/quorumlock/quorumlock/fence"
)

// Kind is what an Event tells. The list grows with new versions at its end; a program ignores kinds that it does not
// know.
type Kind uint8

// The kinds of events. The values travel between nodes of different versions and never change.
const (
	Queued         Kind = 1  // a claim began to wait
	Granted        Kind = 2  // a claim holds the lock; Token is its fencing token
	Released       Kind = 3  // given back: unlocked by its owner, or its session was closed
	Expired        Kind = 4  // released because its session was silent for too long
	Forced         Kind = 5  // released by force, at once or after a drain
	Draining       Kind = 6  // a forced release waits until the holder has surely stopped
	Cancelled      Kind = 7  // a waiting claim ended without a grant
	SessionOpened  Kind = 8  // a session began
	SessionClosed  Kind = 9  // a session was closed by its owner, or with a Note ended by an operator
	SessionExpired Kind = 10 // a session was silent for too long and was ended
	ValueChanged   Kind = 11 // a holder published another Value: the leader of an election
	Resized        Kind = 12 // a semaphore's limit was set; Permits tells it, zero that the one set is forgotten
	Freed          Kind = 13 // the lock delay after the end of a hold is over
	Act            Kind = 14 // an operator had leadership handed over or a member removed; ServerID is whom it concerned, Note why
)

var kindNames = [...]string{
	Queued:         "queued",
	Granted:        "granted",
	Released:       "released",
	Expired:        "expired",
	Forced:         "forced",
	Draining:       "draining",
	Cancelled:      "cancelled",
	SessionOpened:  "session-opened",
	SessionClosed:  "session-closed",
	SessionExpired: "session-expired",
	ValueChanged:   "value-changed",
	Resized:        "resized",
	Freed:          "freed",
	Act:            "act",
}

// String is the kind's name in small letters, or "kind(17)" for one that this version does not know.
func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return "kind(" + strconv.Itoa(int(k)) + ")"
}

// Event is one change in the cluster. Its words are those of quorumlock: Token is a quorumlock.Token, which is another name of
// fence.Token, and Session a quorumlock.SessionID as a number, for this package lies below that one.
type Event struct {
	Rev      int64       // rises by exactly one from event to event in the whole cluster
	Kind     Kind        // what happened
	Name     string      // of the lock; empty for events about a session
	Token    fence.Token // fencing token of the hold, 0 where there is none
	Session  int64       // session that the event is about
	Claim    uint64      // the claim's number in its session: all events about one claim name it by the two; 0 where there is none
	Node     string      // Config.Name of the session's node; "" if the watching node does not know it (any more)
	ServerID string      // of the session's node
	Index    uint64      // log index of the entry that caused it
	Time     time.Time   // the leader's wall clock, for display; it orders nothing
	Note     string      // the owner's note, or the reason given for a forced release
	Mode     Mode        // how the claim holds or wants the lock
	Permits  int         // of a semaphore: the claim's; with Resized the new limit, zero if it is forgotten
	Value    string      // what the holder publishes: with Granted and ValueChanged
}
