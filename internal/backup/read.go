package backup

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Read reads one file from in to its end, and verifies it. use is given the header and the state's bytes; what it makes of
// them may be kept only if Read returns nil. It must give up soon after content has failed, and its error, of a file that is
// whole, is wrapped in Read's.
//
// Errors: ErrTruncated, ErrAltered, ErrForeign, ErrNewer (of the format; a level is for use to judge), ErrKey, use's, in's,
// ctx's. With those of a file that is whole, File has what could be read of it.
func Read(ctx context.Context, in io.Reader, keys [][]byte, use func(h Header, content io.Reader) error) (File, error) {
	src := newSource(ctx, in)
	p := parser{src: src, in: bufio.NewReaderSize(src, chunkSize)}
	err := p.parse(keys, use)
	f, verdict := src.verdict(p.ended)
	if verdict != nil {
		return File{}, verdict
	}
	f.Header = p.header
	return f, err
}

// parser reads what may be anything: what it finds wrong counts only if the verdict is that the file is whole.
type parser struct {
	src    *source
	in     *bufio.Reader
	read   int64
	header Header
	ended  int64 // where the last chunk ended; 0: it was not met

	seal   *sealer
	chunk  []byte // what is left of the present one
	buf    []byte
	last   bool
	broken error
}

func (p *parser) parse(keys [][]byte, use func(Header, io.Reader) error) error {
	if err := p.preamble(); err != nil {
		return err
	}
	err := p.unlock(keys)
	if err == nil {
		err = use(p.header, p)
	}
	p.walk()
	if err == nil && p.ended == 0 {
		err = fmt.Errorf("%w: it has no last chunk", ErrAltered)
	}
	if err == nil && !p.over() {
		err = fmt.Errorf("%w: there is more after its last chunk", ErrAltered)
	}
	return err
}

func (p *parser) preamble() error {
	begin := make([]byte, len(magic))
	if err := p.full(begin); err != nil || string(begin) != magic {
		return fmt.Errorf("%w: it does not begin as one", ErrAltered)
	}
	format, err := p.uvarint()
	if err != nil {
		return err
	}
	if format == 0 {
		return fmt.Errorf("%w: format 0", ErrAltered)
	}
	if format > Format {
		return fmt.Errorf("%w: format %d, this binary reads up to %d", ErrNewer, format, Format)
	}
	size, err := p.uvarint()
	if err != nil {
		return err
	}
	if size > maxHeader {
		return fmt.Errorf("%w: header of %d bytes", ErrAltered, size)
	}
	content := make([]byte, size)
	if err := p.full(content); err != nil {
		return err
	}
	if p.header, err = parseHeader(content); err != nil {
		return fmt.Errorf("%w: %w", ErrAltered, err)
	}
	if again := p.header.append(nil); !bytes.Equal(again, content) {
		return fmt.Errorf("%w: the header is not in its own form", ErrAltered)
	}
	return nil
}

// unlock finds the key.
func (p *parser) unlock(keys [][]byte) error {
	if p.header.KeyID == "" {
		return nil
	}
	for _, key := range keys {
		if KeyID(key) != p.header.KeyID {
			continue
		}
		var err error
		p.seal, err = newSealer(key, &p.header)
		return err
	}
	return fmt.Errorf("%w: it is encrypted with key %s, which is not among the %d given", ErrKey, p.header.KeyID, len(keys))
}

// Read implements io.Reader for the state's bytes.
func (p *parser) Read(b []byte) (int, error) {
	for len(p.chunk) == 0 {
		if p.broken == nil && p.last {
			return 0, io.EOF
		}
		if p.broken == nil {
			p.broken = p.next()
		}
		if p.broken != nil {
			return 0, p.broken
		}
	}
	n := copy(b, p.chunk)
	p.chunk = p.chunk[n:]
	return n, nil
}

// next reads one chunk, and decrypts it.
func (p *parser) next() error {
	payload, err := p.frame()
	if err != nil {
		return err
	}
	if p.seal != nil {
		if payload, err = p.seal.open(payload, p.last); err != nil {
			return fmt.Errorf("%w: a chunk is not what was encrypted", ErrAltered)
		}
	}
	if len(payload) > chunkSize || len(payload) < chunkSize && !p.last {
		return fmt.Errorf("%w: a chunk of %d bytes where %d are due", ErrAltered, len(payload), chunkSize)
	}
	p.chunk = payload
	return nil
}

func (p *parser) frame() ([]byte, error) {
	var head [chunkHead]byte
	if err := p.full(head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	p.last = size&lastChunk != 0
	size &^= lastChunk
	if size > chunkSize+sealed {
		p.last = false
		return nil, fmt.Errorf("%w: chunk of %d bytes", ErrAltered, size)
	}
	if p.buf == nil {
		p.buf = make([]byte, chunkSize+sealed)
	}
	if err := p.full(p.buf[:size]); err != nil {
		p.last = false
		return nil, err
	}
	if p.last {
		p.ended = p.read
	}
	return p.buf[:size], nil
}

// walk goes on from chunk to chunk, whatever is in them: where they end tells how the file is damaged.
func (p *parser) walk() {
	for !p.last {
		if _, err := p.frame(); err != nil {
			return
		}
	}
}

// over tells that nothing but the trailer is left.
func (p *parser) over() bool {
	_, err := p.in.ReadByte()
	return errors.Is(err, io.EOF)
}

func (p *parser) full(b []byte) error {
	n, err := io.ReadFull(p.in, b)
	p.read += int64(n)
	if err == nil || p.src.err != nil {
		return err
	}
	return fmt.Errorf("%w: it ends too early", ErrAltered)
}

// uvarint accepts only the shortest form.
func (p *parser) uvarint() (uint64, error) {
	var b [binary.MaxVarintLen64]byte
	for i := range b {
		if err := p.full(b[i : i+1]); err != nil {
			return 0, err
		}
		if b[i] >= 0x80 {
			continue
		}
		if v, n := binary.Uvarint(b[:i+1]); n > 0 && (i == 0 || b[i] != 0) {
			return v, nil
		}
		break
	}
	return 0, fmt.Errorf("%w: a number is not in its own form", ErrAltered)
}
