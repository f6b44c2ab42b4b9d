package wire

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

const (
	renewRequestVersion = 1
	renewReplyVersion   = 1
)

// What the shortest element of each list takes: a byte for each field, and for a framed result its length, version, code and set.
const (
	minRenewal      = 2
	minFramedResult = 4
)

// MaxRenewals is the most renewals that one RenewRequest may carry: few enough that no answer with its news outgrows a frame in order, enough that more in one message would save nothing.
const MaxRenewals = 1024

// Renewal is a renewal of one session, and since which revision its node wants news.
type Renewal struct {
	Session locktable.SessionID
	Since   locktable.Rev
}

// Command is what the renewal is in the log: there it is a command like any other.
func (v Renewal) Command() locktable.Command {
	return locktable.Command{Op: locktable.OpRenew, Session: v.Session, Since: v.Since}
}

// RenewRequest asks a node to have sessions renewed, each by a command of its own. It says no more than as many a ProposeRequest would; it saves both sides
// a call, a goroutine and a wake-up for each.
type RenewRequest struct {
	Hops     uint8         // how often the request has been forwarded
	Timeout  time.Duration // as in ProposeRequest
	Renewals []Renewal
}

// RenewReply answers a RenewRequest.
type RenewReply struct {
	Status     ProposeStatus
	Results    []locktable.Result // one for each renewal, in their order; none unless Status is StatusDone
	LeaderID   string
	LeaderAddr string
	Detail     string // for people
}

// AppendRenewRequest appends the encoding of m to dst.
func AppendRenewRequest(dst []byte, m *RenewRequest) []byte {
	w := beginMessage(dst, renewRequestVersion)
	w.Byte(m.Hops)
	w.Varint(int64(m.Timeout))
	w.Uvarint(uint64(len(m.Renewals)))
	for _, v := range m.Renewals {
		w.Varint(int64(v.Session))
		w.Varint(int64(v.Since))
	}
	return w.buf
}

// DecodeRenewRequest is the inverse of AppendRenewRequest. More than MaxRenewals are malformed.
func DecodeRenewRequest(b []byte) (RenewRequest, error) {
	var m RenewRequest
	err := decodeMessage("renew request", b, renewRequestVersion, func(r *Reader) {
		m.Hops = r.Byte()
		m.Timeout = time.Duration(r.Varint())
		n := r.Count(minRenewal)
		if n > MaxRenewals {
			r.fail()
			return
		}
		if n == 0 {
			return
		}
		m.Renewals = make([]Renewal, n)
		for i := range m.Renewals {
			m.Renewals[i] = Renewal{Session: locktable.SessionID(r.Varint()), Since: locktable.Rev(r.Varint())}
		}
	})
	if err != nil {
		return RenewRequest{}, err
	}
	return m, nil
}

// AppendRenewReply appends the encoding of m to dst.
func AppendRenewReply(dst []byte, m *RenewReply) []byte {
	w := beginMessage(dst, renewReplyVersion)
	w.Byte(byte(m.Status))
	w.Uvarint(uint64(len(m.Results)))
	for i := range m.Results {
		start := len(w.buf)
		w.result(&m.Results[i])
		w.frame(start)
	}
	w.String(m.LeaderID)
	w.String(m.LeaderAddr)
	w.String(m.Detail)
	return w.buf
}

// DecodeRenewReply is the inverse of AppendRenewReply. More than MaxRenewals are malformed.
func DecodeRenewReply(b []byte) (RenewReply, error) {
	var m RenewReply
	var resultErr error
	err := decodeMessage("renew reply", b, renewReplyVersion, func(r *Reader) {
		m.Status = r.status()
		m.Results, resultErr = r.framedResults()
		m.LeaderID = r.String()
		m.LeaderAddr = r.String()
		m.Detail = r.String()
	})
	if err == nil {
		err = resultErr
	}
	if err != nil {
		return RenewReply{}, err
	}
	return m, nil
}

func (r *Reader) framedResults() ([]locktable.Result, error) {
	n := r.Count(minFramedResult)
	if n > MaxRenewals {
		r.fail()
	}
	if n == 0 || r.err != nil {
		return nil, nil
	}
	all := make([]locktable.Result, n)
	var first error
	for i := range all {
		if err := decodeResult(r.Blob(), &all[i]); err != nil && first == nil {
			first = err
		}
	}
	return all, first
}
