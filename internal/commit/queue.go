package commit

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// place is where a call is on its way. It only moves forward.
type place uint8

const (
	queued    place = iota // in a queue; its caller may take it out
	inFlight               // in an entry; its caller may leave, the command goes on
	answered               // res and err are set and never change; a token is or will be in wake
	abandoned              // in an entry, and its caller has left: whoever settles the entry frees it
)

// call is one caller of Do. Batcher.mu guards place and the links. res and err belong to the runner until wake delivers them.
type call struct {
	cmd        *locktable.Command
	size       int
	at         time.Time // arrival; set for renewals only, nobody else is timed
	place      place
	prev, next *call
	res        locktable.Result
	err        *Error
	wake       chan struct{} // one slot, used once per Do, so the runner never waits for a caller
	party      *party        // which is told instead; nil for a call of Do
}

// tell wakes the caller; it never blocks.
func (k *call) tell() {
	if k.party != nil {
		k.party.told()
		return
	}
	k.wake <- struct{}{}
}

// newCall takes a call from the Batcher's pool. The pool is not the package's: channels made in one synctest bubble must not turn up
// in another.
func (b *Batcher) newCall(c *locktable.Command) *call {
	k, ok := b.calls.Get().(*call)
	if !ok {
		k = &call{wake: make(chan struct{}, 1)}
	}
	k.cmd, k.size = c, Size(c)
	return k
}

// free gives a call of Do back. The caller of free must be the only one who still knows it, and wake must be empty.
func (b *Batcher) free(k *call) {
	if k.party != nil {
		return
	}
	*k = call{wake: k.wake}
	b.calls.Put(k)
}

// queue is a list of calls in order of arrival. It is linked through the calls because a cancelled one leaves from the middle.
type queue struct {
	head, tail *call
	n, bytes   int
}

func (q *queue) push(k *call) {
	k.prev, k.next = q.tail, nil
	if q.tail == nil {
		q.head = k
	} else {
		q.tail.next = k
	}
	q.tail = k
	q.n++
	q.bytes += k.size
}

func (q *queue) remove(k *call) {
	if k.prev == nil {
		q.head = k.next
	} else {
		k.prev.next = k.next
	}
	if k.next == nil {
		q.tail = k.prev
	} else {
		k.next.prev = k.prev
	}
	k.prev, k.next = nil, nil
	q.n--
	q.bytes -= k.size
}

// entry is a set of calls on its way through the log. Its slices are reused.
type entry struct {
	calls []*call
	cmds  []*locktable.Command
	bytes int
}

func (e *entry) add(k *call) {
	k.place = inFlight
	e.calls = append(e.calls, k)
	e.cmds = append(e.cmds, k.cmd)
	e.bytes += k.size
}

func (e *entry) reset() {
	clear(e.calls) // reused slices must not keep answered calls and commands alive
	clear(e.cmds)
	e.calls, e.cmds, e.bytes = e.calls[:0], e.cmds[:0], 0
}
