package wal

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Create makes an empty log in an empty directory. It is there for good when it returns; what an interrupted Create leaves must be
// removed before the next one.
func Create(fs FS, opt Options) (*Log, error) {
	names, err := fs.List()
	if err != nil {
		return nil, fmt.Errorf("create log: %w", err)
	}
	if len(names) > 0 {
		return nil, fmt.Errorf("create log: the directory holds %s already", names[0])
	}
	l := &Log{fs: fs, sectors: opt.sectors(), inline: opt.inline, at: 1, batch: 1}
	for l.id == 0 {
		var id [8]byte
		_, _ = rand.Read(id[:]) // documented never to fail
		l.id = binary.LittleEndian.Uint64(id[:])
	}
	for number := uint64(1); number <= 2; number++ {
		s, err := l.prepare(number, l.sectors)
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		if number == 1 {
			l.segments = []*segment{s}
		} else {
			l.spares = []*segment{s}
		}
	}
	l.order()
	return l, nil
}

// Open opens a log and reads the whole of it. A batch whose write was cut short was never promised to anybody and is removed.
// Anything else that is not what was written is a *CorruptError, and so is a segment that is missing at the end or in the middle.
// One that is missing at the beginning looks like a head that was removed; who knows what the log joins finds that out.
func Open(fs FS, opt Options) (*Log, error) {
	l := &Log{fs: fs, sectors: opt.sectors(), inline: opt.inline}
	if err := l.recover(); err != nil {
		return nil, errors.Join(fmt.Errorf("open log: %w", err), l.Close())
	}
	return l, nil
}

func (l *Log) recover() error {
	numbers, temps, err := l.list()
	if err != nil {
		return err
	}
	torn, err := l.replay(numbers)
	if err != nil {
		return err
	}
	for _, name := range temps {
		if err := l.fs.Remove(name); err != nil {
			return err
		}
	}
	if torn > 0 {
		if _, err := l.current().file.WriteAt(make([]byte, torn*sectorSize), int64(l.at)*sectorSize); err != nil {
			return err
		}
	}
	// What was read may never have been synced, if the process died and not the machine; from here on it counts as stored. The
	// spares, too: an Open that died here may have emptied one.
	for _, s := range slices.Concat(l.spares, l.segments[len(l.segments)-1:]) {
		if err := s.file.Sync(); err != nil {
			return err
		}
	}
	if err := l.fs.Sync(); err != nil {
		return err
	}
	l.order()
	return l.reclaim()
}

// list returns the segments, which follow each other, and the files that were being made.
func (l *Log) list() (numbers []uint64, temps []string, err error) {
	names, err := l.fs.List()
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		number, ok := segmentNumber(strings.TrimSuffix(name, tempSuffix))
		switch {
		case !ok:
			return nil, nil, corrupt(name, "there is no such file in a log")
		case strings.HasSuffix(name, tempSuffix):
			temps = append(temps, name)
		default:
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	for i := 1; i < len(numbers); i++ {
		if numbers[i] != numbers[i-1]+1 {
			return nil, nil, corrupt(segmentName(numbers[i-1]+1), "it is missing")
		}
	}
	if len(numbers) == 0 {
		return nil, nil, corrupt("", "there is no segment")
	}
	return numbers, temps, nil
}

// replay reads the segments in order. It returns how many sectors behind the last batch hold parts of a further one.
func (l *Log) replay(numbers []uint64) (torn int, err error) {
	if numbers[0] == 1 {
		l.batch = 1
	}
	full := true // nothing says that the last segment found in use was not left for the next one
	for _, number := range numbers {
		s, content, err := openSegment(l.fs, number, l.id)
		if err != nil {
			return 0, err
		}
		l.id = s.log
		l.spares = append(l.spares, s) // until it is found in use
		r := reader{segment: s, content: content, at: 1, batch: l.batch}
		if err := r.read(l.apply); err != nil {
			return 0, err
		}
		if r.at == 1 && r.torn == 0 && len(l.segments) > 0 {
			full = false
			continue
		}
		if !full {
			return 0, corrupt(s.name(), "it is in use, and one before it is not full")
		}
		full = r.torn == 0
		l.spares = l.spares[:len(l.spares)-1]
		l.segments = append(l.segments, s)
		l.at, l.batch, torn = r.at, r.batch, r.torn
	}
	if len(l.spares) == 0 {
		return 0, corrupt(segmentName(numbers[len(numbers)-1]+1), "it is missing")
	}
	return torn, nil
}

// apply is given the payload of one batch.
func (l *Log) apply(s *segment, at uint32, payload []byte) error {
	return eachRecord(payload, func(r record) error {
		switch r.kind {
		case recordHead:
			l.dropHead(r.index)
		case recordTail:
			l.dropTail(r.index)
		default:
			if _, last := l.bounds(); r.index == 0 || last != 0 && r.index != last+1 {
				return fmt.Errorf("entry %d follows entry %d", r.index, last)
			}
			if len(l.places) == 0 {
				l.first = r.index
			}
			l.places = append(l.places, placeAt(s, at, r.from, r.size))
		}
		return nil
	})
}
