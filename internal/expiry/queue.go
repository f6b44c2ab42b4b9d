package expiry

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/clock"
)

// item is one thing being timed. It stands in exactly one heap of its queue.
type item struct {
	id      int64
	index   uint64
	rawDue  time.Duration // due when Raw has reached this
	bootDue time.Duration // and Boot this
	heap    *heap
	pos     int           // in heap.items
	key     time.Duration // position by which heap is ordered; at or before the item's true time there
}

// queue times items by the slower of two clocks. An item waits for Raw in the first heap, then for Boot in the second, then stands in due. As
// the clocks never go back, what a clock has passed it has passed for good, so this is exact whatever the two do.
//
// A renewal only moves the item's two times and leaves it where it stands: its key is then too early, which is noticed
// when the item comes to the front (advance). So each item costs one step in a heap per TTL, not one per renewal.
type queue struct {
	items map[int64]*item
	raw   heap
	boot  heap
	due   heap // ordered by Boot's time, so the longest overdue come first
}

func newQueue() *queue { return &queue{items: make(map[int64]*item)} }

func (q *queue) stamp(id int64, ttl time.Duration, index uint64, at clock.Reading) {
	it := q.items[id]
	if it == nil {
		it = &item{id: id}
		q.items[id] = it
	}
	it.index, it.rawDue, it.bootDue = index, at.Raw+ttl, at.Boot+ttl
	switch {
	case it.heap == &q.raw && it.key <= it.rawDue:
	case it.heap == &q.boot && it.key <= it.bootDue:
	default: // new, was due, or its time has come nearer (a shorter TTL)
		q.move(it, &q.raw, it.rawDue)
	}
}

func (q *queue) forget(id int64) {
	it := q.items[id]
	if it == nil {
		return
	}
	delete(q.items, id)
	it.heap.remove(it)
}

// budget bounds the steps of one advance, because the goroutine that applies the log waits for the same lock. After a long time without a question (a
// member that becomes leader) every key is too early at once.
const budget = 4096

// advance brings forward what a clock has passed and returns after how long the next item may follow.
func (q *queue) advance(now clock.Reading) time.Duration {
	for range budget {
		switch {
		case q.raw.reached(now.Raw):
			q.settle(q.raw.items[0], now)
		case q.boot.reached(now.Boot):
			q.settle(q.boot.items[0], now)
		default:
			return min(q.raw.wait(now.Raw), q.boot.wait(now.Boot))
		}
	}
	return 0
}

// settle puts an item whose key has been reached where it belongs at now.
func (q *queue) settle(it *item, now clock.Reading) {
	switch {
	case it.rawDue > now.Raw:
		q.move(it, &q.raw, it.rawDue)
	case it.bootDue > now.Boot:
		q.move(it, &q.boot, it.bootDue)
	default:
		q.move(it, &q.due, it.bootDue)
	}
}

func (q *queue) move(it *item, to *heap, key time.Duration) {
	if it.heap == to {
		to.rekey(it, key)
		return
	}
	if it.heap != nil {
		it.heap.remove(it)
	}
	to.add(it, key)
}

// first is up to limit due items. They are near the front of the heap rather than sorted: who is overdue longest comes
// first, the others in no promised order.
func (q *queue) first(limit int) []*item {
	return q.due.items[:max(min(limit, len(q.due.items)), 0)]
}
