package wire

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// What level 2 has brought: listings of sessions and of the audit in results, and what snapshots tell of both beside their first layout.

func (w *Writer) sessionInfos(infos []locktable.SessionInfo) {
	w.Uvarint(uint64(len(infos)))
	for i := range infos {
		v := &infos[i]
		w.Varint(int64(v.ID))
		w.String(v.Node)
		w.String(v.NodeName)
		w.Varint(int64(v.TTL))
		w.Varint(v.Opened)
		w.Varint(int64(v.Holding))
		w.Varint(int64(v.Waiting))
	}
}

func (r *Reader) sessionInfo() locktable.SessionInfo {
	return locktable.SessionInfo{
		ID: locktable.SessionID(r.Varint()), Node: r.String(), NodeName: r.String(), TTL: time.Duration(r.Varint()), Opened: r.Varint(), Holding: r.Int(), Waiting: r.Int(),
	}
}

// audit writes whole records: there is one layout of them in results.
func (w *Writer) audit(records []locktable.AuditRecord) {
	w.Uvarint(uint64(len(records)))
	for i := range records {
		w.auditRecord(&records[i])
		w.actFields(&records[i])
	}
}

func (r *Reader) auditWhole() locktable.AuditRecord {
	a := r.auditRecord()
	r.actFields(&a)
	return a
}

func (w *Writer) actFields(a *locktable.AuditRecord) {
	w.Byte(byte(a.Act))
	w.Varint(int64(a.Session))
	w.String(a.Node)
	w.String(a.NodeName)
}

func (r *Reader) actFields(a *locktable.AuditRecord) {
	a.Act = locktable.Act(r.Byte())
	a.Session = locktable.SessionID(r.Varint())
	a.Node = r.String()
	a.NodeName = r.String()
}

// openedRecord is when a session was opened.
type openedRecord struct {
	Session locktable.SessionID
	Wall    int64
}

func (w *Writer) openedRecord(o *openedRecord) {
	w.Varint(int64(o.Session))
	w.Varint(o.Wall)
}

func (r *Reader) openedRecord() openedRecord {
	return openedRecord{Session: locktable.SessionID(r.Varint()), Wall: r.Varint()}
}

// actRecord is what the audit record at a revision tells beside a forced release's.
type actRecord struct {
	Rev locktable.Rev
	locktable.AuditRecord
}

func (w *Writer) actRecord(a *actRecord) {
	w.Varint(int64(a.Rev))
	w.actFields(&a.AuditRecord)
}

func (r *Reader) actRecord() actRecord {
	a := actRecord{Rev: locktable.Rev(r.Varint())}
	r.actFields(&a.AuditRecord)
	return a
}

// openings are the sessions of which it is known when they were opened.
func openings(s state) (list []openedRecord) {
	for r := range s.Sessions() {
		if r.Opened != 0 {
			list = append(list, openedRecord{r.ID, r.Opened})
		}
	}
	return list
}

// acts are the audit records that are not of forced releases.
func acts(s state) (list []actRecord) {
	for r := range s.Audit() {
		if r.Act != 0 || r.Session != 0 || r.Node != "" || r.NodeName != "" {
			list = append(list, actRecord{r.Rev, r})
		}
	}
	return list
}
