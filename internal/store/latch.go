package store

import (
	"fmt"
	"sync/atomic"
)

// latch falls once and never rises. Its order is the point: the failure is recorded, then onFall runs (it cuts the raft streams),
// and only then does any caller learn of it. Otherwise raft would step down, or go on heartbeating, on streams still up.
type latch struct {
	onFall func(error)

	cause atomic.Pointer[error]
	told  chan struct{} // closed when onFall has returned
}

func newLatch(onFall func(error)) *latch {
	return &latch{onFall: onFall, told: make(chan struct{})}
}

// fall records the first cause and returns the error callers get. It blocks until onFall has returned, whoever ran it.
func (l *latch) fall(cause error) error {
	if l.cause.CompareAndSwap(nil, &cause) {
		defer close(l.told)
		if l.onFall != nil {
			l.onFall(cause)
		}
		return latched(cause)
	}
	return l.check()
}

// check returns nil while the latch is up.
func (l *latch) check() error {
	if l.cause.Load() == nil {
		return nil
	}
	<-l.told
	return latched(l.why())
}

func latched(cause error) error { return fmt.Errorf("store has failed: %w", cause) }

// why returns the cause without waiting, so that onFall may ask.
func (l *latch) why() error {
	if p := l.cause.Load(); p != nil {
		return *p
	}
	return nil
}
