package wire

import (
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// A command is its op, a set of field bits, and the fields of that set in the order of the bits. The bits are append-only.
// Fields of the hot commands (claim, renew, unlock, cancel) come first: their set takes one byte.
const (
	fieldSession uint64 = 1 << iota
	fieldSeq
	fieldFloor
	fieldNames
	fieldToken
	fieldSince
	fieldNote
	fieldTry // a bit is all there is of a bool
	fieldMode
	fieldNow
	fieldActor
	fieldNode
	fieldNodeName
	fieldTTL
	fieldRenewIndex
	fieldTerm
	fieldRev
	fieldClusterID
	fieldLevel
	fieldEnd
)

// lastOp and lastMode are the highest that this level knows.
const (
	lastOp   = locktable.OpLevel
	lastMode = locktable.Exclusive
)

// AppendCommand appends the encoding of c to dst. Whether c obeys the rules is for locktable.Check to say: here every field that
// is set is written, so that nothing is lost silently.
func AppendCommand(dst []byte, c *locktable.Command) []byte {
	w := Writer{buf: dst}
	w.command(c)
	return w.buf
}

// DecodeCommand is the inverse of AppendCommand. An op, a field or a mode that this level does not know is ErrMalformed.
func DecodeCommand(b []byte) (locktable.Command, error) {
	var c locktable.Command
	if err := decodeCommand(b, &c); err != nil {
		return locktable.Command{}, err
	}
	return c, nil
}

func (w *Writer) command(c *locktable.Command) {
	w.Byte(byte(c.Op))
	w.Uvarint(fieldsOf(c))
	w.varintField(int64(c.Session))
	w.uvarintField(c.Seq)
	w.uvarintField(c.Floor)
	w.namesField(c.Names)
	w.varintField(int64(c.Token))
	w.varintField(int64(c.Since))
	w.stringField(c.Note)
	w.byteField(byte(c.Mode))
	w.stringField(c.Actor)
	w.stringField(c.Node)
	w.stringField(c.NodeName)
	w.varintField(int64(c.TTL))
	w.uvarintField(c.RenewIndex)
	w.uvarintField(c.Term)
	w.varintField(int64(c.Rev))
	w.stringField(c.ClusterID)
	w.uvarintField(uint64(c.Level))
}

func fieldsOf(c *locktable.Command) uint64 {
	return bit(c.Session != 0, fieldSession) |
		bit(c.Seq != 0, fieldSeq) |
		bit(c.Floor != 0, fieldFloor) |
		bit(len(c.Names) != 0, fieldNames) |
		bit(c.Token != 0, fieldToken) |
		bit(c.Since != 0, fieldSince) |
		bit(c.Note != "", fieldNote) |
		bit(c.Try, fieldTry) |
		bit(c.Mode != 0, fieldMode) |
		bit(c.Now, fieldNow) |
		bit(c.Actor != "", fieldActor) |
		bit(c.Node != "", fieldNode) |
		bit(c.NodeName != "", fieldNodeName) |
		bit(c.TTL != 0, fieldTTL) |
		bit(c.RenewIndex != 0, fieldRenewIndex) |
		bit(c.Term != 0, fieldTerm) |
		bit(c.Rev != 0, fieldRev) |
		bit(c.ClusterID != "", fieldClusterID) |
		bit(c.Level != 0, fieldLevel)
}

func decodeCommand(b []byte, c *locktable.Command) error {
	r := Reader{buf: b}
	c.Op = locktable.Op(r.Byte())
	fields := r.Uvarint()
	if r.err != nil {
		return fmt.Errorf("decode command: %w", r.err)
	}
	if c.Op == locktable.OpNone || c.Op > lastOp {
		return fmt.Errorf("decode command: unknown op %d: %w", c.Op, ErrMalformed)
	}
	if fields >= fieldEnd {
		return fmt.Errorf("decode command: unknown fields %#x: %w", fields&^(fieldEnd-1), ErrMalformed)
	}
	r.commandFields(fields, c)
	if err := r.Done(); err != nil {
		return fmt.Errorf("decode command: op %d: %w", c.Op, err)
	}
	if c.Mode > lastMode {
		return fmt.Errorf("decode command: unknown mode %d: %w", c.Mode, ErrMalformed)
	}
	return nil
}

func (r *Reader) commandFields(fields uint64, c *locktable.Command) {
	if fields&fieldSession != 0 {
		c.Session = locktable.SessionID(r.presentVarint())
	}
	if fields&fieldSeq != 0 {
		c.Seq = r.presentUvarint()
	}
	if fields&fieldFloor != 0 {
		c.Floor = r.presentUvarint()
	}
	if fields&fieldNames != 0 {
		c.Names = r.names()
	}
	if fields&fieldToken != 0 {
		c.Token = locktable.Token(r.presentVarint())
	}
	if fields&fieldSince != 0 {
		c.Since = locktable.Rev(r.presentVarint())
	}
	if fields&fieldNote != 0 {
		c.Note = r.presentString()
	}
	c.Try = fields&fieldTry != 0
	c.Now = fields&fieldNow != 0
	if fields >= fieldMode {
		r.rareFields(fields, c)
	}
}

// rareFields reads those that no claim, renewal, unlock or cancel has.
func (r *Reader) rareFields(fields uint64, c *locktable.Command) {
	if fields&fieldMode != 0 {
		c.Mode = locktable.Mode(r.presentByte())
	}
	if fields&fieldActor != 0 {
		c.Actor = r.presentString()
	}
	if fields&fieldNode != 0 {
		c.Node = r.presentString()
	}
	if fields&fieldNodeName != 0 {
		c.NodeName = r.presentString()
	}
	if fields&fieldTTL != 0 {
		c.TTL = time.Duration(r.presentVarint())
	}
	if fields&fieldRenewIndex != 0 {
		c.RenewIndex = r.presentUvarint()
	}
	if fields&fieldTerm != 0 {
		c.Term = r.presentUvarint()
	}
	if fields&fieldRev != 0 {
		c.Rev = locktable.Rev(r.presentVarint())
	}
	if fields&fieldClusterID != 0 {
		c.ClusterID = r.presentString()
	}
	if fields&fieldLevel != 0 {
		c.Level = r.presentUint32()
	}
}

// names reads a list that is not empty. Its elements may be: that breaks a rule of the state machine, not of the encoding.
// (A loop of its own rather than list, since most commands come through here: see there.)
func (r *Reader) names() []string {
	n := present(r, r.Count(1))
	if n == 0 {
		return nil
	}
	names := make([]string, n)
	for i := range names {
		names[i] = r.String()
	}
	return names
}

// The writers below leave out a zero: its bit is not set.

func (w *Writer) byteField(v byte) {
	if v != 0 {
		w.Byte(v)
	}
}

func (w *Writer) uvarintField(v uint64) {
	if v != 0 {
		w.Uvarint(v)
	}
}

func (w *Writer) varintField(v int64) {
	if v != 0 {
		w.Varint(v)
	}
}

func (w *Writer) stringField(s string) {
	if s != "" {
		w.String(s)
	}
}

func (w *Writer) namesField(names []string) {
	if len(names) == 0 {
		return
	}
	w.names(names)
}

func (w *Writer) names(names []string) {
	w.Uvarint(uint64(len(names)))
	for _, name := range names {
		w.String(name)
	}
}

func bit(set bool, field uint64) uint64 {
	if set {
		return field
	}
	return 0
}
