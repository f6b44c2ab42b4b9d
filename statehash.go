package quorumlock

import (
	"sync"

	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/wire"
)

const (
	hashEvery       = 1024 // entries between two hash points of a state that is not large
	objectsPerEntry = 16   // a larger state has its points so far apart that no more objects than this are hashed for each entry applied
	keptHashes      = 8    // a member that is slower than another one still finds a common index
)

// hashInterval is the distance of hash points: a power of two, so that the points of a larger state are points of a smaller one
// too, and members whose states differ in size still have points in common.
func hashInterval(least uint64, objects int) uint64 {
	interval := least
	for interval < uint64(objects)/objectsPerEntry {
		interval *= 2
	}
	return interval
}

// isHashPoint tells whether a member takes the hash of its state after the entry at index. It depends on nothing but what is equal on all members that
// are right, so that they take theirs at the same indexes. (An index at which raft has an entry of its own is never applied, by anybody.)
func isHashPoint(index, least uint64, objects int) bool {
	return index%hashInterval(least, objects) == 0
}

func objectsIn(h locktable.Header) int { return h.Sessions + h.Claims + h.Finished + h.Lost + h.Audit }

// stateHashes takes the hashes of one member's state at the hash points and keeps the last few. Hashing goes on beside Apply, on a copy that costs
// nothing; a point that is reached before the hash of the former one is finished is passed over.
type stateHashes struct {
	least uint64 // hashEvery but in tests; a power of two
	// run starts a background task, and is false when none may start any more; goOn ends a hash that nobody waits for.
	run  func(func()) bool
	goOn func() bool
	// fresh has one slot: there is a hash that has not been compared.
	fresh chan struct{}

	mu     sync.Mutex
	busy   bool
	states uint64 // counts the states that a snapshot brought; a hash of the one before is of no interest any more
	points []wire.HashPoint
}

func newStateHashes() *stateHashes {
	return &stateHashes{least: hashEvery, fresh: make(chan struct{}, 1), goOn: func() bool { return true }}
}

// applied is called after each entry, by the goroutine that owns the table.
func (h *stateHashes) applied(index uint64, t *locktable.Table) {
	if index%h.least != 0 { // spares most entries the counting
		return
	}
	if !isHashPoint(index, h.least, objectsIn(t.Header())) {
		return
	}
	states, free := h.begin()
	if !free {
		return
	}
	view := t.Snapshot()
	started := h.run(func() {
		sum, done := view.HashWhile(h.goOn)
		h.end(states, wire.HashPoint{Index: index, Hash: sum}, done)
	})
	if !started {
		h.end(states, wire.HashPoint{}, false)
	}
}

func (h *stateHashes) begin() (states uint64, free bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.busy {
		return 0, false
	}
	h.busy = true
	return h.states, true
}

func (h *stateHashes) end(states uint64, p wire.HashPoint, done bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.busy = false
	if !done || states != h.states {
		return
	}
	if len(h.points) == keptHashes {
		h.points = h.points[1:]
	}
	h.points = append(h.points, p)
	select {
	case h.fresh <- struct{}{}:
	default:
	}
}

// replaced forgets the hashes: they are of a state that this member does not have any more.
func (h *stateHashes) replaced() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.states++
	h.points = nil
}

// last are the kept hashes by rising index.
func (h *stateHashes) last() []wire.HashPoint {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]wire.HashPoint(nil), h.points...)
}
