package quorumlock

import (
	"sync"
	"time"
)

// requests counts what raft has been asked for and has not answered.
//
// Raft v1.8.0 loses requests at its end: its goroutine that applies entries may see the shutdown before the committed entries that lie in its channel, and then nobody
// answers their futures, ever, so whoever waits for them stays. So nothing that could yet be committed may be under way when raft is shut down: the streams to the other
// voters are cut first, after which no entry that needs them is committed any more, and what was committed before gets the time to be applied. Without the others only a
// sole voter commits, by its own disk.
type requests struct {
	mu   sync.Mutex
	n    int
	over bool          // drain has begun
	none chan struct{} // closed when over, and n is zero
}

func newRequests() *requests { return &requests{none: make(chan struct{})} }

// drainBound is for entries that are committed and only have to be applied, which takes no waiting for anything; those that are not will be told that
// raft has ended.
const drainBound = 200 * time.Millisecond

// begin counts a request that is about to be made; false if none is to be made any more.
func (r *requests) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return false
	}
	r.n++
	return true
}

// any tells whether something has been asked for and not answered: from before raft is asked until its answer has been taken.
func (r *requests) any() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n > 0
}

// end counts an answer.
func (r *requests) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n--
	r.settle()
}

func (r *requests) settle() {
	if r.over && r.n == 0 {
		close(r.none)
	}
}

// drain lets no more requests begin, and waits until those that have are answered, for at most bound. It is called once.
func (r *requests) drain(bound time.Duration) {
	r.mu.Lock()
	r.over = true
	r.settle()
	r.mu.Unlock()
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-r.none:
	case <-timer.C:
	}
}
