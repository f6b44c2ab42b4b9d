// Package backup is the file that a snapshot for the outside is: who it is of, the state as package wire encodes it,
// encrypted if a key is given, and what tells a file that was cut or changed from one that is whole. It knows nothing of
// the state itself.
package backup

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// A file is
//
//	magic (8 bytes), format
//	header               its length and its content
//	chunks               4 bytes each: the highest bit marks the last one, the others are the length; then the chunk
//	size of the file     8 bytes
//	SHA-256 of everything before
//	end magic (8 bytes)
//
// The last three keep their places in every format, so that a file is first known to be whole, and only then to be of
// another cluster, of a newer version or under another key. Numbers of fixed width are big-endian.
const (
	magic    = "QLOCKBAK"
	endMagic = "QLOCKEND"
	// Format is the version that is written, and the highest that is read.
	Format = 1

	sumSize     = 32
	trailerSize = 8 + sumSize + len(endMagic)

	chunkSize = 64 << 10 // of the content in one chunk; all but the last one are full
	chunkHead = 4
	lastChunk = 1 << 31

	maxHeader = 4 << 10
)

// What is wrong with a file. Each excludes the others: a file is ErrTruncated or ErrAltered before anything that it says
// is believed.
var (
	ErrTruncated = errors.New("snapshot truncated")
	ErrAltered   = errors.New("snapshot altered")
	ErrForeign   = errors.New("snapshot foreign")
	ErrNewer     = errors.New("snapshot of a newer version")
	ErrKey       = errors.New("no key for the snapshot")
)

// Header is what a file says in plain text about the state in it.
type Header struct {
	Cluster     string // name
	ClusterID   string
	Counter     int64
	Index, Term uint64
	Level       uint32
	Wall        time.Time // when it was taken; milliseconds
	Stale       bool
	Age         time.Duration // with Stale: how long ago the member had been in touch with its group

	Sessions, Holds, Waiting, Audit, Limits int

	KeyID string // which key encrypts the state; empty: none
	Salt  []byte // with a key
}

func (h *Header) append(dst []byte) []byte {
	w := wire.NewWriter(dst)
	w.String(h.Cluster)
	w.String(h.ClusterID)
	w.Varint(h.Counter)
	w.Uvarint(h.Index)
	w.Uvarint(h.Term)
	w.Uvarint(uint64(h.Level))
	w.Varint(h.Wall.UnixMilli())
	w.Bool(h.Stale)
	w.Varint(int64(h.Age))
	for _, n := range h.counts() {
		w.Uvarint(uint64(*n))
	}
	w.String(h.KeyID)
	w.Blob(h.Salt)
	return w.Bytes()
}

// Equal compares all that a file would say.
func (h *Header) Equal(other *Header) bool { return bytes.Equal(h.append(nil), other.append(nil)) }

// Encode is a header for the way between two members, DecodeHeader its inverse.
func (h *Header) Encode() []byte { return h.append(nil) }

// DecodeHeader is the inverse of Encode.
func DecodeHeader(b []byte) (Header, error) { return parseHeader(b) }

func (h *Header) counts() [5]*int {
	return [5]*int{&h.Sessions, &h.Holds, &h.Waiting, &h.Audit, &h.Limits}
}

func parseHeader(b []byte) (Header, error) {
	r := wire.NewReader(b)
	h := Header{
		Cluster: r.String(), ClusterID: r.String(), Counter: r.Varint(), Index: r.Uvarint(), Term: r.Uvarint(), Level: r.Uint32(),
		Wall: time.UnixMilli(r.Varint()), Stale: r.Bool(), Age: time.Duration(r.Varint()),
	}
	for _, n := range h.counts() {
		v := r.Uvarint()
		if v > maxCount {
			return Header{}, fmt.Errorf("header: a count of %d", v)
		}
		*n = int(v)
	}
	h.KeyID = r.String()
	h.Salt = append([]byte(nil), r.Blob()...)
	if err := r.Done(); err != nil {
		return Header{}, fmt.Errorf("header: %w", err)
	}
	return h, nil
}

const maxCount = 1 << 31 // beyond all limits of the state, and an int everywhere
