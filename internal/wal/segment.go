package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

const (
	segmentSuffix = ".log"
	tempSuffix    = ".tmp"

	// maxSegment bounds what Open reads at once, and an entry.
	maxSegment = 1 << 30
)

// The first sector of a segment file says what the file is; zero up to its checksum, the last four bytes.
//
//	0 magic | 8 log u64 | 16 segment u64 | 24 size u64 | 508 checksum u32
var segmentMagic = [8]byte{'q', 'l', 'w', 'a', 'l', ' ', '1', '\n'}

// segment is one file: a header sector, then batches, then zeros. The whole of it is written and synced before it gets its name,
// so that a batch changes nothing but content.
type segment struct {
	site
	file    File
	sectors uint32 // with the header
}

func segmentName(number uint64) string { return fmt.Sprintf("%012d%s", number, segmentSuffix) }

// segmentNumber reads a name; ok is false for any other file's.
func segmentNumber(name string) (number uint64, ok bool) {
	digits, found := strings.CutSuffix(name, segmentSuffix)
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, found && err == nil && number > 0 && segmentName(number) == name
}

func (s *segment) name() string { return segmentName(s.segment) }

// fits says whether a payload has room behind sector at.
func (s *segment) fits(payload int, at uint32) bool {
	return sectorsFor(payload) <= int(s.sectors-at)
}

// prepareSegment makes an empty segment that is durable under its name, in place of one that has this name.
func prepareSegment(fs FS, at site, sectors uint32) (*segment, error) {
	temp := segmentName(at.segment) + tempSuffix
	f, err := fs.Create(temp)
	if err != nil {
		return nil, err
	}
	err = writeEmpty(f, at, sectors)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, errors.Join(err, fs.Remove(temp))
	}
	if err := fs.Rename(temp, segmentName(at.segment)); err != nil {
		return nil, err
	}
	if err := fs.Sync(); err != nil {
		return nil, err
	}
	if f, err = fs.Open(segmentName(at.segment)); err != nil {
		return nil, err
	}
	return &segment{site: at, file: f, sectors: sectors}, nil
}

func writeEmpty(f File, at site, sectors uint32) error {
	size := int64(sectors) * sectorSize
	chunk := make([]byte, min(size, 256<<10))
	copy(chunk, segmentHeader(at, uint64(size)))
	for done := int64(0); done < size; {
		n, err := f.WriteAt(chunk[:min(int64(len(chunk)), size-done)], done)
		if err != nil {
			return err
		}
		if done == 0 {
			clear(chunk[:sectorSize])
		}
		done += int64(n)
	}
	return nil
}

func segmentHeader(at site, size uint64) []byte {
	h := make([]byte, sectorSize)
	copy(h, segmentMagic[:])
	binary.LittleEndian.PutUint64(h[8:], at.log)
	binary.LittleEndian.PutUint64(h[16:], at.segment)
	binary.LittleEndian.PutUint64(h[24:], size)
	binary.LittleEndian.PutUint32(h[sectorSize-4:], crc32.Checksum(h[:sectorSize-4], castagnoli))
	return h
}

// openSegment opens a segment and reads the whole of it. log is the id that it must have; 0: any.
func openSegment(fs FS, number, log uint64) (s *segment, content []byte, err error) {
	f, err := fs.Open(segmentName(number))
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	size, err := f.Size()
	if err != nil {
		return nil, nil, err
	}
	if size < 2*sectorSize || size%sectorSize != 0 || size > maxSegment+maxSegment/16 {
		return nil, nil, corrupt(segmentName(number), "it has %d bytes", size)
	}
	content = make([]byte, size)
	if n, err := f.ReadAt(content, 0); n < len(content) {
		return nil, nil, fmt.Errorf("read log segment %s: %w", segmentName(number), err)
	}
	at := newSite(binary.LittleEndian.Uint64(content[8:]), number)
	if string(content[:sectorSize]) != string(segmentHeader(at, uint64(size))) {
		return nil, nil, corrupt(segmentName(number), "its first sector is not that of this file")
	}
	if log != 0 && at.log != log {
		return nil, nil, corrupt(segmentName(number), "it belongs to another log")
	}
	return &segment{site: at, file: f, sectors: uint32(size / sectorSize)}, content, nil
}
