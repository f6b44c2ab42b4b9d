package store

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/hashicorp/raft"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const sumSize = crc32.Size

var errChecksum = errors.New("checksum does not match")

// entrySum covers all of an entry that raft acts upon. The length of Data is part of it, so that no byte can move between Data
// and Extensions. AppendedAt is left out: raft uses it for a metric only.
func entrySum(l *raft.Log, extensions []byte) uint32 {
	var head [25]byte
	binary.BigEndian.PutUint64(head[0:], l.Index)
	binary.BigEndian.PutUint64(head[8:], l.Term)
	head[16] = byte(l.Type)
	binary.BigEndian.PutUint64(head[17:], uint64(len(l.Data)))
	sum := crc32.Update(0, castagnoli, head[:])
	sum = crc32.Update(sum, castagnoli, l.Data)
	return crc32.Update(sum, castagnoli, extensions)
}

// seal returns a copy of l whose Extensions end in the checksum. The trailer goes there and not behind Data because Extensions are
// empty as a rule: four bytes are allocated, no payload is copied.
func seal(l *raft.Log) *raft.Log {
	sealed := *l
	ext := make([]byte, len(l.Extensions), len(l.Extensions)+sumSize)
	copy(ext, l.Extensions)
	sealed.Extensions = binary.BigEndian.AppendUint32(ext, entrySum(l, l.Extensions))
	return &sealed
}

// unseal checks a sealed entry read at index and takes the checksum off in place.
func unseal(index uint64, l *raft.Log) error {
	n := len(l.Extensions) - sumSize
	if n < 0 || l.Index != index {
		return errChecksum
	}
	ext := l.Extensions[:n:n]
	if entrySum(l, ext) != binary.BigEndian.Uint32(l.Extensions[n:]) {
		return errChecksum
	}
	l.Extensions = ext
	if n == 0 {
		l.Extensions = nil
	}
	return nil
}

// sealValue appends the checksum of a stable value. The key is covered, so that a value found under another key does not pass.
func sealValue(key, value []byte) []byte {
	sealed := make([]byte, len(value), len(value)+sumSize)
	copy(sealed, value)
	return binary.BigEndian.AppendUint32(sealed, valueSum(key, value))
}

func unsealValue(key, sealed []byte) ([]byte, error) {
	n := len(sealed) - sumSize
	if n < 0 || valueSum(key, sealed[:n]) != binary.BigEndian.Uint32(sealed[n:]) {
		return nil, errChecksum
	}
	return sealed[:n:n], nil
}

func valueSum(key, value []byte) uint32 {
	var size [8]byte
	binary.BigEndian.PutUint64(size[:], uint64(len(key)))
	sum := crc32.Update(0, castagnoli, size[:])
	sum = crc32.Update(sum, castagnoli, key)
	return crc32.Update(sum, castagnoli, value)
}
