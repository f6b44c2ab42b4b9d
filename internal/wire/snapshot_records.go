package wire

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// Records of format 1. Their layout is fixed: what comes later gets a section of its own, or a new format.

// header leaves out the level, which stands before it.
func (w *Writer) header(h *locktable.Header) {
	w.String(h.ClusterID)
	w.Varint(int64(h.Counter))
	w.Uvarint(h.Index)
	w.Varint(int64(h.MaxTTL))
	w.Varint(int64(h.Quarantine.Rev))
	w.Uvarint(h.Quarantine.Index)
	w.Varint(int64(h.Quarantine.Wait))
	for _, n := range []int{h.Sessions, h.Claims, h.Finished, h.Lost, h.Audit, h.Limits} {
		w.Uvarint(uint64(n))
	}
}

func (r *Reader) header() locktable.Header {
	return locktable.Header{
		ClusterID: r.String(),
		Counter:   locktable.Rev(r.Varint()),
		Index:     r.Uvarint(),
		MaxTTL:    time.Duration(r.Varint()),
		Quarantine: locktable.Quarantine{
			Rev:   locktable.Rev(r.Varint()),
			Index: r.Uvarint(),
			Wait:  time.Duration(r.Varint()),
		},
		Sessions: r.length(),
		Claims:   r.length(),
		Finished: r.length(),
		Lost:     r.length(),
		Audit:    r.length(),
		Limits:   r.length(),
	}
}

func (w *Writer) sessionRecord(s *locktable.SessionRecord) {
	w.Varint(int64(s.ID))
	w.String(s.Node)
	w.String(s.NodeName)
	w.Varint(int64(s.TTL))
	w.Uvarint(s.RenewIndex)
	w.Uvarint(s.Floor)
	w.String(s.Incarnation)
}

func (r *Reader) sessionRecord() locktable.SessionRecord {
	return locktable.SessionRecord{
		ID:          locktable.SessionID(r.Varint()),
		Node:        r.String(),
		NodeName:    r.String(),
		TTL:         time.Duration(r.Varint()),
		RenewIndex:  r.Uvarint(),
		Floor:       r.Uvarint(),
		Incarnation: r.String(),
	}
}

func (w *Writer) finishedRecord(f *locktable.FinishedRecord) {
	w.Varint(int64(f.Session))
	w.Uvarint(f.Seq)
	w.Byte(byte(f.Op))
	w.Uvarint(uint64(f.Code))
	w.Varint(int64(f.Token))
}

func (r *Reader) finishedRecord() locktable.FinishedRecord {
	return locktable.FinishedRecord{
		Session: locktable.SessionID(r.Varint()),
		Seq:     r.Uvarint(),
		Op:      locktable.Op(r.Byte()),
		Code:    locktable.Code(r.uint16()),
		Token:   locktable.Token(r.Varint()),
	}
}

func (w *Writer) lostRecord(l *locktable.LostRecord) {
	w.Varint(int64(l.Session))
	w.lost(&l.Lost)
}

func (r *Reader) lostRecord() locktable.LostRecord {
	return locktable.LostRecord{Session: locktable.SessionID(r.Varint()), Lost: r.lost()}
}

func (w *Writer) auditRecord(a *locktable.AuditRecord) {
	w.Varint(int64(a.Rev))
	w.Varint(a.Wall)
	w.String(a.Name)
	w.Varint(int64(a.Token))
	w.Bool(a.Now)
	w.String(a.Actor)
	w.String(a.Reason)
}

func (r *Reader) auditRecord() locktable.AuditRecord {
	return locktable.AuditRecord{
		Rev:    locktable.Rev(r.Varint()),
		Wall:   r.Varint(),
		Name:   r.String(),
		Token:  locktable.Token(r.Varint()),
		Now:    r.Bool(),
		Actor:  r.String(),
		Reason: r.String(),
	}
}

func (w *Writer) limitRecord(l *locktable.LimitRecord) {
	w.String(l.Name)
	w.Uvarint(uint64(l.Limit))
	w.Uvarint(uint64(l.Former))
	w.Bool(l.Set)
}

func (r *Reader) limitRecord() locktable.LimitRecord {
	return locktable.LimitRecord{Name: r.String(), Limit: r.Uint32(), Former: r.Uint32(), Set: r.Bool()}
}
