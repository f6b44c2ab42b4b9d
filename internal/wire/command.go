package wire

import (
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// A command is its op, a set of field bits, and the fields of that set in the order of the bits. The bits are append-only.
// Each byte of the set has a group: what the hot commands have (renew, unlock, cancel, and a claim of the plain kind), what else a claim
// can have, what other requests and the leader's own commands have, what is said once in a while, and more of that. So the set of a hot command is one byte.
const (
	fieldSession uint64 = 1 << iota
	fieldSeq
	fieldFloor
	fieldNames
	fieldOf
	fieldToken
	fieldSince

	fieldNote
	fieldTry // a bit is all there is of a bool
	fieldMode
	fieldCount
	fieldLimit
	fieldValue
	fieldDelay

	fieldRenewIndex
	fieldTerm
	fieldRev
	fieldFrom
	fieldSecret
	fieldNow
	fieldActor

	fieldNode
	fieldNodeName
	fieldTTL
	fieldIncarnation
	fieldAfter
	fieldClusterID
	fieldLevel

	fieldFormer
	fieldBarring // a bit is all there is of a bool
	fieldAct

	fieldEnd
)

// lastOp and lastMode are the highest that this level knows.
const (
	lastOp   = locktable.OpAct
	lastMode = locktable.Permits
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
	fields := fieldsOf(c)
	w.Byte(byte(c.Op))
	w.Uvarint(fields)
	w.varintField(int64(c.Session))
	w.uvarintField(c.Seq)
	w.uvarintField(c.Floor)
	w.namesField(c.Names)
	w.uvarintField(c.Of)
	w.varintField(int64(c.Token))
	w.varintField(int64(c.Since))
	if fields >= fieldNote {
		w.claimFields(c)
	}
	if fields >= fieldRenewIndex {
		w.rareFields(c)
	}
}

func (w *Writer) claimFields(c *locktable.Command) {
	w.stringField(c.Note)
	w.byteField(byte(c.Mode))
	w.uvarintField(uint64(c.Count))
	w.uvarintField(uint64(c.Limit))
	w.stringField(c.Value)
	w.varintField(int64(c.Delay))
}

func (w *Writer) rareFields(c *locktable.Command) {
	w.uvarintField(c.RenewIndex)
	w.uvarintField(c.Term)
	w.varintField(int64(c.Rev))
	w.varintField(int64(c.From))
	w.stringField(c.Secret)
	w.stringField(c.Actor)
	w.stringField(c.Node)
	w.stringField(c.NodeName)
	w.varintField(int64(c.TTL))
	w.stringField(c.Incarnation)
	w.stringField(c.After)
	w.stringField(c.ClusterID)
	w.uvarintField(uint64(c.Level))
	w.uvarintField(uint64(c.Former))
	w.byteField(byte(c.Act))
}

func fieldsOf(c *locktable.Command) uint64 {
	return bit(c.Session != 0, fieldSession) |
		bit(c.Seq != 0, fieldSeq) |
		bit(c.Floor != 0, fieldFloor) |
		bit(len(c.Names) != 0, fieldNames) |
		bit(c.Of != 0, fieldOf) |
		bit(c.Token != 0, fieldToken) |
		bit(c.Since != 0, fieldSince) |
		bit(c.Note != "", fieldNote) |
		bit(c.Try, fieldTry) |
		bit(c.Mode != 0, fieldMode) |
		bit(c.Count != 0, fieldCount) |
		bit(c.Limit != 0, fieldLimit) |
		bit(c.Value != "", fieldValue) |
		bit(c.Delay != 0, fieldDelay) |
		bit(c.RenewIndex != 0, fieldRenewIndex) |
		bit(c.Term != 0, fieldTerm) |
		bit(c.Rev != 0, fieldRev) |
		bit(c.From != 0, fieldFrom) |
		bit(c.Secret != "", fieldSecret) |
		bit(c.Now, fieldNow) |
		bit(c.Actor != "", fieldActor) |
		bit(c.Node != "", fieldNode) |
		bit(c.NodeName != "", fieldNodeName) |
		bit(c.TTL != 0, fieldTTL) |
		bit(c.Incarnation != "", fieldIncarnation) |
		bit(c.After != "", fieldAfter) |
		bit(c.ClusterID != "", fieldClusterID) |
		bit(c.Level != 0, fieldLevel) |
		bit(c.Former != 0, fieldFormer) |
		bit(c.Barring, fieldBarring) |
		bit(c.Act != 0, fieldAct)
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
	if fields&fieldOf != 0 {
		c.Of = r.presentUvarint()
	}
	if fields&fieldToken != 0 {
		c.Token = locktable.Token(r.presentVarint())
	}
	if fields&fieldSince != 0 {
		c.Since = locktable.Rev(r.presentVarint())
	}
	if fields >= fieldNote {
		r.claimFields(fields, c)
	}
	if fields >= fieldRenewIndex {
		r.leaderFields(fields, c)
	}
	if fields >= fieldNode {
		r.rareFields(fields, c)
	}
}

// claimFields reads what a claim can have beside its names.
func (r *Reader) claimFields(fields uint64, c *locktable.Command) {
	if fields&fieldNote != 0 {
		c.Note = r.presentString()
	}
	c.Try = fields&fieldTry != 0
	if fields&fieldMode != 0 {
		c.Mode = locktable.Mode(r.presentByte())
	}
	if fields&fieldCount != 0 {
		c.Count = r.presentUint32()
	}
	if fields&fieldLimit != 0 {
		c.Limit = r.presentUint32()
	}
	if fields&fieldValue != 0 {
		c.Value = r.presentString()
	}
	if fields&fieldDelay != 0 {
		c.Delay = time.Duration(r.presentVarint())
	}
}

// leaderFields reads those of the leader's own commands, of a hold that goes to somebody else, and of a forced release.
func (r *Reader) leaderFields(fields uint64, c *locktable.Command) {
	if fields&fieldRenewIndex != 0 {
		c.RenewIndex = r.presentUvarint()
	}
	if fields&fieldTerm != 0 {
		c.Term = r.presentUvarint()
	}
	if fields&fieldRev != 0 {
		c.Rev = locktable.Rev(r.presentVarint())
	}
	if fields&fieldFrom != 0 {
		c.From = locktable.SessionID(r.presentVarint())
	}
	if fields&fieldSecret != 0 {
		c.Secret = r.presentString()
	}
	c.Now = fields&fieldNow != 0
	if fields&fieldActor != 0 {
		c.Actor = r.presentString()
	}
}

// rareFields reads those of a session's opening, of a node's start, of a listing, of the cluster as a whole, of a resize, and of an unlock that bars.
func (r *Reader) rareFields(fields uint64, c *locktable.Command) {
	if fields&fieldNode != 0 {
		c.Node = r.presentString()
	}
	if fields&fieldNodeName != 0 {
		c.NodeName = r.presentString()
	}
	if fields&fieldTTL != 0 {
		c.TTL = time.Duration(r.presentVarint())
	}
	if fields&fieldIncarnation != 0 {
		c.Incarnation = r.presentString()
	}
	if fields&fieldAfter != 0 {
		c.After = r.presentString()
	}
	if fields&fieldClusterID != 0 {
		c.ClusterID = r.presentString()
	}
	if fields&fieldLevel != 0 {
		c.Level = r.presentUint32()
	}
	if fields&fieldFormer != 0 {
		c.Former = r.presentUint32()
	}
	c.Barring = fields&fieldBarring != 0
	if fields&fieldAct != 0 {
		c.Act = locktable.Act(r.presentByte())
	}
}

// names reads a list that is not empty. Its elements may be: that breaks a rule of the state machine, not of the encoding.
func (r *Reader) names() []string { return r.strings(present(r, r.Count(1))) }

// strings is a loop of its own rather than list, since most commands and the records of all claims come through here: see there.
func (r *Reader) strings(n int) []string {
	if n == 0 {
		return nil
	}
	all := make([]string, n)
	for i := range all {
		all[i] = r.String()
	}
	return all
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
