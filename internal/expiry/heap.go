package expiry

import "time"

// heap is a binary heap of items by key that knows where each item stands. Written out instead of container/heap, whose interface
// boxes each element: this is the inner loop of 100,000 sessions.
type heap struct{ items []*item }

func (h *heap) reached(clock time.Duration) bool {
	return len(h.items) > 0 && h.items[0].key <= clock
}

// wait is how long clock has to go until the front is reached.
func (h *heap) wait(clock time.Duration) time.Duration {
	if len(h.items) == 0 {
		return Never
	}
	return h.items[0].key - clock
}

func (h *heap) add(it *item, key time.Duration) {
	it.heap, it.key, it.pos = h, key, len(h.items)
	h.items = append(h.items, it)
	h.up(it.pos)
}

func (h *heap) remove(it *item) {
	last := len(h.items) - 1
	pos := it.pos
	h.swap(pos, last)
	h.items[last] = nil
	h.items = h.items[:last]
	it.heap = nil
	if pos < last {
		h.fix(pos)
	}
}

func (h *heap) rekey(it *item, key time.Duration) {
	it.key = key
	h.fix(it.pos)
}

// fix restores the order around an item whose key moved either way.
func (h *heap) fix(pos int) {
	if !h.down(pos) {
		h.up(pos)
	}
}

func (h *heap) up(pos int) {
	for pos > 0 {
		parent := (pos - 1) / 2
		if h.items[parent].key <= h.items[pos].key {
			return
		}
		h.swap(parent, pos)
		pos = parent
	}
}

func (h *heap) down(pos int) (moved bool) {
	for {
		child := 2*pos + 1
		if child >= len(h.items) {
			return moved
		}
		if right := child + 1; right < len(h.items) && h.items[right].key < h.items[child].key {
			child = right
		}
		if h.items[pos].key <= h.items[child].key {
			return moved
		}
		h.swap(pos, child)
		pos, moved = child, true
	}
}

func (h *heap) swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.items[i].pos, h.items[j].pos = i, j
}
