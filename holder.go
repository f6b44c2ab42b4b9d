package quorumlock

import (
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/watch"
)

// Holder tells who holds a lock, for people. Since is the leader's wall clock at the grant and must not be reckoned
// with.
type Holder struct {
	Node     string // Config.Name of the holder's node
	ServerID string
	Session  SessionID
	Note     string
	Token    Token
	Since    time.Time
	Draining bool   // a forced release is under way
	Barred   bool   // the hold has ended against its holder's will, and its lock delay goes on
	Offered  bool   // it was given away by a ticket (Hold.Transfer) that nobody has received yet
	Mode     Mode   // how it is held
	Permits  int    // of a semaphore
	Value    string // what the leader of an election has published
}

// Mode is how a lock is held or wanted.
type Mode = watch.Mode

const (
	// Exclusive is a Mutex, the write side of an RWMutex, one of the names of a MultiMutex, or an election.
	Exclusive Mode = watch.Exclusive
	// Shared is the read side of an RWMutex.
	Shared Mode = watch.Shared
	// Permits is a Semaphore.
	Permits Mode = watch.Permits
)

func (h Holder) String() string {
	name := h.Node
	if name == "" {
		name = h.ServerID
	}
	text := fmt.Sprintf("held by %s since %s", name, h.Since.UTC().Format(time.RFC3339))
	if h.Note != "" {
		text += fmt.Sprintf(" (%s)", h.Note)
	}
	if h.Offered {
		text += ", given away by ticket, not received yet"
	}
	if h.Draining {
		text += ", being released by force"
	}
	if h.Barred {
		text += ", which was lost; its lock delay goes on"
	}
	return text
}

func holderOf(h *locktable.Holder) Holder {
	return Holder{
		Node: h.NodeName, ServerID: h.Node, Session: SessionID(h.Session), Note: h.Note, Token: Token(h.Token),
		Since: time.UnixMilli(h.Since), Draining: h.Draining, Barred: h.Barred, Offered: h.Offered,
		Mode: Mode(h.Mode), Permits: int(h.Count), Value: h.Value,
	}
}
