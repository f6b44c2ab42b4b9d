package wire

import "github.com/quorumlock/quorumlock/internal/locktable"

const actRequestVersion = 1

// ActRequest asks the leader for what an operator wants done to the group. It is answered by a LeaveReply.
type ActRequest struct {
	Act      locktable.Act
	ServerID string // whom it concerns; empty leaves the choice to the leader
	Force    bool   // also against what speaks for leaving it
	Actor    string
	Reason   string
}

// AppendActRequest appends the encoding of m to dst.
func AppendActRequest(dst []byte, m *ActRequest) []byte {
	w := beginMessage(dst, actRequestVersion)
	w.Byte(byte(m.Act))
	w.String(m.ServerID)
	w.Bool(m.Force)
	w.String(m.Actor)
	w.String(m.Reason)
	return w.buf
}

// DecodeActRequest is the inverse of AppendActRequest.
func DecodeActRequest(b []byte) (ActRequest, error) {
	var m ActRequest
	err := decodeMessage("act request", b, actRequestVersion, func(r *Reader) {
		m.Act = locktable.Act(r.Byte())
		m.ServerID = r.String()
		m.Force = r.Bool()
		m.Actor = r.String()
		m.Reason = r.String()
	})
	if err != nil {
		return ActRequest{}, err
	}
	return m, nil
}
