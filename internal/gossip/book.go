package gossip

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	forgetAfter  = time.Hour        // a dead member's address is kept at least this long, if there is room
	maxEntries   = 10_000           // and never more than these; the longest dead go first
	maxLearned   = 1_000            // addresses told by Learn without a server id, or of members that are not alive
	keepLostDead = 64               // the latest dead members are kept for ever: they are how a lost group is found again
	maxContest   = 16               // members that a contested process goes to by itself; gossip tells the others
	claimLapses  = 15 * time.Second // a claimed address that the failure detector never confirmed
	provesLife   = 3 * time.Second  // an answer to a question shows its process alive for this long
	maxCopies    = 256              // processes remembered as copies
)

// entry is what is known of one server id: what the failure detector says, and a process that is believed against it.
type entry struct {
	rec      record // the latest process that the detector held for alive
	alive    bool
	touched  time.Time // the detector's last sign of life
	answered time.Time // when rec's process last answered a question itself
	claim    *claim    // nil for none
}

// claim is a process that is believed on its own word, or by the verdict of a duel, until the failure detector comes to know it, or touched+claimLapses.
type claim struct {
	rec     record
	touched time.Time
}

// seen is the process to believe in.
func (e *entry) seen() (rec record, alive bool) {
	if e.claim != nil {
		return e.claim.rec, true
	}
	return e.rec, e.alive
}

// same tells whether two entries look alike from outside.
func (e *entry) same(o *entry) bool {
	a, aliveA := e.seen()
	b, aliveB := o.seen()
	return a == b && aliveA == aliveB
}

// book is the phone book under both forms: the view that Members and Lookup answer from. It holds no opinion on who is alive;
// the failure detectors tell it. It is safe for concurrent use, calls nothing while its lock is held, and each change is
// reported by the returned bool.
type book struct {
	mu      sync.Mutex
	id      string
	self    record
	left    bool
	entries map[string]*entry      // by server id, without the own one
	learned map[string]time.Time   // addresses that were told, with the time
	told    map[string]string      // server id -> address told by Learn; counts only while the member is not alive
	copies  map[string]time.Time   // copyKey of processes found to be copies of another one under their id, with the time: never believed again
	foreign func(clusterID string) // told of other clusters of this name
	// contested is the time up to which this process insists on its address: others still believe in a former one of its id.
	contested time.Time
}

func newBook(id string, self record, foreign func(clusterID string)) *book {
	if foreign == nil {
		foreign = func(string) {}
	}
	return &book{
		id: id, self: self, foreign: foreign, entries: map[string]*entry{}, learned: map[string]time.Time{}, told: map[string]string{},
		copies: map[string]time.Time{},
	}
}

// own is the record this process publishes.
func (b *book) own() record {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.self
}

// admits says whether a member with record rec may be in this process's view.
func (b *book) admits(rec record) error {
	err := b.own().admits(rec)
	if errors.Is(err, errOtherID) {
		b.foreign(rec.meta.ClusterID)
	}
	return err
}

// setMeta changes the own record, if it can still be encoded.
func (b *book) setMeta(m Meta) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := b.self
	next.meta = m
	if _, err := next.encode(); err != nil {
		return err
	}
	b.self = next
	return nil
}

// leave takes this process out of its own view.
func (b *book) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = true
}

// confirm records that the failure detector holds id, as described by rec, for alive. That confirms a claim of the same process and overrules those of earlier
// ones. While a later one claims to be id, the detector may still speak of the process before it.
func (b *book) confirm(id string, rec record, now time.Time) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.copied(id, rec) {
		return false
	}
	next := entry{rec: rec, alive: true, touched: now}
	if e := b.entries[id]; e != nil {
		if rec.sameProcess(e.rec) {
			next.answered = e.answered
		}
		if e.claim != nil && rec.before(e.claim.rec) {
			next.claim = e.claim
		}
	}
	return b.put(id, &next)
}

// lost records the death of id's process rec. The death of a predecessor does not touch its successor, nor does that of a copy touch the original.
func (b *book) lost(id string, rec record, now time.Time) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[id]
	if e == nil || b.copied(id, rec) {
		return false
	}
	next := *e
	switch {
	case e.claim == nil && !e.alive:
		return false
	case e.claim != nil && rec.sameProcess(e.claim.rec):
		next.rec, next.alive, next.claim = e.claim.rec, false, nil
	default:
		next.alive = false
	}
	next.touched = now
	return b.put(id, &next)
}

// refuse drops id from the view: its latest word was not acceptable.
func (b *book) refuse(id string) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[id]
	if e == nil {
		return false
	}
	delete(b.entries, id)
	_, alive := e.seen()
	return alive
}

// put stores e; the lock is held.
func (b *book) put(id string, e *entry) (changed bool) {
	if id == b.id {
		return false
	}
	old := b.entries[id]
	b.entries[id] = e
	delete(b.told, id)
	return old == nil || !old.same(e)
}

// learn remembers an address that was told from elsewhere. id may be empty.
func (b *book) learn(id, addr string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.learned[addr] = now
	dropOldest(b.learned, maxLearned)
	e := b.entries[id]
	if id == "" || id == b.id {
		return
	}
	if e != nil {
		if _, alive := e.seen(); alive {
			return
		}
	}
	if _, known := b.told[id]; known || len(b.told) < maxEntries {
		b.told[id] = addr
	}
}

// lookup gives the last known address: an alive member's own word, else what Learn told, else where it was last seen.
func (b *book) lookup(id string) (addr string, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if id == b.id {
		return b.self.addr, true
	}
	if addr, ok = b.told[id]; ok {
		return addr, true
	}
	if e := b.entries[id]; e != nil {
		rec, _ := e.seen()
		return rec.addr, true
	}
	return "", false
}

// members lists who is alive and admissible, ordered by server id.
func (b *book) members() []Member {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]Member, 0, len(b.entries)+1)
	if !b.left {
		list = append(list, Member{ServerID: b.id, Addr: b.self.addr, Meta: b.self.meta})
	}
	for id, e := range b.entries {
		// Asked at each reading, because the own cluster id comes later than the first members.
		if rec, alive := e.seen(); alive && b.self.admits(rec) == nil {
			list = append(list, Member{ServerID: id, Addr: rec.addr, Meta: rec.meta})
		}
	}
	slices.SortFunc(list, func(x, y Member) int { return cmp.Compare(x.ServerID, y.ServerID) })
	return list
}

// contest makes missing list present members too for a while, so that they hear of this process as soon as they let go of its
// former address.
func (b *book) contest(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.contested = now.Add(claimLapses)
}

// missing lists the addresses to go to: those where members were or might be and are not seen alive (learned ones and those of
// the dead), and in a contest some of the others.
func (b *book) missing(now time.Time) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	want := map[string]bool{}
	for addr := range b.learned {
		want[addr] = true
	}
	for _, e := range b.entries {
		// A claim is not known to the failure detector yet: going there is what makes it known.
		if e.claim != nil {
			want[e.claim.rec.addr] = true
		} else if !e.alive {
			want[e.rec.addr] = true
		}
	}
	b.dropPresent(want)
	if now.Before(b.contested) {
		ids := slices.Sorted(maps.Keys(b.entries))
		for _, id := range ids[:min(len(ids), maxContest)] {
			rec, _ := b.entries[id].seen()
			want[rec.addr] = true
		}
	}
	return slices.Sorted(maps.Keys(want))
}

// absent keeps those of addrs at which no member is alive.
func (b *book) absent(addrs []string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	want := make(map[string]bool, len(addrs))
	for _, addr := range addrs {
		want[addr] = true
	}
	b.dropPresent(want)
	return slices.Sorted(maps.Keys(want))
}

// dropPresent takes the own address and those of confirmed members out of want; the lock is held.
func (b *book) dropPresent(want map[string]bool) {
	delete(want, b.self.addr)
	for _, e := range b.entries {
		if e.alive && e.claim == nil {
			delete(want, e.rec.addr)
		}
	}
}

// sweep lets claims lapse and forgets what need not be kept.
func (b *book) sweep(now time.Time) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	dead := make(map[string]time.Time)
	for id, e := range b.entries {
		if e.claim != nil && now.Sub(e.claim.touched) > claimLapses {
			changed = e.lapse() || changed
		}
		if _, alive := e.seen(); !alive {
			dead[id] = e.touched
		}
	}
	room := max(maxEntries-(len(b.entries)-len(dead)), 0)
	keep := min(len(dead), room)
	latest := slices.SortedFunc(maps.Keys(dead), func(x, y string) int { return dead[y].Compare(dead[x]) })
	for i, id := range latest {
		if i >= keep || (i >= keepLostDead && now.Sub(dead[id]) > forgetAfter) {
			delete(b.entries, id)
		}
	}
	return changed
}

// dropOldest bounds a map of times.
func dropOldest(m map[string]time.Time, limit int) {
	for len(m) > limit {
		oldest := ""
		for key, at := range m {
			if oldest == "" || at.Before(m[oldest]) {
				oldest = key
			}
		}
		delete(m, oldest)
	}
}
