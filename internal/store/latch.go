package store

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// latch falls once and never rises. Its order is the point: the failure is recorded, then onFall runs (it cuts the raft streams),
// and only then does any caller learn of it. Otherwise raft would step down, or go on heartbeating, on streams still up.
type latch struct {
	onFall func(error)

	once  sync.Once
	cause atomic.Pointer[error]
	told  chan struct{} // closed when onFall has returned
}

func newLatch(onFall func(error)) *latch {
	return &latch{onFall: onFall, told: make(chan struct{})}
}

// fall records the first cause and returns the error callers get. It blocks until onFall has returned, whoever ran it.
func (l *latch) fall(cause error) error {
	l.once.Do(func() {
		l.cause.Store(&cause)
		defer close(l.told)
		if l.onFall != nil {
			l.onFall(cause)
		}
	})
	return l.check()
}

// check returns nil while the latch is up.
func (l *latch) check() error {
	if l.cause.Load() == nil {
		return nil
	}
	<-l.told
	return fmt.Errorf("store has failed: %w", l.why())
}

// why returns the cause without waiting, so that onFall may ask.
func (l *latch) why() error {
	if p := l.cause.Load(); p != nil {
		return *p
	}
	return nil
}
