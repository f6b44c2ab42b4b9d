package wire

import (
	"time"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/watch"
)

// This file has the messages by which a client, which keeps no state, learns of a member's.

const (
	rosterReplyVersion  = 1
	readRequestVersion  = 1
	readReplyVersion    = 1
	watchRequestVersion = 1
	watchReplyVersion   = 1

	minRosterServer = 4  // bytes of the shortest RosterServer
	minWatchEvent   = 14 // and of the shortest event
)

// RosterReply tells who is in the group, as the member that is asked knows it. The request for it is empty.
type RosterReply struct {
	ClusterID string
	LeaderID  string // empty while none is known
	Term      uint64
	Index     uint64 // where the configuration stands in the log
	Level     uint32 // the cluster's feature level
	Servers   []RosterServer
}

// RosterServer is one server of the group's configuration.
type RosterServer struct {
	ServerID string
	Name     string // empty if not known
	Addr     string // empty if not known
	Voter    bool
}

// ReadRequest asks a member for an answer from its own state: OpInspect, OpList, OpSessions or OpAudit, which are not proposed.
type ReadRequest struct {
	Command locktable.Command
}

// ReadReply answers a ReadRequest.
type ReadReply struct {
	Status Status
	Result locktable.Result // zero unless Status is StatusDone
	Age    time.Duration    // how long ago the member was in touch with its group
	Detail string           // for people
}

// WatchRequest asks for the events under a prefix after a revision; the answer waits for the first one. So whoever watches asks again and again, and may ask
// another member each time: nothing about it is kept.
type WatchRequest struct {
	Prefix string
	Since  int64         // 0: from now on, which the answer tells at once
	Wait   time.Duration // how long an event is waited for
}

// WatchReply answers a WatchRequest.
type WatchReply struct {
	Status Status
	Events []watch.Event
	Seen   int64  // no other event under the prefix has a revision up to here
	Behind bool   // there were events after Since that this member does not keep any more
	Detail string // for people
}

// AppendRosterReply appends the encoding of m to dst.
func AppendRosterReply(dst []byte, m *RosterReply) []byte {
	w := beginMessage(dst, rosterReplyVersion)
	w.String(m.ClusterID)
	w.String(m.LeaderID)
	w.Uvarint(m.Term)
	w.Uvarint(m.Index)
	w.Uvarint(uint64(m.Level))
	w.Uvarint(uint64(len(m.Servers)))
	for _, s := range m.Servers {
		w.String(s.ServerID)
		w.String(s.Name)
		w.String(s.Addr)
		w.Bool(s.Voter)
	}
	return w.buf
}

// DecodeRosterReply is the inverse of AppendRosterReply.
func DecodeRosterReply(b []byte) (RosterReply, error) {
	var m RosterReply
	err := decodeMessage("roster reply", b, rosterReplyVersion, func(r *Reader) {
		m.ClusterID = r.String()
		m.LeaderID = r.String()
		m.Term = r.Uvarint()
		m.Index = r.Uvarint()
		m.Level = r.Uint32()
		m.Servers = list(r, minRosterServer, func(r *Reader) RosterServer {
			return RosterServer{ServerID: r.String(), Name: r.String(), Addr: r.String(), Voter: r.Bool()}
		})
	})
	if err != nil {
		return RosterReply{}, err
	}
	return m, nil
}

// AppendReadRequest appends the encoding of m to dst.
func AppendReadRequest(dst []byte, m *ReadRequest) []byte {
	w := beginMessage(dst, readRequestVersion)
	start := len(w.buf)
	w.command(&m.Command)
	w.frame(start)
	return w.buf
}

// DecodeReadRequest is the inverse of AppendReadRequest. A command that this binary does not understand is ErrMalformed.
func DecodeReadRequest(b []byte) (ReadRequest, error) {
	var m ReadRequest
	var commandErr error
	err := decodeMessage("read request", b, readRequestVersion, func(r *Reader) { commandErr = decodeCommand(r.Blob(), &m.Command) })
	if err == nil {
		err = commandErr
	}
	if err != nil {
		return ReadRequest{}, err
	}
	return m, nil
}

// AppendReadReply appends the encoding of m to dst.
func AppendReadReply(dst []byte, m *ReadReply) []byte {
	w := beginMessage(dst, readReplyVersion)
	w.Byte(byte(m.Status))
	start := len(w.buf)
	w.result(&m.Result)
	w.frame(start)
	w.Varint(int64(m.Age))
	w.String(m.Detail)
	return w.buf
}

// DecodeReadReply is the inverse of AppendReadReply.
func DecodeReadReply(b []byte) (ReadReply, error) {
	var m ReadReply
	var resultErr error
	err := decodeMessage("read reply", b, readReplyVersion, func(r *Reader) {
		m.Status = r.status()
		resultErr = decodeResult(r.Blob(), &m.Result)
		m.Age = time.Duration(r.Varint())
		m.Detail = r.String()
	})
	if err == nil {
		err = resultErr
	}
	if err != nil {
		return ReadReply{}, err
	}
	return m, nil
}

// AppendWatchRequest appends the encoding of m to dst.
func AppendWatchRequest(dst []byte, m *WatchRequest) []byte {
	w := beginMessage(dst, watchRequestVersion)
	w.String(m.Prefix)
	w.Varint(m.Since)
	w.Varint(int64(m.Wait))
	return w.buf
}

// DecodeWatchRequest is the inverse of AppendWatchRequest.
func DecodeWatchRequest(b []byte) (WatchRequest, error) {
	var m WatchRequest
	err := decodeMessage("watch request", b, watchRequestVersion, func(r *Reader) {
		m.Prefix = r.String()
		m.Since = r.Varint()
		m.Wait = time.Duration(r.Varint())
	})
	if err != nil {
		return WatchRequest{}, err
	}
	return m, nil
}

// AppendWatchReply appends the encoding of m to dst.
func AppendWatchReply(dst []byte, m *WatchReply) []byte {
	w := beginMessage(dst, watchReplyVersion)
	w.Byte(byte(m.Status))
	w.Uvarint(uint64(len(m.Events)))
	for i := range m.Events {
		w.watchEvent(&m.Events[i])
	}
	w.Varint(m.Seen)
	w.Bool(m.Behind)
	w.String(m.Detail)
	return w.buf
}

// DecodeWatchReply is the inverse of AppendWatchReply. Times come back with the precision of the log, milliseconds.
func DecodeWatchReply(b []byte) (WatchReply, error) {
	var m WatchReply
	err := decodeMessage("watch reply", b, watchReplyVersion, func(r *Reader) {
		m.Status = r.status()
		m.Events = list(r, minWatchEvent, (*Reader).watchEvent)
		m.Seen = r.Varint()
		m.Behind = r.Bool()
		m.Detail = r.String()
	})
	if err != nil {
		return WatchReply{}, err
	}
	return m, nil
}

func (w *Writer) watchEvent(e *watch.Event) {
	w.Varint(e.Rev)
	w.Byte(byte(e.Kind))
	w.String(e.Name)
	w.Varint(int64(e.Token))
	w.Varint(e.Session)
	w.Uvarint(e.Claim)
	w.String(e.Node)
	w.String(e.ServerID)
	w.Uvarint(e.Index)
	w.Varint(e.Time.UnixMilli())
	w.String(e.Note)
	w.Byte(byte(e.Mode))
	w.Varint(int64(e.Permits))
	w.String(e.Value)
}

func (r *Reader) watchEvent() watch.Event {
	return watch.Event{
		Rev: r.Varint(), Kind: watch.Kind(r.presentByte()), Name: r.String(), Token: fence.Token(r.Varint()), Session: r.Varint(),
		Claim: r.Uvarint(), Node: r.String(), ServerID: r.String(), Index: r.Uvarint(), Time: time.UnixMilli(r.Varint()),
		Note: r.String(), Mode: watch.Mode(r.Byte()), Permits: int(r.Varint()), Value: r.String(),
	}
}
