package wire

import (
	"encoding/binary"
	"errors"
	"math"
)

// ErrMalformed is the root of every decoding error.
var ErrMalformed = errors.New("malformed encoding")

// Writer appends values to a buffer. The zero value is ready.
type Writer struct{ buf []byte }

// NewWriter appends to buf, which may be nil or a buffer to reuse.
func NewWriter(buf []byte) *Writer { return &Writer{buf: buf} }

// Bytes is everything written so far; it is valid until the next write.
func (w *Writer) Bytes() []byte { return w.buf }

// Byte appends one byte.
func (w *Writer) Byte(v byte) { w.buf = append(w.buf, v) }

// Uvarint appends an unsigned number in as few bytes as it needs.
func (w *Writer) Uvarint(v uint64) { w.buf = binary.AppendUvarint(w.buf, v) }

// Varint appends a signed number, zig-zag encoded, in as few bytes as it needs.
func (w *Writer) Varint(v int64) { w.buf = binary.AppendVarint(w.buf, v) }

// Bool appends 0 or 1.
func (w *Writer) Bool(v bool) {
	if v {
		w.buf = append(w.buf, 1)
		return
	}
	w.buf = append(w.buf, 0)
}

// String appends the length and the bytes of s.
func (w *Writer) String(s string) {
	w.Uvarint(uint64(len(s)))
	w.buf = append(w.buf, s...)
}

// Blob appends the length and the bytes of b.
func (w *Writer) Blob(b []byte) {
	w.Uvarint(uint64(len(b)))
	w.buf = append(w.buf, b...)
}

// frame puts the length before everything that was written since start, which is what Blob would have written had the content
// been at hand. Short content, the common case, is moved by one byte; measuring it first would cost a second walk over it.
func (w *Writer) frame(start int) {
	size := len(w.buf) - start
	var prefix [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(prefix[:], uint64(size))
	w.buf = append(w.buf, prefix[:n]...)
	copy(w.buf[start+n:], w.buf[start:start+size])
	copy(w.buf[start:], prefix[:n])
}

// Reader takes values from a buffer. The first failure sticks: later reads give zero values, and Err tells. No input can make
// it panic; Blob allocates nothing, String what it returns, and Count never tells more elements than the input can hold.
type Reader struct {
	buf []byte
	err error
}

// NewReader reads from b and never writes to it.
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

// Byte reads one byte.
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

// Uvarint accepts only the shortest form of a number, so that one value has one encoding.
func (r *Reader) Uvarint() uint64 {
	v, n := binary.Uvarint(r.buf)
	if n <= 0 || n > 1 && r.buf[n-1] == 0 {
		r.fail()
		return 0
	}
	r.buf = r.buf[n:]
	return v
}

// Varint accepts only the shortest form of a number, as Uvarint does.
func (r *Reader) Varint() int64 {
	u := r.Uvarint()
	v := int64(u >> 1)
	if u&1 != 0 {
		v = ^v
	}
	return v
}

func (r *Reader) uint16() uint16 {
	v := r.Uvarint()
	if v > math.MaxUint16 {
		r.fail()
		return 0
	}
	return uint16(v)
}

// Uint32 reads an unsigned number that fits 32 bits.
func (r *Reader) Uint32() uint32 {
	v := r.Uvarint()
	if v > math.MaxUint32 {
		r.fail()
		return 0
	}
	return uint32(v)
}

// Int reads a signed number that fits an int of this platform.
func (r *Reader) Int() int {
	v := r.Varint()
	if v < math.MinInt || v > math.MaxInt {
		r.fail()
		return 0
	}
	return int(v)
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

// String is a copy, so that it does not keep the input alive.
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

// The readers below are for fields whose presence is told by a bit: a present field that is zero would be a second encoding
// of the same value.

func (r *Reader) presentByte() byte      { return present(r, r.Byte()) }
func (r *Reader) presentUvarint() uint64 { return present(r, r.Uvarint()) }
func (r *Reader) presentVarint() int64   { return present(r, r.Varint()) }
func (r *Reader) presentUint32() uint32  { return present(r, r.Uint32()) }
func (r *Reader) presentInt() int        { return present(r, r.Int()) }
func (r *Reader) presentString() string  { return present(r, r.String()) }

// list reads elements of at least size bytes each; none is a nil slice. It reads through a copy of r, because what is passed to
// element escapes to the heap: so only callers that meet a list pay for that, and not everyone who decodes.
func list[T any](r *Reader, size int, element func(*Reader) T) []T {
	n := r.Count(size)
	if n == 0 {
		return nil
	}
	rest := *r
	all := make([]T, n)
	for i := range all {
		all[i] = element(&rest)
	}
	*r = rest
	return all
}

// presentList is a list that is left out when it is empty.
func presentList[T any](r *Reader, size int, element func(*Reader) T) []T {
	all := list(r, size, element)
	if all == nil {
		r.fail()
	}
	return all
}

func present[T comparable](r *Reader, v T) T {
	var zero T
	if v == zero {
		r.fail()
	}
	return v
}
