package transport

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"runtime"
	"testing"
	"testing/iotest"
)

// A length that is announced but not sent must not be allocated.
func TestAnnouncedLengthsAreNotAllocated(t *testing.T) {
	lie := appendFrame(nil, &frame{kind: frameRequest, payload: make([]byte, MaxPayload)})[:frameHeader+10]
	r := bufio.NewReaderSize(nil, 4096)
	const runs = 50
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		r.Reset(bytes.NewReader(lie))
		if _, err := readFrame(r); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if allocated := (after.TotalAlloc - before.TotalAlloc) / runs; allocated > 4*eagerFrame {
		t.Errorf("%d bytes allocated for 10 that came", allocated)
	}
}

func TestFrameLimits(t *testing.T) {
	for size, ok := range map[int]bool{
		0: true, 1: true, eagerFrame: true, eagerFrame + 1: true, MaxPayload: true, MaxPayload + 1: false,
	} {
		in := frame{kind: frameReply, id: 7, payload: bytes.Repeat([]byte("x"), size)}
		r := bufio.NewReader(iotest.HalfReader(bytes.NewReader(appendFrame(nil, &in))))
		out, err := readFrame(r)
		if (err == nil) != ok || ok && (out.id != 7 || !bytes.Equal(out.payload, in.payload)) {
			t.Errorf("payload of %d: %d bytes, %v", size, len(out.payload), err)
		}
	}
}
