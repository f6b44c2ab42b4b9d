package backup

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// File is what is known of a whole file.
type File struct {
	Header Header
	Size   int64
	Sum    [sumSize]byte // over everything before it
}

// Write writes a file of which content writes the state, encrypted if there is a key. Header.KeyID and Salt are set here.
func Write(out io.Writer, h Header, key []byte, content func(io.Writer) error) (File, error) {
	h.KeyID, h.Salt, h.Wall = "", nil, time.UnixMilli(h.Wall.UnixMilli())
	w := &writer{out: out, sum: sha256.New(), plain: make([]byte, 0, chunkSize)}
	if key != nil {
		h.KeyID, h.Salt = KeyID(key), newSalt()
		var err error
		if w.seal, err = newSealer(key, &h); err != nil {
			return File{}, fmt.Errorf("encrypt snapshot: %w", err)
		}
	}
	head := wire.NewWriter([]byte(magic))
	head.Uvarint(Format)
	head.Blob(h.append(nil))
	if err := w.write(head.Bytes()); err != nil {
		return File{}, err
	}
	if err := content(w); err != nil {
		return File{}, err
	}
	if err := w.flush(true); err != nil {
		return File{}, err
	}
	return w.end(h)
}

// writer cuts what is written to it into chunks. One that is full is kept until more comes, since the last one is marked.
type writer struct {
	out   io.Writer
	sum   hash.Hash
	seal  *sealer // nil: plain text
	size  int64
	plain []byte
	frame []byte
	err   error
}

func (w *writer) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		if len(w.plain) == chunkSize {
			if err := w.flush(false); err != nil {
				return done, err
			}
		}
		n := min(chunkSize-len(w.plain), len(p)-done)
		w.plain = append(w.plain, p[done:done+n]...)
		done += n
	}
	return done, nil
}

func (w *writer) flush(last bool) error {
	w.frame = append(w.frame[:0], make([]byte, chunkHead)...)
	if w.seal != nil {
		w.frame = w.seal.seal(w.frame, w.plain, last)
	} else {
		w.frame = append(w.frame, w.plain...)
	}
	head := uint32(len(w.frame) - chunkHead)
	if last {
		head |= lastChunk
	}
	binary.BigEndian.PutUint32(w.frame, head)
	w.plain = w.plain[:0]
	return w.write(w.frame)
}

func (w *writer) write(b []byte) error {
	if w.err != nil {
		return w.err
	}
	w.sum.Write(b)
	n, err := w.out.Write(b)
	w.size += int64(n)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		w.err = fmt.Errorf("write snapshot: %w", err)
	}
	return w.err
}

func (w *writer) end(h Header) (File, error) {
	f := File{Header: h, Size: w.size + int64(trailerSize)}
	if err := w.write(binary.BigEndian.AppendUint64(nil, uint64(f.Size))); err != nil {
		return File{}, err
	}
	w.sum.Sum(f.Sum[:0])
	return f, w.write(append(f.Sum[:], endMagic...))
}
