package wire

import (
	"fmt"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// resultVersion is the layout of a result. Results travel in replies and grow as messages do: only at the end.
const resultVersion = 1

// A result is its code, a set of field bits, and the fields of that set in the order of the bits. The bits are append-only.
const (
	resultIndex uint64 = 1 << iota
	resultRev
	resultToken
	resultSession
	resultRenewed // a bit is all there is of a bool
	resultWaiters
	resultAhead
	resultBlocker
	resultGrants
	resultLost
	resultInfo
	resultDrainIndex
	resultDetail
	resultLimit
	resultInfos
	resultMore
	resultEnded
	resultSessions
	resultAudit
	resultEnd
)

// What the shortest element of each list takes: one byte for each field.
const (
	minGrant  = 2
	minLost   = 7
	minHolder = 12
	minWaiter = 8
	minInfo   = 9

	minSessionInfo = 7
	minAudit       = 11
)

// AppendResult appends the encoding of v to dst.
func AppendResult(dst []byte, v *locktable.Result) []byte {
	w := Writer{buf: dst}
	w.result(v)
	return w.buf
}

// DecodeResult is the inverse of AppendResult. A code that this binary does not know is passed on as it is; fields that a newer
// version appended are left out.
func DecodeResult(b []byte) (locktable.Result, error) {
	var v locktable.Result
	if err := decodeResult(b, &v); err != nil {
		return locktable.Result{}, err
	}
	return v, nil
}

func (w *Writer) result(v *locktable.Result) {
	w.Byte(resultVersion)
	w.Uvarint(uint64(v.Code))
	w.Uvarint(resultFieldsOf(v))
	w.uvarintField(v.Index)
	w.varintField(int64(v.Rev))
	w.varintField(int64(v.Token))
	w.varintField(int64(v.Session))
	w.varintField(int64(v.Waiters))
	w.varintField(int64(v.Ahead))
	if v.Blocker != nil {
		w.holder(v.Blocker)
	}
	if len(v.Grants) > 0 {
		w.grants(v.Grants)
	}
	if len(v.Lost) > 0 {
		w.losses(v.Lost)
	}
	if v.Info != nil {
		w.info(v.Info)
	}
	w.uvarintField(v.DrainIndex)
	w.stringField(v.Detail)
	w.uvarintField(uint64(v.Limit))
	if len(v.Infos) > 0 {
		w.infos(v.Infos)
	}
	w.varintField(int64(v.Ended))
	if len(v.Sessions) > 0 {
		w.sessionInfos(v.Sessions)
	}
	if len(v.Audit) > 0 {
		w.audit(v.Audit)
	}
}

func resultFieldsOf(v *locktable.Result) uint64 {
	return bit(v.Index != 0, resultIndex) |
		bit(v.Rev != 0, resultRev) |
		bit(v.Token != 0, resultToken) |
		bit(v.Session != 0, resultSession) |
		bit(v.Renewed, resultRenewed) |
		bit(v.Waiters != 0, resultWaiters) |
		bit(v.Ahead != 0, resultAhead) |
		bit(v.Blocker != nil, resultBlocker) |
		bit(len(v.Grants) != 0, resultGrants) |
		bit(len(v.Lost) != 0, resultLost) |
		bit(v.Info != nil, resultInfo) |
		bit(v.DrainIndex != 0, resultDrainIndex) |
		bit(v.Detail != "", resultDetail) |
		bit(v.Limit != 0, resultLimit) |
		bit(len(v.Infos) != 0, resultInfos) |
		bit(v.More, resultMore) |
		bit(v.Ended != 0, resultEnded) |
		bit(len(v.Sessions) != 0, resultSessions) |
		bit(len(v.Audit) != 0, resultAudit)
}

func decodeResult(b []byte, v *locktable.Result) error {
	r := Reader{buf: b}
	version := r.presentByte()
	v.Code = locktable.Code(r.uint16())
	fields := r.Uvarint()
	if version <= resultVersion && fields >= resultEnd {
		return fmt.Errorf("decode result: unknown fields %#x: %w", fields&^(resultEnd-1), ErrMalformed)
	}
	r.resultFields(fields, v)
	if version <= resultVersion {
		_ = r.Done() // remembered in r.err
	}
	if r.err != nil {
		return fmt.Errorf("decode result: %w", r.err)
	}
	return nil
}

func (r *Reader) resultFields(fields uint64, v *locktable.Result) {
	if fields&resultIndex != 0 {
		v.Index = r.presentUvarint()
	}
	if fields&resultRev != 0 {
		v.Rev = locktable.Rev(r.presentVarint())
	}
	if fields&resultToken != 0 {
		v.Token = locktable.Token(r.presentVarint())
	}
	if fields&resultSession != 0 {
		v.Session = locktable.SessionID(r.presentVarint())
	}
	v.Renewed = fields&resultRenewed != 0
	if fields&resultWaiters != 0 {
		v.Waiters = r.presentInt()
	}
	if fields&resultAhead != 0 {
		v.Ahead = r.presentInt()
	}
	if fields >= resultBlocker {
		r.rareResultFields(fields, v)
	}
}

func (r *Reader) rareResultFields(fields uint64, v *locktable.Result) {
	if fields&resultBlocker != 0 {
		blocker := r.holder()
		v.Blocker = &blocker
	}
	if fields&resultGrants != 0 {
		v.Grants = presentList(r, minGrant, (*Reader).grant)
	}
	if fields&resultLost != 0 {
		v.Lost = presentList(r, minLost, (*Reader).lost)
	}
	if fields&resultInfo != 0 {
		info := r.info()
		v.Info = &info
	}
	if fields&resultDrainIndex != 0 {
		v.DrainIndex = r.presentUvarint()
	}
	if fields&resultDetail != 0 {
		v.Detail = r.presentString()
	}
	if fields&resultLimit != 0 {
		v.Limit = r.presentUint32()
	}
	if fields&resultInfos != 0 {
		v.Infos = presentList(r, minInfo, (*Reader).info)
	}
	v.More = fields&resultMore != 0
	if fields&resultEnded != 0 {
		v.Ended = r.presentInt()
	}
	if fields&resultSessions != 0 {
		v.Sessions = presentList(r, minSessionInfo, (*Reader).sessionInfo)
	}
	if fields&resultAudit != 0 {
		v.Audit = presentList(r, minAudit, (*Reader).auditWhole)
	}
}

func (w *Writer) grants(grants []locktable.Grant) {
	w.Uvarint(uint64(len(grants)))
	for _, g := range grants {
		w.Uvarint(g.Seq)
		w.Varint(int64(g.Token))
	}
}

func (r *Reader) grant() locktable.Grant {
	return locktable.Grant{Seq: r.Uvarint(), Token: locktable.Token(r.Varint())}
}

func (w *Writer) losses(losses []locktable.Lost) {
	w.Uvarint(uint64(len(losses)))
	for i := range losses {
		w.lost(&losses[i])
	}
}

func (w *Writer) lost(l *locktable.Lost) {
	w.Uvarint(l.Seq)
	w.Varint(int64(l.Token))
	w.Byte(byte(l.Cause))
	w.String(l.Reason)
	w.String(l.Actor)
	w.Varint(int64(l.Rev))
	w.Uvarint(uint64(l.Limit))
}

func (r *Reader) lost() locktable.Lost {
	return locktable.Lost{
		Seq:    r.Uvarint(),
		Token:  locktable.Token(r.Varint()),
		Cause:  locktable.LostCause(r.Byte()),
		Reason: r.String(),
		Actor:  r.String(),
		Rev:    locktable.Rev(r.Varint()),
		Limit:  r.Uint32(),
	}
}

func (w *Writer) holder(h *locktable.Holder) {
	w.Varint(int64(h.Session))
	w.String(h.Node)
	w.String(h.NodeName)
	w.String(h.Note)
	w.Varint(int64(h.Token))
	w.Varint(h.Since)
	w.Bool(h.Draining)
	w.Bool(h.Barred)
	w.Bool(h.Offered)
	w.Byte(byte(h.Mode))
	w.Uvarint(uint64(h.Count))
	w.String(h.Value)
}

func (r *Reader) holder() locktable.Holder {
	return locktable.Holder{
		Session:  locktable.SessionID(r.Varint()),
		Node:     r.String(),
		NodeName: r.String(),
		Note:     r.String(),
		Token:    locktable.Token(r.Varint()),
		Since:    r.Varint(),
		Draining: r.Bool(),
		Barred:   r.Bool(),
		Offered:  r.Bool(),
		Mode:     locktable.Mode(r.Byte()),
		Count:    r.Uint32(),
		Value:    r.String(),
	}
}

func (w *Writer) waiter(q *locktable.Waiter) {
	w.Varint(int64(q.Session))
	w.String(q.Node)
	w.String(q.NodeName)
	w.String(q.Note)
	w.Varint(int64(q.Rev))
	w.Varint(q.Since)
	w.Byte(byte(q.Mode))
	w.Uvarint(uint64(q.Count))
}

func (r *Reader) waiter() locktable.Waiter {
	return locktable.Waiter{
		Session:  locktable.SessionID(r.Varint()),
		Node:     r.String(),
		NodeName: r.String(),
		Note:     r.String(),
		Rev:      locktable.Rev(r.Varint()),
		Since:    r.Varint(),
		Mode:     locktable.Mode(r.Byte()),
		Count:    r.Uint32(),
	}
}

func (w *Writer) infos(infos []locktable.Info) {
	w.Uvarint(uint64(len(infos)))
	for i := range infos {
		w.info(&infos[i])
	}
}

func (w *Writer) info(v *locktable.Info) {
	w.String(v.Name)
	w.Uvarint(uint64(len(v.Holders)))
	for i := range v.Holders {
		w.holder(&v.Holders[i])
	}
	w.Varint(int64(v.Holding))
	w.Uvarint(uint64(len(v.Waiters)))
	for i := range v.Waiters {
		w.waiter(&v.Waiters[i])
	}
	w.Varint(int64(v.Waiting))
	w.Uvarint(uint64(v.Limit))
	w.Uvarint(uint64(v.InUse))
	w.Uvarint(v.Index)
	w.Varint(int64(v.Rev))
}

func (r *Reader) info() locktable.Info {
	return locktable.Info{
		Name:    r.String(),
		Holders: list(r, minHolder, (*Reader).holder),
		Holding: r.Int(),
		Waiters: list(r, minWaiter, (*Reader).waiter),
		Waiting: r.Int(),
		Limit:   r.Uint32(),
		InUse:   r.Uint32(),
		Index:   r.Uvarint(),
		Rev:     locktable.Rev(r.Varint()),
	}
}
