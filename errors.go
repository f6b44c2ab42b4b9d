package quorumlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/internal/commit"
	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/router"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// The errors to branch on with errors.Is. Where a caller needs facts, a typed error below carries them and matches one
// of these.
var (
	// ErrLocked: TryLock found the lock taken. The error is a *LockedError.
	ErrLocked = errors.New("locked by another")
	// ErrLost: the hold (or the session) is gone for good. The error is a *LostError.
	ErrLost = errors.New("hold lost")
	// ErrUnlocked: the hold was released before by Unlock, or given up for a read hold by RWMutex.Downgrade. From
	// ForceRelease: nobody holds the lock.
	ErrUnlocked = errors.New("already unlocked")
	// ErrTransferred: the hold was given away by Transfer.
	ErrTransferred = errors.New("transferred to another")
	// ErrTicket: a transfer ticket has been used, or the hold it gives away is gone.
	ErrTicket = errors.New("the ticket is not good any more")
	// ErrLimit: more permits are wanted than a semaphore has, or its limit is not the one named. The error is a
	// *LimitError.
	ErrLimit = errors.New("semaphore limit")
	// ErrKind: the name is in use as another kind of lock. The error is a *KindError.
	ErrKind = errors.New("name in use as another kind of lock")
	// ErrClosed: the node or the session has been closed by its owner.
	ErrClosed = errors.New("closed")
	// ErrNoQuorum: the cluster could not answer, because no leader with a majority of voters was reachable in time.
	ErrNoQuorum = errors.New("no quorum")
	// ErrQuarantine: the cluster was recovered (see Recover) a moment ago and grants no lock yet. TryLock says so at
	// once, other calls if they end before the quarantine does.
	ErrQuarantine = errors.New("in quarantine")
	// ErrRefused: an operator's act was not done, for the reason that stands in the error; the group is as it was.
	ErrRefused = errors.New("refused")
	// ErrNoSession: the cluster knows no session of that id (any more).
	ErrNoSession = errors.New("no such session")
	// ErrOverloaded: the cluster refuses new work for now; nothing was done.
	ErrOverloaded = errors.New("overloaded")
	// ErrClusterChanged: the node met another cluster of the same name, or its own was founded anew.
	ErrClusterChanged = errors.New("cluster changed")
	// ErrFounded: the node has a cluster's state, so there is no founding to reset.
	ErrFounded = errors.New("the node has a cluster already")
	// ErrUnsure: the machine's clocks jumped; whether the lock is still held is unknown until the next answer of the
	// cluster. The hold may recover, so Done stays open. Treat it as not held.
	ErrUnsure = errors.New("unsure whether the lock is held")
	// ErrStaleToken: a fenced resource has accepted a higher token than this one. The error is a *StaleTokenError.
	ErrStaleToken = fence.ErrStaleToken
	// ErrInvalid: an argument or a configuration field breaks a rule. The error is a *FieldError, or several joined.
	ErrInvalid = fence.ErrInvalid
	// ErrFailed: the node itself cannot go on (Node.Err tells why); its host and the cluster do.
	ErrFailed = errors.New("node failed")
	// ErrLevel: a binary is too old. As a reason of ErrFailed: this node's, for the cluster that it belongs to; start it
	// with the version that the others have. Of a call: another member's, for what was asked; it works when that one was
	// upgraded or has left.
	ErrLevel = wire.ErrLevel
	// ErrDiverged: the node's copy of the replicated state is not the one that the other members have, so nothing that
	// it says can be relied on. It has stopped, and its data directory is not to be used again. The error is a
	// *DivergedError, a *LostError of what the node's sessions held, or a *FieldError of Open.
	ErrDiverged = errors.New("state differs from the other members'")
)

// FieldError names the argument or the configuration field that breaks a rule. It matches ErrInvalid.
type FieldError = fence.FieldError

// LockedError is what TryLock returns when somebody else holds the lock or waits for it. It matches ErrLocked.
type LockedError struct {
	Name   string // of a set, the first name that is taken; the rest is about that one
	Holder Holder // zero if nobody holds but others wait
	Since  time.Time
	Queue  int // claims that wait
}

func (e *LockedError) Error() string {
	if e.Holder == (Holder{}) {
		return fmt.Sprintf("lock %q: free, but %d waiting for it", e.Name, e.Queue)
	}
	return fmt.Sprintf("lock %q: %v, %d waiting", e.Name, e.Holder, e.Queue)
}

// Is reports whether target is ErrLocked.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// LimitError is a claim for permits that the semaphore cannot serve. It matches ErrLimit.
type LimitError struct {
	Name    string
	Permits int // wanted
	Limit   int // named by the claim
	Agreed  int // in force in the cluster; Limit if more than that was wanted, for which nobody has to be asked
}

func (e *LimitError) Error() string {
	if e.Limit != e.Agreed && e.Permits <= e.Agreed {
		return fmt.Sprintf("semaphore %q: limit %d was named, but %d is agreed on", e.Name, e.Limit, e.Agreed)
	}
	return fmt.Sprintf("semaphore %q: %d permits are wanted, and there are %d", e.Name, e.Permits, e.Agreed)
}

// Is reports whether target is ErrLimit.
func (e *LimitError) Is(target error) bool { return target == ErrLimit }

// KindError is a claim on a name that is in use as another kind of lock. It matches ErrKind. A semaphore whose limit
// was set by Resize is in use even while nobody claims it, until Resize has the limit forgotten.
type KindError struct {
	Name      string
	Semaphore bool // it is in use as a semaphore; otherwise as a lock
}

func (e *KindError) Error() string {
	if e.Semaphore {
		return fmt.Sprintf("%q is in use as a semaphore, and cannot be a lock as well", e.Name)
	}
	return fmt.Sprintf("%q is in use as a lock, and cannot be a semaphore as well", e.Name)
}

// Is reports whether target is ErrKind.
func (e *KindError) Is(target error) bool { return target == ErrKind }

// Cause says why a hold or a session was lost.
type Cause uint8

const (
	// CauseExpired: the node's own deadline passed without an answer of the cluster, or the cluster expired the
	// session.
	CauseExpired Cause = iota + 1
	// CauseForced: somebody released the lock by force, or ended its session.
	CauseForced
	// CauseSessionClosed: the owner closed the session that held it.
	CauseSessionClosed
	// CauseNodeClosed: the owner closed the node.
	CauseNodeClosed
	// CauseClusterChanged: as CauseNoQuorum, and another cluster of the same name was in sight. As a rule this one was
	// founded anew, and nobody knows its sessions any more.
	CauseClusterChanged
	// CauseDiverged: the node's state was found to differ from the other members', so what it had told its sessions may
	// be wrong.
	CauseDiverged
	// CauseNoQuorum: as CauseExpired, and the last attempts to renew found no leader.
	CauseNoQuorum
	// CauseMaxHold: the hold lasted as long as its MaxHold option allows.
	CauseMaxHold
	// CauseCopied: the node runs on a copy of another live node's data directory, and has failed. See Node.Err.
	CauseCopied
)

// byDeadline says that the session ended by its own node's clock.
func (c Cause) byDeadline() bool {
	return c == CauseExpired || c == CauseNoQuorum || c == CauseClusterChanged
}

func (c Cause) String() string {
	switch c {
	case CauseExpired:
		return "lease expired"
	case CauseForced:
		return "released by force"
	case CauseSessionClosed:
		return "session closed"
	case CauseNodeClosed:
		return "node closed"
	case CauseClusterChanged:
		return "cluster changed"
	case CauseDiverged:
		return "state differs from the other members'"
	case CauseNoQuorum:
		return "lease expired without a quorum"
	case CauseMaxHold:
		return "held for as long as MaxHold allows"
	case CauseCopied:
		return "the node runs on a copy of another one's data directory"
	}
	return fmt.Sprintf("cause %d", uint8(c))
}

// LostError tells of a hold, or of a whole session, that is gone. It matches ErrLost, and by its Cause one sentinel
// more, or two: ErrClosed (CauseSessionClosed, CauseNodeClosed), ErrNoQuorum (CauseNoQuorum), ErrNoQuorum and
// ErrClusterChanged (CauseClusterChanged), ErrDiverged (CauseDiverged) or ErrFailed (CauseCopied). CauseExpired,
// CauseForced and CauseMaxHold have no sentinel of their own.
type LostError struct {
	Name   string // lock name; empty for a session
	Token  Token
	Cause  Cause
	Actor  string // CauseForced: who
	Reason string // CauseForced: the words given; otherwise a detail
}

func (e *LostError) Error() string {
	var b strings.Builder
	switch {
	case e.Token != 0:
		fmt.Fprintf(&b, "lock %q (token %v) lost: ", e.Name, e.Token)
	case e.Name != "" && (e.Cause == CauseForced || e.Cause == CauseMaxHold): // permits, which have no token
		fmt.Fprintf(&b, "lock %q lost: ", e.Name)
	case e.Name != "":
		fmt.Fprintf(&b, "lock %q: session lost: ", e.Name)
	default:
		b.WriteString("session lost: ")
	}
	b.WriteString(e.Cause.String())
	if e.Actor != "" {
		fmt.Fprintf(&b, " by %s", e.Actor)
	}
	if e.Reason != "" {
		fmt.Fprintf(&b, ": %s", e.Reason)
	}
	return b.String()
}

// Is reports whether target is ErrLost, or the sentinel that fits the cause.
func (e *LostError) Is(target error) bool {
	switch target {
	case ErrLost:
		return true
	case ErrClosed:
		return e.Cause == CauseSessionClosed || e.Cause == CauseNodeClosed
	case ErrClusterChanged:
		return e.Cause == CauseClusterChanged
	case ErrDiverged:
		return e.Cause == CauseDiverged
	case ErrNoQuorum:
		return e.Cause == CauseNoQuorum || e.Cause == CauseClusterChanged
	case ErrFailed:
		return e.Cause == CauseCopied
	}
	return false
}

// WaitError is a call that ended before the cluster (or the lock's holder) let it succeed. It unwraps to the ctx error
// and, where no leader answered, to ErrNoQuorum.
type WaitError struct {
	Op      string  // "lock", "open session", ...
	Name    string  // lock name, if any
	Holder  *Holder // who was in the way when last heard, nil if nobody
	Ahead   int     // claims that waited before this one when last heard
	Queue   int     // claims that waited in all when last heard
	Waiting string  // what the call was waiting for, in words
	Err     error

	unsent bool // nothing of the call can ever take effect
}

func (e *WaitError) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Name != "" {
		fmt.Fprintf(&b, " %q", e.Name)
	}
	b.WriteString(": ")
	if e.Waiting != "" {
		b.WriteString(e.Waiting)
		b.WriteString(": ")
	}
	if e.Err == nil {
		b.WriteString("failed")
	} else if none := (*noQuorumError)(nil); errors.As(e.Err, &none) && strings.Contains(e.Waiting, ErrNoQuorum.Error()) {
		b.WriteString(none.rest()) // once is enough
	} else {
		b.WriteString(e.Err.Error())
	}
	return b.String()
}

// Unwrap gives the ctx error and the sentinels that apply.
func (e *WaitError) Unwrap() error { return e.Err }

// DivergedError tells of a member whose copy of the replicated state is not that of the others. It matches ErrDiverged.
// The cause is a fault of its memory or of the program. Its data directory is marked, so that it does not come back
// with it.
//
// Where a majority agrees, the member is made anew with an empty directory, and joins the others. After a split there
// is nothing to join: all members are made anew with empty directories, and found a new cluster, whose tokens are
// higher than those of the old one (if no clock has been set back).
type DivergedError struct {
	// log index at which the hashes of the states were compared: they have differed since then or since before
	Index   uint64
	Hash    string   // of this member's state, in hexadecimal
	Differs []string // server ids of the voters that had another hash
	Voters  int      // number of all voters at that index
	Split   bool     // no majority agrees on one state, so nobody can know which is right: all that differ stop
}

func (e *DivergedError) Error() string {
	found := fmt.Sprintf("%v: at index %d %d of %d voters have another one (%s)", ErrDiverged, e.Index, len(e.Differs), e.Voters, strings.Join(e.Differs, ", "))
	if e.Split {
		return found + ", and no majority agrees, so all of them stop; no state can be relied on: empty the directories of all members, to found a new cluster"
	}
	return found
}

// Is reports whether target is ErrDiverged.
func (e *DivergedError) Is(target error) bool { return target == ErrDiverged }

// SnapshotError tells of a snapshot that is sound to the last byte and yet does not give the state that it was taken
// of. The node has failed: it does not serve such a state, nor hand it on.
type SnapshotError struct {
	Index uint64 // log index of the snapshot
	// Taken: this member took it just now, and its memory or the program is at fault. Otherwise the snapshot was found
	// at a start or was received, and who is at fault, who wrote it or who reads it, cannot be told from it.
	Taken bool

	cause error
}

func (e *SnapshotError) Error() string {
	if e.Taken {
		return fmt.Sprintf("the snapshot taken at index %d cannot be read back as the state it is of, so memory or program are at fault: %v", e.Index, e.cause)
	}
	return fmt.Sprintf("the snapshot at index %d does not give the state it was taken of; whether its writer or its reader is at fault is not known", e.Index)
}

// StaleTokenError is a write that a fenced resource refused. It matches ErrStaleToken.
type StaleTokenError = fence.StaleTokenError

// failure turns what the inner packages return into this package's errors: no raw error of the consensus library, and none of an
// internal package, leaves otherwise. A nil error stays nil.
func failure(ctx context.Context, op, name string, err error) error {
	if err == nil {
		return nil
	}
	wait := &WaitError{Op: op, Name: name, Err: err}
	var routed *router.Error
	wait.unsent = errors.As(err, &routed) && !routed.Sent
	switch {
	case routed != nil && errors.Is(err, commit.ErrOverloaded):
		wait.Waiting, wait.Err = routed.Why, ErrOverloaded
	case routed != nil:
		why := routed.Err
		if ctx.Err() != nil && errors.Is(why, ctx.Err()) {
			why = ended(ctx)
		}
		wait.Waiting, wait.Err = routed.Why, joined(why, routed.NoLeader)
	}
	return wait
}

func joined(err error, noQuorum bool) error {
	if !noQuorum {
		return err
	}
	return &noQuorumError{err: err}
}

// noQuorumError keeps the message short while the ctx error, ErrNoQuorum and, where it applies, ErrClusterChanged stay visible.
type noQuorumError struct {
	err     error
	changed error // nil, or a reason that matches ErrClusterChanged
}

func (e *noQuorumError) Error() string {
	return fmt.Sprintf("%v: %s", ErrNoQuorum, e.rest())
}

func (e *noQuorumError) rest() string {
	if e.changed != nil {
		return fmt.Sprintf("%v: %v", e.changed, e.err)
	}
	return e.err.Error()
}

func (e *noQuorumError) Unwrap() []error {
	if e.changed != nil {
		return []error{ErrNoQuorum, e.changed, e.err}
	}
	return []error{ErrNoQuorum, e.err}
}

// refusal turns a result code that is not a success into an error. It is the one table of codes and errors.
func refusal(op, name string, r *locktable.Result) error {
	switch r.Code {
	case locktable.CodeNoSession:
		return sessionGone(name, r)
	case locktable.CodeLocked:
		e := &LockedError{Name: cmp.Or(r.Detail, name), Queue: r.Waiters}
		if r.Blocker != nil {
			e.Holder = holderOf(r.Blocker)
			e.Since = e.Holder.Since
		}
		return e
	case locktable.CodeCancelled, locktable.CodeBelowFloor, locktable.CodeNotHeld:
		return &LostError{Name: name, Cause: CauseExpired, Reason: "the cluster does not know the hold"}
	case locktable.CodeDraining:
		return &LostError{Name: name, Token: Token(r.Token), Cause: CauseForced, Reason: "the grant is being released by force"}
	case locktable.CodeOverloaded:
		return &WaitError{Op: op, Name: name, Waiting: r.Detail, Err: ErrOverloaded}
	case locktable.CodeQuarantined:
		return &WaitError{Op: op, Name: name, Waiting: quarantined(r), Err: ErrQuarantine}
	case locktable.CodeMalformed:
		return &WaitError{Op: op, Name: name, Err: &FieldError{Field: "command", Problem: r.Detail}}
	}
	return &WaitError{Op: op, Name: name, Err: fmt.Errorf("unexpected answer %d %s", r.Code, r.Detail)}
}

// sessionGone tells of a session that the cluster does not know, as it does not know one that an operator ended.
func sessionGone(name string, r *locktable.Result) *LostError {
	for _, l := range r.Lost {
		if l.Cause == locktable.LostSession {
			return &LostError{Name: name, Cause: CauseForced, Actor: l.Actor, Reason: l.Reason}
		}
	}
	return &LostError{Name: name, Cause: CauseExpired, Reason: "the cluster does not know the session"}
}

// ended is the ctx error with the cause its owner gave, if that differs.
func ended(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, err) {
		return fmt.Errorf("%w (%w)", err, cause)
	}
	return err
}
