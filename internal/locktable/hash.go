package locktable

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// HashVersion names the canonical form that Hash is taken of; it changes when the form does, and hashes of two versions say nothing
// about each other. It is also the first thing hashed.
const HashVersion = 4

// Hash is a SHA-256 over the whole state in a canonical form of its own, so that it does not change with the encoding of snapshots.
// The applied index is left out: a read that rides the log moves it and changes nothing. Whoever compares hashes compares them at
// equal indexes anyway. It reads every record, so its time grows with the state.
func (s *Snapshot) Hash() [32]byte {
	sum, _ := s.HashWhile(func() bool { return true })
	return sum
}

// HashWhile is Hash for as long as goOn, which is asked every few kilobytes, says so; done tells whether it got to the end.
func (s *Snapshot) HashWhile(goOn func() bool) (sum [32]byte, done bool) {
	d := digest{sum: sha256.New(), buf: make([]byte, 0, 2*digestPiece), goOn: goOn}
	d.header(s.Header())
	s.sessions.Scan(func(_ SessionID, r session) bool { return d.session(&r) })
	s.claims.Scan(func(e claimEntry) bool { return d.claim(e.claim) })
	s.drains.Scan(func(_ Rev, c *claim) bool { return !c.barred || d.claim(c) })
	s.finished.Scan(d.finished)
	s.lost.Scan(d.lost)
	s.audit.Scan(func(_ Rev, r AuditRecord) bool { return d.audit(&r) })
	s.uses.Scan(func(name string, u use) bool { return u.mode != Permits || d.limit(u.record(name)) })
	return d.finish()
}

// digestPiece is hashed at a time: large against the cost of a call, small against a processor's cache.
const digestPiece = 8 << 10

// digest gathers an unambiguous byte form (the counts of all records first, in each record the same fields, texts with their length) and
// hashes it in large pieces. What is large as a rule has a fixed width, which is quicker to write than a varint of eight bytes; what is small
// as a rule is a varint, since bytes cost time to hash.
//
// A method that takes a record says whether to go on.
type digest struct {
	sum     hash.Hash
	buf     []byte
	goOn    func() bool
	stopped bool
	level   uint32 // of the state: what came with a later level is not in the form of an earlier one, which older members hash too
}

func (d *digest) header(h Header) {
	d.level = h.Level
	d.small(HashVersion, uint64(h.Level))
	d.large(int64(h.Counter), int64(h.MaxTTL))
	d.small(uint64(h.Quarantine.Rev), h.Quarantine.Index, uint64(h.Quarantine.Wait))
	d.texts(h.ClusterID)
	for _, n := range [...]int{h.Sessions, h.Claims, h.Finished, h.Lost, h.Audit, h.Limits} {
		d.small(uint64(n))
	}
}

func (d *digest) session(s *session) bool {
	o := s.owner
	d.large(int64(o.id), int64(o.ttl))
	d.small(s.renewIndex, s.floor)
	d.texts(o.node, o.nodeName, o.incarnation)
	if d.level >= LevelActs {
		d.large(o.opened)
	}
	return d.endRecord()
}

func (d *digest) claim(c *claim) bool {
	d.large(int64(c.rev), int64(c.pos), int64(c.owner.id), c.created, int64(c.grant), int64(c.token), c.granted)
	d.small(c.seq, uint64(c.mode), uint64(c.count), uint64(len(c.names)))
	d.texts(c.names...)
	d.texts(c.note)
	d.terms(c.terms)
	if drain := c.drain; drain != nil {
		d.small(1, drain.index, uint64(drain.rev))
		d.texts(drain.note, drain.actor)
	} else {
		d.small(0)
	}
	if c.barred {
		d.small(1)
		d.texts(c.owner.node, c.owner.nodeName)
	} else {
		d.small(0)
	}
	return d.endRecord()
}

func (d *digest) terms(t *terms) {
	if t == nil {
		d.small(0)
		return
	}
	d.small(1, uint64(t.delay))
	d.texts(t.value, t.offer)
}

func (d *digest) limit(r LimitRecord) bool {
	set := uint64(0)
	if r.Set {
		set = 1
	}
	d.texts(r.Name)
	d.small(uint64(r.Limit), uint64(r.Former), set)
	return d.endRecord()
}

func (d *digest) finished(r FinishedRecord) bool {
	d.large(int64(r.Session), int64(r.Token))
	d.small(r.Seq, uint64(r.Op), uint64(r.Code))
	return d.endRecord()
}

func (d *digest) lost(r LostRecord) bool {
	d.large(int64(r.Session), int64(r.Lost.Token), int64(r.Lost.Rev))
	d.small(r.Lost.Seq, uint64(r.Lost.Cause), uint64(r.Lost.Limit))
	d.texts(r.Lost.Reason, r.Lost.Actor)
	return d.endRecord()
}

func (d *digest) audit(r *AuditRecord) bool {
	now := uint64(0)
	if r.Now {
		now = 1
	}
	d.large(int64(r.Rev), r.Wall, int64(r.Token))
	d.small(now)
	d.texts(r.Name, r.Actor, r.Reason)
	if d.level >= LevelActs {
		d.large(int64(r.Session))
		d.small(uint64(r.Act))
		d.texts(r.Node, r.NodeName)
	}
	return d.endRecord()
}

func (d *digest) large(values ...int64) {
	for _, v := range values {
		d.buf = binary.LittleEndian.AppendUint64(d.buf, uint64(v))
	}
}

func (d *digest) small(values ...uint64) {
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

// endRecord hashes what has gathered once it is a piece, and asks whether to go on.
func (d *digest) endRecord() bool {
	if len(d.buf) >= digestPiece {
		d.sum.Write(d.buf)
		d.buf = d.buf[:0]
		d.stopped = !d.goOn()
	}
	return !d.stopped
}

func (d *digest) finish() (sum [32]byte, done bool) {
	if d.stopped {
		return sum, false
	}
	d.sum.Write(d.buf)
	d.sum.Sum(sum[:0])
	return sum, true
}
