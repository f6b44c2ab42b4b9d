package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
)

// source gives the bytes of a file up to its trailer, wherever that is, and judges the file when it has come to its end.
type source struct {
	ctx  context.Context
	in   io.Reader
	buf  []byte
	from int // buf[from:to] is what was read; the last trailerSize bytes of it may be the trailer, and are held back
	to   int
	end  bool  // in has ended
	err  error // in has failed, or ctx has ended

	empty int // reads in a row that gave nothing

	head  []byte // the first bytes of the file, as many as magic has
	given int64
	sum   hash.Hash // of what was given
}

const maxEmpty = 100

func newSource(ctx context.Context, in io.Reader) *source {
	return &source{ctx: ctx, in: in, buf: make([]byte, 2*chunkSize), sum: sha256.New()}
}

// Read implements io.Reader; io.EOF stands for the trailer.
func (s *source) Read(p []byte) (int, error) {
	for s.to-s.from <= trailerSize && !s.end && s.err == nil {
		s.fill()
	}
	if s.err != nil {
		return 0, s.err
	}
	n := min(len(p), s.to-s.from-trailerSize)
	if n <= 0 {
		if len(p) == 0 {
			return 0, nil
		}
		return 0, io.EOF
	}
	copy(p, s.buf[s.from:s.from+n])
	s.note(p[:n])
	s.from += n
	return n, nil
}

func (s *source) note(b []byte) {
	if missing := len(magic) - len(s.head); missing > 0 {
		s.head = append(s.head, b[:min(missing, len(b))]...)
	}
	s.sum.Write(b)
	s.given += int64(len(b))
}

func (s *source) fill() {
	if s.from > 0 && s.to == len(s.buf) {
		copy(s.buf, s.buf[s.from:s.to])
		s.from, s.to = 0, s.to-s.from
	}
	if s.err = s.ctx.Err(); s.err != nil {
		return
	}
	n, err := s.in.Read(s.buf[s.to:])
	s.to += n
	switch {
	case err == io.EOF: // and not one that wraps it: that is a stream which was cut
		s.end = true
	case err != nil:
		s.err = err
	case n > 0:
		s.empty = 0
	default:
		if s.empty++; s.empty == maxEmpty {
			s.err = io.ErrNoProgress
		}
	}
}

// verdict reads to the end. nil: the file is whole, and as it was written. ended tells that the last chunk has been met, and
// after how many bytes.
func (s *source) verdict(ended int64) (File, error) {
	if _, err := io.Copy(io.Discard, s); err != nil {
		return File{}, fmt.Errorf("read snapshot: %w", err)
	}
	tail := s.buf[s.from:s.to]
	size := s.given + int64(len(tail))
	if len(s.head) < len(magic) { // all of it was held back
		s.head = append(s.head, tail[:min(len(tail), len(magic)-len(s.head))]...)
	}
	begins, ends := string(s.head) == magic, bytes.HasSuffix(tail, []byte(endMagic))
	switch {
	case size < int64(len(magic)) && bytes.HasPrefix([]byte(magic), s.head):
		return File{}, fmt.Errorf("%w: it has %d bytes", ErrTruncated, size)
	case !begins && !ends:
		return File{}, fmt.Errorf("%w: it is not a snapshot of quorumlock", ErrForeign)
	case !ends:
		return File{}, s.unended(ended, size)
	case len(tail) < trailerSize:
		return File{}, fmt.Errorf("%w: it has %d bytes", ErrTruncated, size)
	}
	return s.compare(begins, tail, size, ended)
}

// unended judges a file without the end magic.
func (s *source) unended(ended, size int64) error {
	if ended > 0 && size >= ended+int64(trailerSize) {
		return fmt.Errorf("%w: it does not end where it should", ErrAltered)
	}
	return fmt.Errorf("%w: it ends after %d bytes", ErrTruncated, size)
}

func (s *source) compare(begins bool, tail []byte, size, ended int64) (File, error) {
	said := int64(binary.BigEndian.Uint64(tail))
	f := File{Size: size, Sum: [sumSize]byte(tail[8:])}
	switch {
	case begins && said == size && s.sumWith(said) == f.Sum:
		return f, nil
	case said > size && s.sumWith(size) != f.Sum && ended+int64(trailerSize) != size: // else it is the number itself that is wrong
		return f, fmt.Errorf("%w: it has %d of %d bytes", ErrTruncated, size, said)
	}
	return f, fmt.Errorf("%w: its SHA-256 is another", ErrAltered)
}

// sumWith is the hash of a file that says it has this size.
func (s *source) sumWith(size int64) (sum [sumSize]byte) {
	h := sha256.New()
	state, err := s.sum.(encoding.BinaryMarshaler).MarshalBinary()
	if err == nil {
		err = h.(encoding.BinaryUnmarshaler).UnmarshalBinary(state)
	}
	if err != nil {
		return sum // none that is in any file
	}
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(size)))
	h.Sum(sum[:0])
	return sum
}
