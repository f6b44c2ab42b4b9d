//go:build !wasip1

package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorumlock/quorumlock/internal/wal"
)

// logForm says which of the two forms raft's log has in a directory.
type logForm string

const (
	logInBolt     logForm = ""         // in raft.db, beside term and vote
	logInSegments logForm = "segments" // in a directory of its own; raft.db holds term and vote only
)

func (o *Options) logForm() logForm {
	if o.Segments {
		return logInSegments
	}
	return logInBolt
}

func (f logForm) known() bool { return f == logInBolt || f == logInSegments }

// segmentLogs is raft's log in segment files. It knows the index of an entry by its place.
type segmentLogs struct{ log *wal.Log }

// openSegments opens the log in a directory, or makes both if fresh.
func openSegments(path string, fresh bool) (*segmentLogs, error) {
	if fresh {
		if err := os.Mkdir(path, 0o700); err != nil {
			return nil, err
		}
		log, err := wal.Create(wal.Dir(path), wal.Options{})
		if err != nil {
			return nil, err
		}
		return &segmentLogs{log}, nil
	}
	log, err := wal.Open(wal.Dir(path), wal.Options{})
	switch {
	case err == nil:
		return &segmentLogs{log}, nil
	case errors.Is(err, fs.ErrPermission):
		return nil, err
	default:
		return nil, &CorruptError{What: path, Err: err}
	}
}

func (s *segmentLogs) close() error { return s.log.Close() }

// FirstIndex returns 0 for an empty log.
func (s *segmentLogs) FirstIndex() (uint64, error) {
	first, _ := s.log.Bounds()
	return first, nil
}

// LastIndex returns 0 for an empty log.
func (s *segmentLogs) LastIndex() (uint64, error) {
	_, last := s.log.Bounds()
	return last, nil
}

// GetLog returns raft.ErrLogNotFound itself for an entry that is not there: raft compares with ==.
func (s *segmentLogs) GetLog(index uint64, out *raft.Log) error {
	data, err := s.log.Get(index)
	if errors.Is(err, wal.ErrNotFound) {
		return raft.ErrLogNotFound
	}
	if err != nil {
		return err
	}
	return decodeEntry(index, data, out)
}

// StoreLog appends one entry.
func (s *segmentLogs) StoreLog(entry *raft.Log) error { return s.StoreLogs([]*raft.Log{entry}) }

// StoreLogs appends entries with one sync, if they fit one segment.
func (s *segmentLogs) StoreLogs(entries []*raft.Log) error {
	if len(entries) == 0 {
		return nil
	}
	size := 0
	for i, e := range entries {
		if e.Index != entries[0].Index+uint64(i) {
			return fmt.Errorf("entry %d does not follow entry %d", e.Index, entries[0].Index+uint64(i)-1)
		}
		size += entrySize(e)
	}
	all := make([]byte, 0, size)
	list := make([][]byte, len(entries))
	for i, e := range entries {
		from := len(all)
		all = appendEntry(all, e)
		list[i] = all[from:]
	}
	return s.log.Append(entries[0].Index, list)
}

// DeleteRange removes a head or a tail.
func (s *segmentLogs) DeleteRange(from, to uint64) error {
	first, last := s.log.Bounds()
	switch {
	case last == 0 || from > to || to < first || from > last:
		return nil
	case to >= last:
		return s.log.TruncateTail(max(from, 1) - 1)
	case from <= first:
		return s.log.TruncateHead(to + 1)
	default:
		return fmt.Errorf("deleting entries %d to %d would leave a gap in %d to %d", from, to, first, last)
	}
}

// An entry without its index: term u64, type u8, time of appending i64 (nanoseconds of the Unix era; 0: none), size of the
// extensions u32, extensions, data. Little-endian. raft uses the time for a metric only.
const entryFixed = 8 + 1 + 8 + 4

func entrySize(e *raft.Log) int { return entryFixed + len(e.Extensions) + len(e.Data) }

func appendEntry(b []byte, e *raft.Log) []byte {
	b = binary.LittleEndian.AppendUint64(b, e.Term)
	b = append(b, byte(e.Type))
	appended := int64(0)
	if !e.AppendedAt.IsZero() {
		appended = e.AppendedAt.UnixNano()
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(appended))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(e.Extensions)))
	b = append(b, e.Extensions...)
	return append(b, e.Data...)
}

// decodeEntry keeps data: it is the entry's own from here on.
func decodeEntry(index uint64, data []byte, out *raft.Log) error {
	if len(data) < entryFixed {
		return errors.New("it is too short")
	}
	size := binary.LittleEndian.Uint32(data[17:])
	if uint64(size) > uint64(len(data)-entryFixed) {
		return errors.New("its extensions are cut short")
	}
	end := entryFixed + int(size)
	*out = raft.Log{
		Index:      index,
		Term:       binary.LittleEndian.Uint64(data),
		Type:       raft.LogType(data[8]),
		Extensions: data[entryFixed:end:end],
		Data:       data[end:],
	}
	if appended := int64(binary.LittleEndian.Uint64(data[9:])); appended != 0 {
		out.AppendedAt = time.Unix(0, appended)
	}
	return nil
}
