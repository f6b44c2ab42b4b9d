package wire

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

const (
	proposeRequestVersion = 1
	proposeReplyVersion   = 1
)

// ProposeStatus is the Status of a ProposeReply.
type ProposeStatus = Status

// ProposeRequest asks a node to have a command applied.
type ProposeRequest struct {
	Hops uint8 // how often the request has been forwarded
	// Timeout is what is left of the caller's deadline. It is relative, because two machines' clocks are never compared.
	Timeout time.Duration
	Command locktable.Command
}

// ProposeReply answers a ProposeRequest.
type ProposeReply struct {
	Status     ProposeStatus
	Result     locktable.Result // zero unless Status is StatusDone
	LeaderID   string
	LeaderAddr string
	Detail     string // for people
}

// AppendProposeRequest appends the encoding of m to dst.
func AppendProposeRequest(dst []byte, m *ProposeRequest) []byte {
	w := beginMessage(dst, proposeRequestVersion)
	w.Byte(m.Hops)
	w.Varint(int64(m.Timeout))
	start := len(w.buf)
	w.command(&m.Command)
	w.frame(start)
	return w.buf
}

// DecodeProposeRequest is the inverse of AppendProposeRequest. A command that this binary does not understand is ErrMalformed:
// the answer to it is StatusRefused.
func DecodeProposeRequest(b []byte) (ProposeRequest, error) {
	var m ProposeRequest
	var commandErr error
	err := decodeMessage("propose request", b, proposeRequestVersion, func(r *Reader) {
		m.Hops = r.Byte()
		m.Timeout = time.Duration(r.Varint())
		commandErr = decodeCommand(r.Blob(), &m.Command)
	})
	if err == nil {
		err = commandErr
	}
	if err != nil {
		return ProposeRequest{}, err
	}
	return m, nil
}

// AppendProposeReply appends the encoding of m to dst.
func AppendProposeReply(dst []byte, m *ProposeReply) []byte {
	w := beginMessage(dst, proposeReplyVersion)
	w.Byte(byte(m.Status))
	start := len(w.buf)
	w.result(&m.Result)
	w.frame(start)
	w.String(m.LeaderID)
	w.String(m.LeaderAddr)
	w.String(m.Detail)
	return w.buf
}

// DecodeProposeReply is the inverse of AppendProposeReply.
func DecodeProposeReply(b []byte) (ProposeReply, error) {
	var m ProposeReply
	var resultErr error
	err := decodeMessage("propose reply", b, proposeReplyVersion, func(r *Reader) {
		m.Status = r.status()
		resultErr = decodeResult(r.Blob(), &m.Result)
		m.LeaderID = r.String()
		m.LeaderAddr = r.String()
		m.Detail = r.String()
	})
	if err == nil {
		err = resultErr
	}
	if err != nil {
		return ProposeReply{}, err
	}
	return m, nil
}
