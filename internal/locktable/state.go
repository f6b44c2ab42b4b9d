package locktable

import (
	"math"
	"strings"
	"time"

	"github.com/tidwall/btree"
)

// state is everything a snapshot carries, in copy-on-write trees of values that are replaced and never mutated. claims, queue and
// holds are three orders over the same immutable claims; waiting and drains are indexes that can be rebuilt from them.
type state struct {
	clusterID string
	counter   Rev
	index     uint64
	level     uint32
	maxTTL    time.Duration

	sessions *btree.Map[SessionID, session]
	claims   *btree.BTreeG[claimEntry]     // every live claim, by (session, sequence)
	queue    *btree.BTreeG[queueEntry]     // every live claim under each of its names, by (name, create revision)
	holds    *btree.BTreeG[holdEntry]      // held claims, by (session, token)
	waiting  *btree.Map[string, int]       // waiting claims per name; absent when none, so an uncontended name costs nothing
	drains   *btree.Map[Token, *claim]     // held claims with a drain going on
	finished *btree.BTreeG[FinishedRecord] // by (session, sequence)
	lost     *btree.BTreeG[LostRecord]     // by (session, revision)
	audit    *btree.Map[Rev, AuditRecord]
}

// owner is what a session is for its whole life; claims point to it.
type owner struct {
	id             SessionID
	node, nodeName string
	ttl            time.Duration
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
	return SessionRecord{ID: o.id, Node: o.node, NodeName: o.nodeName, TTL: o.ttl, RenewIndex: s.renewIndex, Floor: s.floor}
}

// claim is one live claim. It is immutable: a grant or a drain replaces it in every tree.
type claim struct {
	owner   *owner
	rev     Rev
	seq     uint64
	token   Token // zero while it waits
	created int64
	granted int64
	names   []string // shared by all versions of the claim
	note    string
	drain   *drain // nil unless a drain is going on
	mode    Mode
}

// drain is a forced release that waits for the holder to notice.
type drain struct {
	index       uint64
	rev         Rev
	note, actor string
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
		rev   Rev
		claim *claim
	}
	holdEntry struct {
		session SessionID
		token   Token
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
		drains:   btree.NewMap[Token, *claim](0),
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
	return a.rev < b.rev
}

func lessHold(a, b holdEntry) bool {
	if a.session != b.session {
		return a.session < b.session
	}
	return a.token < b.token
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
	c.holds, c.waiting, c.drains = s.holds.Copy(), s.waiting.Copy(), s.drains.Copy()
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
	if c.token == 0 {
		s.countWaiting(c, +1)
	}
}

// replace puts the next version of a claim in the place of the one before.
func (s *state) replace(old, next *claim) {
	s.link(next)
	if old.token == 0 && next.token != 0 {
		s.countWaiting(next, -1)
	}
}

func (s *state) link(c *claim) {
	s.claims.Set(claimEntry{c.owner.id, c.seq, c})
	for _, name := range c.names {
		s.queue.Set(queueEntry{name, c.rev, c})
	}
	if c.token != 0 {
		s.holds.Set(holdEntry{c.owner.id, c.token, c})
	}
	if c.drain != nil {
		s.drains.Set(c.token, c)
	}
}

// remove takes a claim out of every tree.
func (s *state) remove(c *claim) {
	s.claims.Delete(claimEntry{session: c.owner.id, seq: c.seq})
	for _, name := range c.names {
		s.queue.Delete(queueEntry{name: name, rev: c.rev})
	}
	if c.token == 0 {
		s.countWaiting(c, -1)
		return
	}
	s.holds.Delete(holdEntry{session: c.owner.id, token: c.token})
	s.drains.Delete(c.token)
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

// grantsSince are the holds of a session with a token above since, without those being drained: a node that has not heard of
// such a grant yet must not begin to believe in it.
func (s *state) grantsSince(id SessionID, since Rev) []Grant {
	if since == math.MaxInt64 {
		return nil
	}
	var grants []Grant
	s.holds.Ascend(holdEntry{session: id, token: Token(since) + 1}, func(e holdEntry) bool {
		if e.session != id {
			return false
		}
		if e.claim.drain == nil {
			grants = append(grants, Grant{Seq: e.claim.seq, Token: e.token})
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
