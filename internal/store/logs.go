package store

import (
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/raft"
)

// deleteChunk bounds one deletion: a transaction that deletes hundreds of thousands of entries holds up appends for half a second.
const deleteChunk = 8192

// sealedLogs reads and writes a medium's log with checksums, and knows its bounds. It fells no latch; guardedLogs does.
//
// The log has no gap: first..last are all there. An absent entry within the bounds is therefore damage, not news.
type sealedLogs struct {
	base  raft.LogStore
	chunk uint64 // most entries deleted at once

	mu          sync.Mutex
	first, last uint64 // 0, 0: empty
}

func openSealedLogs(base raft.LogStore) (*sealedLogs, error) {
	first, err := base.FirstIndex()
	if err != nil {
		return nil, fmt.Errorf("read first index: %w", err)
	}
	last, err := base.LastIndex()
	if err != nil {
		return nil, fmt.Errorf("read last index: %w", err)
	}
	return &sealedLogs{base: base, chunk: deleteChunk, first: first, last: last}, nil
}

func (l *sealedLogs) bounds() (first, last uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first, l.last
}

func (l *sealedLogs) setBounds(first, last uint64) {
	if first > last {
		first, last = 0, 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.first, l.last = first, last
}

func (l *sealedLogs) contains(index uint64) bool {
	first, last := l.bounds()
	return last != 0 && first <= index && index <= last
}

// get returns raft.ErrLogNotFound for an index outside the bounds, a *CorruptError for one within that is not as it was written.
func (l *sealedLogs) get(index uint64, out *raft.Log) error {
	if !l.contains(index) {
		return raft.ErrLogNotFound
	}
	var entry raft.Log
	err := l.base.GetLog(index, &entry)
	if err == nil {
		err = unseal(index, &entry)
	}
	switch {
	case err == nil:
		*out = entry
		return nil
	case errors.Is(err, ErrClosed), errors.Is(err, ErrCrashed):
		return err
	case errors.Is(err, raft.ErrLogNotFound) && !l.contains(index):
		return raft.ErrLogNotFound // deleted meanwhile
	default:
		return &CorruptError{What: fmt.Sprintf("log entry %d", index), Err: err}
	}
}

// append stores entries that follow the last one directly. Any entry may be the first of an empty log: it follows a snapshot.
func (l *sealedLogs) append(entries []*raft.Log) error {
	if len(entries) == 0 {
		return nil
	}
	first, last := l.bounds()
	sealed := make([]*raft.Log, len(entries))
	for i, e := range entries {
		if last != 0 && e.Index != last+1 {
			return fmt.Errorf("entry %d does not follow entry %d", e.Index, last)
		}
		sealed[i], last = seal(e), e.Index
	}
	if err := l.base.StoreLogs(sealed); err != nil {
		return err
	}
	if first == 0 {
		first = entries[0].Index
	}
	l.setBounds(first, last)
	return nil
}

// deletion is a planned removal from one end of the log, in an order that leaves no gap at whatever step the process dies.
type deletion struct{ from, to uint64 }

// planDeletion cuts [from, to] into steps. A head is deleted upwards. A tail, and the whole log, is deleted downwards: after a
// snapshot has replaced the log, a remainder at its beginning is covered by the snapshot, one at its end might not join it.
func (l *sealedLogs) planDeletion(from, to uint64) ([]deletion, error) {
	first, last := l.bounds()
	from, to = max(from, first), min(to, last)
	if last == 0 || from > to {
		return nil, nil
	}
	if from > first && to < last {
		return nil, fmt.Errorf("deleting entries %d to %d would leave a gap in %d to %d", from, to, first, last)
	}
	var steps []deletion
	if to < last {
		for ; from <= to; from += l.chunk {
			steps = append(steps, deletion{from, min(to, from+l.chunk-1)})
		}
		return steps, nil
	}
	for {
		if to-from < l.chunk {
			return append(steps, deletion{from, to}), nil
		}
		steps = append(steps, deletion{to - l.chunk + 1, to})
		to -= l.chunk
	}
}

// remove runs one step. The bounds shrink first, so that a reader that misses an entry finds it outside them.
func (l *sealedLogs) remove(d deletion) error {
	first, last := l.bounds()
	if d.to >= last {
		l.setBounds(first, d.from-1)
	} else {
		l.setBounds(d.to+1, last)
	}
	return l.base.DeleteRange(d.from, d.to)
}

// guardedLogs is raft's LogStore: latch and watchdog around a cache around the checksums. The latch is outermost, so that a failed
// member does not go on from its cache.
type guardedLogs struct {
	s      *Store
	sealed *sealedLogs
	recent recentLogs
}

func (l *guardedLogs) FirstIndex() (uint64, error) {
	first, _ := l.sealed.bounds()
	return first, l.s.usable()
}

func (l *guardedLogs) LastIndex() (uint64, error) {
	_, last := l.sealed.bounds()
	return last, l.s.usable()
}

// GetLog returns an error other than raft.ErrLogNotFound to raft's replication only. Any other caller's goroutine ends: raft
// panics when it cannot read an entry that it is to apply. One that is committed and not there at all is damage, too.
func (l *guardedLogs) GetLog(index uint64, out *raft.Log) error {
	err := l.get(index, out)
	switch {
	case err == nil:
	case errors.Is(err, raft.ErrLogNotFound):
		if applying() {
			_ = l.s.fail(corrupt("log", "committed entry %d is missing", index))
			endRaftGoroutine()
		}
	case !replicating():
		endRaftGoroutine()
	}
	return err
}

func (l *guardedLogs) get(index uint64, out *raft.Log) error {
	if err := l.s.usable(); err != nil {
		return err
	}
	if l.sealed.contains(index) && l.recent.get(index, out) {
		return nil
	}
	err := l.sealed.get(index, out)
	if err == nil || errors.Is(err, raft.ErrLogNotFound) {
		return err
	}
	return l.s.fail(fmt.Errorf("read log: %w", err))
}

func (l *guardedLogs) StoreLog(entry *raft.Log) error { return l.StoreLogs([]*raft.Log{entry}) }

func (l *guardedLogs) StoreLogs(entries []*raft.Log) error {
	if err := l.startAnew(entries); err != nil {
		return err
	}
	err := l.s.write("append to log", func() error { return l.sealed.append(entries) })
	if err != nil {
		return err
	}
	l.recent.add(entries)
	return nil
}

// startAnew empties a log that ends before the newest snapshot when the first entry after that snapshot comes: what is left of the log is covered, and would
// have a gap behind it.
//
// Not when the snapshot is installed, which is what raft does with a store that calls itself monotonic: it (v1.8.0) then empties the log whatever is in it, and goes on
// believing in the entries after the snapshot. A snapshot that comes twice, the second time behind entries that were acknowledged since, would
// lose these, and the process with them when raft comes to apply one.
func (l *guardedLogs) startAnew(entries []*raft.Log) error {
	first, last := l.sealed.bounds()
	if last == 0 || len(entries) == 0 || entries[0].Index <= last+1 {
		return nil
	}
	list, err := l.s.medium.snapshots.List()
	if err != nil {
		return l.s.fail(fmt.Errorf("list snapshots: %w", err))
	}
	if len(list) == 0 || list[0].Index+1 < entries[0].Index {
		return nil // a gap, which append refuses
	}
	return l.DeleteRange(first, last)
}

func (l *guardedLogs) DeleteRange(from, to uint64) error {
	steps, err := l.sealed.planDeletion(from, to)
	if err != nil {
		return l.s.fail(err)
	}
	l.recent.forget()
	for _, d := range steps {
		err := l.s.write("delete from log", func() error { return l.sealed.remove(d) })
		if err != nil {
			return err
		}
	}
	return l.s.usable()
}

// recentLogs keeps the latest entries as raft handed them over, so that replication does not read and decode each entry once per
// follower. raft.LogCache does the same, but returns the store's errors as text, and callers need to tell them apart.
type recentLogs struct {
	mu   sync.RWMutex
	ring [cachedEntries]*raft.Log
}

func (r *recentLogs) get(index uint64, out *raft.Log) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	l := r.ring[index%cachedEntries]
	if l == nil || l.Index != index {
		return false
	}
	*out = *l
	return true
}

func (r *recentLogs) add(entries []*raft.Log) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range entries {
		r.ring[l.Index%cachedEntries] = l
	}
}

func (r *recentLogs) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.ring[:])
}
