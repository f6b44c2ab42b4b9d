package history

import (
	"crypto/sha256"
	"hash"
	"slices"
	"strings"
	"sync"
	"time"
)

// History is the record of one run of one cluster. Its methods are safe for concurrent use.
type History struct {
	start time.Time

	mu     sync.Mutex
	sum    hash.Hash
	buf    []byte // of the digest, reused
	calls  int
	failed int

	claims   map[string]*Claim
	acquired []claimCall
	unlocked []claimCall
	handed   []claimCall
	values   []claimCall
	shown    []shown
	reads    []read
	resized  []resizeCall
	opened   []sessionCall
	closed   []sessionCall

	held      map[string]instant  // last instant at which the hold of a claim was held by its own word
	ended     map[string]instant  // first instant at which it was given up, or said that it is not held
	handing   map[string]struct{} // claims whose hold was about to be handed over
	forcedNow map[int64]struct{}

	observers int64
	seen      map[int64]*sighting
	order     findings // what is wrong with the subscriptions, noted as it comes
	forked    bool     // two observers disagree about a revision: there is no one log
}

// New begins the history of a run that starts at start.
func New(start time.Time) *History {
	return &History{
		start: start, sum: sha256.New(), claims: make(map[string]*Claim), held: make(map[string]instant), ended: make(map[string]instant),
		handing: make(map[string]struct{}), forcedNow: make(map[int64]struct{}), seen: make(map[int64]*sighting),
	}
}

func (h *History) at(t time.Time) instant { return instant(t.Sub(h.start)) }

// begin notes one call of a kind; the caller holds mu.
func (h *History) begin(k kind, c Call, text string, numbers ...int64) call {
	h.calls++
	kept := call{c.Client, c.Lock, span{h.at(c.Start), h.at(c.End)}}
	h.digestCall(k, kept, text, numbers...)
	if kept.to < kept.from {
		h.order.add(Record, "%v: ended before it began", kept)
		kept.to = kept.from
	}
	return kept
}

// Asks records what the call that is about to begin asks for.
func (h *History) Asks(c Claim) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.digestClaim(&c)
	if h.claims[c.ID] != nil {
		h.order.add(Record, "claim %q is asked for twice", c.ID)
		return
	}
	c.Names = slices.Clone(c.Names)
	h.claims[c.ID] = &c
}

// Acquired records that a call gave a hold. token is what the hold said, 0 for permits.
func (h *History) Acquired(c Call, claim string, token int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acquired = append(h.acquired, claimCall{call: h.begin(kindAcquired, c, claim, token), claim: claim, token: token})
}

// Refused records that a try found the lock taken. holder is the claim that the error names, "" if it names none because others wait while none
// holds. Of a try for several names Lock is the one that the error is about, "" if it is about none because they were free by the time of a repeat.
func (h *History) Refused(c Call, claim, holder string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := read{call: h.begin(kindRefused, c, claim+"\x00"+holder), refused: true, asked: claim}
	if holder != "" {
		r.holders = []string{holder}
	}
	h.reads = append(h.reads, r)
}

// Failed records that an acquire ended with another error. It may have had an effect, which the log then shows, and so it says nothing that
// could be checked; it is counted.
func (h *History) Failed(c Call, claim string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.begin(kindFailed, c, claim)
	h.failed++
}

// Unlocked records the end of an Unlock, or of a Do. Its Call starts when Unlock was called, or when the callback of Do returned.
func (h *History) Unlocked(c Call, claim string, o Outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unlocked = append(h.unlocked, claimCall{call: h.begin(kindUnlocked, c, claim, int64(o)), claim: claim, outcome: o})
}

// HandsOver records that a hold is about to be handed over to a claim that waits.
func (h *History) HandsOver(claim string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.digest(kindHandsOver, claim)
	h.handing[claim] = struct{}{}
}

// HandedOver records how that ended. node is the server id of the one that it was for.
func (h *History) HandedOver(c Call, claim, node string, o Outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.handed = append(h.handed, claimCall{call: h.begin(kindHandedOver, c, claim+"\x00"+node, int64(o)), claim: claim, outcome: o, other: node})
}

// Proclaimed records the end of a call that set the value that a hold publishes. No two calls of a run set the same value.
func (h *History) Proclaimed(c Call, claim, value string, o Outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.values = append(h.values, claimCall{call: h.begin(kindProclaimed, c, claim+"\x00"+value, int64(o)), claim: claim, outcome: o, other: value})
}

// Resized records the end of a call that set the limit of the semaphore Lock, or with limit 0 had it forgotten.
func (h *History) Resized(c Call, limit int, o Outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.resized = append(h.resized, resizeCall{h.begin(kindResized, c, "", int64(limit), int64(o)), limit, o})
}

// Inspected records what an Inspect showed: the claims of all holders, and how many claims wait (LockInfo.Waiting, not the length of the Queue, which is
// cut).
func (h *History) Inspected(c Call, holders []string, waiting int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	text := strings.Join(holders, "\x00")
	kept := slices.Sorted(slices.Values(holders))
	h.reads = append(h.reads, read{call: h.begin(kindInspected, c, text, int64(waiting)), holders: kept, waiting: waiting})
}

// SessionOpened records that NewSession gave a session. The Call names no lock.
func (h *History) SessionOpened(c Call, session int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opened = append(h.opened, sessionCall{call: h.begin(kindSessionOpened, c, "", session), session: session})
}

// SessionClosed records that a session's Close returned. The Call names no lock.
func (h *History) SessionClosed(c Call, session int64, o Outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = append(h.closed, sessionCall{h.begin(kindSessionClosed, c, "", session, int64(o)), session, o})
}

// ForcedNow records that somebody is about to ask for the forced release at once of what is held under a token. Only needed where a hold may be draining: an
// event does not tell the end of a drain, before which the holder must have stopped, from a release at once in the middle of it. (If the reason given
// differs from that of the drain, the events do tell.)
func (h *History) ForcedNow(token int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.digest(kindForcedNow, "", token)
	h.forcedNow[token] = struct{}{}
}

// Held records that at this instant a hold said that it is held. It is asked as often as the run likes; best just when a next grant shows.
func (h *History) Held(claim string, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := h.at(at)
	h.digest(kindHeld, claim, int64(i))
	if last, known := h.held[claim]; !known || i > last {
		h.held[claim] = i
	}
}

// Ended records that from this instant on the owner of a hold does not claim to hold it: it is about to call Unlock or to give the hold away, or the hold reported
// its loss. The first instant counts.
func (h *History) Ended(claim string, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := h.at(at)
	h.digest(kindEnded, claim, int64(i))
	if first, known := h.ended[claim]; !known || i < first {
		h.ended[claim] = i
	}
}
