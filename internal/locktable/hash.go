package locktable

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// hashVersion is the first byte hashed; it changes when the canonical form does.
const hashVersion = 1

// Hash is a SHA-256 over the whole state in a canonical form of its own, so that it does not change with the encoding of snapshots.
// The applied index is left out: a read that rides the log moves it and changes nothing. Whoever compares hashes compares them at
// equal indexes anyway. It reads every record, so its time grows with the state.
func (s *Snapshot) Hash() [32]byte {
	d := digest{sum: sha256.New(), buf: make([]byte, 0, 1<<14)}
	d.header(s.Header())
	for r := range s.Sessions() {
		d.ints(int64(r.ID), int64(r.TTL))
		d.uints(r.RenewIndex, r.Floor)
		d.texts(r.Node, r.NodeName)
	}
	for r := range s.Claims() {
		d.claim(&r)
	}
	for r := range s.Finished() {
		d.ints(int64(r.Session), int64(r.Token))
		d.uints(r.Seq, uint64(r.Op), uint64(r.Code))
	}
	for r := range s.Lost() {
		d.ints(int64(r.Session), int64(r.Lost.Token), int64(r.Lost.Rev))
		d.uints(r.Lost.Seq, uint64(r.Lost.Cause))
		d.texts(r.Lost.Reason, r.Lost.Actor)
	}
	for r := range s.Audit() {
		d.audit(&r)
	}
	return d.finish()
}

// digest gathers an unambiguous byte form (numbers as varints, texts with their length) and hashes it in large pieces.
type digest struct {
	sum hash.Hash
	buf []byte
}

func (d *digest) header(h Header) {
	d.uints(hashVersion, uint64(h.Level))
	d.ints(int64(h.Counter), int64(h.MaxTTL))
	d.texts(h.ClusterID)
	for _, n := range [...]int{h.Sessions, h.Claims, h.Finished, h.Lost, h.Audit} {
		d.uints(uint64(n))
	}
}

func (d *digest) claim(r *ClaimRecord) {
	d.ints(int64(r.Rev), int64(r.Session), r.Created, int64(r.Token), r.Granted, int64(r.DrainRev))
	d.uints(r.Seq, uint64(r.Mode), r.DrainIndex, uint64(len(r.Names)))
	d.texts(r.Names...)
	d.texts(r.Note, r.DrainNote, r.DrainActor)
}

func (d *digest) audit(r *AuditRecord) {
	now := uint64(0)
	if r.Now {
		now = 1
	}
	d.ints(int64(r.Rev), r.Wall, int64(r.Token))
	d.uints(now)
	d.texts(r.Name, r.Actor, r.Reason)
}

func (d *digest) ints(values ...int64) {
	for _, v := range values {
		d.buf = binary.AppendVarint(d.buf, v)
	}
	d.flush(cap(d.buf) / 2)
}

func (d *digest) uints(values ...uint64) {
	for _, v := range values {
		d.buf = binary.AppendUvarint(d.buf, v)
	}
}

func (d *digest) texts(values ...string) {
	for _, v := range values {
		d.buf = binary.AppendUvarint(d.buf, uint64(len(v)))
		d.buf = append(d.buf, v...)
	}
}

// flush hashes what has gathered if it is more than limit bytes.
func (d *digest) flush(limit int) {
	if len(d.buf) > limit {
		d.sum.Write(d.buf)
		d.buf = d.buf[:0]
	}
}

func (d *digest) finish() (sum [32]byte) {
	d.flush(0)
	d.sum.Sum(sum[:0])
	return sum
}
