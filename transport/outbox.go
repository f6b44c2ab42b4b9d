package transport

import (
	"io"
	"runtime"
	"sync"
)

const (
	outboxLimit  = 1 << 20   // bytes queued before senders wait
	outboxRetain = 256 << 10 // a larger buffer is not kept
)

// outbox gathers frames while a write is in flight: whoever sends appends to one buffer, one goroutine writes what is there.
// Under load this makes one system call for many frames, and an idle sender waits for no timer.
type outbox struct {
	mu     sync.Mutex
	buf    []byte
	spare  []byte // the buffer of the last write, to be filled next
	closed bool
	room   chan struct{} // made by who waits for room, closed when the buffer was taken
	wake   chan struct{} // one slot: buf is not empty, or closed
}

func newOutbox() *outbox { return &outbox{wake: make(chan struct{}, 1)} }

// offer queues a frame. If there is no room it returns a channel that is closed when it is worth to try again; with a nil channel
// the outbox is closed and will never take the frame.
func (o *outbox) offer(f *frame) (queued bool, retry <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return false, nil
	}
	if len(o.buf) > 0 && len(o.buf)+frameHeader+len(f.payload) > outboxLimit {
		if o.room == nil {
			o.room = make(chan struct{})
		}
		return false, o.room
	}
	o.buf = appendFrame(o.buf, f)
	o.signal()
	return true, nil
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// writeTo runs until the outbox is closed or w fails.
func (o *outbox) writeTo(w io.Writer) error {
	for {
		<-o.wake
		for {
			runtime.Gosched() // lets all who are ready to send append first; see the design note
			b, ok := o.take()
			if !ok {
				return nil
			}
			if len(b) == 0 {
				break
			}
			if _, err := w.Write(b); err != nil {
				return err
			}
			o.recycle(b)
		}
	}
}

func (o *outbox) take() (b []byte, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.buf) > 0 { // else both buffers stay where they are
		b, o.buf, o.spare = o.buf, o.spare, nil
	}
	o.freeRoom()
	return b, !o.closed
}

func (o *outbox) recycle(b []byte) {
	if cap(b) > outboxRetain {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.buf == nil {
		o.buf = b[:0]
	} else {
		o.spare = b[:0]
	}
}

func (o *outbox) freeRoom() {
	if o.room != nil {
		close(o.room)
		o.room = nil
	}
}

func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.buf, o.spare = nil, nil
	o.freeRoom()
	o.signal()
}
