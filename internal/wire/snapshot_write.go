package wire

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// writeState writes one snapshot. It refuses what readState would not accept: an unreadable snapshot must be found while the log
// that it replaces is still there. A nil hash is left out.
func writeState(out io.Writer, s state, hash *stateHash) error {
	sum := sha256.New()
	w := snapshotWriter{out: bufio.NewWriterSize(io.MultiWriter(out, sum), 64<<10)}
	h := s.Header()
	w.preamble(&h)
	writeSection(&w, sectionSessions, h.Sessions, s.Sessions(), (*Writer).sessionRecord)
	writeSection(&w, sectionClaims, h.Claims, s.Claims(), (*Writer).claimRecord)
	writeSection(&w, sectionFinished, h.Finished, s.Finished(), (*Writer).finishedRecord)
	writeSection(&w, sectionLost, h.Lost, s.Lost(), (*Writer).lostRecord)
	writeSection(&w, sectionAudit, h.Audit, s.Audit(), (*Writer).auditRecord)
	writeSection(&w, sectionLimits, h.Limits, s.Limits(), (*Writer).limitRecord)
	if hash != nil {
		w.stateHash(hash)
	}
	writeAddition(&w, sectionOpenings, openings(s), (*Writer).openedRecord)
	writeAddition(&w, sectionActs, acts(s), (*Writer).actRecord)
	w.uvarint(0)
	if err := w.flush(); err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	if _, err := out.Write(sum.Sum(nil)); err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	return nil
}

// snapshotWriter remembers its first failure; later writes do nothing.
type snapshotWriter struct {
	out     *bufio.Writer
	scratch Writer
	err     error
}

func (w *snapshotWriter) flush() error {
	if w.err != nil {
		return w.err
	}
	return w.out.Flush()
}

func (w *snapshotWriter) write(b []byte) {
	if w.err == nil {
		_, w.err = w.out.Write(b)
	}
}

func (w *snapshotWriter) uvarint(v uint64) {
	w.scratch.buf = w.scratch.buf[:0]
	w.scratch.Uvarint(v)
	w.write(w.scratch.buf)
}

// endRecord frames and writes what stands in scratch.
func (w *snapshotWriter) endRecord() {
	if size := len(w.scratch.buf); size > maxRecord && w.err == nil {
		w.err = fmt.Errorf("record of %d bytes, at most %d can be read back", size, maxRecord)
	}
	w.scratch.frame(0)
	w.write(w.scratch.buf)
}

func (w *snapshotWriter) preamble(h *locktable.Header) {
	w.write([]byte(snapshotMagic))
	w.uvarint(snapshotFormat)
	w.uvarint(uint64(h.Level))
	w.scratch.buf = w.scratch.buf[:0]
	w.scratch.header(h)
	w.endRecord()
}

func (w *snapshotWriter) stateHash(h *stateHash) {
	w.uvarint(sectionStateHash << 1)
	w.uvarint(1)
	w.scratch.buf = w.scratch.buf[:0]
	w.scratch.stateHash(h)
	w.endRecord()
}

// writeAddition writes a section that is there only if it has records.
func writeAddition[T any](w *snapshotWriter, id uint64, records []T, encode func(*Writer, *T)) {
	if len(records) > 0 {
		writeSection(w, id, len(records), slices.Values(records), encode)
	}
}

func writeSection[T any](w *snapshotWriter, id uint64, count int, records iter.Seq[T], encode func(*Writer, *T)) {
	w.uvarint(id<<1 | requiredBit)
	w.uvarint(uint64(count))
	var rec T // one variable for all: its address escapes into encode
	n := 0
	for rec = range records {
		if w.err != nil {
			return
		}
		w.scratch.buf = w.scratch.buf[:0]
		encode(&w.scratch, &rec)
		w.endRecord()
		n++
	}
	if n != count && w.err == nil {
		w.err = fmt.Errorf("section %d has %d records, its header says %d", id, n, count)
	}
}
