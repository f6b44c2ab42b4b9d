package wire

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"slices"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// ReadSnapshotHeader reads as far as the header. It is not verified against the hash, which stands at the end, so it is good for
// showing and choosing, not for restoring. A newer format is a *LevelError; a newer level is not, since the header of a format
// is the same at every level: compare Header.Level.
func ReadSnapshotHeader(in io.Reader) (locktable.Header, error) {
	h, err := newSnapshotReader(in).preamble()
	if err != nil {
		return locktable.Header{}, fmt.Errorf("read snapshot header: %w", err)
	}
	return h, nil
}

// readState reads one snapshot into the builder that open makes for its header. Until it returns nil, nothing of what the
// builder was given may be used: the hash comes last. The hash of the state is nil if the snapshot has none.
func readState[B builder](in io.Reader, open func(locktable.Header) B) (B, *stateHash, error) {
	return readStateAt(in, Level, open)
}

// readStateAt is readState for a binary whose highest level is have.
func readStateAt[B builder](in io.Reader, have uint32, open func(locktable.Header) B) (B, *stateHash, error) {
	r := newSnapshotReader(in)
	b, hash, err := readSections(r, have, open)
	switch {
	case err == nil:
		err = r.trailer()
	case errors.Is(err, ErrLevel):
		// "Take a newer binary" is said only of bytes that are sound, else damage would send the operator the wrong way.
		if damage := r.rest(); damage != nil {
			err = damage
		}
	}
	if err != nil {
		var none B
		return none, nil, fmt.Errorf("read snapshot: %w", err)
	}
	return b, hash, nil
}

func readSections[B builder](r *snapshotReader, have uint32, open func(locktable.Header) B) (B, *stateHash, error) {
	var none B
	h, err := r.preamble()
	if err != nil {
		return none, nil, err
	}
	if h.Level > have {
		return none, nil, &LevelError{What: "snapshot", Want: h.Level, Have: have}
	}
	b := open(h)
	s := sectionReader{snapshotReader: r, header: h, to: b}
	for {
		more, err := s.next()
		if err != nil {
			return none, nil, err
		}
		if !more {
			return b, s.hash, nil
		}
	}
}

// sectionReader walks the sections of one snapshot.
type sectionReader struct {
	*snapshotReader
	header  locktable.Header
	to      builder
	last    uint64 // id of the section read last
	hash    *stateHash
	audit   []locktable.AuditRecord // kept back until all is known of them
	lastAct locktable.Rev
}

// next reads one section. False is the end: all known sections were there.
func (s *sectionReader) next() (bool, error) {
	tag, err := s.uvarint()
	if err != nil {
		return false, err
	}
	id, required := tag>>1, tag&requiredBit != 0
	if tag == 0 {
		return false, s.end()
	}
	if !s.inOrder(id, required) {
		return false, fmt.Errorf("section tag %d after section %d: %w", tag, s.last, ErrMalformed)
	}
	s.last = id
	switch {
	case id <= lastOfTable:
		return true, s.known(id)
	case id == sectionOpenings && required:
		return true, readAddition(s.snapshotReader, (*Reader).openedRecord, func(o openedRecord) error { return s.to.Opened(o.Session, o.Wall) })
	case id == sectionActs && required:
		return true, readAddition(s.snapshotReader, (*Reader).actRecord, s.act)
	case required:
		return false, newer(fmt.Sprintf("snapshot section %d", id), s.header.Level)
	}
	if id == sectionStateHash {
		return true, s.readHash()
	}
	return true, s.skipSection()
}

// inOrder says whether a section may follow the last one: the known ones all and in order, then others by rising id.
func (s *sectionReader) inOrder(id uint64, required bool) bool {
	if id <= lastOfTable {
		return required && id == s.last+1
	}
	return id > s.last && s.complete() == nil
}

// complete says whether all known sections have been read.
func (s *sectionReader) complete() error {
	if s.last < lastOfTable {
		return fmt.Errorf("no section after %d: %w", s.last, ErrMalformed)
	}
	return nil
}

func (s *sectionReader) known(id uint64) error {
	h, to := &s.header, s.to
	switch id {
	case sectionSessions:
		return readRecords(s.snapshotReader, h.Sessions, (*Reader).sessionRecord, to.Session)
	case sectionClaims:
		return readRecords(s.snapshotReader, h.Claims, (*Reader).claimRecord, to.Claim)
	case sectionFinished:
		return readRecords(s.snapshotReader, h.Finished, (*Reader).finishedRecord, to.Finished)
	case sectionLost:
		return readRecords(s.snapshotReader, h.Lost, (*Reader).lostRecord, to.Lost)
	case sectionAudit:
		return readRecords(s.snapshotReader, h.Audit, (*Reader).auditRecord, func(a locktable.AuditRecord) error {
			s.audit = append(s.audit, a)
			return nil
		})
	case sectionLimits:
		return readRecords(s.snapshotReader, h.Limits, (*Reader).limitRecord, to.Limit)
	}
	return fmt.Errorf("section %d has no reader: %w", id, ErrMalformed)
}

// act adds to the audit record of its revision; revisions rise.
func (s *sectionReader) act(a actRecord) error {
	at, found := slices.BinarySearchFunc(s.audit, a.Rev, func(r locktable.AuditRecord, rev locktable.Rev) int { return cmp.Compare(r.Rev, rev) })
	if !found || a.Rev <= s.lastAct && s.lastAct != 0 {
		return fmt.Errorf("act at revision %d, where no audit record waits for one", a.Rev)
	}
	s.lastAct = a.Rev
	r := &s.audit[at]
	r.Act, r.Session, r.Node, r.NodeName = a.Act, a.Session, a.Node, a.NodeName
	return nil
}

// end gives on what was kept back.
func (s *sectionReader) end() error {
	if err := s.complete(); err != nil {
		return err
	}
	for _, a := range s.audit {
		if err := s.to.Audit(a); err != nil {
			return fmt.Errorf("%w: %w", ErrMalformed, err)
		}
	}
	return nil
}

// readAddition reads a section that is there only if it has records.
func readAddition[T any](r *snapshotReader, decode func(*Reader) T, add func(T) error) error {
	n, err := r.uvarint()
	if err == nil && n == 0 {
		err = fmt.Errorf("an empty addition: %w", ErrMalformed)
	}
	for ; err == nil && n > 0; n-- {
		var rec T
		if rec, err = readRecord(r, decode); err != nil {
			break
		}
		if err = add(rec); err != nil {
			err = fmt.Errorf("%w: %w", ErrMalformed, err)
		}
	}
	return err
}

func (s *sectionReader) readHash() error {
	return readRecords(s.snapshotReader, 1, (*Reader).stateHash, func(h stateHash) error {
		s.hash = &h
		return nil
	})
}

func readRecords[T any](r *snapshotReader, count int, decode func(*Reader) T, add func(T) error) error {
	n, err := r.uvarint()
	if err != nil {
		return err
	}
	if n != uint64(count) {
		return fmt.Errorf("%d records instead of %d: %w", n, count, ErrMalformed)
	}
	for range count {
		rec, err := readRecord(r, decode)
		if err != nil {
			return err
		}
		if err := add(rec); err != nil {
			return fmt.Errorf("%w: %w", ErrMalformed, err)
		}
	}
	return nil
}

func readRecord[T any](r *snapshotReader, decode func(*Reader) T) (T, error) {
	var zero T
	n, err := r.uvarint()
	if err != nil {
		return zero, err
	}
	if n > maxRecord {
		return zero, fmt.Errorf("record of %d bytes: %w", n, ErrMalformed)
	}
	content, err := r.take(int(n))
	if err != nil {
		return zero, err
	}
	r.record = Reader{buf: content}
	rec := decode(&r.record)
	return rec, r.record.Done()
}

// snapshotReader reads through a buffer that holds the longest record, so that a length claims no memory at all, and hashes
// what it hands out.
type snapshotReader struct {
	in     *bufio.Reader
	sum    hash.Hash
	record Reader // of the record being read; one for all, since its address escapes into what decodes
}

func newSnapshotReader(in io.Reader) *snapshotReader {
	return &snapshotReader{in: bufio.NewReaderSize(in, maxRecord), sum: sha256.New()}
}

// take is the next n bytes, at most maxRecord of them, valid until the next read.
func (r *snapshotReader) take(n int) ([]byte, error) {
	b, err := r.in.Peek(n)
	if err != nil {
		return nil, readError(err)
	}
	r.sum.Write(b)
	_, err = r.in.Discard(n) // what was peeked is there
	return b, err
}

func (r *snapshotReader) uvarint() (uint64, error) {
	b, err := r.in.Peek(1)
	for n := 2; err == nil && b[len(b)-1] >= 0x80 && n <= binary.MaxVarintLen64; n++ {
		b, err = r.in.Peek(n)
	}
	if err != nil {
		return 0, readError(err)
	}
	if b, err = r.take(len(b)); err != nil {
		return 0, err
	}
	fields := Reader{buf: b}
	v := fields.Uvarint()
	return v, fields.Done()
}

// preamble reads magic, format, level and header. That the level is not ours to read is left to the caller.
func (r *snapshotReader) preamble() (locktable.Header, error) {
	magic, err := r.take(len(snapshotMagic))
	if err != nil {
		return locktable.Header{}, err
	}
	if string(magic) != snapshotMagic {
		return locktable.Header{}, fmt.Errorf("not a snapshot: %w", ErrMalformed)
	}
	format, err := r.uvarint()
	if err != nil {
		return locktable.Header{}, err
	}
	level, err := r.uvarint()
	switch {
	case err != nil:
		return locktable.Header{}, err
	case format == 0, level > math.MaxUint32:
		return locktable.Header{}, fmt.Errorf("format %d at level %d: %w", format, level, ErrMalformed)
	case format > snapshotFormat:
		return locktable.Header{}, newer(fmt.Sprintf("snapshot format %d", format), uint32(level))
	}
	h, err := readRecord(r, (*Reader).header)
	h.Level = uint32(level)
	return h, err
}

// skipSection passes over records of any length; it only has to find their end.
func (r *snapshotReader) skipSection() error {
	count, err := r.uvarint()
	if err != nil {
		return err
	}
	for ; count > 0; count-- {
		size, err := r.uvarint()
		if err != nil {
			return err
		}
		for size > 0 {
			part := min(size, maxRecord)
			if _, err := r.take(int(part)); err != nil {
				return err
			}
			size -= part
		}
	}
	return nil
}

// rest checks the hash without understanding what it covers: in every format it is the last that there is.
func (r *snapshotReader) rest() error {
	for {
		b, err := r.in.Peek(maxRecord)
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			return err
		case len(b) <= sha256.Size:
			return r.trailer()
		}
		if _, err := r.take(len(b) - sha256.Size); err != nil {
			return err
		}
	}
}

// trailer compares the hash and asks that the input ends there.
func (r *snapshotReader) trailer() error {
	want := r.sum.Sum(nil)
	got, err := r.take(len(want))
	if err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("hash does not match: %w", ErrMalformed)
	}
	switch _, err := r.in.ReadByte(); {
	case err == nil:
		return fmt.Errorf("bytes after the end: %w", ErrMalformed)
	case errors.Is(err, io.EOF):
		return nil
	default:
		return err
	}
}

// readError tells an input that ends too early, which is malformed, from one that could not be read, which may be whole.
func readError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("truncated: %w", ErrMalformed)
	}
	return err
}

// length is a count as it stands in a header: never negative, and fit for an int.
func (r *Reader) length() int {
	v := r.Uvarint()
	if v > math.MaxInt {
		r.fail()
		return 0
	}
	return int(v)
}
