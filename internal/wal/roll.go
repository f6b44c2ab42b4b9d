package wal

import (
	"errors"
	"fmt"
)

// roll makes the next segment the current one; payload has room in it. There is always an unused segment behind the current one,
// also after the change: so a log whose last segments are lost does not look like a shorter log.
func (l *Log) roll(payload int) error {
	if l.failed != nil {
		return l.failed
	}
	if l.at == 1 {
		// What was to be stored does not fit even an empty segment. Open takes one that was left empty for lost.
		if err := l.write(appendMark(nil, recordHead, 0)); err != nil {
			return err
		}
	}
	if err := l.changeSegment(payload); err != nil {
		l.failed = err
		return err
	}
	return nil
}

func (l *Log) changeSegment(payload int) error {
	if len(l.spares) < 2 {
		p := <-l.coming
		l.coming = nil
		if p.err != nil {
			return p.err
		}
		l.spares = append(l.spares, p.segment)
	}
	next := l.spares[0]
	if !next.fits(payload, 1) {
		if err := next.file.Close(); err != nil {
			return fmt.Errorf("close log segment %s: %w", next.name(), err)
		}
		larger, err := l.prepare(next.segment, uint32(1+sectorsFor(payload)))
		if err != nil {
			return err
		}
		l.spares[0], next = larger, larger
	}
	l.spares = l.spares[1:]
	l.at = 1
	l.mu.Lock()
	l.segments = append(l.segments, next)
	l.mu.Unlock()
	l.order()
	return nil
}

func (l *Log) prepare(number uint64, sectors uint32) (*segment, error) {
	s, err := prepareSegment(l.fs, newSite(l.id, number), sectors)
	if err != nil {
		return nil, fmt.Errorf("make log segment %s: %w", segmentName(number), err)
	}
	return s, nil
}

// order has the segment behind the last spare made, unless there are two already: an Open after a roll that was lost finds three.
func (l *Log) order() {
	if len(l.spares) >= 2 {
		return
	}
	number, coming := l.spares[len(l.spares)-1].segment+1, make(chan prepared, 1)
	l.coming = coming
	work := func() {
		s, err := l.prepare(number, l.sectors)
		coming <- prepared{s, err}
	}
	if l.inline {
		work()
	} else {
		go work()
	}
}

// reclaim removes the segments before the oldest entry, the oldest first, each for good before the next: a gap between two files
// is damage.
func (l *Log) reclaim() error {
	for {
		s := l.unlinkOldest()
		if s == nil {
			return nil
		}
		err := s.file.Close()
		if err == nil {
			err = l.fs.Remove(s.name())
		}
		if err == nil {
			err = l.fs.Sync()
		}
		if err != nil {
			return l.fail("remove", s, err)
		}
	}
}

// unlinkOldest takes the oldest segment out of use, if no entry needs it. No reader is in its file any more. The first segment of a
// log holds a batch, which says at which number the batches go on; an Open after a lost write may find none in the current one.
func (l *Log) unlinkOldest() *segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.segments) == 1 || l.at == 1 || len(l.places) > 0 && l.places[0].segment == l.segments[0] {
		return nil
	}
	s := l.segments[0]
	l.segments = l.segments[1:]
	return s
}

// Close frees the files, and waits for the one that is being made. Twice is fine.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	if l.failed == nil {
		l.failed = ErrClosed
	}
	open := append(l.segments, l.spares...)
	if l.coming != nil {
		if p := <-l.coming; p.segment != nil {
			open = append(open, p.segment)
		}
	}
	var errs []error
	for _, s := range open {
		errs = append(errs, s.file.Close())
	}
	return errors.Join(errs...)
}
