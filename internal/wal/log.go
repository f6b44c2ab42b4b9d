package wal

import (
	"fmt"
	"sync"
)

// defaultSegment is the size of a segment file. Three of them exist at least: the one in use and two that are ready or being made.
const defaultSegment = 4 << 20

// keptBuffer is the most that a buffer for batches holds on to between two of them.
const keptBuffer = 1 << 20

// Options of a log.
type Options struct {
	// SegmentBytes is the size of a segment file, rounded up to a sector; default: 4 MiB. An entry that does not fit makes one
	// larger. A log may be opened with another value than it was made with.
	SegmentBytes int

	// inline makes the next segment within the write that wants it, and not beside it: tests that count each step want that.
	inline bool
}

func (o Options) sectors() uint32 {
	size := o.SegmentBytes
	if size <= 0 {
		size = defaultSegment
	}
	return uint32(1 + max(1, (min(size, maxSegment)-1)/sectorSize))
}

// Log is a log, open. Append, TruncateHead, TruncateTail and Close go one at a time; Get and Bounds may be called at any time.
//
// The entries have consecutive indexes. After the first write that fails all further ones fail with the same error: what is in the
// file is unknown then, and a sync that failed once may succeed the next time without having written anything.
type Log struct {
	fs      FS
	id      uint64
	sectors uint32 // of a segment
	inline  bool

	// The writer's own.
	at      uint32 // the next free sector of the current segment
	batch   uint64 // the number of the next batch
	spares  []*segment
	coming  chan prepared // the spare that is being made; nil: none
	failed  error
	payload []byte
	buffer  []byte

	mu       sync.RWMutex // for what follows; a reader holds it while it reads a file
	segments []*segment   // those in use, oldest first; the last is the current one
	first    uint64       // index of places[0]
	places   []place      // of the entries, in order
	closed   bool
}

// place is where the bytes of an entry begin.
type place struct {
	segment *segment
	sector  uint32
	size    uint32
	skip    uint16 // payload bytes of the sector before it
}

type prepared struct {
	segment *segment
	err     error
}

// Bounds returns the first and the last index; 0 and 0 if the log is empty.
func (l *Log) Bounds() (first, last uint64) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.bounds()
}

func (l *Log) bounds() (first, last uint64) {
	if len(l.places) == 0 {
		return 0, 0
	}
	return l.first, l.first + uint64(len(l.places)) - 1
}

// Get returns the bytes of an entry as they were appended, ErrNotFound outside the bounds, a *CorruptError if they are not there
// any more, or the error of the file.
func (l *Log) Get(index uint64) ([]byte, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return nil, ErrClosed
	}
	first, last := l.bounds()
	if last == 0 || index < first || index > last {
		return nil, ErrNotFound
	}
	return l.places[index-first].read()
}

func (p place) read() ([]byte, error) {
	parts := sectorsFor(int(p.skip) + int(p.size))
	raw := make([]byte, parts*sectorSize)
	if n, err := p.segment.file.ReadAt(raw, int64(p.sector)*sectorSize); n < len(raw) {
		return nil, fmt.Errorf("read log segment %s: %w", p.segment.name(), err)
	}
	data := raw[:0] // never ahead of what is read
	skip := int(p.skip)
	for i := range parts {
		sector := raw[i*sectorSize : (i+1)*sectorSize]
		h, ok := p.segment.open(p.sector+uint32(i), sector)
		if !ok || h.used < skip {
			return nil, corrupt(p.segment.name(), "sector %d is not what was written there", p.sector+uint32(i))
		}
		n := min(h.used-skip, int(p.size)-len(data))
		data = append(data, sector[sectorHead+skip:sectorHead+skip+n]...)
		skip = 0
	}
	if len(data) < int(p.size) {
		return nil, corrupt(p.segment.name(), "an entry at sector %d is cut short", p.sector)
	}
	return data[:len(data):len(data)], nil
}

// Append stores entries, the first of which follows the last one of the log directly; in an empty log it may have any index but 0.
// They are durable when it returns. After a crash in between, the first few of them may be there.
func (l *Log) Append(first uint64, entries [][]byte) error {
	_, last := l.Bounds()
	switch {
	case first == 0:
		return fmt.Errorf("append to log: an entry has no index")
	case last != 0 && first != last+1:
		return fmt.Errorf("append to log: entry %d does not follow entry %d", first, last)
	}
	for i, e := range entries {
		if len(e) > maxSegment {
			return fmt.Errorf("append to log: entry %d has %d bytes, at most %d can be stored", first+uint64(i), len(e), maxSegment)
		}
	}
	for len(entries) > 0 {
		n, size := l.admit(entries)
		if n == 0 {
			if err := l.roll(size); err != nil {
				return err
			}
			continue
		}
		if err := l.appendBatch(first, entries[:n]); err != nil {
			return err
		}
		first += uint64(n)
		entries = entries[n:]
	}
	return nil
}

// admit returns how many entries have room in the current segment, and the payload that the first one is.
func (l *Log) admit(entries [][]byte) (n, first int) {
	size, segment := 0, l.current()
	for _, e := range entries {
		if size += entryHead + len(e); !segment.fits(size, l.at) {
			break
		}
		n++
	}
	return n, entryHead + len(entries[0])
}

func (l *Log) appendBatch(first uint64, entries [][]byte) error {
	payload := l.payload[:0]
	places := make([]place, len(entries))
	for i, e := range entries {
		payload = appendEntry(payload, first+uint64(i), e)
		places[i] = placeAt(l.current(), l.at, len(payload)-len(e), len(e))
	}
	if err := l.write(payload); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.places) == 0 {
		l.first = first
	}
	l.places = append(l.places, places...)
	return nil
}

// placeAt is the place of what begins at an offset of the payload of a batch.
func placeAt(s *segment, sector uint32, offset, size int) place {
	return place{segment: s, sector: sector + uint32(offset/sectorRoom), skip: uint16(offset % sectorRoom), size: uint32(size)}
}

// TruncateHead removes the entries before first, for good when it returns.
func (l *Log) TruncateHead(first uint64) error {
	if have, last := l.Bounds(); last == 0 || first <= have {
		return nil
	}
	if err := l.mark(recordHead, first); err != nil {
		return err
	}
	l.dropHead(first)
	return l.reclaim()
}

// TruncateTail removes the entries after last, for good when it returns. If none is left, any index may be appended next.
func (l *Log) TruncateTail(last uint64) error {
	first, have := l.Bounds()
	if have <= last {
		return nil
	}
	if last < first {
		last = 0 // a head that was not removed to the end must not come back under what is appended next
	}
	if err := l.mark(recordTail, last); err != nil {
		return err
	}
	l.dropTail(last)
	return l.reclaim()
}

func (l *Log) dropHead(first uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, last := l.bounds(); first > last {
		l.places = nil
	} else if first > l.first {
		l.places = l.places[first-l.first:]
		l.first = first
	}
}

func (l *Log) dropTail(last uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last < l.first {
		l.places = nil
	} else if keep := last - l.first + 1; keep < uint64(len(l.places)) {
		clear(l.places[keep:])
		l.places = l.places[:keep]
	}
}

func (l *Log) mark(kind byte, index uint64) error {
	if !l.current().fits(markSize, l.at) {
		if err := l.roll(markSize); err != nil {
			return err
		}
	}
	return l.write(appendMark(l.payload[:0], kind, index))
}

func (l *Log) current() *segment { return l.segments[len(l.segments)-1] }

// write makes one batch durable. It has room.
func (l *Log) write(payload []byte) error {
	if l.failed != nil {
		return l.failed
	}
	s := l.current()
	buffer := s.cut(l.buffer[:0], payload, l.at, l.batch)
	if cap(payload) <= keptBuffer && cap(buffer) <= keptBuffer {
		l.payload, l.buffer = payload, buffer
	} else {
		l.payload, l.buffer = nil, nil
	}
	if _, err := s.file.WriteAt(buffer, int64(l.at)*sectorSize); err != nil {
		return l.fail("write", s, err)
	}
	if err := s.file.Sync(); err != nil {
		return l.fail("sync", s, err)
	}
	l.at += uint32(len(buffer) / sectorSize)
	l.batch++
	return nil
}

func (l *Log) fail(what string, s *segment, err error) error {
	l.failed = fmt.Errorf("%s log segment %s: %w", what, s.name(), err)
	return l.failed
}
