package wire

const (
	joinRequestVersion  = 1
	joinReplyVersion    = 1
	leaveRequestVersion = 1
	leaveReplyVersion   = 1
)

// JoinRequest asks the leader to take a server into the cluster.
type JoinRequest struct {
	ServerID string
	Name     string
	Addr     string // advertised host:port
	Zone     string
	Level    uint32 // feature level of the binary
	Boot     string // random, made at each start
	Client   bool   // it does not want to replicate: it only asks whether its name is free
}

// JoinReply answers a JoinRequest.
type JoinReply struct {
	Status     Status
	ClusterID  string
	LeaderID   string
	LeaderAddr string
	Detail     string // for people
}

// LeaveRequest asks the leader to take a server out of the cluster, for good: server ids are never reused.
type LeaveRequest struct {
	ServerID string
}

// LeaveReply answers a LeaveRequest.
type LeaveReply struct {
	Status     Status
	ClusterID  string
	LeaderID   string
	LeaderAddr string
	Detail     string // for people
}

// AppendJoinRequest appends the encoding of m to dst.
func AppendJoinRequest(dst []byte, m *JoinRequest) []byte {
	w := beginMessage(dst, joinRequestVersion)
	w.String(m.ServerID)
	w.String(m.Name)
	w.String(m.Addr)
	w.String(m.Zone)
	w.Uvarint(uint64(m.Level))
	w.String(m.Boot)
	w.Bool(m.Client)
	return w.buf
}

// DecodeJoinRequest is the inverse of AppendJoinRequest.
func DecodeJoinRequest(b []byte) (JoinRequest, error) {
	var m JoinRequest
	err := decodeMessage("join request", b, joinRequestVersion, func(r *Reader) {
		m.ServerID = r.String()
		m.Name = r.String()
		m.Addr = r.String()
		m.Zone = r.String()
		m.Level = r.Uint32()
		m.Boot = r.String()
		m.Client = r.Bool()
	})
	if err != nil {
		return JoinRequest{}, err
	}
	return m, nil
}

// AppendJoinReply appends the encoding of m to dst.
func AppendJoinReply(dst []byte, m *JoinReply) []byte {
	w := beginMessage(dst, joinReplyVersion)
	w.Byte(byte(m.Status))
	w.String(m.ClusterID)
	w.String(m.LeaderID)
	w.String(m.LeaderAddr)
	w.String(m.Detail)
	return w.buf
}

// DecodeJoinReply is the inverse of AppendJoinReply.
func DecodeJoinReply(b []byte) (JoinReply, error) {
	var m JoinReply
	err := decodeMessage("join reply", b, joinReplyVersion, func(r *Reader) {
		m.Status = r.status()
		m.ClusterID = r.String()
		m.LeaderID = r.String()
		m.LeaderAddr = r.String()
		m.Detail = r.String()
	})
	if err != nil {
		return JoinReply{}, err
	}
	return m, nil
}

// AppendLeaveRequest appends the encoding of m to dst.
func AppendLeaveRequest(dst []byte, m *LeaveRequest) []byte {
	w := beginMessage(dst, leaveRequestVersion)
	w.String(m.ServerID)
	return w.buf
}

// DecodeLeaveRequest is the inverse of AppendLeaveRequest.
func DecodeLeaveRequest(b []byte) (LeaveRequest, error) {
	var m LeaveRequest
	err := decodeMessage("leave request", b, leaveRequestVersion, func(r *Reader) {
		m.ServerID = r.String()
	})
	if err != nil {
		return LeaveRequest{}, err
	}
	return m, nil
}

// AppendLeaveReply appends the encoding of m to dst.
func AppendLeaveReply(dst []byte, m *LeaveReply) []byte {
	w := beginMessage(dst, leaveReplyVersion)
	w.Byte(byte(m.Status))
	w.String(m.ClusterID)
	w.String(m.LeaderID)
	w.String(m.LeaderAddr)
	w.String(m.Detail)
	return w.buf
}

// DecodeLeaveReply is the inverse of AppendLeaveReply.
func DecodeLeaveReply(b []byte) (LeaveReply, error) {
	var m LeaveReply
	err := decodeMessage("leave reply", b, leaveReplyVersion, func(r *Reader) {
		m.Status = r.status()
		m.ClusterID = r.String()
		m.LeaderID = r.String()
		m.LeaderAddr = r.String()
		m.Detail = r.String()
	})
	if err != nil {
		return LeaveReply{}, err
	}
	return m, nil
}
