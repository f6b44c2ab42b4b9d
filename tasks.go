package quorumlock

import "sync"

// tasks owns background goroutines: none starts after close, and the channel that close gives is closed when all are gone.
type tasks struct {
	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
	gone   chan struct{} // made by close
}

func (t *tasks) start(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.wg.Add(1)
	go func() {
		defer t.wg.Done()
		f()
	}()
	return true
}

func (t *tasks) close() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.closed = true
		t.gone = make(chan struct{})
		go func() {
			t.wg.Wait()
			close(t.gone)
		}()
	}
	return t.gone
}

// signal wakes everybody who waits for "something changed": get gives a channel that is closed at the next raise. Take the channel before looking at what may
// change.
type signal struct {
	mu sync.Mutex
	ch chan struct{}
}

func newSignal() *signal { return &signal{ch: make(chan struct{})} }

func (s *signal) get() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ch
}

func (s *signal) raise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.ch)
	s.ch = make(chan struct{})
}
