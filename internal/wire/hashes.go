package wire

import "github.com/quorumlock/quorumlock/internal/locktable"

const hashesReplyVersion = 1

// HashPoint is the hash of a member's state right after it applied the log entry at Index.
type HashPoint struct {
	Index uint64
	Hash  [32]byte
}

// HashesReply tells the last hashes that a member took of its state. The request for it is empty. Hashes are to be compared only if
// ClusterID, Level and HashVersion are those of the comparer: otherwise they are of another log, or made by another state machine.
type HashesReply struct {
	ClusterID   string
	Level       uint32 // feature level of the binary
	HashVersion uint32 // locktable.HashVersion
	Points      []HashPoint
}

// AppendHashesReply appends the encoding of m to dst.
func AppendHashesReply(dst []byte, m *HashesReply) []byte {
	w := beginMessage(dst, hashesReplyVersion)
	w.String(m.ClusterID)
	w.Uvarint(uint64(m.Level))
	w.Uvarint(uint64(m.HashVersion))
	w.Uvarint(uint64(len(m.Points)))
	for i := range m.Points {
		w.Uvarint(m.Points[i].Index)
		w.hash(m.Points[i].Hash)
	}
	return w.buf
}

// DecodeHashesReply is the inverse of AppendHashesReply. Indexes that do not rise are malformed: a member has one state at one index.
func DecodeHashesReply(b []byte) (HashesReply, error) {
	var m HashesReply
	err := decodeMessage("hashes reply", b, hashesReplyVersion, func(r *Reader) {
		m.ClusterID = r.String()
		m.Level = r.Uint32()
		m.HashVersion = r.Uint32()
		m.Points = list(r, minHashPoint, (*Reader).hashPoint)
		for i := 1; i < len(m.Points); i++ {
			if m.Points[i].Index <= m.Points[i-1].Index {
				r.fail()
			}
		}
	})
	if err != nil {
		return HashesReply{}, err
	}
	return m, nil
}

const minHashPoint = 1 + 32

func (r *Reader) hashPoint() HashPoint { return HashPoint{Index: r.Uvarint(), Hash: r.hash()} }

func (w *Writer) hash(h [32]byte) { w.buf = append(w.buf, h[:]...) }

func (r *Reader) hash() (h [32]byte) {
	if len(r.buf) < len(h) {
		r.fail()
		return h
	}
	r.buf = r.buf[copy(h[:], r.buf):]
	return h
}

// stateHash is the content of a snapshot's hash section.
type stateHash struct {
	version uint32
	hash    [32]byte
}

func hashWhile(s *locktable.Snapshot, goOn func() bool) (h *stateHash, done bool) {
	sum, done := s.HashWhile(goOn)
	return &stateHash{version: locktable.HashVersion, hash: sum}, done
}

func (w *Writer) stateHash(h *stateHash) {
	w.Uvarint(uint64(h.version))
	w.hash(h.hash)
}

// stateHash reads no further than a version that it knows: what follows another one is that version's matter.
func (r *Reader) stateHash() stateHash {
	h := stateHash{version: r.Uint32()}
	if h.version != locktable.HashVersion {
		r.buf = nil
		return h
	}
	h.hash = r.hash()
	return h
}
