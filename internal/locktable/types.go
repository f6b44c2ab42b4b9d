// Package locktable is the replicated state machine of quorumlock: sessions, claims, holds, tokens and revisions.
//
// It is pure. It knows no clock, no goroutine, no randomness and no map order: the same commands at the same log indexes give the
// same results, the same events and the same state on every member, for ever. Time is data (an expiry is a command), and
// who decides when to send such a command lives elsewhere (internal/expiry, the root package's leader).
package locktable

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// SessionID names a session. It is the counter's value when the session was opened, so it is never reused in one cluster.
type SessionID int64

// Token is a fencing token: the counter's value at the grant. Zero is never a valid token.
type Token int64

// Rev is a value of the one cluster-wide counter. Every event, claim, session and grant takes a fresh one, so revisions
// order everything that ever happened in the cluster.
type Rev int64

// Sizes that every member enforces alike; they are part of the state machine and must never differ between members of one
// feature level.
const (
	MaxNameLen  = 512  // bytes in a lock name
	MaxNoteLen  = 1024 // bytes in an owner's note, a reason, or an actor's name
	MaxNames    = 64   // names in one claim
	MaxNodeLen  = 256  // bytes in a server id or a node name
	MaxSessions = 200_000
	MaxClaims   = 4_000_000 // live claims (waiting and held) in the cluster
	MaxFinished = 4_096     // finished sequences remembered for one session
	MaxLost     = 1_024     // lost holds remembered for one session until it has heard of them; all of them must fit into one answer
	MaxAudit    = 1_024     // audit records kept, oldest dropped
	MaxInspect  = 64        // holders, and waiters, listed in one Info of OpInspect
	MaxList     = 100       // names in one answer to OpList; fewer if they are large
	MaxListed   = 8         // holders, and waiters, listed for each of them
	MaxValueLen = 4_096     // bytes in a published value
	MaxPermits  = 1 << 30   // permits of one semaphore
	MaxLimits   = 100_000   // semaphores whose limit was set by OpResize, and is remembered while nobody uses them

	MaxDelay = 10 * time.Minute // longest lock delay

	MinTTL = 100 * time.Millisecond // shorter is never accepted; the root package asks for more
)

// Op says what a command does. The list is append-only: values are written to logs.
type Op uint8

const (
	OpNone    Op = 0
	OpFound   Op = 1  // internal, once: ClusterID, Rev = first counter value, TTL = MaxTTL. A second one answers CodeExists
	OpOpen    Op = 2  // open a session: Node, NodeName, TTL, Incarnation. Result.Session. Not idempotent: a late copy makes an empty session that expires
	OpRenew   Op = 3  // Session, Since
	OpClose   Op = 4  // Session, Now: ends it, releases all its claims. Now: its owner has finished, so no lock delay applies. Closing an unknown session answers CodeNoSession
	OpExpire  Op = 5  // internal: Session, RenewIndex, Term
	OpClaim   Op = 6  // Session, Seq, Floor, Names, Mode, Try, Note, Value, Delay; for Permits also Count and Limit
	OpCancel  Op = 7  // Session, Floor, Seq = the claim's sequence. Now: its node has given the session up, and extends it no more
	OpUnlock  Op = 8  // Session, Seq, Floor, Of, Token, Barring
	OpForce   Op = 9  // Names[0], Token, Session (optional: only the holds of this one), Now, Note = reason, Actor = who: forced release
	OpDrained Op = 10 // internal: Rev = grant revision, or that of the quarantine, RenewIndex = index at which the drain, the delay or the quarantine began, Term
	OpInspect Op = 11 // Names[0]: a linearizable read, changes nothing
	OpBarrier Op = 12 // changes nothing, answers with Rev and Index
	OpLevel   Op = 13 // internal: Level: raises the feature level

	OpDowngrade Op = 14 // Session, Seq, Floor, Of, Token, Note: the exclusive hold of one name becomes the shared claim Seq, with nothing between
	OpProclaim  Op = 15 // Session, Seq, Floor, Of, Token, Value: sets the value that the hold publishes
	OpHandOver  Op = 16 // Session, Seq, Floor, Of, Token, Rev = create revision of the waiting claim that gets the names of this exclusive hold
	OpResize    Op = 17 // Session, Seq, Floor, Names[0], Limit, Former: sets the limit of a semaphore; without Limit: forgets the one that was set
	OpOffer     Op = 18 // Session, Seq, Floor, Of, Token, Secret = OfferHash of a secret: whoever knows the secret may take the hold over
	OpAccept    Op = 19 // Session, Seq, Floor, From, Of, Token, Secret, Note: takes the hold that From offers over as the claim Seq
	OpList      Op = 20 // Names[0] = prefix (no Names: all), After, Count = most names wanted: a linearizable read of a page of names
	OpRestart   Op = 21 // Node, Incarnation, RenewIndex: ends the sessions of this start of the node, if none was renewed since that index

	// From feature level 2 on.
	OpSessions Op = 22 // Rev = the last session seen, Count = most sessions wanted: a linearizable read of a page of sessions
	OpAudit    Op = 23 // Rev = the last record seen, Count = most records wanted: a linearizable read of a page of the audit, oldest first
	OpEnd      Op = 24 // Session, Now, Note = reason, Actor = who: ends a session against its owner's will; without Now its names stay barred for its TTL
	OpAct      Op = 25 // Act, Node, NodeName = whom it concerns, Note = reason, Actor = who: records an act that is none of the table's own
)

// Mode is how a claim shares its names with others.
type Mode uint8

const (
	Exclusive Mode = 0 // at most one holder per name
	Shared    Mode = 1 // any number of shared holders of the one name, and no exclusive one beside them
	Permits   Mode = 2 // holders of the one name, a semaphore, have at most its limit together
)

// Command is one request to the state machine. Which fields count is said at each Op; others must be zero.
type Command struct {
	Op         Op
	Session    SessionID
	Seq        uint64 // the caller's number for this request within its session, from 1, never reused
	Floor      uint64 // every sequence below it has been answered; the session's record of them may go
	Names      []string
	Mode       Mode
	Try        bool // refuse (CodeLocked) rather than queue
	Now        bool // forced release without a drain
	Token      Token
	Note       string
	Actor      string
	Node       string // server id of the node that owns the session
	NodeName   string
	TTL        time.Duration
	Since      Rev    // the node has seen all news about the session up to here
	RenewIndex uint64 // compare-and-set operand of expiry and drain
	Term       uint64 // raft term in which an internal command was decided; dropped if the entry's term differs
	Rev        Rev
	ClusterID  string
	Level      uint32

	Of          uint64        // sequence of the claim that the command is about, in Session or From
	Count       uint32        // permits wanted; names wanted
	Limit       uint32        // permits of the semaphore in all
	Value       string        // what the holder publishes, for programs
	Delay       time.Duration // how long the names stay barred when the hold ends against its holder's will, whole milliseconds
	From        SessionID     // the session that gives
	Secret      string
	After       string
	Incarnation string // one start of a node, in its data directory
	Former      uint32 // the limit that the caller's own claims name, if not the new one; it counts as the one before if none is known
	Act         Act    // OpAct
	Barring     bool   // unlock: the hold has ended against its holder's will, and the lock delay applies
}

// Code is the outcome of a command. The list is append-only: values travel between nodes of different versions.
type Code uint16

const (
	CodeNone        Code = 0
	CodeOK          Code = 1
	CodeGranted     Code = 2  // claim: held, Token set
	CodeWaiting     Code = 3  // claim: queued; Blocker, Ahead and Waiters set
	CodeLocked      Code = 4  // claim with Try: refused; Detail is the first of its names that is taken, Blocker and Waiters are that one's
	CodeCancelled   Code = 5  // the claim's sequence is finished; nothing of it is left. Cancel answers it, and so does a late copy of the claim; Token if it ever was granted
	CodeReleased    Code = 6  // unlock: this hold was live until now
	CodeNotHeld     Code = 7  // unlock, force, drained: no such live hold
	CodeNoSession   Code = 8  // the session does not exist (any more)
	CodeBelowFloor  Code = 9  // the sequence was answered before and its record is gone; for a claim: it is no longer live
	CodeStale       Code = 10 // compare-and-set missed: renewed since, other drain, other term
	CodeMalformed   Code = 11 // the command breaks a rule of this package; Detail says which
	CodeOverloaded  Code = 12 // a size limit of this package is reached; Detail says which
	CodeExists      Code = 13 // already founded
	CodeNotFounded  Code = 14 // no OpFound has been applied yet
	CodeDraining    Code = 15 // force without Now: the drain has begun (or is going on); DrainIndex set. Claim: granted, but being drained: not to be held
	CodeMismatch    Code = 16 // force: the token seen is not the holder's; Blocker names the present one. Claim: the sequence is known with other content
	CodeQuarantined Code = 17 // claim: no lock is granted yet, see Quarantine; nothing of the claim is kept. Detail is how long that lasts in all
	CodeKind        Code = 18 // claim, resize: the (first) name in Detail is in use as a lock where a semaphore was asked for, or the other way round
	CodeLimit       Code = 19 // claim: the semaphore's limit, set in Limit, is not the one named, or is less than the permits wanted
	CodeNoWaiter    Code = 20 // hand over: no such claim waits for exactly these names; nothing was released
)

// Holder tells who holds a name, for people and for inspection.
type Holder struct {
	Session  SessionID
	Node     string
	NodeName string
	Note     string
	Token    Token
	Since    int64 // leader's wall clock at the grant, Unix milliseconds; for display only
	Draining bool
	Barred   bool // the hold has ended against the holder's will, and its lock delay goes on
	Offered  bool // nobody works under the hold: it is offered (OpOffer), and not taken over yet
	Mode     Mode
	Count    uint32 // permits
	Value    string
}

// Grant is a claim of a session that is held.
type Grant struct {
	Seq   uint64
	Token Token
}

// LostCause says why a hold ended without its session's wish while the session lives on.
type LostCause uint8

const (
	LostForced  LostCause = 1 // released by force, at once
	LostDrained LostCause = 2 // a drain is going on or has ended: the hold must not be extended any more
	LostLimit   LostCause = 3 // a waiting claim ended, for the semaphore's limit was set below its permits; Limit tells it
	LostSession LostCause = 4 // with CodeNoSession: an operator ended the session, and all that it held with it. It is looked up, and never remembered
)

// Lost is a hold that a session lost, or that is being drained; with LostLimit a waiting claim.
type Lost struct {
	Seq    uint64
	Token  Token // zero for a waiting claim
	Cause  LostCause
	Reason string // the actor's words
	Actor  string
	Rev    Rev
	Limit  uint32
}

// Waiter is one queued claim in an Info.
type Waiter struct {
	Session  SessionID
	Node     string
	NodeName string
	Note     string
	Rev      Rev
	Since    int64
	Mode     Mode
	Count    uint32
}

// Info is what an inspection of one name shows.
type Info struct {
	Name    string
	Holders []Holder // the first of them, in queue order
	Holding int      // all holders
	Waiters []Waiter // the first of them, in queue order
	Waiting int      // all waiters
	Limit   uint32   // of a semaphore, else zero
	InUse   uint32   // permits held of it
	Index   uint64   // log index of the state shown
	Rev     Rev
}

// Result is the answer to one command.
type Result struct {
	Code    Code
	Index   uint64 // log index at which it was applied
	Rev     Rev    // counter after the command; for OpClaim: the claim's create revision
	Token   Token
	Session SessionID
	// Renewed says that the command extended its session: it was applied while the session lived, and recorded the index. An answer
	// that says so is complete: Lost tells of every drain that must not be extended with it.
	Renewed bool
	Blocker *Holder // CodeWaiting, CodeLocked, CodeMismatch: the (first) holder in the way; nil if only waiters are
	Ahead   int     // CodeWaiting: claims that wait before this one
	Waiters int     // CodeWaiting, CodeLocked, and CodeMismatch of OpForce: claims that wait for the name; of several, for the one in Detail, or where they are most
	Grants  []Grant // OpRenew: the session's holds granted since Command.Since, without those being drained
	// Lost is set in every answer with Renewed: the session's holds lost or being drained of which the node has not said, by the
	// Since of a renewal, that it heard. A node reads it before it extends anything.
	Lost []Lost
	Info *Info // OpInspect
	// DrainIndex is the log index at which a drain began; the leader that ends it names it in OpDrained.
	DrainIndex uint64
	Detail     string
	Limit      uint32 // CodeLimit, and OpResize: the limit in force, zero if there is none any more
	Infos      []Info // OpList
	// More says that the command has to be given again for the rest. OpList: there are names after the last of Infos. OpForce: not all sessions have room to be told yet. OpResize, with
	// CodeOverloaded: the same, of claims that wait for more than the limit, which is not set yet.
	More  bool
	Ended int // OpRestart: sessions ended

	Sessions []SessionInfo // OpSessions
	Audit    []AuditRecord // OpAudit
}

// SessionInfo is what a listing shows of one session.
type SessionInfo struct {
	ID       SessionID
	Node     string
	NodeName string
	TTL      time.Duration
	Opened   int64 // leader's wall clock, Unix milliseconds, for display only; zero if it was opened below LevelActs
	Holding  int   // claims held
	Waiting  int   // claims that wait
}

// EventKind is what an Event tells. The list is append-only.
type EventKind uint8

const (
	EventQueued        EventKind = 1 // a claim began to wait
	EventGranted       EventKind = 2
	EventReleased      EventKind = 3 // unlocked by its owner, or the session was closed; EventFreed follows if its lock delay applies
	EventExpired       EventKind = 4 // released because the session expired
	EventForced        EventKind = 5 // released by force, at once or after a drain
	EventDraining      EventKind = 6
	EventCancelled     EventKind = 7 // a waiting claim ended without a grant
	EventSessionOpen   EventKind = 8
	EventSessionClosed EventKind = 9
	EventSessionExpiry EventKind = 10
	EventValue         EventKind = 11 // a holder published another value
	EventResized       EventKind = 12 // a semaphore's limit was set; Count tells it, zero that the one that was set is forgotten
	EventFreed         EventKind = 13 // the lock delay after the end of a hold is over
	EventAct           EventKind = 14 // an operator's act was recorded; Node is whom it concerns, Note the reason
)

// Event is one change, told to watchers and waiters. Rev rises strictly by one from event to event and never repeats, so a
// gap is visible.
type Event struct {
	Rev     Rev
	Index   uint64
	Kind    EventKind
	Name    string // first name for session-less matters; one event per name
	Session SessionID
	Seq     uint64
	Node    string // server id of the session's node
	Token   Token
	Wall    int64 // leader's wall clock, Unix milliseconds, display only
	Note    string
	Mode    Mode
	Count   uint32
	Value   string // EventGranted, EventValue
}

// Effects is what one entry did beside its results. Apply appends to it; the caller may reuse the slices.
type Effects struct {
	Events []Event
	// Renewed, Ended: sessions whose stamps the member has to set or forget, in order of application.
	Renewed []Renewal
	Ended   []SessionID
	// Drains that began (Index set) or ended (Index zero).
	Drains []Drain
}

// Renewal is a session that was opened or renewed in an entry.
type Renewal struct {
	Session SessionID
	TTL     time.Duration
	Index   uint64 // recorded as the session's renewal index
}

// Drain is the beginning or the end of a drained release, or of a lock delay; of the quarantine it is the end. The leader ends it by OpDrained when Wait has passed since its own
// stamp. A delay may follow a drain under the same grant: its beginning takes the drain's place.
type Drain struct {
	Grant Rev           // of the hold; Quarantine.Rev
	Wait  time.Duration // TTL of the session that holds, or the delay
	Index uint64
}

// The records below are the state as snapshots carry it. A table is a Header, then sessions by id, claims by (first name,
// position), finished results by (session, sequence), lost holds by (session, revision), audit records by revision, limits by name.

// Header is the part of the state that exists once.
type Header struct {
	ClusterID                                       string
	Counter                                         Rev
	Index                                           uint64 // last applied log index
	Level                                           uint32
	MaxTTL                                          time.Duration
	Quarantine                                      Quarantine
	Sessions, Claims, Finished, Lost, Audit, Limits int // counts of the records that follow
}

// Quarantine is the time after a refounding in which no claim is taken, for those who held locks before may still believe in them. The leader
// ends it by OpDrained when Wait has passed since its own stamp. Zero: there is none.
type Quarantine struct {
	Rev   Rev // of the counter, taken for nothing else
	Index uint64
	Wait  time.Duration
}

// SessionRecord is one session.
type SessionRecord struct {
	ID         SessionID
	Node       string
	NodeName   string
	TTL        time.Duration
	RenewIndex uint64
	Floor      uint64

	Incarnation string
	Opened      int64 // wall, ms; zero if it was opened below LevelActs
}

// ClaimRecord is one live claim, waiting or held.
type ClaimRecord struct {
	Rev        Rev
	Session    SessionID
	Seq        uint64
	Names      []string
	Mode       Mode
	Note       string
	Created    int64 // wall, ms
	Token      Token // zero while waiting
	Granted    int64 // wall, ms
	DrainIndex uint64
	DrainRev   Rev
	DrainNote  string // the actor's reason
	DrainActor string

	Pos   Rev // place in the queues of its names: the create revision, unless the claim took the place of a hold
	Grant Rev // revision of the grant; zero while waiting. The token, except for readers that joined a phase
	Count uint32
	Value string
	Delay time.Duration
	Offer string // OfferHash, empty unless the hold is offered

	// Barred: the hold has ended and only its lock delay is left. Session need not exist any more, so the record tells who it was.
	Barred         bool
	Node, NodeName string
}

// LimitRecord is the limit of a semaphore.
type LimitRecord struct {
	Name   string
	Limit  uint32
	Former uint32 // the limit before the last OpResize, which claims may still name; zero if there is none
	Set    bool   // by OpResize, so it is remembered while nobody uses the semaphore; not if an OpResize has had it forgotten since
}

// FinishedRecord is the remembered answer of a finished sequence.
type FinishedRecord struct {
	Session SessionID
	Seq     uint64
	Op      Op // what the sequence was
	Code    Code
	Token   Token
}

// LostRecord is a Lost with its session.
type LostRecord struct {
	Session SessionID
	Lost    Lost
}

// AuditRecord is one act of an operator.
type AuditRecord struct {
	Rev    Rev
	Wall   int64
	Name   string // ActForce: the lock, with the token
	Token  Token
	Now    bool
	Actor  string
	Reason string

	Act      Act
	Session  SessionID // ActEnd: the session
	Node     string    // server id: of the session, or whom the act concerns; empty for ActForce
	NodeName string
}

// OfferHash is what OpOffer carries of a secret, so that nobody who reads the log or a snapshot can take the hold over.
func OfferHash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}
