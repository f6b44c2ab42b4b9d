package wire

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// The record of a claim is the only one that a large cluster has by the million, and most claims are plain. So it is what every claim
// has, a set of field bits, and the fields of that set in the order of the bits. A token and a time of grant are told as what they are
// beyond the claim's own revision and time: as a rule nothing, in one byte instead of eight.
const (
	claimToken uint64 = 1 << iota
	claimGranted
	claimPos   // the place in the queue is not the claim's own revision
	claimGrant // the revision of the grant is not the token
	claimMode
	claimCount
	claimNote

	claimValue
	claimDelay
	claimOffer
	claimDrainIndex
	claimDrainRev
	claimDrainNote
	claimDrainActor

	claimBarred // a bit is all there is of a bool
	claimNode
	claimNodeName

	claimEnd
)

func claimFieldsOf(c *locktable.ClaimRecord) uint64 {
	return bit(c.Token != 0, claimToken) |
		bit(c.Granted != 0, claimGranted) |
		bit(c.Pos != c.Rev, claimPos) |
		bit(c.Grant != locktable.Rev(c.Token), claimGrant) |
		bit(c.Mode != 0, claimMode) |
		bit(c.Count != 0, claimCount) |
		bit(c.Note != "", claimNote) |
		bit(c.Value != "", claimValue) |
		bit(c.Delay != 0, claimDelay) |
		bit(c.Offer != "", claimOffer) |
		bit(c.DrainIndex != 0, claimDrainIndex) |
		bit(c.DrainRev != 0, claimDrainRev) |
		bit(c.DrainNote != "", claimDrainNote) |
		bit(c.DrainActor != "", claimDrainActor) |
		bit(c.Barred, claimBarred) |
		bit(c.Node != "", claimNode) |
		bit(c.NodeName != "", claimNodeName)
}

func (w *Writer) claimRecord(c *locktable.ClaimRecord) {
	fields := claimFieldsOf(c)
	w.Varint(int64(c.Rev))
	w.Varint(int64(c.Session))
	w.Uvarint(c.Seq)
	w.names(c.Names)
	w.Varint(c.Created)
	w.Uvarint(fields)
	if fields&claimToken != 0 {
		w.Varint(int64(c.Token) - int64(c.Rev))
	}
	if fields&claimGranted != 0 {
		w.Varint(c.Granted - c.Created)
	}
	if fields&claimPos != 0 {
		w.Varint(int64(c.Pos))
	}
	if fields&claimGrant != 0 {
		w.Varint(int64(c.Grant))
	}
	w.byteField(byte(c.Mode))
	w.uvarintField(uint64(c.Count))
	w.stringField(c.Note)
	if fields >= claimValue {
		w.rareClaimFields(c)
	}
}

func (w *Writer) rareClaimFields(c *locktable.ClaimRecord) {
	w.stringField(c.Value)
	w.varintField(int64(c.Delay))
	w.stringField(c.Offer)
	w.uvarintField(c.DrainIndex)
	w.varintField(int64(c.DrainRev))
	w.stringField(c.DrainNote)
	w.stringField(c.DrainActor)
	w.stringField(c.Node)
	w.stringField(c.NodeName)
}

func (r *Reader) claimRecord() locktable.ClaimRecord {
	c := locktable.ClaimRecord{
		Rev:     locktable.Rev(r.Varint()),
		Session: locktable.SessionID(r.Varint()),
		Seq:     r.Uvarint(),
		Names:   r.strings(r.Count(1)),
		Created: r.Varint(),
	}
	fields := r.Uvarint()
	if fields >= claimEnd {
		r.fail()
		return c
	}
	r.grantFields(fields, &c)
	if fields&claimMode != 0 {
		c.Mode = locktable.Mode(r.presentByte())
	}
	if fields&claimCount != 0 {
		c.Count = r.presentUint32()
	}
	if fields&claimNote != 0 {
		c.Note = r.presentString()
	}
	if fields >= claimValue {
		r.rareClaimFields(fields, &c)
	}
	return c
}

// grantFields refuses what a bit that is not set would have said: that there is no token, that the place is the revision.
func (r *Reader) grantFields(fields uint64, c *locktable.ClaimRecord) {
	if fields&claimToken != 0 {
		c.Token = present(r, locktable.Token(c.Rev)+locktable.Token(r.Varint()))
	}
	if fields&claimGranted != 0 {
		c.Granted = present(r, c.Created+r.Varint())
	}
	c.Pos, c.Grant = c.Rev, locktable.Rev(c.Token)
	if fields&claimPos != 0 {
		c.Pos = other(r, c.Pos)
	}
	if fields&claimGrant != 0 {
		c.Grant = other(r, c.Grant)
	}
}

// other reads a revision that is not the usual one.
func other(r *Reader, usual locktable.Rev) locktable.Rev {
	v := locktable.Rev(r.Varint())
	if v == usual {
		r.fail()
	}
	return v
}

func (r *Reader) rareClaimFields(fields uint64, c *locktable.ClaimRecord) {
	if fields&claimValue != 0 {
		c.Value = r.presentString()
	}
	if fields&claimDelay != 0 {
		c.Delay = time.Duration(r.presentVarint())
	}
	if fields&claimOffer != 0 {
		c.Offer = r.presentString()
	}
	if fields&claimDrainIndex != 0 {
		c.DrainIndex = r.presentUvarint()
	}
	if fields&claimDrainRev != 0 {
		c.DrainRev = locktable.Rev(r.presentVarint())
	}
	if fields&claimDrainNote != 0 {
		c.DrainNote = r.presentString()
	}
	if fields&claimDrainActor != 0 {
		c.DrainActor = r.presentString()
	}
	c.Barred = fields&claimBarred != 0
	if fields&claimNode != 0 {
		c.Node = r.presentString()
	}
	if fields&claimNodeName != 0 {
		c.NodeName = r.presentString()
	}
}
