package locktable

import (
	"math"
	"strings"
	"time"

	"github.com/tidwall/btree"
)

// state is everything a snapshot carries, in copy-on-write trees of values that are replaced and never mutated. claims, queue and
// holds are three orders over the same immutable claims; waiting, uses and drains are indexes that can be rebuilt from them (and from the limits).
type state struct {
	clusterID string
	counter   Rev
	index     uint64
	level     uint32
	maxTTL    time.Duration
	// quarantine: there are no claims as long as it is not zero.
	quarantine Quarantine

	sessions *btree.Map[SessionID, session]
	claims   *btree.BTreeG[claimEntry] // every live claim but the barred ones, by (session, sequence)
	queue    *btree.BTreeG[queueEntry] // every live claim under each of its names, by (name, place)
	holds    *btree.BTreeG[holdEntry]  // held claims but the barred ones, by (session, grant)
	waiting  *btree.Map[string, int]   // waiting claims per name; absent when none, so an uncontended name costs nothing
	uses     *btree.Map[string, use]   // names held in a mode that several can share, and semaphores; absent for all others
	drains   *btree.Map[Rev, *claim]   // held claims with a drain or a lock delay going on, by grant

	barred     int                           // claims of which only the lock delay is left
	semaphores int                           // uses that are semaphores
	limitsSet  int                           // of them, those whose limit was set by a command
	finished   *btree.BTreeG[FinishedRecord] // by (session, sequence)
	lost       *btree.BTreeG[LostRecord]     // by (session, revision)
	audit      *btree.Map[Rev, AuditRecord]
}

// owner is what a session is for its whole life; claims point to it.
type owner struct {
	id             SessionID
	node, nodeName string
	ttl            time.Duration
	incarnation    string
	opened         int64 // wall, ms; zero if unknown
}

// session is kept by value: a renewal writes in place in an unshared tree node and allocates nothing.
type session struct {
	owner      *owner
	renewIndex uint64
	floor      uint64
	finished   int // records in state.finished
	lost       int // records in state.lost
}

func (s session) record() SessionRecord {
	o := s.owner
	return SessionRecord{
		ID: o.id, Node: o.node, NodeName: o.nodeName, TTL: o.ttl, Incarnation: o.incarnation, RenewIndex: s.renewIndex, Floor: s.floor,
		Opened: o.opened,
	}
}

// claim is one live claim. It is immutable: a grant or a drain replaces it in every tree.
type claim struct {
	owner   *owner
	rev     Rev // create revision
	pos     Rev // place in its queues: rev, unless the claim took the place of a hold (move.go)
	seq     uint64
	grant   Rev // revision of the grant; zero while it waits
	token   Token
	created int64
	granted int64
	names   []string // shared by all versions of the claim
	note    string
	terms   *terms // nil if it has none of them
	drain   *drain // nil unless a drain, or the lock delay of a barred claim, is going on
	count   uint32 // permits
	mode    Mode
	barred  bool // the hold has ended, and its session knows nothing of it any more; only the lock delay keeps it in its queues
}

// terms is what few claims have. It is replaced as a whole.
type terms struct {
	value string
	delay time.Duration
	offer string // OfferHash of the secret that gives the hold away
}

// with are the claim's terms after a change; nil if nothing is left of them.
func (c *claim) with(change func(*terms)) *terms {
	var t terms
	if c.terms != nil {
		t = *c.terms
	}
	if change(&t); t == (terms{}) {
		return nil
	}
	return &t
}

func (c *claim) value() string {
	if c.terms == nil {
		return ""
	}
	return c.terms.value
}

func (c *claim) delay() time.Duration {
	if c.terms == nil {
		return 0
	}
	return c.terms.delay
}

// offered says that the hold waits to be taken over.
func (c *claim) offered() bool { return c.terms != nil && c.terms.offer != "" && !c.barred }

// drain is a forced release that waits for the holder to notice, or a lock delay.
type drain struct {
	index       uint64
	rev         Rev
	note, actor string
}

// wait is how long the leader waits before it ends the claim's drain or lock delay. A barred claim may have no session any more whose TTL could count.
func (c *claim) wait() time.Duration {
	if c.barred {
		return c.delay()
	}
	return c.owner.ttl
}

// Entries carry their keys beside the pointer: comparing costs no load of the claim, and a pivot needs no allocation.
type (
	claimEntry struct {
		session SessionID
		seq     uint64
		claim   *claim
	}
	queueEntry struct {
		name  string
		pos   Rev
		claim *claim
	}
	holdEntry struct {
		session SessionID
		grant   Rev
		claim   *claim
	}
)

func newState() state {
	return state{
		sessions: btree.NewMap[SessionID, session](0),
		claims:   newTree(lessClaim),
		queue:    newTree(lessQueue),
		holds:    newTree(lessHold),
		waiting:  btree.NewMap[string, int](0),
		uses:     btree.NewMap[string, use](0),
		drains:   btree.NewMap[Rev, *claim](0),
		finished: newTree(lessFinished),
		lost:     newTree(lessLost),
		audit:    btree.NewMap[Rev, AuditRecord](0),
	}
}

// newTree makes a tree without locks: one goroutine writes, and copies are only read. The orders take values, not pointers: behind a
// function value a pointer's target would be allocated at every comparison.
func newTree[T any](less func(a, b T) bool) *btree.BTreeG[T] {
	return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
}

func lessClaim(a, b claimEntry) bool {
	if a.session != b.session {
		return a.session < b.session
	}
	return a.seq < b.seq
}

func lessQueue(a, b queueEntry) bool {
	if c := strings.Compare(a.name, b.name); c != 0 {
		return c < 0
	}
	return a.pos < b.pos
}

func lessHold(a, b holdEntry) bool {
	if a.session != b.session {
		return a.session < b.session
	}
	return a.grant < b.grant
}

func lessFinished(a, b FinishedRecord) bool {
	if a.Session != b.Session {
		return a.Session < b.Session
	}
	return a.Seq < b.Seq
}

func lessLost(a, b LostRecord) bool {
	if a.Session != b.Session {
		return a.Session < b.Session
	}
	return a.Lost.Rev < b.Lost.Rev
}

// share is a copy in constant time. Both sides copy a tree node when they first write to it.
func (s *state) share() state {
	c := *s
	c.sessions, c.claims, c.queue = s.sessions.Copy(), s.claims.Copy(), s.queue.Copy()
	c.holds, c.waiting, c.uses, c.drains = s.holds.Copy(), s.waiting.Copy(), s.uses.Copy(), s.drains.Copy()
	c.finished, c.lost, c.audit = s.finished.Copy(), s.lost.Copy(), s.audit.Copy()
	return c
}

// claim is the live claim of a sequence, or nil.
func (s *state) claim(id SessionID, seq uint64) *claim {
	e, _ := s.claims.Get(claimEntry{session: id, seq: seq})
	return e.claim
}

// insert adds a claim that was not there.
func (s *state) insert(c *claim) {
	s.link(c)
	s.count(c, +1)
}

// replace puts the next version of a claim, or the claim that takes its place, where it was. The new one is counted first: a name that is
// shared is never seen without its last holder in between.
func (s *state) replace(old, next *claim) {
	s.unlink(old, next)
	s.link(next)
	s.count(next, +1)
	s.count(old, -1)
}

// remove takes a claim out of every tree.
func (s *state) remove(c *claim) {
	s.unlink(c, nil)
	s.count(c, -1)
}

func (s *state) link(c *claim) {
	for _, name := range c.names {
		s.queue.Set(queueEntry{name, c.pos, c})
	}
	if c.drain != nil {
		s.drains.Set(c.grant, c)
	}
	if c.barred {
		return
	}
	s.claims.Set(claimEntry{c.owner.id, c.seq, c})
	if c.grant != 0 {
		s.holds.Set(holdEntry{c.owner.id, c.grant, c})
	}
}

// unlink deletes the entries of old that next, if there is one, will not overwrite.
func (s *state) unlink(old, next *claim) {
	if next == nil || next.pos != old.pos {
		for _, name := range old.names {
			s.queue.Delete(queueEntry{name: name, pos: old.pos})
		}
	}
	if old.drain != nil && (next == nil || next.drain == nil || next.grant != old.grant) {
		s.drains.Delete(old.grant)
	}
	if old.barred {
		return
	}
	stays := next != nil && !next.barred && next.owner == old.owner
	if !stays || next.seq != old.seq {
		s.claims.Delete(claimEntry{session: old.owner.id, seq: old.seq})
	}
	if old.grant != 0 && (!stays || next.grant != old.grant) {
		s.holds.Delete(holdEntry{session: old.owner.id, grant: old.grant})
	}
}

// count keeps the counters of the claim's names.
func (s *state) count(c *claim, by int) {
	if c.barred {
		s.barred += by
	}
	if c.grant == 0 {
		s.countWaiting(c, by)
	} else if c.mode != Exclusive {
		s.countUse(c, by)
	}
	if c.mode == Permits && by < 0 {
		s.tidyUse(c.names[0])
	}
}

func (s *state) countWaiting(c *claim, by int) {
	for _, name := range c.names {
		n, _ := s.waiting.Get(name)
		if n += by; n == 0 {
			s.waiting.Delete(name)
		} else {
			s.waiting.Set(name, n)
		}
	}
}

// claimsOf are all live claims of a session, by sequence.
func (s *state) claimsOf(id SessionID) []*claim {
	var all []*claim
	s.claims.Ascend(claimEntry{session: id}, func(e claimEntry) bool {
		if e.session != id {
			return false
		}
		all = append(all, e.claim)
		return true
	})
	return all
}

// grantsSince are the holds of a session granted after since, without those being drained: a node that has not heard of
// such a grant yet must not begin to believe in it.
func (s *state) grantsSince(id SessionID, since Rev) []Grant {
	if since == math.MaxInt64 {
		return nil
	}
	var grants []Grant
	s.holds.Ascend(holdEntry{session: id, grant: since + 1}, func(e holdEntry) bool {
		if e.session != id {
			return false
		}
		if e.claim.drain == nil {
			grants = append(grants, Grant{Seq: e.claim.seq, Token: e.claim.token})
		}
		return true
	})
	return grants
}

// deleteWhile deletes the items from pivot on for as long as they match and returns how many they were. It collects them first,
// because a tree must not change under an iteration.
func deleteWhile[T any](tree *btree.BTreeG[T], pivot T, match func(T) bool) int {
	var doomed []T
	tree.Ascend(pivot, func(item T) bool {
		if !match(item) {
			return false
		}
		doomed = append(doomed, item)
		return true
	})
	for _, item := range doomed {
		tree.Delete(item)
	}
	return len(doomed)
}
