package wire

const (
	snapshotRequestVersion = 1
	snapshotReplyVersion   = 1
)

// SnapshotRequest asks a member for its state, piece by piece: first with Piece 0, which begins a snapshot, and then for its pieces
// from 1 on, in order, by the ID that the first answer gave. Who asks for no more for a while is forgotten.
type SnapshotRequest struct {
	ID    uint64
	Piece uint64
	Local bool // with Piece 0: what the member has, without asking anybody
}

// SnapshotReply answers a SnapshotRequest.
type SnapshotReply struct {
	Status Status
	ID     uint64
	Header []byte // with Piece 0: what the state is, as package backup encodes it
	Data   []byte
	Sum    []byte // with the last piece: SHA-256 of all of them
	Detail string // for people
}

// AppendSnapshotRequest appends the encoding of m to dst.
func AppendSnapshotRequest(dst []byte, m *SnapshotRequest) []byte {
	w := beginMessage(dst, snapshotRequestVersion)
	w.Uvarint(m.ID)
	w.Uvarint(m.Piece)
	w.Bool(m.Local)
	return w.buf
}

// DecodeSnapshotRequest is the inverse of AppendSnapshotRequest.
func DecodeSnapshotRequest(b []byte) (SnapshotRequest, error) {
	var m SnapshotRequest
	err := decodeMessage("snapshot request", b, snapshotRequestVersion, func(r *Reader) {
		m.ID = r.Uvarint()
		m.Piece = r.Uvarint()
		m.Local = r.Bool()
	})
	if err != nil {
		return SnapshotRequest{}, err
	}
	return m, nil
}

// AppendSnapshotReply appends the encoding of m to dst.
func AppendSnapshotReply(dst []byte, m *SnapshotReply) []byte {
	w := beginMessage(dst, snapshotReplyVersion)
	w.Byte(byte(m.Status))
	w.Uvarint(m.ID)
	w.Blob(m.Header)
	w.Blob(m.Data)
	w.Blob(m.Sum)
	w.String(m.Detail)
	return w.buf
}

// DecodeSnapshotReply is the inverse of AppendSnapshotReply.
func DecodeSnapshotReply(b []byte) (SnapshotReply, error) {
	var m SnapshotReply
	err := decodeMessage("snapshot reply", b, snapshotReplyVersion, func(r *Reader) {
		m.Status = r.status()
		m.ID = r.Uvarint()
		m.Header = r.bytes()
		m.Data = r.bytes()
		m.Sum = r.bytes()
		m.Detail = r.String()
	})
	if err != nil {
		return SnapshotReply{}, err
	}
	return m, nil
}

// bytes is a copy of a blob, nil if it is empty.
func (r *Reader) bytes() []byte { return append([]byte(nil), r.Blob()...) }
