package history

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/quorumlock/quorumlock/watch"
)

// phase is how far a claim has come in the log.
type phase uint8

const (
	unborn  phase = iota
	hidden        // live when nobody looked: it may have been granted, and may have ended
	waiting       // in the queues of its names
	holding
	barred // the hold is over, its lock delay goes on
	gone
)

// claim is one claim as the log shows it.
type claim struct {
	*Claim
	phase   phase
	place   int64 // in its queues; 0 if not known. The revision of its first event, unless it took the place of a hold
	session int64
	number  uint64 // in its session
	token   int64
	granted *entry // the first of its grant's events
	drain   *entry
	removal *entry // the end of the hold, for its holder
	freed   *entry // the end of its lock delay
	ending  Ending
	byClose bool   // released by the end of its session, not by an unlock or a cancel
	next    *claim // to which the hold went on in the same step
	from    *claim // from which it came
	missed  bool   // it was live when nobody looked: its end may have been missed
	limit   int    // of the semaphore at the grant, 0 if not known
}

// queue is one name while the log is replayed: the claims that hold it, or whose lock delay goes on, and those that wait for it. All
// kinds of locks are judged by it, for they differ only in who may hold a name together (together).
type queue struct {
	name   string
	claims []*claim // by place
	limit  int      // of a semaphore, 0 if not known
	fixed  bool     // the limit was set by a resize, and stays until another one has it forgotten
	last   int64    // highest token granted so far

	// What nobody saw has left something that is not known.
	holdersUnknown, waitersUnknown bool

	broken  bool // a rule was broken: the state means nothing any more
	first   view
	changes []change
	grants  []*claim
}

// change is something that changed what a reader of the name can see, and what he sees after it.
type change struct {
	*entry        // nil for what nobody saw
	before *entry // of what nobody saw: the last event before
	resume *entry // and the first one after
	after  view
}

// view is what a read of a name can show between two revisions.
type view struct {
	holders []string // by claim, sorted
	waiting int
	// Of holders or of waiters there may be more.
	holdersUnknown, waitersUnknown bool
	// between says that a claim waits that could be granted. Nobody can see that: the command that makes it grantable also grants it.
	between bool
}

func newQueue(name string, blind bool) *queue {
	q := &queue{name: name, holdersUnknown: blind, waitersUnknown: blind}
	q.first = q.view()
	return q
}

// together is the one rule that tells the kinds of locks apart: whether two claims may hold a name at the same time, permits left aside.
func together(a, b watch.Mode) bool { return a == b && a != exclusive }

func (c *claim) holds() bool { return c.phase == holding || c.phase == barred }

// admit takes in a claim that is new. The first one on a semaphore sets the limit, which the last one has taken along; a claim that moves in the queue may have it to itself
// for a moment, and changes nothing.
func (q *queue) admit(c *claim) {
	if len(q.claims) == 0 && !q.fixed && c.Mode == permits {
		q.limit = 0
		if !q.holdersUnknown && !q.waitersUnknown {
			q.limit = c.Limit
		}
	}
	q.insert(c)
}

// insert puts a claim in its place.
func (q *queue) insert(c *claim) {
	i, _ := slices.BinarySearchFunc(q.claims, c.place, func(d *claim, place int64) int { return cmp.Compare(d.place, place) })
	q.claims = slices.Insert(q.claims, i, c)
}

func (q *queue) remove(c *claim) {
	if i := slices.Index(q.claims, c); i >= 0 {
		q.claims = slices.Delete(q.claims, i, i+1)
	}
}

// resize takes in that the limit was set or, with 0, that the one that was set is forgotten: then it is in force up to the last claim.
func (q *queue) resize(limit int) {
	q.fixed = limit > 0
	if q.fixed || len(q.claims) == 0 {
		q.limit = limit
	}
}

// hindrance is what stands in the way of a grant, as a check and a text; empty if nothing does that is known. Grants are made in the order of places,
// to claims that may hold the name together and whose permits fit. Permits that were held before are kept, though the limit may have been lowered.
func (q *queue) hindrance(c *claim) (check, problem string) {
	inUse := 0
	for _, d := range q.claims {
		switch {
		case d == c:
		case d.phase == waiting:
			if c.place != 0 && d.place < c.place && check == "" {
				check, problem = QueueRule, fmt.Sprintf("it overtakes %q, which waits for %q", d.ID, q.name)
			}
		case !together(c.Mode, d.Mode) && d.phase == barred:
			return DelayRule, fmt.Sprintf("the lock delay of %q bars %q", d.ID, q.name)
		case !together(c.Mode, d.Mode):
			return Exclusion, fmt.Sprintf("%q holds %q", d.ID, q.name)
		default:
			inUse += d.Permits
		}
	}
	if c.Mode == permits && c.from == nil && q.limit > 0 && inUse+c.Permits > q.limit {
		return Exclusion, fmt.Sprintf("of the %d permits of %q %d are in use, and it has %d", q.limit, q.name, inUse, c.Permits)
	}
	return check, problem
}

// grantable says that a claim that waits certainly could be granted on this name.
func (q *queue) grantable(c *claim) bool {
	if q.holdersUnknown || q.waitersUnknown || c.Mode == permits && q.limit == 0 {
		return false
	}
	check, _ := q.hindrance(c)
	return check == ""
}

// firstWaiting is the claim that is served next, nil if none waits.
func (q *queue) firstWaiting() *claim {
	for _, c := range q.claims {
		if c.phase == waiting {
			return c
		}
	}
	return nil
}

// phaseToken is the token that readers of the name share, 0 if there are none but c.
func (q *queue) phaseToken(c *claim) int64 {
	for _, d := range q.claims {
		if d != c && d.holds() && d.Mode == shared {
			return d.token
		}
	}
	return 0
}

// alone takes in what a hold tells of what nobody saw: who holds exclusively holds alone.
func (q *queue) alone(c *claim) {
	if c.Mode == exclusive {
		q.holdersUnknown = false
	}
}

// inTurn takes in what a grant tells of what nobody saw: nobody who came in the dark, up to revision blindTo, still waits before one who came later.
func (q *queue) inTurn(c *claim, blindTo int64) {
	if c.place > blindTo {
		q.waitersUnknown = false
	}
}

func (q *queue) forget() {
	q.claims, q.limit, q.holdersUnknown, q.waitersUnknown = nil, 0, true, true
}

func (q *queue) view() view {
	v := view{holdersUnknown: q.holdersUnknown, waitersUnknown: q.waitersUnknown}
	for _, c := range q.claims {
		if c.holds() {
			v.holders = append(v.holders, c.ID)
		} else {
			v.waiting++
		}
	}
	slices.Sort(v.holders)
	return v
}

// shows says whether a read can have seen this.
func (v *view) shows(r *read) bool {
	switch {
	case v.between:
		return false
	case r.refused && len(r.holders) == 0:
		// The error names nobody: others wait while none holds; or the claim was repeated, and by the time of the repeat the lock was free.
		return v.holdersUnknown || v.waitersUnknown || len(v.holders) > 0 || v.waiting > 0
	case r.refused:
		_, holds := slices.BinarySearch(v.holders, r.holders[0])
		return holds || v.holdersUnknown
	}
	return (v.holdersUnknown || slices.Equal(v.holders, r.holders)) && (v.waitersUnknown || v.waiting == r.waiting)
}

func (v *view) String() string {
	more := func(unknown bool) string {
		if unknown {
			return " and perhaps more"
		}
		return ""
	}
	return fmt.Sprintf("{holders %q%s, %d waiting%s}", v.holders, more(v.holdersUnknown), v.waiting, more(v.waitersUnknown))
}

// now is what a reader sees after the last change.
func (q *queue) now() *view {
	if len(q.changes) == 0 {
		return &q.first
	}
	return &q.changes[len(q.changes)-1].after
}

func (v *view) equal(w *view) bool {
	return v.waiting == w.waiting && v.holdersUnknown == w.holdersUnknown && v.waitersUnknown == w.waitersUnknown && v.between == w.between &&
		slices.Equal(v.holders, w.holders)
}
