package wire

import "github.com/quorumlock/quorumlock/internal/locktable"

const grantPushVersion = 1

// minGrantEvent is what the shortest GrantEvent takes: six fields of one byte.
const minGrantEvent = 6

// PushKind is what a GrantEvent tells. The list is append-only; a receiver ignores kinds that it does not know, because a push
// is only a hint: every renewal answer carries the same news.
type PushKind uint8

// The kinds of news about a claim.
const (
	PushGranted  PushKind = 1
	PushLost     PushKind = 2
	PushDraining PushKind = 3
)

// GrantEvent is one piece of news about a claim of a session.
type GrantEvent struct {
	Session locktable.SessionID
	Seq     uint64
	Token   locktable.Token // zero with PushLost: the claim waited
	Kind    PushKind
	Index   uint64
	Rev     locktable.Rev
}

// GrantPush is what the leader tells a node without being asked.
type GrantPush struct {
	Events []GrantEvent
}

// AppendGrantPush appends the encoding of m to dst.
func AppendGrantPush(dst []byte, m *GrantPush) []byte {
	w := beginMessage(dst, grantPushVersion)
	w.Uvarint(uint64(len(m.Events)))
	for i := range m.Events {
		w.grantEvent(&m.Events[i])
	}
	return w.buf
}

// DecodeGrantPush is the inverse of AppendGrantPush.
func DecodeGrantPush(b []byte) (GrantPush, error) {
	var m GrantPush
	err := decodeMessage("grant push", b, grantPushVersion, func(r *Reader) {
		m.Events = list(r, minGrantEvent, (*Reader).grantEvent)
	})
	if err != nil {
		return GrantPush{}, err
	}
	return m, nil
}

func (w *Writer) grantEvent(e *GrantEvent) {
	w.Varint(int64(e.Session))
	w.Uvarint(e.Seq)
	w.Varint(int64(e.Token))
	w.Byte(byte(e.Kind))
	w.Uvarint(e.Index)
	w.Varint(int64(e.Rev))
}

func (r *Reader) grantEvent() GrantEvent {
	return GrantEvent{
		Session: locktable.SessionID(r.Varint()),
		Seq:     r.Uvarint(),
		Token:   locktable.Token(r.Varint()),
		Kind:    PushKind(r.presentByte()),
		Index:   r.Uvarint(),
		Rev:     locktable.Rev(r.Varint()),
	}
}
