package wire

import (
	"bytes"
	"errors"
	"math"
	"testing"
)

func TestNumbersAtTheirLimits(t *testing.T) {
	for _, v := range []int64{0, 1, -1, 63, 64, -64, -65, math.MaxInt64, math.MinInt64} {
		var w Writer
		w.Varint(v)
		w.Uvarint(uint64(v))
		r := NewReader(w.Bytes())
		if got, u := r.Varint(), r.Uvarint(); got != v || u != uint64(v) || r.Done() != nil {
			t.Errorf("%d: got %d and %d, %v", v, got, u, r.Done())
		}
	}
}

func TestReaderRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		input []byte
		read  func(*Reader)
	}{
		"nothing":                 {nil, func(r *Reader) { r.Byte() }},
		"bool of 2":               {[]byte{2}, func(r *Reader) { r.Bool() }},
		"zero in two bytes":       {[]byte{0x80, 0}, func(r *Reader) { r.Uvarint() }},
		"signed zero, two bytes":  {[]byte{0x80, 0}, func(r *Reader) { r.Varint() }},
		"number without an end":   {[]byte{0xff, 0xff}, func(r *Reader) { r.Uvarint() }},
		"65 bits":                 {append(bytes.Repeat([]byte{0xff}, 9), 2), func(r *Reader) { r.Uvarint() }},
		"11 bytes":                {append(bytes.Repeat([]byte{0xff}, 10), 1), func(r *Reader) { r.Uvarint() }},
		"33 bits":                 {[]byte{0x80, 0x80, 0x80, 0x80, 0x10}, func(r *Reader) { r.Uint32() }},
		"17 bits":                 {[]byte{0x80, 0x80, 0x04}, func(r *Reader) { r.uint16() }},
		"blob longer than input":  {[]byte{3, 1, 2}, func(r *Reader) { r.Blob() }},
		"blob of 2^64-1":          {append(bytes.Repeat([]byte{0xff}, 9), 1), func(r *Reader) { r.Blob() }},
		"count beyond input":      {[]byte{2, 0, 0, 0}, func(r *Reader) { r.Count(2) }},
		"count of 2^64-1":         {append(bytes.Repeat([]byte{0xff}, 9), 1), func(r *Reader) { r.Count(0) }},
		"present number of zero":  {[]byte{0}, func(r *Reader) { r.presentUvarint() }},
		"present string of none":  {[]byte{0}, func(r *Reader) { _ = r.presentString() }},
		"present list of none":    {[]byte{0}, func(r *Reader) { presentList(r, 1, (*Reader).Byte) }},
		"list that breaks midway": {[]byte{2, 0, 9}, func(r *Reader) { list(r, 1, (*Reader).Bool) }},
		"left over":               {[]byte{1, 1}, func(r *Reader) { r.Byte() }},
	} {
		r := NewReader(test.input)
		test.read(r)
		if err := r.Done(); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFirstFailureSticks(t *testing.T) {
	r := NewReader([]byte{2, 1, 'x', 7})
	r.Bool()
	if s, n, l := r.String(), r.Byte(), r.Len(); s != "" || n != 0 || l != 0 || r.Err() == nil {
		t.Errorf("after a failure: %q, %d, %d bytes left, %v", s, n, l, r.Err())
	}
}

// A frame must be the blob of the same content, at every length of its own length.
func TestFrameIsBlob(t *testing.T) {
	for _, size := range []int{0, 1, 126, 127, 128, 129, 16383, 16384, 1 << 20} {
		content := bytes.Repeat([]byte("quorum"), size/6+1)[:size]
		framed, blob := NewWriter([]byte("before")), NewWriter([]byte("before"))
		framed.buf = append(framed.buf, content...)
		framed.frame(len("before"))
		blob.Blob(content)
		if !bytes.Equal(framed.Bytes(), blob.Bytes()) {
			t.Errorf("%d bytes differ", size)
		}
	}
}
