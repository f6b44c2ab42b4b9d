package wire

import (
	"encoding/binary"
	"errors"
)

// ErrMalformed is the root of every decoding error.
var ErrMalformed = errors.New("malformed encoding")

// Writer appends values to a buffer. The zero value is ready.
type Writer struct{ buf []byte }

// NewWriter appends to buf, which may be nil or a buffer to reuse.
func NewWriter(buf []byte) *Writer { return &Writer{buf: buf} }

// Bytes is everything written so far; it is valid until the next write.
func (w *Writer) Bytes() []byte { return w.buf }

func (w *Writer) Byte(v byte)      { w.buf = append(w.buf, v) }
func (w *Writer) Uvarint(v uint64) { w.buf = binary.AppendUvarint(w.buf, v) }
func (w *Writer) Varint(v int64)   { w.buf = binary.AppendVarint(w.buf, v) }

func (w *Writer) Bool(v bool) {
	if v {
		w.buf = append(w.buf, 1)
		return
	}
	w.buf = append(w.buf, 0)
}

func (w *Writer) String(s string) {
	w.Uvarint(uint64(len(s)))
	w.buf = append(w.buf, s...)
}

func (w *Writer) Blob(b []byte) {
	w.Uvarint(uint64(len(b)))
	w.buf = append(w.buf, b...)
}

// Reader takes values from a buffer. The first failure sticks: later reads give zero values, and Err tells. No input can make
// it panic or allocate more than the input is long.
type Reader struct {
	buf []byte
	err error
}

func NewReader(b []byte) *Reader { return &Reader{buf: b} }

// Err is the first failure, nil if there was none.
func (r *Reader) Err() error { return r.err }

// Done is Err, or ErrMalformed if bytes are left over.
func (r *Reader) Done() error {
	if r.err == nil && len(r.buf) > 0 {
		r.fail()
	}
	return r.err
}

// Len is the number of bytes not read yet.
func (r *Reader) Len() int { return len(r.buf) }

func (r *Reader) fail() {
	if r.err == nil {
		r.err = ErrMalformed
	}
	r.buf = nil
}

func (r *Reader) Byte() byte {
	if len(r.buf) < 1 {
		r.fail()
		return 0
	}
	b := r.buf[0]
	r.buf = r.buf[1:]
	return b
}

// Bool accepts only 0 and 1, so that one value has one encoding.
func (r *Reader) Bool() bool {
	b := r.Byte()
	if b > 1 {
		r.fail()
	}
	return b == 1
}

func (r *Reader) Uvarint() uint64 {
	v, n := binary.Uvarint(r.buf)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.buf = r.buf[n:]
	return v
}

func (r *Reader) Varint() int64 {
	v, n := binary.Varint(r.buf)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.buf = r.buf[n:]
	return v
}

// Blob is a view into the input, not a copy.
func (r *Reader) Blob() []byte {
	n := r.Uvarint()
	if r.err != nil || n > uint64(len(r.buf)) {
		r.fail()
		return nil
	}
	b := r.buf[:n:n]
	r.buf = r.buf[n:]
	return b
}

func (r *Reader) String() string { return string(r.Blob()) }

// Count reads a number of elements of which each takes at least size bytes; more than the input can hold is malformed.
func (r *Reader) Count(size int) int {
	n := r.Uvarint()
	if r.err != nil || n > uint64(len(r.buf)/max(size, 1)) {
		r.fail()
		return 0
	}
	return int(n)
}
