package gossip

import (
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// Datagrams of the Memory form: format, kind, cluster fingerprint, then what the kind says. With keys the whole is sealed.
const (
	memoryFormat = 1

	kindTable  byte = 1 // rows, and whether an answer is wanted
	kindAsking byte = 2
	kindDuel   byte = 3 // a message of duels

	maxDatagram = 1200 // fits into any path without fragments; one row is always allowed
)

// row is one process in a table.
type row struct {
	id   string
	beat uint64 // counts the life of the process; never falls
	left bool
	rec  []byte // encoded record
}

func (r row) size() int { return len(r.id) + len(r.rec) + 16 }

func putHeader(w *wire.Writer, kind byte, cluster uint64) {
	w.Byte(memoryFormat)
	w.Byte(kind)
	w.Uvarint(cluster)
}

// encodeTables splits rows over as many datagrams as they need.
func encodeTables(kind byte, cluster uint64, rows []row) [][]byte {
	var out [][]byte
	for len(rows) > 0 {
		n, size := 1, rows[0].size()
		for n < len(rows) && size+rows[n].size() <= maxDatagram {
			size += rows[n].size()
			n++
		}
		w := wire.NewWriter(make([]byte, 0, size+32))
		putHeader(w, kind, cluster)
		w.Uvarint(uint64(n))
		for _, r := range rows[:n] {
			w.String(r.id)
			w.Uvarint(r.beat)
			w.Bool(r.left)
			w.Blob(r.rec)
		}
		out = append(out, w.Bytes())
		rows = rows[n:]
	}
	return out
}

// message is one decoded datagram.
type message struct {
	kind    byte
	cluster uint64
	rows    []row
	duel    []byte
}

func decodeMessage(b []byte) (message, error) {
	rd := wire.NewReader(b)
	if v := rd.Byte(); rd.Err() == nil && v != memoryFormat {
		return message{}, fmt.Errorf("gossip datagram of format %d, this binary knows %d", v, memoryFormat)
	}
	m := message{kind: rd.Byte(), cluster: rd.Uvarint()}
	switch m.kind {
	case kindTable, kindAsking:
		m.rows = make([]row, rd.Count(4))
		for i := range m.rows {
			m.rows[i] = row{id: rd.String(), beat: rd.Uvarint(), left: rd.Bool(), rec: rd.Blob()}
		}
	case kindDuel:
		m.duel = rd.Blob()
	default:
		return message{}, fmt.Errorf("gossip datagram of unknown kind %d", m.kind)
	}
	if err := rd.Done(); err != nil {
		return message{}, fmt.Errorf("gossip datagram: %w", err)
	}
	return m, nil
}

var errSealed = errors.New("gossip datagram does not open with any of our keys")

// sealer encrypts and authenticates datagrams with AES-GCM; without keys it does nothing.
type sealer struct{ aeads []cipher.AEAD }

func newSealer(keys [][]byte) (sealer, error) {
	var s sealer
	for i, key := range keys {
		block, err := aes.NewCipher(key)
		if err != nil {
			return sealer{}, fmt.Errorf("gossip key %d has a wrong size", i)
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return sealer{}, fmt.Errorf("gossip key %d: %w", i, err)
		}
		s.aeads = append(s.aeads, aead)
	}
	return s, nil
}

func (s sealer) seal(b []byte) []byte {
	if len(s.aeads) == 0 {
		return b
	}
	return s.aeads[0].Seal(nil, nil, b, nil)
}

func (s sealer) open(b []byte) ([]byte, error) {
	if len(s.aeads) == 0 {
		return b, nil
	}
	for _, aead := range s.aeads {
		if plain, err := aead.Open(nil, nil, b, nil); err == nil {
			return plain, nil
		}
	}
	return nil, errSealed
}
