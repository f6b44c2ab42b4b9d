package wal

import (
	"encoding/binary"
	"hash/crc32"
)

// A sector is the most that a disk writes wholly or not at all. Each one proves itself: its checksum covers which log, file and
// place it was written for, and its head which batch it is a part of. So a sector that a cut write has not reached, which is still
// zero, can be told from one that was damaged.
const (
	sectorSize = 512
	sectorHead = 24
	sectorRoom = sectorSize - sectorHead // payload bytes
)

// sectorHeader is what stands before the payload, behind the checksum. All numbers are little-endian.
//
//	0 checksum u32 | 4 used u16 | 6 zero u16 | 8 batch u64 | 16 part u32 | 20 parts u32
type sectorHeader struct {
	used  int    // payload bytes; all but the last sector of a batch are full
	batch uint64 // number of the batch; consecutive over all segments, from 1
	part  uint32 // which sector of the batch this is
	parts uint32 // how many the batch has
}

// site is where a sector stands, as far as its checksum covers that: which log, and which segment of it. Its number within the
// segment is the third part.
type site struct {
	log, segment uint64
	seed         uint32 // checksum of both
}

func newSite(log, segment uint64) site {
	var both [16]byte
	binary.LittleEndian.PutUint64(both[0:], log)
	binary.LittleEndian.PutUint64(both[8:], segment)
	return site{log, segment, crc32.Checksum(both[:], castagnoli)}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum differs for every two numbers, whatever the content: a checksum is a one-to-one function of the one it goes on from.
func (s site) sum(number uint32, content []byte) uint32 {
	return crc32.Update(s.seed^number, castagnoli, content)
}

// seal writes header and checksum of a sector whose payload is in place, and zero behind it.
func (s site) seal(number uint32, sector []byte, h sectorHeader) {
	binary.LittleEndian.PutUint16(sector[4:], uint16(h.used))
	binary.LittleEndian.PutUint16(sector[6:], 0)
	binary.LittleEndian.PutUint64(sector[8:], h.batch)
	binary.LittleEndian.PutUint32(sector[16:], h.part)
	binary.LittleEndian.PutUint32(sector[20:], h.parts)
	binary.LittleEndian.PutUint32(sector, s.sum(number, sector[4:sectorSize]))
}

// open returns the header of a sector, and whether the sector is what was written there.
func (s site) open(number uint32, sector []byte) (h sectorHeader, ok bool) {
	h = sectorHeader{
		used:  int(binary.LittleEndian.Uint16(sector[4:])),
		batch: binary.LittleEndian.Uint64(sector[8:]),
		part:  binary.LittleEndian.Uint32(sector[16:]),
		parts: binary.LittleEndian.Uint32(sector[20:]),
	}
	ok = binary.LittleEndian.Uint32(sector) == s.sum(number, sector[4:sectorSize]) &&
		h.used <= sectorRoom && h.batch != 0 && h.part < h.parts && (h.used == sectorRoom || h.part == h.parts-1)
	return h, ok
}

var zeroSector [sectorSize]byte

func isZero(sector []byte) bool { return string(sector) == string(zeroSector[:]) }

func sectorsFor(payload int) int { return (payload + sectorRoom - 1) / sectorRoom }
