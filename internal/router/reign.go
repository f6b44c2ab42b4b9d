package router

import (
	"context"
	"sync"
	"time"
)

// lastWords is how long a leader that was replaced may still answer: if it handed over, what it has just committed is on its way, and
// asking its successor the same would only be dearer. If it is dead, this is little beside the election.
const lastWords = 50 * time.Millisecond

// target is whom an attempt asks.
type target struct {
	Peer
	changed <-chan struct{} // if it is asked as the leader, or for want of one: closed when another one may lead
}

// reigns ends the attempts at a leader that is not the leader any more: a dead one would not answer them for their whole bound, while its
// successor could. One goroutine watches for all attempts at the same leader, so that an attempt costs no goroutine of its own. Members that are
// asked while nobody leads may be dead in the same way.
type reigns struct {
	leader func() (Peer, <-chan struct{})

	mu      sync.Mutex
	id      string          // the leader that was asked last
	over    context.Context // ends with its reign; a context because AfterFunc needs no goroutine to wait for one
	ended   bool            // no goroutine starts any more
	stopped chan struct{}   // closed with it
	running sync.WaitGroup
}

func newReigns(leader func() (Peer, <-chan struct{})) *reigns {
	return &reigns{leader: leader, stopped: make(chan struct{})}
}

// ends calls cancel once another one leads, if to is asked as the leader or for want of one, unless release is called before.
func (r *reigns) ends(to target, cancel func()) (release func() bool) {
	if to.changed == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(r.reign(to), cancel)
}

// reign gives a context that ends when this node has known another leader than to for lastWords.
func (r *reigns) reign(to target) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.ended:
		return context.Background()
	case r.id == to.ID && r.over.Err() == nil:
		return r.over
	}
	over, end := context.WithCancel(context.Background())
	r.id, r.over = to.ID, over
	r.running.Go(func() {
		if r.outlast(to) {
			end()
		}
	})
	return over
}

// outlast returns true after the reign of a leader, or false when the Router stops before. No leader at all ends no reign: there is nobody
// better to ask, and the old one may yet answer.
func (r *reigns) outlast(leader target) bool {
	for {
		select {
		case <-leader.changed:
		case <-r.stopped:
			return false
		}
		var now Peer
		if now, leader.changed = r.leader(); now.ID != "" && now.ID != leader.ID {
			return !sleep(context.Background(), lastWords, r.stopped)
		}
	}
}

// wait ends the goroutines and returns when they are gone. Attempts after it have their own bounds only.
func (r *reigns) wait() {
	r.end()
	r.running.Wait()
}

func (r *reigns) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.ended = true
		close(r.stopped)
	}
}
