package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The payload of a batch is a sequence of records.
//
//	entry: 1 | index u64 | size u32 | bytes
//	tail:  2 | last u64    entries after last are gone; 0: all are
//	head:  3 | first u64   entries before first are gone
const (
	recordEntry = 1
	recordTail  = 2
	recordHead  = 3

	markSize  = 1 + 8
	entryHead = 1 + 8 + 4
)

func appendEntry(payload []byte, index uint64, data []byte) []byte {
	payload = append(payload, recordEntry)
	payload = binary.LittleEndian.AppendUint64(payload, index)
	payload = binary.LittleEndian.AppendUint32(payload, uint32(len(data)))
	return append(payload, data...)
}

func appendMark(payload []byte, kind byte, index uint64) []byte {
	return binary.LittleEndian.AppendUint64(append(payload, kind), index)
}

// record is one record read back. The bytes of an entry are payload[from : from+size].
type record struct {
	kind       byte
	index      uint64
	from, size int
}

var errRecord = errors.New("a record cannot be read")

// eachRecord calls fn for the records of a payload.
func eachRecord(payload []byte, fn func(record) error) error {
	for at := 0; at < len(payload); {
		rest := payload[at:]
		if len(rest) < markSize {
			return errRecord
		}
		r := record{kind: rest[0], index: binary.LittleEndian.Uint64(rest[1:])}
		at += markSize
		switch r.kind {
		case recordTail, recordHead:
		case recordEntry:
			if len(rest) < entryHead {
				return errRecord
			}
			size := binary.LittleEndian.Uint32(rest[markSize:])
			if uint64(size) > uint64(len(rest)-entryHead) {
				return errRecord
			}
			r.from, r.size = at+entryHead-markSize, int(size)
			at = r.from + r.size
		default:
			return fmt.Errorf("a record of the unknown kind %d", r.kind)
		}
		if err := fn(r); err != nil {
			return err
		}
	}
	return nil
}

// cut lays a payload out in sectors and appends them to dst; from is the number of the first one.
func (s site) cut(dst, payload []byte, from uint32, batch uint64) []byte {
	parts := sectorsFor(len(payload))
	for part := range parts {
		used := min(len(payload), sectorRoom)
		dst = append(dst, zeroSector[:]...)
		sector := dst[len(dst)-sectorSize:]
		copy(sector[sectorHead:], payload[:used])
		s.seal(from+uint32(part), sector, sectorHeader{used: used, batch: batch, part: uint32(part), parts: uint32(parts)})
		payload = payload[used:]
	}
	return dst
}
