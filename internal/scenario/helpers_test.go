package scenario_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// bubble runs a test in fake time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

// lockIn takes a lock, for which bound must suffice.
func lockIn(t *testing.T, o quorumlock.Owner, name string, bound time.Duration) *quorumlock.Hold {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	h, err := quorumlock.NewMutex(o, name).Lock(ctx)
	if err != nil {
		t.Fatalf("lock %q within %v: %v", name, bound, err)
	}
	return h
}

// unlock releases what must still be held.
func unlock(t *testing.T, h *quorumlock.Hold) {
	t.Helper()
	if err := h.Unlock(); err != nil {
		t.Fatalf("unlock %q: %v", h.Name(), err)
	}
}

// endsIn fails the test if f takes longer than bound of fake time.
func endsIn(t *testing.T, what string, bound time.Duration, f func()) {
	t.Helper()
	start := time.Now()
	f()
	if took := time.Since(start); took > bound {
		t.Errorf("%s took %v, bound %v", what, took, bound)
	}
}

// traffic locks and unlocks one name from several nodes until stop, and checks that holds never overlap and that tokens rise.
type traffic struct {
	t    *testing.T
	name string
	quit chan struct{}
	done sync.WaitGroup

	mu     sync.Mutex
	holder *quorumlock.Hold
	last   quorumlock.Token
	grants int
	gap    time.Duration // longest time between two grants
	at     time.Time     // of the last grant
}

func newTraffic(t *testing.T, name string) *traffic {
	return &traffic{t: t, name: name, quit: make(chan struct{}), at: time.Now()}
}

// from adds a node to the traffic; its goroutine ends when the node is closed, or with stop.
func (r *traffic) from(o quorumlock.Owner) {
	r.done.Add(1)
	go func() {
		defer r.done.Done()
		for r.once(o) {
			time.Sleep(250 * time.Millisecond)
		}
	}()
}

func (r *traffic) once(o quorumlock.Owner) bool {
	select {
	case <-r.quit:
		return false
	default:
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	h, err := quorumlock.NewMutex(o, r.name).Lock(ctx)
	if err != nil {
		return !errors.Is(err, quorumlock.ErrClosed)
	}
	r.enter(h)
	time.Sleep(10 * time.Millisecond)
	r.leave(h)
	_ = h.Unlock()
	return true
}

func (r *traffic) enter(h *quorumlock.Hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.holder != nil && r.holder.Err() == nil {
		r.t.Errorf("token %v granted while %v holds", h.Token(), r.holder.Token())
	}
	if h.Token() <= r.last {
		r.t.Errorf("token %v after %v", h.Token(), r.last)
	}
	r.gap = max(r.gap, time.Since(r.at))
	r.holder, r.last, r.at = h, h.Token(), time.Now()
	r.grants++
}

func (r *traffic) leave(h *quorumlock.Hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.holder == h {
		r.holder = nil
	}
}

// seen is the number of grants so far and the longest gap between two since the last call.
func (r *traffic) seen() (grants int, gap time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	gap, r.gap = max(r.gap, time.Since(r.at)), 0
	return r.grants, gap
}

// count is the number of grants so far.
func (r *traffic) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.grants
}

// flows waits until some more grants have come.
func (r *traffic) flows(more int, bound time.Duration) {
	r.t.Helper()
	before := r.count()
	for end := time.Now().Add(bound); ; time.Sleep(100 * time.Millisecond) {
		came := r.count() - before
		if came >= more {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("%d grants in %v, want %d", came, bound, more)
		}
	}
}

// stop ends the traffic and waits for it.
func (r *traffic) stop() {
	close(r.quit)
	r.done.Wait()
}

// trafficOn runs traffic on all instances.
func trafficOn(t *testing.T, c *quorumlocktest.Cluster, name string) *traffic {
	r := newTraffic(t, name)
	for i := range c.Size() {
		r.from(c.Node(i))
	}
	return r
}
