package quorumlock

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// SessionInfo shows one session of the cluster.
type SessionInfo struct {
	ID       SessionID
	Node     string // Config.Name of the node that opened it
	ServerID string
	TTL      time.Duration
	Since    time.Time // leader's wall clock, for display; zero if the cluster's feature level was below 2 when it was opened
	Holding  int       // locks held, a set as one
	Waiting  int       // claims that wait

	// Local and Age are those of LockInfo.
	Local bool
	Age   time.Duration
}

// Act is what an operator did.
type Act uint8

const (
	ActForceRelease Act = Act(locktable.ActForce)    // Node.ForceRelease
	ActEndSession   Act = Act(locktable.ActEnd)      // Node.EndSession
	ActTransfer     Act = Act(locktable.ActTransfer) // Node.TransferLeadership
	ActRemove       Act = Act(locktable.ActRemove)   // Node.RemoveMember
	ActDrain        Act = Act(locktable.ActDrain)    // Node.Drain
	ActUndrain      Act = Act(locktable.ActUndrain)  // Node.Undrain
)

// String is the act in small letters, such as "force-release".
func (a Act) String() string {
	switch a {
	case ActForceRelease:
		return "force-release"
	case ActEndSession:
		return "end-session"
	case ActTransfer:
		return "transfer-leadership"
	case ActRemove:
		return "remove-member"
	case ActDrain:
		return "drain"
	case ActUndrain:
		return "undrain"
	}
	return fmt.Sprintf("act(%d)", uint8(a))
}

// AuditRecord is one act of an operator, as the cluster keeps it: the last 1,024. Those on the group are recorded
// before they are done, so a record says that an act was begun.
type AuditRecord struct {
	Rev      int64     // orders all acts, and stands among those of events
	Time     time.Time // the leader's wall clock, for display
	Act      Act
	Actor    string
	Reason   string
	Now      bool      // at once, without waiting for the holder to have stopped
	Name     string    // ActForceRelease: the lock
	Token    Token     // ActForceRelease: the token that was released
	Session  SessionID // ActEndSession
	Node     string    // name of the session's node, or of the member that the act concerned; may be empty
	ServerID string

	// Local and Age are those of LockInfo.
	Local bool
	Age   time.Duration
}

// Sessions shows all sessions of the cluster by their ids, which is the order in which they were opened. They come in
// pages of up to 100, each as of its own moment: linearizable, or with Local this node's own. The loop is the lifetime;
// ctx bounds all of it, and an error is the last thing that comes. Without Local it needs feature level 2 (ErrLevel).
func (n *Node) Sessions(ctx context.Context, opts ...ReadOption) iter.Seq2[SessionInfo, error] {
	const op = "list sessions"
	return func(yield func(SessionInfo, error) bool) {
		for res, err := range n.pages(ctx, op, locktable.OpSessions, readingOf(opts)) {
			if err != nil {
				yield(SessionInfo{}, err)
				return
			}
			for i := range res.Sessions {
				info := sessionInfo(&res.Sessions[i])
				info.Local, info.Age = res.local, res.age
				if !yield(info, nil) {
					return
				}
			}
		}
	}
}

// Audit shows what operators have done, oldest first: forced releases, ended sessions, leadership handed over, members
// removed, drained and undrained (by "quorumlock" itself where a drained one has left). Paging, ctx, errors and Local
// are as with Sessions.
func (n *Node) Audit(ctx context.Context, opts ...ReadOption) iter.Seq2[AuditRecord, error] {
	const op = "read audit"
	return func(yield func(AuditRecord, error) bool) {
		for res, err := range n.pages(ctx, op, locktable.OpAudit, readingOf(opts)) {
			if err != nil {
				yield(AuditRecord{}, err)
				return
			}
			for i := range res.Audit {
				rec := auditRecord(&res.Audit[i])
				rec.Local, rec.Age = res.local, res.age
				if !yield(rec, nil) {
					return
				}
			}
		}
	}
}

// page is one answer of a listing.
type page struct {
	locktable.Result
	local bool
	age   time.Duration
}

// pages asks for one page after the other, each from where the former ended.
func (n *Node) pages(ctx context.Context, op string, listing locktable.Op, r reading) iter.Seq2[page, error] {
	return func(yield func(page, error) bool) {
		var after locktable.Rev
		for {
			p, err := n.page(ctx, op, &locktable.Command{Op: listing, Rev: after, Count: locktable.MaxList}, r)
			if !yield(p, err) || err != nil || !p.More {
				return
			}
			switch {
			case len(p.Sessions) > 0:
				after = locktable.Rev(p.Sessions[len(p.Sessions)-1].ID)
			case len(p.Audit) > 0:
				after = p.Audit[len(p.Audit)-1].Rev
			default:
				return
			}
		}
	}
}

func (n *Node) page(ctx context.Context, op string, cmd *locktable.Command, r reading) (page, error) {
	if err := n.usable(ctx, op); err != nil {
		return page{}, err
	}
	if r.local {
		res, age, err := n.readState(ctx, op, "", cmd)
		return page{Result: res, local: true, age: age}, err
	}
	res, err := n.askLater(ctx, op, cmd)
	if err == nil && res.Code != locktable.CodeOK {
		err = refusal(op, "", &res)
	}
	return page{Result: res}, err
}

// page holds up Apply for one page.
func (f *fsm) page(cmd *locktable.Command) locktable.Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	res := locktable.Result{Code: locktable.CodeOK}
	if cmd.Op == locktable.OpSessions {
		res.Sessions, res.More = f.table.ListSessions(locktable.SessionID(cmd.Rev), int(cmd.Count))
	} else {
		res.Audit, res.More = f.table.ListAudit(cmd.Rev, int(cmd.Count))
	}
	return res
}

func sessionInfo(s *locktable.SessionInfo) SessionInfo {
	info := SessionInfo{ID: SessionID(s.ID), Node: s.NodeName, ServerID: s.Node, TTL: s.TTL, Holding: s.Holding, Waiting: s.Waiting}
	if s.Opened != 0 {
		info.Since = time.UnixMilli(s.Opened)
	}
	return info
}

func auditRecord(a *locktable.AuditRecord) AuditRecord {
	return AuditRecord{
		Rev: int64(a.Rev), Time: time.UnixMilli(a.Wall), Act: Act(a.Act), Actor: a.Actor, Reason: a.Reason, Now: a.Now, Name: a.Name, Token: Token(a.Token),
		Session: SessionID(a.Session), Node: a.NodeName, ServerID: a.Node,
	}
}
