package history

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/watch"
)

// The checks, by the name that a Violation carries.
const (
	Record       = "record"        // the run recorded what cannot be
	WatchOrder   = "watch order"   // a subscription has a gap or goes back, or two disagree
	AskedRule    = "asked"         // the log shows what no call asked for, or not what a call says that it did
	OnceRule     = "once"          // a claim takes effect twice, or after its end
	TokenRule    = "token"         // a token is not what the lock table would give, or a caller was given another one
	Exclusion    = "exclusion"     // in the log, claims hold together that exclude each other, or more permits than there are, or a hold ends that is none
	QueueRule    = "queue"         // in the log, a claim overtakes, waits for nothing, or ends without having waited
	SetRule      = "set"           // in the log, a claim on several names has one of them without the others
	MoveRule     = "move"          // a hold that went on to another claim was not handed on in one step
	DelayRule    = "delay"         // a lock delay was skipped or cut short
	MaxHoldRule  = "max hold"      // a hold said "held" for longer than its cap
	LeaderRule   = "leader"        // an observer of an election was shown a leader or a value that was none, or in another order
	SessionRule  = "session"       // something happens under a session that is not open
	UnlockRule   = "unlock"        // an Unlock said nil for a hold that the log shows to have ended otherwise
	Linearizable = "linearizable"  // no order of what happened fits to what the callers saw and when
	HoldInterval = "hold interval" // a hold said "held" after its end, or when another grant was committed that does not go together with it (I3)
	Finality     = "finality"      // a hold said "held" after its Unlock, or its session's Close, had returned
	Undecided    = "undecided"     // there was not time enough for linearizability
)

// Violation is one broken rule.
type Violation struct {
	Check string // one of the constants of this package
	Text  string
}

func (v Violation) String() string { return v.Check + ": " + v.Text }

// Ending is how a hold ended before the next grant of its lock.
type Ending uint8

// The endings. A hold that was Forced at once may overlap with the next, by the nature of the request, and is not measured.
const (
	Released Ending = iota + 1 // unlocked, cancelled, or its session closed
	Expired                    // its session expired
	Drained                    // released by force when the drain was over
	Forced                     // released by force at once
)

func (e Ending) String() string {
	switch e {
	case Released:
		return "released"
	case Expired:
		return "expired"
	case Drained:
		return "drained"
	case Forced:
		return "forced"
	}
	return "live"
}

// Report is what a run came to.
type Report struct {
	Violations []Violation    // in the order of the checks, of each check the first 20
	Found      map[string]int // how many of each check there are, listed or not

	Calls     int  // recorded, of all kinds
	Failed    int  // acquires that ended with an error other than ErrLocked
	Events    int  // revisions seen
	Unseen    int  // revisions between them that nobody saw; across these less can be judged
	Late      bool // the observers came when the cluster was in use already; the same holds for what was before
	Grants    int  // in the log
	Abandoned int  // of these nobody was given
	Tally

	// SmallestGap is the least time between the last instant at which a hold was held by its owner's word and the instant at which the next
	// grant of the lock was first known, by how the former hold ended. The commit of that grant was earlier than that by an unknown
	// time, so the true gap is smaller; a gap that is not positive is certainly an overlap.
	SmallestGap map[Ending]time.Duration
}

// Tally counts what the log shows, so that a run can tell whether everything came up.
type Tally struct {
	Locked     int // exclusive grants of one name
	Sets       int // of several
	Read       int // readers
	Joined     int // of them, those who shared the token of others
	Permitted  int // grants of permits
	Downgraded int
	Received   int
	HandedOver int // by a call that said so
	Lost       int // holds that expired
	Forced     int // holds that were released by force, at once or after a drain
	Freed      int // lock delays that ended
	Resized    int
	Forgotten  int // of them, those that had a limit forgotten
	Proclaimed int
}

func (t *Tally) grant(c *claim) {
	switch from := c.from; {
	case from == nil || c.From != from.ID:
	case c.Mode != from.Mode:
		t.Downgraded++
	default:
		t.Received++
	}
	switch {
	case c.Mode == permits:
		t.Permitted++
	case c.Mode == shared:
		t.Read++
		if c.token != c.granted.Rev {
			t.Joined++
		}
	case len(c.Names) > 1:
		t.Sets++
	default:
		t.Locked++
	}
}

func (t *Tally) end(c *claim) {
	switch c.removal.Kind {
	case watch.Expired:
		t.Lost++
	case watch.Forced:
		t.Forced++
	}
}

// Add adds another run's.
func (t *Tally) Add(o Tally) {
	t.Locked += o.Locked
	t.Sets += o.Sets
	t.Read += o.Read
	t.Joined += o.Joined
	t.Permitted += o.Permitted
	t.Downgraded += o.Downgraded
	t.Received += o.Received
	t.HandedOver += o.HandedOver
	t.Lost += o.Lost
	t.Forced += o.Forced
	t.Freed += o.Freed
	t.Resized += o.Resized
	t.Forgotten += o.Forgotten
	t.Proclaimed += o.Proclaimed
}

// perCheck bounds the list, since one fault may show a thousand times.
const perCheck = 20

// findings gathers violations.
type findings struct {
	list  []Violation
	found map[string]int
}

func (f *findings) add(check, format string, args ...any) {
	if f.found == nil {
		f.found = make(map[string]int)
	}
	if f.found[check]++; f.found[check] <= perCheck {
		f.list = append(f.list, Violation{check, fmt.Sprintf(format, args...)})
	}
}

// clone leaves the original as it is, so that a history can be checked again.
func (f *findings) clone() *findings {
	return &findings{list: slices.Clone(f.list), found: maps.Clone(f.found)}
}

// describe gives an event in words.
func describe(e *watch.Event) string {
	text := e.Kind.String()
	if e.Name != "" {
		text += fmt.Sprintf(" %q", e.Name)
	}
	if e.Token != 0 {
		text += fmt.Sprintf(" token %v", e.Token)
	}
	return fmt.Sprintf("%s session %d node %q note %q at index %d", text, e.Session, e.ServerID, e.Note, e.Index)
}

// Counts names the counters.
func (t *Tally) Counts() map[string]int {
	return map[string]int{
		"exclusive grants": t.Locked, "sets": t.Sets, "readers": t.Read, "readers that joined others": t.Joined, "grants of permits": t.Permitted,
		"downgrades": t.Downgraded, "holds received": t.Received, "holds handed over": t.HandedOver, "lost holds": t.Lost, "forced holds": t.Forced,
		"lock delays": t.Freed, "resizes": t.Resized, "limits forgotten": t.Forgotten, "proclaimed values": t.Proclaimed,
	}
}
