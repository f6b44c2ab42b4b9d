package transport

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// A call stream is a sequence of frames, in both directions:
//
//	len32 | kind8 method8 id64 arg64 | payload
//
// len counts what follows it. One fixed header for all kinds costs a few unused bytes and saves a parser per kind.
const (
	frameRequest = 1 // method, id, arg = microseconds the caller still waits (0: for ever), payload
	frameReply   = 2 // id, payload
	frameError   = 3 // id, arg = code, payload = text
	framePush    = 4 // method, payload
	framePing    = 5
	framePong    = 6

	frameHead   = 18 // after the length
	frameHeader = 4 + frameHead
	maxFrame    = 4 << 20  // header and payload
	eagerFrame  = 64 << 10 // larger payloads are allocated as they arrive, not as they are announced
)

// MaxPayload is the size of the largest payload of a call, a reply or a push.
const MaxPayload = maxFrame - frameHeader

// ErrTooLarge is a payload over MaxPayload.
var ErrTooLarge = errors.New("payload too large")

var errMalformedFrame = errors.New("malformed frame")

type frame struct {
	kind    byte
	method  Method
	id      uint64
	arg     uint64
	payload []byte
}

func appendFrame(b []byte, f *frame) []byte {
	var head [frameHeader]byte
	binary.BigEndian.PutUint32(head[0:], uint32(frameHead+len(f.payload)))
	head[4], head[5] = f.kind, byte(f.method)
	binary.BigEndian.PutUint64(head[6:], f.id)
	binary.BigEndian.PutUint64(head[14:], f.arg)
	return append(append(b, head[:]...), f.payload...)
}

// readFrame returns a frame whose payload belongs to the caller.
func readFrame(r *bufio.Reader) (frame, error) {
	head, err := r.Peek(frameHeader)
	if err != nil {
		if err == io.EOF && len(head) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return frame{}, err
	}
	f := frame{
		kind: head[4], method: Method(head[5]),
		id: binary.BigEndian.Uint64(head[6:]), arg: binary.BigEndian.Uint64(head[14:]),
	}
	size := binary.BigEndian.Uint32(head)
	if err := f.check(size); err != nil {
		return frame{}, err
	}
	if _, err := r.Discard(frameHeader); err != nil {
		return frame{}, err
	}
	f.payload, err = readPayload(r, int(size)-frameHead)
	return f, err
}

func (f *frame) check(size uint32) error {
	switch {
	case size < frameHead || size > maxFrame-4:
		return fmt.Errorf("%w: length %d", errMalformedFrame, size)
	case f.kind < frameRequest || f.kind > framePong:
		return fmt.Errorf("%w: kind %d", errMalformedFrame, f.kind)
	case f.kind >= framePing && size != frameHead:
		return fmt.Errorf("%w: keepalive with payload", errMalformedFrame)
	}
	return nil
}

func readPayload(r io.Reader, n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	b := make([]byte, min(n, eagerFrame))
	for read := 0; ; {
		if _, err := io.ReadFull(r, b[read:]); err != nil {
			return nil, unexpected(err)
		}
		if read = len(b); read == n {
			return b, nil
		}
		b = append(b, make([]byte, min(n-read, read))...)
	}
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// timeLeft travels as a duration, because two machines' clocks do not agree on a deadline.
func encodeTimeLeft(d time.Duration) uint64 { return uint64(max(d.Microseconds(), 1)) }

const maxTimeLeft = 24 * time.Hour // also keeps a hostile value from overflowing

func decodeTimeLeft(arg uint64) time.Duration {
	if arg > uint64(maxTimeLeft.Microseconds()) {
		return maxTimeLeft
	}
	return time.Duration(arg) * time.Microsecond
}
